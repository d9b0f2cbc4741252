"""How the lines of delimited files are split: the delimiter, quotes, and header lines.

The first lines of all files decide together, because a run has one delimiter. A delimiter is good if every row has it,
if the rows of a file have it equally often, and if it separates numbers and times from other values: the comma in
``7;a bolt, 3 mm;2026-01-31`` separates none.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mutator.plan.mistakes.value_forms import all_numbers_or_times, is_number_or_time, may_be_name, names_an_id

_FIRST = 200  # lines of a file

Row = list[bytes]

# Delimiter, its name in messages, and how probable it is before anything is read.
DELIMITERS = (
    (b",", "a comma", 1.0),
    (b";", "a semicolon", 1.0),
    (b"\t", "a tab", 1.0),
    (b"|", "a vertical bar", 1.0),
    (b"\x01", "byte 1 (Ctrl-A)", 1.0),
    (b"\x1f", "byte 31", 1.0),
    (b"~", "a tilde", 0.8),
    (b"^", "a circumflex", 0.8),
    (b":", "a colon", 0.4),
    (b"#", "a hash", 0.3),
    (b"!", "an exclamation mark", 0.3),
    (b".", "a full stop", 0.2),
    (b"/", "a slash", 0.2),
    (b" ", "a blank", 0.2),
)


@dataclass(frozen=True)
class Head:
    """The first lines of a delimited file, blank ones included, without line ends."""

    side: str  # master | feed
    file: str
    lines: tuple[bytes, ...]


@dataclass(frozen=True)
class Dialect:
    """How the lines of all files are split."""

    delimiter: bytes | None  # None: no delimiter separates the rows of any file
    quoted: bool  # fields may be in quotes, as in CSV
    headers: tuple[tuple[bytes, ...] | None, ...]  # the line of names of each file; None: the file has none
    header_lines: tuple[int, ...]  # lines up to the line of names, of each file
    widths: tuple[tuple[int, ...], ...]  # number of fields of each row, of each file, without header lines

    @property
    def name(self) -> str:
        """The name of the delimiter in messages."""
        found = next((name for delimiter, name, _ in DELIMITERS if delimiter == self.delimiter), None)
        return found or ("no delimiter" if self.delimiter is None else repr(self.delimiter.decode("latin-1")))


def dialect_of(heads: Sequence[Head], wanted: bytes | None = None) -> Dialect:
    """Return the dialect that fits the first lines of all files. wanted: the delimiter, if the user has set it.

    >>> dialect = dialect_of([Head("feed", "f.txt", (b"id;name", b"7;a bolt, 3 mm"))])
    >>> dialect.delimiter, dialect.headers
    (b';', ((b'id', b'name'),))
    """
    # Of equal scores, quotes count if they are around a value, and the more usual delimiter comes first.
    best: tuple[float, bool, bool, int] = (0.0, False, True, 0)
    candidates = DELIMITERS if wanted is None else ((wanted, "", 1.0),)
    for number, (delimiter, _, likelihood) in enumerate(candidates):
        for quoted in (False, True):
            if quoted and not any(b'"' in line for head in heads for line in head.lines):
                continue
            rows = [list(_rows(head, delimiter, quoted)) for head in heads]
            wrapped = quoted and _has_wrapped(heads, delimiter)
            best = max(best, (likelihood * _score(heads, rows), wrapped, not quoted, -number))
    score, _, plain, number = best
    delimiter, quoted = (candidates[-number][0], not plain) if score else (wanted or b"", False)
    split = [_split_lines(head, delimiter, quoted) for head in heads]
    modal = _modal_width([row for rows in split for row in rows if row])
    found = [_header(head, rows, split, modal) for head, rows in zip(heads, split, strict=True)]
    known = {names for _, names in found if names is not None}
    # A file with nothing but a header has the header of another file.
    found = [
        (1, tuple(rows[0])) if names is None and len(rows) == 1 and tuple(rows[0]) in known else (count, names)
        for (count, names), rows in zip(found, split, strict=True)
    ]
    # A file without rows may have as many lines as others have up to their names.
    most = max(count for count, _ in found)
    split = [
        [] if names is None and len(rows) <= most and not any(len(row) == modal for row in rows) else rows
        for (_, names), rows in zip(found, split, strict=True)
    ]
    widths = tuple(
        tuple(len(row) for row in rows[count:] if row) for rows, (count, _) in zip(split, found, strict=True)
    )
    return Dialect(
        delimiter or None, quoted, tuple(names for _, names in found), tuple(count for count, _ in found), widths
    )


def _split_lines(head: Head, delimiter: bytes, quoted: bool) -> list[Row]:
    """Return the rows of a file, an empty one for each blank line."""
    if quoted:
        return list(_rows(head, delimiter, quoted))
    return [(line.split(delimiter) if delimiter else [line]) if line.strip() else [] for line in head.lines[:_FIRST]]


def _rows(head: Head, delimiter: bytes, quoted: bool) -> Iterator[Row]:
    """Yield the rows that are not blank."""
    lines = [line for line in head.lines[:_FIRST] if line.strip()]
    if not quoted:
        yield from (line.split(delimiter) for line in lines)
        return
    text = io.StringIO(b"\n".join(lines).decode("latin-1"), newline="")
    try:
        for row in csv.reader(text, delimiter=delimiter.decode("latin-1")):
            yield [value.encode("latin-1") for value in row]
    except csv.Error:
        return


def _has_wrapped(heads: Sequence[Head], delimiter: bytes) -> bool:
    """Return whether a value has quotes around it, which may contain the delimiter."""
    edge = re.escape(delimiter)
    value = re.compile(rb'(?:^|%b)"(?:[^"]|"")*"(?:%b|$)' % (edge, edge))
    return any(value.search(line) for head in heads for line in head.lines[:_FIRST])


def _score(heads: Sequence[Head], rows: Sequence[list[Row]]) -> float:
    """Return how good a delimiter is: 0 if a side has rows, and none with the delimiter."""
    for side in ("master", "feed"):
        own = [found for head, found in zip(heads, rows, strict=True) if head.side == side and found]
        if own and not any(len(row) > 1 for found in own for row in found):
            return 0.0
    # Files without the delimiter may be delete files with one ID field alone.
    counted = [found for found in rows if any(len(row) > 1 for row in found)]
    total = sum(map(len, counted))
    if not total:
        return 0.0
    with_delimiter = sum(len(row) > 1 for found in counted for row in found)
    alike = sum(len(row) == _modal_width(found) for found in counted for row in found)
    longest = max(counted, key=len)
    width = _modal_width(longest)
    body = [row for row in longest[1:] or longest if len(row) == width]
    typed = sum(all_numbers_or_times(row[at] for row in body) for at in range(width)) if body else 0
    return with_delimiter / total * (alike / total) * (1 + typed)


def _modal_width(rows: Sequence[Row]) -> int:
    return Counter(map(len, rows)).most_common(1)[0][0] if rows else 0


def _header(
    head: Head, rows: Sequence[Row], others: Sequence[Sequence[Row]], modal: int
) -> tuple[int, tuple[bytes, ...] | None]:
    """Return the number of header lines of a file and its line of names; 0 and None without one."""
    own = Counter(len(row) for row in rows if row)
    width = own.most_common(1)[0][0] if own else modal
    for number, row in enumerate(rows[:4]):
        if not row or (len(row) != width and len(row) < modal):
            continue  # a blank line, or a title above the names
        rest = [other for other in rows[number + 1 :] if len(other) == len(row)]
        twins = sum(row in list(found[:4]) for found in others if found is not rows)
        return (number + 1, tuple(row)) if _is_header(row, rest, twins) else (0, None)
    return 0, None


def utf8(value: bytes) -> bytes:
    """Return a text as UTF-8: if it is not, it counts as Latin-1.

    >>> utf8(b"ge\\xe4ndert") == "ge\u00e4ndert".encode()
    True
    """
    try:
        value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1").encode()
    return value


def _is_header(row: Row, rest: Sequence[Row], twins: int) -> bool:
    """Return whether a row has names of fields. rest: the rows below it. twins: how many other files begin with it."""
    row = [utf8(value) for value in row]
    if not all(map(may_be_name, row)) or len({value.strip().lower() for value in row}) < len(row):
        return False
    if any(is_number_or_time(value) for value in row) or (len(row) == 1 and not names_an_id(row[0], [b"1"])):
        return False
    for at in range(len(row)):
        below = [other[at] for other in rest]
        if all_numbers_or_times(below) or names_an_id(row[at], below):
            return True
    return twins > 0 and row not in rest and any(names_an_id(value, [b"1"]) for value in row)
