"""Delimited text as blocks: lines and fields are found in the bytes that were read, and stay there.

For a delimiter of one byte. Every delimiter and line end of a chunk is found at once; a row with as many delimiters as
its layout wants has its fields between them, so a field is two columns of numbers and no byte is copied. What is not
plain (another number of fields, an order value that is none, an unknown op code) goes to the row reader of ``layout``,
which says why it is rejected: both engines reject the same rows for the same reasons.

>>> from mutator.delimiter import parse
>>> layout = RowLayout(delimiter=parse(","), id_fields=(0,), order_field=1, order_type="long", width=2)
>>> batch = next(TextFormat().read([b"a,1\\nb,x\\nc,3\\n"], Window("lf"), layout, False))
>>> batch.block.keys()[0].to_pylist(), [reason for _, _, reason, _ in batch.rejects]
([b'a', b'c'], ["field 1 (order value) is not an integer: 'x'"])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.formats.block import Batch, Hashes, NotReadable, Window
from mutator.formats.text import CR, LF, UTF8_BOM
from mutator.keyhash import hash_columns
from mutator.layout import RowLayout, Unreadable, compile_reader
from mutator.ordercolumn import flags, parse_column
from mutator.spans import PAD, Bytes, Flags, Ints, Spans, joined, offsets_of, packed

__all__ = ["CHUNK", "TextBlock", "TextFormat"]

CHUNK = 2 << 20  # bytes of a block, if its lines are not longer: columns of it stay in the processor's cache
_NEWLINE = 10


class TextFormat:
    """The block contract for delimited text."""

    def takes(self, layout: RowLayout) -> str | None:
        """Return why the rows of a layout cannot be read as blocks, None if they can."""
        literal = layout.delimiter.literal
        if literal is None:
            return f"field.delim.regex {layout.delimiter.text} is a pattern"
        return None if len(literal) == 1 else f"field.delim.regex {layout.delimiter.text} is longer than one byte"

    def read(self, content: Iterable[bytes], window: Window, layout: RowLayout, trusted: bool) -> Iterator[Batch]:
        """Read rows; raises NotReadable where a trusted file holds what is no row."""
        lines = 0
        for offset, chunk in _chunks(content, b"\r" if window.ending == CR else b"\n", window.start, window.end):
            batch = _batch(chunk, offset, lines, window, layout, trusted)
            lines += batch.lines
            yield batch

    def pack(self, rows: Any) -> bytes:
        """Write rows for the shuffle."""
        return bytes(joined(rows))

    def load(self, packed: Sequence[bytes], layout: RowLayout) -> TextBlock:
        """Read what was packed."""
        data = np.frombuffer(b"".join((*packed, PAD)), np.uint8)
        table = _Table.of(data, layout)
        block, odd = _block(data, table, np.arange(len(table)), table.starts, layout, trusted=True)
        if len(odd):
            raise NotReadable(f"{len(odd)} packed rows are no rows")
        return block

    def writer(self, stream: BinaryIO, chunk: int | None) -> TextWriter:
        """Write to a stream."""
        return TextWriter(stream, chunk)


class TextWriter:
    """Writes lines, which have their line ends already."""

    def __init__(self, stream: BinaryIO, chunk: int | None) -> None:
        self._stream, self._chunk, self._bytes = stream, chunk, 0
        self.rows = 0
        self.rows_by_chunk: list[int] = [0]

    def write(self, rows: Any) -> None:
        """Take the next rows."""
        offsets, data = offsets_of(rows)
        if not len(data):
            return
        self._stream.write(joined(rows))
        self.rows += int(np.count_nonzero(data == _NEWLINE))
        if self._chunk is not None:
            counts = np.bincount((offsets[:-1] + self._bytes) // self._chunk)
            self.rows_by_chunk += [0] * (len(counts) - len(self.rows_by_chunk))
            for number in np.flatnonzero(counts):
                self.rows_by_chunk[number] += int(counts[number])
        self._bytes += len(data)

    def close(self) -> None:
        """Write what is left: nothing."""


@dataclass
class TextBlock:
    """Rows of delimited text over the bytes they were read from."""

    data: Bytes
    lines: Spans  # with their line ends
    offsets: Ints
    layout: RowLayout
    ids: list[Spans]
    order: Spans | None
    op: Spans | None
    delete: Flags
    parsed: Any = None  # column of order values, once they are known

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def rows(self) -> Any:
        """The lines as they were read, each with a line feed."""
        starts, ends = self.lines.starts, self.lines.ends
        if len(starts) and np.array_equal(starts[1:], ends[:-1]):
            return packed(self.data[starts[0] : ends[-1]], ends - starts)
        return self.lines.take()

    def hashes(self) -> Hashes:
        """Return the key hash of each row."""
        return hash_columns(self.ids)

    def keys(self, rows: Ints | None = None) -> list[Any]:
        """Return a column of values for each ID field."""
        return [column.take(slice(None) if rows is None else rows) for column in self.ids]

    def orders(self, rows: Ints | None = None) -> Any:
        """Return the order values of some rows."""
        if self.parsed is not None:
            return self.parsed if rows is None else self.parsed.take(pa.array(rows))
        assert self.order is not None
        values, bad = parse_column(self.layout.order_type, self.order if rows is None else self.order.only(rows))
        if bad.any():
            raise NotReadable("a row has no order value")
        return values

    def deletes(self) -> Flags:
        """Tell which rows are deletes."""
        return self.delete

    def written(self) -> Any:
        """Return the lines without their op code, where it is to be cut."""
        if self.op is None or not self.layout.cut_op:
            return self.rows
        starts, ends, gone = self.lines.starts, self.lines.ends, _with_one_delimiter(self.op, self.lines)
        # Before the op code, the op code, behind it: every row is two pieces that stay.
        pieces = Spans(self.data, _zipped(starts, gone.ends), _zipped(gone.starts, ends)).take()
        return packed(joined(pieces), (ends - starts) - (gone.ends - gone.starts))


@dataclass(frozen=True)
class _Table:
    """Where the rows of a chunk and their delimiters stand."""

    marks: Ints  # of every delimiter and line end
    first: Ints  # number of the first mark of each row
    fields: Ints  # how many fields each row has
    starts: Ints
    ends: Ints  # of the rows' content: where the line end stands

    @classmethod
    def of(cls, data: Bytes, layout: RowLayout) -> _Table:
        body = data[: -len(PAD)]
        assert layout.delimiter.literal is not None
        newline = body == _NEWLINE
        marks = np.flatnonzero(newline | (body == layout.delimiter.literal[0]))
        width = layout.width
        count = int(np.count_nonzero(newline))
        if width is not None and len(marks) == count * width and newline[marks[width - 1 :: width]].all():
            last = np.arange(width - 1, len(marks), width)  # as nearly every chunk is: no row is ragged
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

    def field(self, data: Bytes, rows: Any, ordinal: int | Ints) -> Spans:
        """Return a field of some rows; the ordinal is one for all, or one a row."""
        at = self.first[rows] + ordinal
        if isinstance(ordinal, int):
            starts = self.starts[rows] if ordinal == 0 else self.marks[at - 1] + 1
        else:
            starts = np.where(ordinal == 0, self.starts[rows], self.marks[at - 1] + 1)
        return Spans(data, starts, self.marks[at])


def _batch(chunk: bytes, offset: int, before: int, window: Window, layout: RowLayout, trusted: bool) -> Batch:
    """Read a chunk of whole lines; before: number of lines of the split before it."""
    terminated = chunk.endswith(b"\r" if window.ending == CR else b"\n")
    if window.ending == CR:
        chunk = chunk.replace(b"\r", b"\n")
    data = np.frombuffer(b"".join((chunk, b"" if terminated else b"\n", PAD)), np.uint8)
    table = _Table.of(data, layout)
    count, ignored = len(table), 0
    offsets, numbers = table.starts + offset, np.arange(count)
    if not trusted:
        cleaned = _clean(data, table, offset, terminated, window)
        if cleaned is not None:
            data, offsets, numbers = cleaned
            table = _Table.of(data, layout)
            ignored = count - len(table)
    block, odd = _block(data, table, offsets, numbers, layout, trusted)
    if len(odd) and trusted:
        raise NotReadable(f"byte {offsets[odd[0]]}: not a row of {layout.width} fields")
    read, rejects = compile_reader(layout), []
    for row in odd:
        content = data[table.starts[row] : table.ends[row]].tobytes()
        try:
            read(content)
        except Unreadable as reason:
            rejects.append((int(offsets[row]), before + int(numbers[row]) + 1, str(reason), content))
            continue
        raise AssertionError(f"the row reader takes what the column code refuses: {content!r}")
    return Batch(block, tuple(rejects), count, ignored)


def _clean(
    data: Bytes, table: _Table, offset: int, terminated: bool, window: Window
) -> tuple[Bytes, Ints, Ints] | None:
    """Take out what is no part of a row: a mark at the beginning, headers, blank lines, CRs of line ends.

    Returns the bytes of rows with line feeds, their offsets in the file and line numbers; None if they are so already.
    """
    starts, ends = table.starts.copy(), table.ends.copy()
    if window.ending == LF:
        crlf = (ends > starts) & (data[ends - 1] == 13)
        if len(crlf) and not terminated:
            crlf[-1] = False  # there is no line end: the CR is the row's own
        ends -= crlf
    header = starts + offset < window.header_end
    if offset == 0 and window.bom and len(starts):
        starts[0] += len(UTF8_BOM)
    keep = (ends > starts) & ~header
    if keep.all() and starts[0] == 0 and np.array_equal(ends, table.ends):
        return None
    data = data.copy()
    data[ends[keep]] = _NEWLINE
    lines = Spans(data, starts[keep], ends[keep] + 1).take()
    return np.frombuffer(bytes(joined(lines)) + PAD, np.uint8), starts[keep] + offset, np.flatnonzero(keep)


def _block(
    data: Bytes, table: _Table, offsets: Ints, numbers: Ints, layout: RowLayout, trusted: bool
) -> tuple[TextBlock, Ints]:
    """Return the plain rows, and the numbers of the others."""
    rows, short = _plain(table, layout)
    ids = []
    for place, ordinal in enumerate(layout.id_fields):
        column = table.field(data, rows, ordinal if short is None else np.where(short, place, ordinal))
        ids.append(column)
    order = None if layout.order_field is None else table.field(data, rows, layout.order_field)
    op = None if layout.op_field is None else table.field(data, rows, layout.op_field)
    count = len(table) if isinstance(rows, slice) else len(rows)
    lines = Spans(data, table.starts[rows], table.ends[rows] + 1)
    delete = np.full(count, layout.deletes)
    block = TextBlock(data, lines, offsets[rows], layout, ids, order, op, delete)
    good = np.ones(count, np.bool_)
    if op is not None:
        block.delete, good = _operations(op, lines, layout)
    if trusted:
        good[:] = True
    elif order is not None:
        block.parsed, bad = parse_column(layout.order_type, order)
        good &= ~bad
    plain = np.zeros(len(table), np.bool_)
    plain[rows] = good
    if not good.all():
        block = _only(block, np.flatnonzero(good))
    return block, np.flatnonzero(~plain)


def _plain(table: _Table, layout: RowLayout) -> tuple[Any, Flags | None]:
    """Return which rows have the fields of the layout, and which of these have just the ID fields."""
    fields = table.fields
    wanted = (layout.order_field, layout.op_field, *layout.id_fields)
    needed = 1 + max(ordinal for ordinal in wanted if ordinal is not None)
    plain = fields == layout.width if layout.width is not None else fields >= needed
    if not (layout.keys_only and layout.deletes):
        return (slice(None) if plain.all() else np.flatnonzero(plain)), None
    short = fields == len(layout.id_fields)
    rows = np.flatnonzero(plain | short)
    return rows, short[rows]


def _operations(op: Spans, lines: Spans, layout: RowLayout) -> tuple[Flags, Flags]:
    """Return which rows are deletes, and which have an op code that their side may have."""
    codes = op.take()

    def are(known: Iterable[bytes]) -> Flags:
        return flags(pc.is_in(codes, value_set=pa.array(sorted(known), pa.large_binary())))

    delete = are(layout.delete_codes)
    good = np.ones(len(codes), np.bool_) if layout.deletes_allowed else ~delete
    if layout.upsert_codes is not None:
        good &= delete | are(layout.upsert_codes)
    if layout.cut_op:
        gone = _with_one_delimiter(op, lines)
        good &= (lines.ends - lines.starts) - (gone.ends - gone.starts) > 1
    return delete, good


def _with_one_delimiter(field: Spans, lines: Spans) -> Spans:
    """Widen fields by the delimiter behind them, or before them where they are the last of their rows."""
    last = field.ends == lines.ends - 1
    alone = last & (field.starts == lines.starts)
    return Spans(field.data, field.starts - (last & ~alone), field.ends + ~last)


def _only(block: TextBlock, rows: Ints) -> TextBlock:
    return TextBlock(
        block.data,
        block.lines.only(rows),
        block.offsets[rows],
        block.layout,
        [column.only(rows) for column in block.ids],
        None if block.order is None else block.order.only(rows),
        None if block.op is None else block.op.only(rows),
        block.delete[rows],
        None if block.parsed is None else block.parsed.take(pa.array(rows)),
    )


def _zipped(one: Ints, other: Ints) -> Ints:
    both = np.empty(2 * len(one), np.int64)
    both[0::2], both[1::2] = one, other
    return both


def _chunks(content: Iterable[bytes], mark: bytes, start: int, end: int | None) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, whole lines) for the lines that begin in [start, end); the last may have no line end."""
    offset, skipping = max(start - 1, 0), start > 0
    parts: list[bytes] = []
    size = 0
    for block in content:
        if skipping:
            cut = block.find(mark)
            offset += len(block) if cut < 0 else cut + 1
            if end is not None and offset >= end:
                return
            if cut < 0:
                continue
            skipping, block = False, block[cut + 1 :]
        before = offset + size
        parts.append(block)
        size += len(block)
        if end is not None and before + len(block) >= end:
            # The last line that begins before the end has the first line end that is not before its last byte.
            cut = block.find(mark, max(end - 1 - before, 0))
            if cut >= 0:
                yield offset, b"".join((*parts[:-1], block[: cut + 1]))
                return
        elif size >= CHUNK:
            cut = block.rfind(mark)
            if cut >= 0:
                yield offset, b"".join((*parts[:-1], block[: cut + 1]))
                parts = [block[cut + 1 :]]
                offset, size = before + cut + 1, len(parts[0])
    if size:
        yield offset, b"".join(parts)
