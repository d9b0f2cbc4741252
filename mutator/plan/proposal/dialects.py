"""How the lines of delimited files are split: the delimiter, quotes, and header lines.

The first lines of all files decide together, because a run has one delimiter. A delimiter is good if every row has it,
if the rows of a file have it equally often, and if it separates numbers and times from other values: the comma in
``7;a bolt, 3 mm;2026-01-31`` separates none.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from mutator.errors.quick_dataclass import dataclass
from mutator.formats.files.quotes import plain
from mutator.plan.mistakes.delimiters import has_doubled_backslashes
from mutator.rules.delimiter.field_delimiter import USUAL
from mutator.rules.facts import Facts, plain_text
from mutator.rules.header_lines import Row, header_of, unusable_name

_FIRST = 200  # lines of a file
_SLASH = b"\\"


@dataclass(frozen=True)
class Head:
    """The first lines of a delimited file, blank ones included, without line ends."""

    side: str  # master | feed
    file: str
    lines: tuple[bytes, ...]


@dataclass(frozen=True)
class ProposedDialect:
    """How the lines of all files are split."""

    delimiter: bytes | None  # None: no delimiter separates the rows of any file
    quoted: bool  # fields may be in quotes, as in CSV
    stray: int  # lines that have a quote elsewhere than around a value, so that CSV rejects them
    headers: tuple[tuple[bytes, ...] | None, ...]  # the line of names of each file; None: the file has none
    header_lines: tuple[int, ...]  # lines up to the line of names, of each file
    widths: tuple[tuple[int, ...], ...]  # number of fields of each row, of each file, without header lines
    second: bytes | None = None  # a delimiter that some rows have in place of the first one
    blanks: bool = False  # a blank is beside one of the two delimiters
    escape: bytes = b""  # before a quote within quotes; "": quotes are doubled

    @property
    def odd_rows(self) -> int:
        """How many rows have another number of fields than most rows of their file."""
        return _odd_rows(self.widths)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(map(len, self.widths))

    @property
    def unusable_names(self) -> str | None:
        """Why the names of a header cannot be used in settings; None if they can."""
        return next((why for names in self.headers if names is not None and (why := unusable_name(names))), None)

    @property
    def name(self) -> str:
        """The name of the delimiter in messages."""
        return "no delimiter" if self.delimiter is None else name_of(self.delimiter)


def name_of(delimiter: bytes) -> str:
    """Return the name of a delimiter in messages.

    >>> name_of(b";"), name_of(b"%")
    ('a semicolon', "'%'")
    """
    return USUAL[delimiter][0] if delimiter in USUAL else repr(delimiter.decode("latin-1"))


def dialect_of(heads: Sequence[Head], wanted: bytes | None = None, file_format: str | None = None) -> ProposedDialect:
    """Return the dialect that fits the first lines of all files.

    wanted, file_format: the delimiter and the file format, if the user has set them.

    >>> dialect = dialect_of([Head("feed", "f.txt", (b"id;name", b"7;a bolt, 3 mm"))])
    >>> dialect.delimiter, dialect.headers
    (b';', ((b'id', b'name'),))
    """
    # Of equal scores, quotes count if they are around a value, and the more usual delimiter comes first.
    best: tuple[float, bool, bool, int] = (0.0, False, True, 0)
    candidates = [*USUAL] if wanted is None else [wanted]
    for number, delimiter in enumerate(candidates):
        likelihood = 1.0 if wanted is not None else USUAL[delimiter][2]
        for quoted in (False, True) if file_format is None else (file_format == "csv",):
            escape = _escape_of(heads, delimiter) if quoted else b""
            wrapped = quoted and _has_wrapped(heads, delimiter, escape)
            if quoted and not wrapped and file_format is None:
                continue
            rows = [list(_rows(head, delimiter, quoted, escape)) for head in heads]
            best = max(best, (likelihood * _score(heads, rows), wrapped, not quoted, -number))
    score, _, plain, number = best
    delimiter, quoted = (candidates[-number], not plain) if score else (wanted or b"", False)
    escape = _escape_of(heads, delimiter) if quoted else b""
    split = [_split_lines(head, delimiter, quoted, escape) for head in heads]
    modal = _modal_width([row for rows in split for row in rows if row])
    sides = [head.side for head in heads]
    found = [header_of(at, split, sides, modal) for at in range(len(heads))]
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
    stray = _stray(heads, delimiter, b"") if delimiter else 0
    second, blanks = None, False
    if delimiter and not quoted and _odd_rows(widths):
        bodies = [
            [line for line in head.lines[count:_FIRST] if line.strip()]
            for head, (count, _) in zip(heads, found, strict=True)
        ]
        second, blanks = _second(bodies, delimiter, _odd_rows(widths))
    headers = tuple(names for _, names in found)
    return ProposedDialect(
        delimiter or None, quoted, stray, headers, tuple(count for count, _ in found), widths, second, blanks, escape
    )


def first_columns(head: Head, dialect: ProposedDialect, names: Sequence[bytes] | None) -> dict[str, list[bytes | None]]:
    """Return the first values of each field of a file. names: in its header; ordinals are taken without them.

    Rows of another number of fields than most are left out.
    """
    if dialect.delimiter is None:
        return {}
    rows = list(_rows(head, dialect.delimiter, dialect.quoted, dialect.escape))[names is not None :]
    width = _modal_width(rows) if names is None else len(names)
    titles = map(str, range(width)) if names is None else map(plain_text, names)
    return dict(zip(titles, map(list, zip(*(row for row in rows if len(row) == width), strict=True)), strict=False))


def first_fields(head: Head, dialect: ProposedDialect, count: int) -> list[tuple[int, list[bytes]]]:
    """Return the number of fields of each row, and the first of them."""
    if dialect.delimiter is None:
        return []
    return [(len(row), list(row[:count])) for row in _rows(head, dialect.delimiter, dialect.quoted, dialect.escape)]


def _odd_rows(widths: Sequence[Sequence[int]]) -> int:
    return sum(len(found) - Counter(found).most_common(1)[0][1] for found in widths if found)


def _second(files: Sequence[Sequence[bytes]], delimiter: bytes, odd: int) -> tuple[bytes | None, bool]:
    """Return the delimiter that explains most of the odd rows, and whether blanks are around the two; None without one.

    files: the lines of each file. odd: how many rows have another number of fields than most rows of their file.
    """
    best: tuple[int, bytes] | None = None
    for other in USUAL:
        if other == delimiter or other == b" ":
            continue
        widths = [[line.count(delimiter) + line.count(other) + 1 for line in lines] for lines in files]
        left = _odd_rows(widths)
        if 5 * left <= odd and (best is None or left < best[0]):
            best = left, other
    if best is None:
        return None, False
    beside = re.compile(rb"[%b]" % re.escape(delimiter + best[1]))
    pieces = (piece for lines in files for line in lines for piece in beside.split(line))
    return best[1], any(piece != piece.strip(b" ") for piece in pieces)


def _split_lines(head: Head, delimiter: bytes, quoted: bool, escape: bytes) -> list[list[bytes]]:
    """Return the rows of a file, an empty one for each blank line."""
    if quoted:
        return list(_rows(head, delimiter, quoted, escape))
    return [(line.split(delimiter) if delimiter else [line]) if line.strip() else [] for line in head.lines[:_FIRST]]


def _rows(head: Head, delimiter: bytes, quoted: bool, escape: bytes) -> Iterator[list[bytes]]:
    """Yield the rows that are not blank."""
    lines = [line for line in head.lines[:_FIRST] if line.strip()]
    if not quoted:
        yield from (line.split(delimiter) for line in lines)
        return
    for row in _csv_rows(head, delimiter, escape):
        # A row that CSV rejects has no fields: its delimiters may be within quotes.
        yield [b""] if row is None else [plain(field, escape) for field in row]


def _escape_of(heads: Sequence[Head], delimiter: bytes) -> bytes:
    """Return a backslash if quotes, or backslashes, have one before them within quotes; else nothing."""
    heads = [head for head in heads if any(_SLASH in line for line in head.lines[:_FIRST])]
    if not heads:
        return b""
    doubled, escaped = _stray(heads, delimiter, b""), _stray(heads, delimiter, _SLASH)
    if doubled != escaped:
        return _SLASH if escaped < doubled else b""
    fields = [field for head in heads for row in _csv_rows(head, delimiter, b"") for field in row or ()]
    return _SLASH if has_doubled_backslashes(fields) else b""


def _stray(heads: Sequence[Head], delimiter: bytes, escape: bytes) -> int:
    """Return how many lines CSV rejects."""
    return sum(row is None for head in heads for row in _csv_rows(head, delimiter, escape))


def _csv_rows(head: Head, delimiter: bytes, escape: bytes) -> Iterator[list[bytes] | None]:
    """Yield the raw fields of each CSV row that is not blank; None for a line that CSV rejects."""
    text = b"\n".join(line for line in head.lines[:_FIRST] if line.strip())
    inner = rb'[^"\\]|""|\\[\s\S]' if escape else rb'[^"]|""'
    field = rb'(?:"(?:%b)*"|[^"\n%b]*)' % (inner, re.escape(delimiter))
    row = re.compile(field + rb"(?:%b%b)*(?=\n|\Z)" % (re.escape(delimiter), field))
    fields = re.compile(rb"(?:\A|%b)(%b)" % (re.escape(delimiter), field))
    at = 0
    while at < len(text):
        found = row.match(text, at)
        line_end = text.find(b"\n", at)
        end = found.end() if found else line_end if line_end >= 0 else len(text)
        yield fields.findall(text[at:end]) if found else None
        at = end + 1


def _has_wrapped(heads: Sequence[Head], delimiter: bytes, escape: bytes) -> bool:
    """Return whether quotes enclose a value, so that it begins and ends at a delimiter or at an end of its line."""
    return any(
        field.startswith(b'"') and b"\n" not in field
        for head in heads
        if any(b'"' in line for line in head.lines[:_FIRST])
        for row in _csv_rows(head, delimiter, escape)
        for field in row or ()
    )


def _score(heads: Sequence[Head], rows: Sequence[Sequence[Row]]) -> float:
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
    typed = sum(Facts([row[at] for row in body]).are_numbers_or_times for at in range(width))
    return with_delimiter / total * (alike / total) * (1 + typed)


def _modal_width(rows: Sequence[Row]) -> int:
    return Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
