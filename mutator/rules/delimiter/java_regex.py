"""Translate a Java regex for characters into a Python regex for UTF-8 bytes."""

import re
import string

from mutator.rules.delimiter import utf8_classes
from mutator.rules.delimiter.utf8_classes import POSIX, SETS, STRAY, Node, Ranges, char_set, charset, complement


def translate(text: str) -> Node:
    """Translate a Java regex; raise ValueError if it is invalid or not supported."""
    parser = _Parser(text, frozenset())
    node = parser.whole()
    # Only now are the groups known that back references need.
    return _Parser(text, frozenset(parser.used)).whole() if parser.used else node


class _Parser:
    """Parse one regex by recursive descent, as Java does; `start` is the offset at which a construct begins."""

    def __init__(self, text: str, kept: frozenset[int]) -> None:
        self.text, self.at = text, 0
        self.chars = self.marks = ""  # text between \Q and \E is surrogates in marks, which match no syntax
        self.positions: list[int] = []
        for quote in re.finditer(r"\\Q(?s:(.*?))(?:\\E|\Z)|(?s:\\?.)", text):
            chars = quote[0] if quote[1] is None else quote[1]
            self.chars += chars
            self.marks += chars if quote[1] is None else "\ud800" * len(chars)
            self.positions += range(quote.start(1) if quote[1] else quote.start(), len(text))[: len(chars)]
        self.positions.append(len(text))
        self.fold = self.dot_all = False  # the flags i and s
        self.groups = 0
        self.kept = kept  # numbers of the groups that stay
        self.used: set[int] = set()
        self.names: dict[str, int] = {}
        self.closed: dict[int, Node] = {}  # groups that are always set here; Java keeps others after a failed attempt

    def peek(self) -> str:
        return self.marks[self.at : self.at + 1]

    def take(self, syntax: str) -> re.Match[str] | None:
        found = re.compile(syntax, re.DOTALL).match(self.marks, self.at)
        self.at = found.end() if found else self.at
        return found

    def fault(self, start: int, why: str) -> ValueError:
        """Return the error for the text read since `start`."""
        first, end = self.positions[start], self.positions[self.at]
        return ValueError(f"`{self.text[first:end]}` at character {first + 1} {why}")

    def whole(self) -> Node:
        node = self.alternation()
        if start := self.take(r"\)"):
            raise self.fault(start.start(), r"closes no group: write \) for a parenthesis")
        return node

    def alternation(self) -> Node:
        closed = self.closed
        nodes = [self.sequence()]
        while self.take(r"\|"):
            self.closed = closed
            nodes.append(self.sequence())
        if len(nodes) == 1:
            return nodes[0]
        self.closed = closed
        branches = tuple(branch for node in nodes for branch in node.branches)
        return Node(branches, any(n.empty for n in nodes), None, all(n.ends_row for n in nodes))

    def sequence(self) -> Node:
        nodes = []
        while self.peek() not in ("", "|", ")"):
            start, closed = self.at, self.closed
            node = self.atom(start)
            if node is None:
                continue
            end = self.at
            nodes.append(self.quantified(node, start))
            if self.at > end:
                self.closed = closed
        if len(nodes) == 1:
            return nodes[0]
        literals = [n.literal for n in nodes if n.literal is not None]
        literal = b"".join(literals) if len(literals) == len(nodes) else None
        source = b"".join(n.source for n in nodes)
        return Node((source,), all(n.empty for n in nodes), literal, any(n.ends_row for n in nodes))

    def quantified(self, node: Node, start: int) -> Node:
        found = self.take(r"([*+?]|\{([0-9]+)(?:,[0-9]*)?\})([+?]?)")
        if self.take(r"[*+?{]"):
            raise self.fault(start, r"is repeated wrongly: write \ before the sign, or {n}, {n,} or {n,m}")
        if not found:
            return node
        repeat, least, mode = found.groups()
        if node.empty and repeat not in ("?", "{0,1}", "{1}"):
            # Java and Python end such a loop at different positions.
            raise self.fault(start, "repeats what can match the empty string: let each repetition take a character")
        source = b"(?:%b)%b" % (node.source, repeat.encode())
        if mode == "+":  # atomic groups, because in Java each repetition is possessive, too
            source = b"(?>(?>%b)%b)" % (node.source, repeat.encode())
        optional = repeat in "*?" or (least is not None and int(least) == 0)
        return Node((source + b"?" * (mode == "?"),), optional or node.empty, None, node.ends_row and not optional)

    def atom(self, start: int) -> Node | None:
        """Translate one atom; None for flags, which only change what follows."""
        if self.take(r"\("):
            return self.group(start)
        if self.take(r"\["):
            return charset(self.char_class(start))
        if self.take(r"\."):
            return charset(complement([] if self.dot_all else utf8_classes.LINE_ENDS))
        if self.take(r"\^|\\A"):
            return Node((rb"\A",), True)
        if self.take(r"\$|\\Z"):
            return Node((utf8_classes.AT_END,), True)
        if self.take(r"\\z"):
            return Node((rb"\Z",), True)
        if self.take(r"\\R"):
            return Node((rb"\r\n", *charset(SETS["v"]).branches))
        if found := self.take(r"\\(?:k<(\w+)>|([1-9]))"):
            return self.back_reference(start, self.names.get(found[1], 0) if found[1] else int(found[2]), not found[1])
        if self.take(r"[*+?{]"):
            raise self.fault(start, r"repeats nothing: write \ before it for the character")
        return charset(self.folded(self.members(start)))

    def group(self, start: int) -> Node | None:
        flags = self.fold, self.dot_all
        head = self.take(r"\?(?:([:=!>]|<[=!])|<([A-Za-z][A-Za-z0-9]*)>|([is]*)(?:-([is]*))?([:)]))")
        if self.take(r"\?.?"):
            raise self.fault(start, "begins an unsupported group: of flags only i and s are known; leave it out")
        kind, name, on, off, end = head.groups("") if head else ("(", "", "", "", "")
        self.fold = (self.fold or "i" in on) and "i" not in off
        self.dot_all = (self.dot_all or "s" in on) and "s" not in off
        if end == ")":
            return None
        captures = name or kind == "("
        self.groups += bool(captures)
        number = self.groups
        if name in self.names:
            raise self.fault(start, "names a second group so: choose another name")
        if name:
            self.names[name] = number
        closed = self.closed
        node = self.alternation()
        if not self.take(r"\)"):
            raise self.fault(start, r"lacks its closing ): write \( for a parenthesis")
        self.fold, self.dot_all = flags
        if captures:
            self.closed = {**self.closed, number: node}
            return node._replace(branches=(b"(?P<g%d>%b)" % (number, node.source),)) if number in self.kept else node
        if end or kind == ":":
            return node
        if kind == ">":
            return node._replace(branches=(b"(?>%b)" % node.source,))
        self.closed = closed
        if kind in ("=", "!"):
            return Node((b"(?%b%b)" % (kind.encode(), node.source),), True)
        looks = [b"(?%b%b)" % (kind.encode(), branch) for branch in node.branches]
        try:
            re.compile(b"".join(looks))
        except re.error:
            raise self.fault(start, "looks behind for texts of unknown length: give each | a fixed one") from None
        return Node((b"".join(looks),) if kind == "<!" else tuple(looks), True)

    def back_reference(self, start: int, number: int, extend: bool) -> Node:
        # A further digit belongs to the number only if a group of that number exists.
        while extend and "0" <= self.peek() <= "9" and number * 10 + int(self.peek()) <= self.groups:
            number = number * 10 + int(self.peek())
            self.at += 1
        if number not in self.closed:
            raise self.fault(start, "refers to a group that may be unset here: move that out of | and repetition")
        self.used.add(number)
        source = b"(?P=g%d)" % number
        return Node((b"(?i:%b)" % source if self.fold else source,), self.closed[number].empty)

    def char_class(self, start: int) -> Ranges:
        negated = self.take(r"\^")
        ranges: Ranges = []
        while not (ranges and self.take(r"\]")):  # a ] that comes first is a member
            item = self.at
            if not self.peek():
                raise self.fault(start, r"lacks its closing ]: write \[ for a bracket")
            if self.take("&&"):
                raise self.fault(item, "intersects classes, which is not supported: write the members out")
            if self.take(r"\["):
                if negated:
                    raise self.fault(start, "is read differently by Java 8 and 9: put all members into one class")
                ranges += self.char_class(item)
            else:
                ranges += self.folded(self.span(item))
        ranges = complement(ranges) if negated else ranges
        if not ranges:
            raise self.fault(start, "has no character: name some")
        return ranges

    def span(self, start: int) -> Ranges:
        """Read a member of a class: a set, a character, or all characters from one to another."""
        low = self.members(start)
        if low is SETS["v"] and self.peek() == "-":
            raise self.fault(start, r"is a vertical tab for Java before a hyphen: write \x0b, or the hyphen first")
        if low[0][0] != low[-1][1] or not self.take(r"-(?![\]\[])"):
            return low
        high = self.members(self.at) if self.peek() else []
        if not high or high[0][0] != high[-1][1] or high < low:
            raise self.fault(start, r"is not a range from a lower to a higher character: write \- for a hyphen")
        return [(low[0][0], high[0][0])]

    def folded(self, ranges: Ranges) -> Ranges:
        swapped = [ord(c) ^ 32 for c in string.ascii_letters if any(a <= ord(c) <= b for a, b in ranges)]
        return [*ranges, *((code, code) for code in swapped)] if self.fold else ranges

    def members(self, start: int) -> Ranges:
        """Read a character or an escape."""
        if not self.take(r"\\"):
            self.at += 1
            return char_set(self.chars[self.at - 1])
        if found := self.take(r"[dwshvDWSHV]"):
            ranges = SETS[found[0].lower()]
            return ranges if found[0].islower() else complement(ranges)
        if (found := self.take(r"([pP])\{(\w+)\}")) and found[2] in POSIX:
            if self.fold and found[2] in ("Lower", "Upper"):
                raise self.fault(start, "is read differently by versions of Java under (?i): write [a-zA-Z]")
            return POSIX[found[2]] if found[1] == "p" else complement(POSIX[found[2]])
        if found := self.take(r"0([0-3][0-7]{0,2}|[4-7][0-7]?)"):
            code = int(found[1], 8)
        elif found := self.take(r"u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"):
            code = 0x10000 + (int(found[1], 16) - 0xD800) * 0x400 + int(found[2], 16) - 0xDC00
        elif found := self.take(r"x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})"):
            code = int(found[1] or found[2] or found[3], 16)
        elif found := self.take(r"c([\x00-\x7f])"):
            code = ord(found[1]) ^ 64
        elif found := self.take(r"[tnfrae]|[^0-9a-zA-Z]"):
            code = utf8_classes.ESCAPES.get(found[0], ord(found[0]))
        else:
            self.take(r"[pP]\{[^}]*\}|.")
            code = STRAY
        if code >= STRAY or 0xD800 <= code <= 0xDFFF:
            raise self.fault(start, r"is not supported: write the characters, as in [a-z], or \\ for a backslash")
        return [(code, code)]
