r"""Split a row of bytes where the Java regex of ``field.delim.regex`` says.

One character stands for itself, whatever a regex makes of it. Any longer text is a Java regex, as Hadoop jobs have it;
where it means one fixed text it becomes that text, for ``bytes.split`` is far faster than any pattern.

>>> parse("|").split(b"a|b||")
[b'a', b'b', b'', b'']
>>> parse(r"\s*;\s*").split(b"a ; b;c")
[b'a', b'b', b'c']

Rows are bytes, Java's strings are characters. So every set of characters is written out as the byte sequences of its
members in UTF-8, and a set that holds "all but" some characters also holds each stray byte: one that is no part of a
UTF-8 character. A match therefore never begins or ends inside a character, and broken rows come out byte for byte.

Flags vanish in translation (a set under ``(?i)`` holds both cases), and capturing groups stay only where a back
reference needs them. What Java and Python, or two versions of Java, read differently is refused, never guessed.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

MAX_LENGTH = 1000


@dataclass(frozen=True)
class Delimiter:
    """What separates fields: `literal` bytes, or else a `pattern`; `text` is what was configured."""

    literal: bytes | None
    pattern: bytes | None  # the source, not the compiled object, so that a pickle stays small
    text: str

    def split(self, row: bytes) -> list[bytes]:
        r"""Return all fields, the empty ones too, like Java's ``row.split(regex, -1)``.

        >>> parse(r"\|").split(b"a||")
        [b'a', b'', b'']
        """
        if self.literal is not None:
            return row.split(self.literal)
        assert self.pattern is not None
        return _splitter(self.pattern)(row)

    def cut(self, row: bytes, ordinal: int, joint: bytes) -> bytes:
        """Return the row without one field; `joint` joins the others where the delimiter is a pattern.

        Raises IndexError where the row has no such field.

        >>> parse(",").cut(b"a,b,c", 1, b"|"), parse("[,;]").cut(b"a,b;c", 1, b"|")
        (b'a,c', b'a|c')
        """
        # Behind the field that goes, a literal need not be found: it would be put back as it was.
        fields = self.split(row) if self.literal is None else row.split(self.literal, max(ordinal, 0) + 1)
        if not 0 <= ordinal < len(fields):
            raise IndexError(f"the row has no field {ordinal}")
        del fields[ordinal]
        return (joint if self.literal is None else self.literal).join(fields)


def parse(text: str) -> Delimiter:
    """Return the delimiter that a character or a Java regex describes.

    Raises ValueError with one sentence: what is wrong, where, and the cure.

    >>> parse("[|]")
    Delimiter(literal=b'|', pattern=None, text='[|]')
    """
    if not text:
        raise ValueError("the delimiter is empty: give one character or a Java regex")
    if len(text) > MAX_LENGTH:
        raise ValueError(f"the delimiter has {len(text)} characters: give at most {MAX_LENGTH}")
    if re.search("[\ud800-\udfff]", text):
        raise ValueError("the delimiter holds half a surrogate pair, which UTF-8 cannot encode: give whole characters")
    try:
        node = _charset(_set(text)) if len(text) == 1 else _translate(text)
        re.compile(node.source)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"the regex `{text}` is too much for Python's re ({error}): use a simpler one") from None
    if node.empty:
        escaped = re.sub(r"([^\w\s])", r"\\\1", text)
        raise ValueError(
            f"the regex `{text}` can match the empty string: make a part of it required (+ in place of *), "
            rf"or write `{escaped}` or `\Q{text}\E` if its characters are meant as they are"
        )
    if node.ends_row:
        raise ValueError("the delimiter needs a line feed or carriage return, where rows end: use another character")
    return Delimiter(node.literal, node.source if node.literal is None else None, text)


@lru_cache(maxsize=64)  # a process compiles a pattern once, though each task unpickles a Delimiter of its own
def _splitter(pattern: bytes) -> Callable[[bytes], list[bytes]]:
    compiled = re.compile(pattern)

    def split(row: bytes) -> list[bytes]:  # re.split would return the groups among the fields
        fields, start = [], 0
        for match in compiled.finditer(row):
            fields.append(row[start : match.start()])
            start = match.end()
        return [*fields, row[start:]]

    return split if compiled.groups else compiled.split


# Sets of characters, as ranges of code points. Past the last character, _STRAY stands for every stray byte.
_Ranges = list[tuple[int, int]]
_STRAY = 0x110000


def _set(members: str) -> _Ranges:
    return [(ord(c), ord(c)) for c in members]


def _complement(ranges: _Ranges) -> _Ranges:
    result, start = [], 0
    for first, last in sorted(ranges):
        if first > start:
            result.append((start, first - 1))
        start = max(start, last + 1)
    return [*result, (start, _STRAY)] if start <= _STRAY else result


_ESCAPES = {"t": 9, "n": 10, "f": 12, "r": 13, "a": 7, "e": 27}
_LINE_ENDS = _set("\n\r\x85\u2028\u2029")
_SETS = {
    "d": _set(string.digits),
    "w": _set(string.ascii_letters + string.digits + "_"),
    "s": _set(string.whitespace),
    "h": [*_set("\t \xa0\u1680\u180e\u202f\u205f\u3000"), (0x2000, 0x200A)],
    "v": [*_LINE_ENDS, *_set("\x0b\f")],
}
_POSIX = {
    "Lower": _set(string.ascii_lowercase),
    "Upper": _set(string.ascii_uppercase),
    "ASCII": [(0, 0x7F)],
    "Alpha": _set(string.ascii_letters),
    "Digit": _set(string.digits),
    "Alnum": _set(string.ascii_letters + string.digits),
    "Punct": _set(string.punctuation),
    "Graph": [(0x21, 0x7E)],
    "Print": [(0x20, 0x7E)],
    "Blank": _set(" \t"),
    "Cntrl": [(0, 0x1F), (0x7F, 0x7F)],
    "XDigit": _set(string.hexdigits),
    "Space": _set(string.whitespace),
}
# Java's $ and \Z also match before a line end that ends the text, but not inside a CRLF.
_AT_END = rb"(?=(?:\r\n|(?<!\r)\n|\r|\xc2\x85|\xe2\x80[\xa8\xa9])?\Z)"


class _Node(NamedTuple):
    """A translated part of the regex."""

    branches: tuple[bytes, ...]  # its alternatives in Python's syntax: Python's look-behind wants them one by one
    empty: bool = False  # it can match the empty string
    literal: bytes | None = None  # the only text it matches, where there is only one
    ends_row: bool = False  # every match holds an LF or CR

    @property
    def source(self) -> bytes:
        return self.branches[0] if len(self.branches) == 1 else b"(?:%b)" % b"|".join(self.branches)


def _span(first: int, last: int) -> bytes:
    """Return the bytes first..last as they stand inside a class; a single one can stand outside too."""
    a, b = re.escape(bytes([first])), re.escape(bytes([last]))
    return a if first == last else a + b"-" + b


def _utf8(first: int, last: int) -> Iterator[list[bytes]]:
    """Yield patterns, each a list of one set a byte, that together match the characters first..last above ASCII."""
    cuts = [0x7FF, 0xFFFF]  # where the length changes
    # Within a length, a range is one pattern if all bytes behind the first that differs run over their whole range.
    for mask in (0x3F, 0xFFF, 0x3FFFF):
        if first & ~mask != last & ~mask:
            cuts += [first | mask] if first & mask else []
            cuts += [(last & ~mask) - 1] if last & mask != mask else []
    for cut in cuts:
        if first <= cut < last:
            yield from _utf8(first, cut)
            yield from _utf8(cut + 1, last)
            return
    pairs = zip(chr(first).encode(), chr(last).encode(), strict=True)
    yield [_span(a, b) if a == b else b"[%b]" % _span(a, b) for a, b in pairs]


# A byte that neither begins a character nor lies inside one: at no offset k is there a character around it.
_STRAY_BYTE = b"(?=[\x80-\xff])(?!%b)[\x80-\xff]" % b"|".join(
    (b"(?<=%b)" % b"".join(parts[:k]) if k else b"") + b"".join(parts[k:])
    for parts in [*_utf8(0x80, 0xD7FF), *_utf8(0xE000, 0x10FFFF)]
    for k in range(len(parts))
)


def _charset(ranges: _Ranges) -> _Node:
    """Return what matches one character of a set; at any position at most one of its branches can."""
    # Sorted, without overlaps, and without the surrogates, which UTF-8 does not have.
    ranges = _complement([*_complement(ranges), (0xD800, 0xDFFF)])
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1] < _STRAY:
        literal = chr(ranges[0][0]).encode()
        return _Node((re.escape(literal),), False, literal, literal in b"\r\n")
    in_ascii = b"".join(_span(a, min(b, 0x7F)) for a, b in ranges if a < 0x80)
    branches = [b"[%b]" % in_ascii] if in_ascii else []
    for first, last in ranges:
        if last > 0x7F and first < _STRAY:
            branches += map(b"".join, _utf8(max(first, 0x80), min(last, _STRAY - 1)))
    if ranges and ranges[-1][1] == _STRAY:
        branches.append(_STRAY_BYTE)
    return _Node(tuple(branches) or (b"(?!)",), ends_row=all(a == b and a in (10, 13) for a, b in ranges))


def _translate(text: str) -> _Node:
    parser = _Parser(text, frozenset())
    node = parser.whole()
    # Only now is it known which groups are referred to.
    return _Parser(text, frozenset(parser.used)).whole() if parser.used else node


class _Parser:
    """Java's recursive descent over one regex; `start` is where a construct begins."""

    def __init__(self, text: str, kept: frozenset[int]) -> None:
        self.text, self.at = text, 0
        self.chars = self.marks = ""  # what stands between \Q and \E is a surrogate in marks: equal to no syntax
        self.places: list[int] = []
        for quote in re.finditer(r"\\Q(?s:(.*?))(?:\\E|\Z)|(?s:\\?.)", text):
            chars = quote[0] if quote[1] is None else quote[1]
            self.chars += chars
            self.marks += chars if quote[1] is None else "\ud800" * len(chars)
            self.places += range(quote.start(1) if quote[1] else quote.start(), len(text))[: len(chars)]
        self.places.append(len(text))
        self.fold = self.dot_all = False  # the flags i and s
        self.groups = 0
        self.kept = kept  # numbers of the groups that stay
        self.used: set[int] = set()
        self.names: dict[str, int] = {}
        self.closed: dict[int, _Node] = {}  # groups sure to be set here; Java keeps others past a failed attempt

    def peek(self) -> str:
        return self.marks[self.at : self.at + 1]

    def take(self, syntax: str) -> re.Match[str] | None:
        found = re.compile(syntax, re.DOTALL).match(self.marks, self.at)
        self.at = found.end() if found else self.at
        return found

    def fault(self, start: int, why: str) -> ValueError:
        """Return the error for what was read since `start`."""
        first, end = self.places[start], self.places[self.at]
        return ValueError(f"`{self.text[first:end]}` at character {first + 1} {why}")

    def whole(self) -> _Node:
        node = self.alternation()
        if start := self.take(r"\)"):
            raise self.fault(start.start(), r"closes no group: write \) for a parenthesis")
        return node

    def alternation(self) -> _Node:
        closed = self.closed
        nodes = [self.sequence()]
        while self.take(r"\|"):
            self.closed = closed
            nodes.append(self.sequence())
        if len(nodes) == 1:
            return nodes[0]
        self.closed = closed
        branches = tuple(branch for node in nodes for branch in node.branches)
        return _Node(branches, any(n.empty for n in nodes), None, all(n.ends_row for n in nodes))

    def sequence(self) -> _Node:
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
        return _Node((source,), all(n.empty for n in nodes), literal, any(n.ends_row for n in nodes))

    def quantified(self, node: _Node, start: int) -> _Node:
        found = self.take(r"([*+?]|\{([0-9]+)(?:,[0-9]*)?\})([+?]?)")
        if self.take(r"[*+?{]"):
            raise self.fault(start, r"is repeated wrongly: write \ before the sign, or {n}, {n,} or {n,m}")
        if not found:
            return node
        repeat, least, mode = found.groups()
        if node.empty and repeat not in ("?", "{0,1}", "{1}"):
            # Java and Python end such a loop at different places.
            raise self.fault(start, "repeats what can match the empty string: let each repetition take a character")
        source = b"(?:%b)%b" % (node.source, repeat.encode())
        if mode == "+":  # atomic groups, for in Java each single repetition is possessive too
            source = b"(?>(?>%b)%b)" % (node.source, repeat.encode())
        optional = repeat in "*?" or (least is not None and int(least) == 0)
        return _Node((source + b"?" * (mode == "?"),), optional or node.empty, None, node.ends_row and not optional)

    def atom(self, start: int) -> _Node | None:
        """Translate one atom; None for flags, which only change what follows."""
        if self.take(r"\("):
            return self.group(start)
        if self.take(r"\["):
            return _charset(self.char_class(start))
        if self.take(r"\."):
            return _charset(_complement([] if self.dot_all else _LINE_ENDS))
        if self.take(r"\^|\\A"):
            return _Node((rb"\A",), True)
        if self.take(r"\$|\\Z"):
            return _Node((_AT_END,), True)
        if self.take(r"\\z"):
            return _Node((rb"\Z",), True)
        if self.take(r"\\R"):
            return _Node((rb"\r\n", *_charset(_SETS["v"]).branches))
        if found := self.take(r"\\(?:k<(\w+)>|([1-9]))"):
            return self.back_reference(start, self.names.get(found[1], 0) if found[1] else int(found[2]), not found[1])
        if self.take(r"[*+?{]"):
            raise self.fault(start, r"repeats nothing: write \ before it for the character")
        return _charset(self.folded(self.members(start)))

    def group(self, start: int) -> _Node | None:
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
            return _Node((b"(?%b%b)" % (kind.encode(), node.source),), True)
        looks = [b"(?%b%b)" % (kind.encode(), branch) for branch in node.branches]
        try:
            re.compile(b"".join(looks))
        except re.error:
            raise self.fault(start, "looks behind for texts of unknown length: give each | a fixed one") from None
        return _Node((b"".join(looks),) if kind == "<!" else tuple(looks), True)

    def back_reference(self, start: int, number: int, extend: bool) -> _Node:
        # A further digit belongs to the number only as long as there is such a group.
        while extend and "0" <= self.peek() <= "9" and number * 10 + int(self.peek()) <= self.groups:
            number = number * 10 + int(self.peek())
            self.at += 1
        if number not in self.closed:
            raise self.fault(start, "refers to a group that may be unset here: move that out of | and repetition")
        self.used.add(number)
        source = b"(?P=g%d)" % number
        return _Node((b"(?i:%b)" % source if self.fold else source,), self.closed[number].empty)

    def char_class(self, start: int) -> _Ranges:
        negated = self.take(r"\^")
        ranges: _Ranges = []
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
        ranges = _complement(ranges) if negated else ranges
        if not ranges:
            raise self.fault(start, "holds no character: name some")
        return ranges

    def span(self, start: int) -> _Ranges:
        """Read a member of a class: a set, a character, or all characters from one to another."""
        low = self.members(start)
        if low is _SETS["v"] and self.peek() == "-":
            raise self.fault(start, r"is a vertical tab for Java before a hyphen: write \x0b, or the hyphen first")
        if low[0][0] != low[-1][1] or not self.take(r"-(?![\]\[])"):
            return low
        high = self.members(self.at) if self.peek() else []
        if not high or high[0][0] != high[-1][1] or high < low:
            raise self.fault(start, r"is no range from a lower to a higher character: write \- for a hyphen")
        return [(low[0][0], high[0][0])]

    def folded(self, ranges: _Ranges) -> _Ranges:
        swapped = [ord(c) ^ 32 for c in string.ascii_letters if any(a <= ord(c) <= b for a, b in ranges)]
        return [*ranges, *((code, code) for code in swapped)] if self.fold else ranges

    def members(self, start: int) -> _Ranges:
        """Read a character or an escape."""
        if not self.take(r"\\"):
            self.at += 1
            return _set(self.chars[self.at - 1])
        if found := self.take(r"[dwshvDWSHV]"):
            ranges = _SETS[found[0].lower()]
            return ranges if found[0].islower() else _complement(ranges)
        if (found := self.take(r"([pP])\{(\w+)\}")) and found[2] in _POSIX:
            if self.fold and found[2] in ("Lower", "Upper"):
                raise self.fault(start, "is read differently by versions of Java under (?i): write [a-zA-Z]")
            return _POSIX[found[2]] if found[1] == "p" else _complement(_POSIX[found[2]])
        if found := self.take(r"0([0-3][0-7]{0,2}|[4-7][0-7]?)"):
            code = int(found[1], 8)
        elif found := self.take(r"u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"):
            code = 0x10000 + (int(found[1], 16) - 0xD800) * 0x400 + int(found[2], 16) - 0xDC00
        elif found := self.take(r"x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})"):
            code = int(found[1] or found[2] or found[3], 16)
        elif found := self.take(r"c([\x00-\x7f])"):
            code = ord(found[1]) ^ 64
        elif found := self.take(r"[tnfrae]|[^0-9a-zA-Z]"):
            code = _ESCAPES.get(found[0], ord(found[0]))
        else:
            self.take(r"[pP]\{[^}]*\}|.")
            code = _STRAY
        if code >= _STRAY or 0xD800 <= code <= 0xDFFF:
            raise self.fault(start, r"is not supported: write the characters, as in [a-z], or \\ for a backslash")
        return [(code, code)]
