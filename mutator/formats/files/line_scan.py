"""Find the lines and fields of delimited text, as arrays of byte offsets for many rows at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from mutator.errors.quick_dataclass import dataclass
from mutator.formats.content import Reject, Window, undecodable
from mutator.formats.files.lines import AROUND_NAMES, CR, LF, UTF8_BOM, header_words, repeats_header
from mutator.rules.byte_columns import PAD, ByteColumn, Bytes, Flags, Ints, joined, words_of, zero_bytes
from mutator.rules.encodings import UTF8, has_lost

NEWLINE = 10
_PROBED, _FEW = 16, 64  # bytes of a row that are looked at first; rows that are compared with a header one by one


def _letters() -> Any:
    """Return a number for each byte, so that two texts with the same letters, in any order and case, have one sum."""
    numbers = np.frombuffer(hashlib.shake_128(b"letters").digest(256 * 8), np.uint64).copy()
    numbers[65:91] = numbers[97:123]
    numbers[np.frombuffer(AROUND_NAMES + UTF8_BOM, np.uint8)] = 0
    return numbers


_LETTERS = _letters()


@dataclass(frozen=True)
class LineTable:
    """The offsets in a chunk of its rows and their delimiters, as int64 arrays."""

    marks: Ints  # offset of every delimiter and line end
    first: Ints  # for each row, the index of its first mark
    fields: Ints  # for each row, its number of fields
    starts: Ints  # for each row, the offset of its first byte
    ends: Ints  # for each row, the offset of its line end

    @classmethod
    def of(cls, data: Bytes, delimiter: int, width: int | None, quoted: Flags | None = None) -> LineTable:
        """Find every line end and delimiter of whole lines.

        data: uint8 array, the lines and ``PAD``. width: the number of fields of most rows. quoted: which bytes are
        within quotes, where delimiters and line ends do not count.
        """
        body = data[: -len(PAD)]
        newline = body == NEWLINE
        if quoted is not None:
            newline &= ~quoted
        mark = newline | (body == delimiter if quoted is None else (body == delimiter) & ~quoted)
        marks = np.flatnonzero(mark)
        count = int(np.count_nonzero(newline))
        if width and len(marks) == count * width and newline[marks[width - 1 :: width]].all():
            last = np.arange(width - 1, len(marks), width)  # true of nearly every chunk: all rows have this width
        else:
            last = np.flatnonzero(newline[marks])
        ends = marks[last]
        first = np.zeros(len(last), np.int64)
        first[1:] = last[:-1] + 1
        starts = np.zeros(len(last), np.int64)
        starts[1:] = ends[:-1] + 1
        return cls(marks, first, last - first + 1, starts, ends)

    def __len__(self) -> int:
        return len(self.starts)

    def field(self, data: Bytes, rows: Any, ordinal: int) -> ByteColumn:
        """Return a field of some rows."""
        at = self.first[rows] + ordinal
        starts = self.starts[rows] if ordinal == 0 else self.marks[at - 1] + 1
        return ByteColumn(data, starts, self.marks[at])


def ends_of_fields(data: Bytes, starts: Ints, delimiter: int) -> Ints:
    """Return the offset of the first delimiter at or after each start; the length of the data where none follows.

    Compares eight bytes at a time.
    """
    words = words_of(data)
    same = np.uint64(delimiter * 0x0101010101010101)
    last = len(words) - 1
    found = np.full(len(starts), len(data), np.int64)
    rows: Any = slice(None)
    at = starts
    while len(at):
        zero = zero_bytes(words[at] ^ same)
        hit = zero != 0
        some = bool(hit.any())
        if some:
            lowest = np.bitwise_count((zero & (~zero + np.uint64(1))) - np.uint64(1)).astype(np.int64) >> 3
            found[rows] = np.where(hit, at + lowest, len(data))
            if hit.all():
                break
        left = ~hit & (at < last)
        if not left.all():
            rows = np.flatnonzero(left) if isinstance(rows, slice) else rows[left]
            at = at[left]
        at = np.minimum(at + 8, last)
    return found


@dataclass(frozen=True)
class Lines:
    """The rows of a chunk: bytes with line feeds, and where they come from. Arrays have one element per row."""

    data: Bytes  # with ``PAD`` after them
    table: LineTable
    offsets: Ints  # in the file
    numbers: Ints  # of the lines in the chunk, from 0
    count: int  # of lines, blank ones and headers included
    unreadable: tuple[Reject, ...] = ()  # rows with bytes that are not of the file's encoding; the others have none

    def reject(self, row: int, before: int, reason: str) -> Reject:
        """Return the reject of a row. before: number of lines of the split before the chunk."""
        content = self.data[self.table.starts[row] : self.table.ends[row]].tobytes()
        return Reject(int(self.offsets[row]), before + int(self.numbers[row]) + 1, reason, content)

    def rejects(self, before: int, others: Iterable[Reject]) -> list[Reject]:
        """Return the rows that are not of the file's encoding, and the other rejects, by offset. before: see above."""
        own = (reject._replace(line=before + reject.line) for reject in self.unreadable)
        return sorted((*own, *others))


