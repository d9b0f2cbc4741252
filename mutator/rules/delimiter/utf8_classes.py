"""Sets of characters as byte patterns: each member is its UTF-8 bytes, and no match begins inside a character."""

import re
import string
from collections.abc import Iterator
from typing import NamedTuple

# Sets of characters, as ranges of code points. STRAY, after the last character, means every stray byte.
Ranges = list[tuple[int, int]]
STRAY = 0x110000


def char_set(members: str) -> Ranges:
    """Return the set of the characters of a text."""
    return [(ord(c), ord(c)) for c in members]


def complement(ranges: Ranges) -> Ranges:
    """Return the set of all other characters and stray bytes."""
    result, start = [], 0
    for first, last in sorted(ranges):
        if first > start:
            result.append((start, first - 1))
        start = max(start, last + 1)
    return [*result, (start, STRAY)] if start <= STRAY else result


ESCAPES = {"t": 9, "n": 10, "f": 12, "r": 13, "a": 7, "e": 27}
LINE_ENDS = char_set("\n\r\x85\u2028\u2029")
SETS = {
    "d": char_set(string.digits),
    "w": char_set(string.ascii_letters + string.digits + "_"),
    "s": char_set(string.whitespace),
    "h": [*char_set("\t \xa0\u1680\u180e\u202f\u205f\u3000"), (0x2000, 0x200A)],
    "v": [*LINE_ENDS, *char_set("\x0b\f")],
}
POSIX = {
    "Lower": char_set(string.ascii_lowercase),
    "Upper": char_set(string.ascii_uppercase),
    "ASCII": [(0, 0x7F)],
    "Alpha": char_set(string.ascii_letters),
    "Digit": char_set(string.digits),
    "Alnum": char_set(string.ascii_letters + string.digits),
    "Punct": char_set(string.punctuation),
    "Graph": [(0x21, 0x7E)],
    "Print": [(0x20, 0x7E)],
    "Blank": char_set(" \t"),
    "Cntrl": [(0, 0x1F), (0x7F, 0x7F)],
    "XDigit": char_set(string.hexdigits),
    "Space": char_set(string.whitespace),
}
# Java's $ and \Z also match before a line end that ends the text, but not inside a CRLF.
AT_END = rb"(?=(?:\r\n|(?<!\r)\n|\r|\xc2\x85|\xe2\x80[\xa8\xa9])?\Z)"


class Node(NamedTuple):
    """A translated part of the regex."""

    branches: tuple[bytes, ...]  # alternatives in Python's syntax, each usable in a look-behind by itself
    empty: bool = False  # it can match the empty string
    literal: bytes | None = None  # the only text that it matches; None if it matches several
    ends_row: bool = False  # every match contains an LF or CR

    @property
    def source(self) -> bytes:
        """Return the part as one pattern."""
        return self.branches[0] if len(self.branches) == 1 else b"(?:%b)" % b"|".join(self.branches)


def _span(first: int, last: int) -> bytes:
    """Return the bytes first to last as members of a class; a single byte is also valid outside of a class."""
    a, b = re.escape(bytes([first])), re.escape(bytes([last]))
    return a if first == last else a + b"-" + b


def _utf8(first: int, last: int) -> Iterator[list[bytes]]:
    """Yield patterns that together match the characters first to last, above ASCII; each has one set per byte."""
    cuts = [0x7FF, 0xFFFF]  # where the length changes
    # Within a length, a range is one pattern if all bytes after the first that differs have their whole range.
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


# A byte that neither begins a character nor is inside one: no character contains it at any offset k.
_STRAY_BYTE = b"(?=[\x80-\xff])(?!%b)[\x80-\xff]" % b"|".join(
    (b"(?<=%b)" % b"".join(parts[:k]) if k else b"") + b"".join(parts[k:])
    for parts in [*_utf8(0x80, 0xD7FF), *_utf8(0xE000, 0x10FFFF)]
    for k in range(len(parts))
)


def charset(ranges: Ranges) -> Node:
    """Return the part that matches one character of a set; at any position, at most one of its branches matches."""
    # Sorted, without overlaps, and without the surrogates, which UTF-8 does not have.
    ranges = complement([*complement(ranges), (0xD800, 0xDFFF)])
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1] < STRAY:
        literal = chr(ranges[0][0]).encode()
        return Node((re.escape(literal),), False, literal, literal in b"\r\n")
    in_ascii = b"".join(_span(a, min(b, 0x7F)) for a, b in ranges if a < 0x80)
    branches = [b"[%b]" % in_ascii] if in_ascii else []
    for first, last in ranges:
        if last > 0x7F and first < STRAY:
            branches += map(b"".join, _utf8(max(first, 0x80), min(last, STRAY - 1)))
    if ranges and ranges[-1][1] == STRAY:
        branches.append(_STRAY_BYTE)
    return Node(tuple(branches) or (b"(?!)",), ends_row=all(a == b and a in (10, 13) for a, b in ranges))