def scan(
    chunk: bytes,
    offset: int,
    window: Window,
    delimiter: int,
    width: int | None,
    quoted: Callable[[Bytes], Flags | None] = lambda data: None,
    *,
    has_pad: bool = False,
) -> Lines:
    """Find the rows of whole lines, without byte order mark, headers, blank lines and the CRs of line ends.

    offset: of the chunk in the file. width: the number of fields of most rows. quoted: returns which bytes of padded
    data are within quotes. has_pad: as for ``padded``.
    """
    data, terminated = padded(chunk, window, has_pad=has_pad)
    table = LineTable.of(data, delimiter, width, quoted(data))
    count = len(table)
    cleaned = _clean(data, table, offset, terminated, window)
    if cleaned is None:
        lines = Lines(data, table, table.starts + offset, np.arange(count), count)
    else:
        data, offsets, numbers = cleaned
        lines = Lines(data, LineTable.of(data, delimiter, width, quoted(data)), offsets, numbers, count)
    if window.encoding == UTF8 or not has_lost(chunk):
        return lines
    good, rejects = _decoded(lines, window.encoding)
    data = np.frombuffer(bytes(joined(good.take())) + PAD, np.uint8)
    keep = np.searchsorted(lines.table.starts, good.starts)
    table = LineTable.of(data, delimiter, width, quoted(data))
    return Lines(data, table, lines.offsets[keep], lines.numbers[keep], count, rejects)


def _decoded(lines: Lines, encoding: str) -> tuple[ByteColumn, tuple[Reject, ...]]:
    """Return the lines whose bytes are of an encoding, and the rejects of the others."""
    data, table = lines.data, lines.table
    rows = [data[start:end].tobytes() for start, end in zip(table.starts, table.ends, strict=True)]
    bad = np.array([has_lost(row) for row in rows], np.bool_)
    rejects = (lines.reject(row, 0, undecodable(rows[row], encoding)) for row in np.flatnonzero(bad).tolist())
    return ByteColumn(data, table.starts[~bad], table.ends[~bad] + 1), tuple(rejects)


def padded(chunk: bytes, window: Window, *, has_pad: bool = False) -> tuple[Bytes, bool]:
    """Return whole lines as a uint8 array with line feeds and ``PAD``, and whether the last had a line end.

    has_pad: ``PAD`` follows the lines, which are not copied again if nothing is missing.
    """
    mark, pad = b"\r" if window.ending == CR else b"\n", PAD if has_pad else b""
    terminated = chunk.endswith(mark + pad)
    if has_pad and terminated and window.ending != CR:
        return np.frombuffer(chunk, np.uint8), True
    chunk = chunk[: len(chunk) - len(pad)]
    if window.ending == CR:
        chunk = chunk.replace(b"\r", b"\n")
    return np.frombuffer(b"".join((chunk, b"" if terminated else b"\n", PAD)), np.uint8), terminated


def _repeated_headers(data: Bytes, starts: Ints, ends: Ints, offset: int, line: bytes) -> list[int]:
    """Return the numbers of the lines that are the header once more. Raises OtherHeader.

    offset: of the data in the file.
    """
    plain, words = header_words(line)
    least, most = (len(plain), len(line) + 4 * len(words)) if words else (len(line), len(line))
    rows = np.flatnonzero((ends - starts >= least) & (ends - starts <= most + len(UTF8_BOM)))
    used = np.zeros(256, np.bool_)  # nearly every other row has a byte that the header has not, in either case
    used[np.frombuffer(line.lower() + line.upper() + UTF8_BOM + AROUND_NAMES, np.uint8)] = True
    for at in range(min(least, _PROBED)):
        if not len(rows):
            return []
        rows = rows[used[data[starts[rows] + at]]]
    if len(rows) > _FEW:  # equal sums: the same letters, as often
        sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(_LETTERS[data], dtype=np.uint64)))
        own = _LETTERS[np.frombuffer(line, np.uint8)].sum(dtype=np.uint64)
        rows = rows[sums[ends[rows]] - sums[starts[rows]] == own]
    lines = ((row, int(starts[row]), int(ends[row])) for row in rows.tolist())
    return [row for row, start, end in lines if repeats_header(data[start:end].tobytes(), line, offset + start)]


def _clean(
    data: Bytes, table: LineTable, offset: int, terminated: bool, window: Window
) -> tuple[Bytes, Ints, Ints] | None:
    """Return the bytes of the rows, their offsets in the file and line numbers; None if nothing is to be removed."""
    starts, ends = table.starts.copy(), table.ends.copy()
    if window.ending == LF:
        crlf = (ends > starts) & (data[ends - 1] == 13)
        if len(crlf) and not terminated:
            crlf[-1] = False  # without a line end, the CR belongs to the row
        ends -= crlf
    header = starts + offset < window.header_end
    if offset == 0 and window.bom and len(starts):
        starts[0] += len(UTF8_BOM)
    if window.header:
        rows = np.flatnonzero(~header)
        header[rows[_repeated_headers(data, starts[rows], ends[rows], offset, window.header)]] = True
    keep = (ends > starts) & ~header
    if keep.all() and starts[0] == 0 and np.array_equal(ends, table.ends):
        return None
    data = data.copy()
    data[ends[keep]] = NEWLINE
    lines = ByteColumn(data, starts[keep], ends[keep] + 1).take()
    return np.frombuffer(bytes(joined(lines)) + PAD, np.uint8), starts[keep] + offset, np.flatnonzero(keep)


def with_one_delimiter(field: ByteColumn, lines: ByteColumn) -> ByteColumn:
    """Extend fields by the delimiter after them; the last field of a row, by the one before it."""
    last = field.ends == lines.ends - 1
    alone = last & (field.starts == lines.starts)
    return ByteColumn(field.data, field.starts - (last & ~alone), field.ends + ~last)
