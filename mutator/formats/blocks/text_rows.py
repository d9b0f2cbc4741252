"""Blocks of delimited text, whose fields are ranges of the bytes that were read.

The delimiter must be one byte. Every delimiter and line end of a chunk is found at once; where a row has as many
delimiters as its layout wants, a field is two columns of numbers, and no byte is copied. Other rows (a wrong number of
fields, an unreadable order value, an unknown op code) go to the row reader of ``row_layout`` for the reason of their
rejection, so both engines reject the same rows for the same reasons.

>>> from mutator.rules.delimiter.field_delimiter import parse
>>> layout = RowLayout(delimiter=parse(","), id_fields=(0,), order_fields=(1,), order_type="long", width=2)
>>> block = TextBlockType().load(b"a,1\\nc,3\\n", layout)
>>> block.keys()[0].to_pylist(), block.orders().to_pylist()
([b'a', b'c'], [1, 3])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.parts import setting
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.block_type import Batch, Hashes, Item, KeptAsBytes, Record
from mutator.formats.blocks.changed_rows import ChangeForm, ChangeWriter
from mutator.formats.blocks.row_fields import TextFields, text_mask, text_masks
from mutator.formats.blocks.row_layout import NoRecord, RowLayout, Unreadable, compile_reader
from mutator.formats.content import Content, NotReadable, Reject, Window, undecodable
from mutator.formats.files import lines as text
from mutator.formats.files.line_scan import NEWLINE, Lines, LineTable, ends_of_fields, padded, scan, with_one_delimiter
from mutator.formats.files.lines import CHUNK, chunks
from mutator.rules.byte_columns import PAD, ByteColumn, Bytes, Flags, Ints, joined, offsets_of, packed
from mutator.rules.encodings import UTF8, has_lost
from mutator.rules.envelope import DELETE, IGNORED, REJECTED, TRUNCATE, UPSERTS, Operations
from mutator.rules.first_values import FirstValues
from mutator.rules.key_hash import hash_columns
from mutator.rules.partition_transforms import RowPartitions, partition_rows

_TRUSTED = 4 << 20  # bytes of a block in which only the ends of lines are looked for


class TextBlockType(KeptAsBytes):
    """The block contract for delimited text."""

    run_together = True
    after_packed = PAD
    changes_suffix = ".changes"

    def suffix(self, output: None) -> str:
        """Return the suffix of plain text files."""
        return ".txt"

    def unsupported(self, layout: RowLayout) -> str | None:
        """Return why the rows of a layout cannot be read as blocks, None if they can."""
        literal = layout.delimiter.literal
        if literal is None:
            return f"{setting('field.delim.regex')} {layout.delimiter.text} is a pattern"
        if len(literal) == 1:
            return None
        return f"{setting('field.delim.regex')} {layout.delimiter.text} is longer than one byte"

    def read(self, content: Content, layout: RowLayout, trusted: bool) -> Iterator[Batch]:
        """Read rows; raises NotReadable for a bad row in a trusted file."""
        window, lines = content.window, 0
        size = _TRUSTED if trusted and _is_simple(layout) else CHUNK
        for offset, chunk in chunks(content.blocks(), window, lambda: size, tail=PAD):
            batch = _batch(chunk, offset, lines, window, layout, trusted)
            lines += batch.lines
            yield batch

    def records(self, content: Content, layout: RowLayout) -> Iterator[Item]:
        """Read rows one by one; None for headers and blank lines."""
        read = compile_reader(layout)
        for line, offset, row in text.numbered_rows(content):
            if row is None:
                yield None
                continue
            if content.window.encoding != UTF8 and has_lost(row):
                yield Reject(offset, line, undecodable(row, content.window.encoding), row)
                continue
            try:
                _, _, is_delete, _, written = found = read(row)
                unset = None if layout.unset is None or is_delete else text_mask(layout, written)
                yield Record(offset, *found, row, unset)
            except NoRecord as other:
                yield other.args[0]
            except Unreadable as reason:
                yield Reject(offset, line, str(reason), row)

    def contents(self, rows: Any) -> Any:
        """Return the lines without their line ends, which are not part of a row."""
        return pc.binary_slice(rows, 0, -1)

    def from_contents(self, contents: Sequence[bytes], layout: RowLayout) -> Any:
        """Return lines."""
        return pa.array([row + b"\n" for row in contents], pa.large_binary())

    def shown(self, rows: Any, written: Any, spec: Mapping[str, Any]) -> list[bytes]:
        """Return lines as they were read."""
        found: list[bytes] = self.contents(rows).to_pylist()
        return found

    def fields(self, layout: RowLayout, null: bytes, types: Mapping[int, Any] | None = None) -> TextFields:
        """Return how lines are taken apart."""
        return TextFields(layout, null, types or {})

    def partitions(self, rows: Any, layout: RowLayout) -> RowPartitions:
        """Return the partition of each written row; rows of another width than the layout's have none."""
        assert layout.delimiter.literal is not None
        data = np.frombuffer(bytes(joined(rows)) + PAD, np.uint8)
        table = LineTable.of(data, layout.delimiter.literal[0], layout.width)
        chosen = _plain(table, layout)
        columns = [table.field(data, chosen, source).take() for source in layout.partition_sources]
        placed = partition_rows(layout.partition, columns)
        codes = np.full(len(table), -1, np.int64)
        codes[chosen] = placed.codes
        return RowPartitions(codes, placed.names, {})

    def inside(self, rows: Any, layout: RowLayout) -> Flags:
        """Return which written rows are in the layout's scope; rows of another width than the layout's are not."""
        assert layout.scope is not None
        if self.unsupported(layout) is not None:
            split, least = layout.delimiter.split, layout.needed_width
            items = map(split, self.contents(rows).to_pylist())
            return np.array([len(one) >= least and layout.is_inside(one) for one in items], np.bool_)
        assert layout.delimiter.literal is not None
        data = np.frombuffer(bytes(joined(rows)) + PAD, np.uint8)
        table = LineTable.of(data, layout.delimiter.literal[0], layout.width)
        chosen = _plain(table, layout)
        found = np.zeros(len(table), np.bool_)
        found[chosen] = layout.scope.inside([table.field(data, chosen, one).take() for one in layout.scope.ordinals])
        return found

    def pack(self, rows: Any) -> bytes:
        """Serialize rows for the shuffle."""
        return bytes(joined(rows))

    def load(self, packed: bytes, layout: RowLayout) -> TextBlock:
        """Return the block of packed rows."""
        data = np.frombuffer(packed if packed.endswith(PAD) else packed + PAD, np.uint8)
        return _known_block(data, 0, layout) if _is_simple(layout) else _checked_block(data, 0, layout)

    def writer(self, stream: BinaryIO, output: None, chunk: int | None) -> TextWriter:
        """Return a writer to a stream."""
        return TextWriter(stream, chunk)

    def changes_writer(self, stream: BinaryIO, output: None, layout: RowLayout, form: ChangeForm) -> ChangeWriter:
        """Return a writer of changed rows, which have columns of text."""
        from mutator.formats.blocks.changed_text import text_changes  # loads Parquet, which few runs need

        return text_changes(stream, layout.delimiter.literal, form)


class TextWriter:
    """Write lines, each of which ends with a line feed, and count them by checksum chunk."""

    def __init__(self, stream: BinaryIO, chunk: int | None) -> None:
        self._stream, self._chunk, self._bytes = stream, chunk, 0
        self.rows = 0
        self.rows_by_chunk: list[int] = [0]

    def write(self, rows: Any) -> None:
        """Write the next rows."""
        offsets, data = offsets_of(rows)
        if not len(data):
            return
        self._stream.write(joined(rows))
        self.rows += int(np.count_nonzero(data == NEWLINE))
        if self._chunk is not None:
            counts = np.bincount((offsets[:-1] + self._bytes) // self._chunk)
            self.rows_by_chunk += [0] * (len(counts) - len(self.rows_by_chunk))
            for number in np.flatnonzero(counts):
                self.rows_by_chunk[number] += int(counts[number])
        self._bytes += len(data)

    def close(self) -> None:
        """Do nothing: all rows are written."""


@dataclass
class TextBlock:
    """Rows of delimited text, as ranges of the bytes that they were read from."""

    data: Bytes
    lines: ByteColumn  # with their line ends
    offsets: Ints
    layout: RowLayout
    ids: list[ByteColumn] | None  # None: only the line ends are known yet
    order: Sequence[ByteColumn]  # of each field
    op: ByteColumn | None
    delete: Flags
    parsed: Any = None  # pa.Array of order values, once they are known
    partitions: RowPartitions | None = None

    def __len__(self) -> int:
        return len(self.lines)

    @cached_property
    def rows(self) -> Any:
        """The lines as they were read, each with a line feed."""
        starts, ends = self.lines.starts, self.lines.ends
        if len(starts) and np.array_equal(starts[1:], ends[:-1]):
            return packed(self.data[starts[0] : ends[-1]], ends - starts)
        return self.lines.take()

    def hashes(self, rows: Ints | None = None) -> Hashes:
        """Return the key hashes of some rows."""
        return hash_columns(self._ids(rows))

    def keys(self, rows: Ints | None = None) -> list[Any]:
        """Return a column of values for each ID field."""
        return [column.take() for column in self._ids(rows)]

    def likely(self, firsts: FirstValues) -> Ints | None:
        """Return the numbers of the rows that may have one of the first values; None if hashing all is as fast."""
        if self.ids is not None:
            return firsts.of_column(self.ids[0])
        assert self.layout.delimiter.literal is not None
        return firsts.of_lines(self.data, self.lines.starts, self.layout.delimiter.literal + b"\n")

    def _ids(self, rows: Ints | None) -> list[ByteColumn]:
        if self.ids is not None:
            return self.ids if rows is None else [column.only(rows) for column in self.ids]
        return _leading_ids(self.lines if rows is None else self.lines.only(rows), self.layout)

    def orders(self, rows: Ints | None = None) -> Any:
        """Return the order values of some rows."""
        if self.parsed is not None:
            return self.parsed if rows is None else self.parsed.take(pa.array(rows))
        if self.ids is None:  # few rows are asked for: find all their fields now
            lines = self.lines.take(slice(None) if rows is None else rows)
            data = np.frombuffer(bytes(joined(lines)) + PAD, np.uint8)
            return _checked_block(data, 0, self.layout).orders()
        values, bad = self.layout.orders_of([one if rows is None else one.only(rows) for one in self.order])
        if bad.any():
            raise NotReadable("a row has no order value")
        return values

    def deletes(self) -> Flags:
        """Return which rows are deletes."""
        return self.delete

    def written(self) -> Any:
        """Return the lines, without their op code where the layout cuts it."""
        if self.op is None or not self.layout.cut_op:
            return self.rows
        starts, ends, gone = self.lines.starts, self.lines.ends, with_one_delimiter(self.op, self.lines)
        # Each row keeps two pieces: before and after the op code.
        pieces = ByteColumn(self.data, _zipped(starts, gone.ends), _zipped(gone.starts, ends)).take()
        return packed(joined(pieces), (ends - starts) - (gone.ends - gone.starts))

    def unset(self) -> Any:
        """Return the masks of the fields that rows leave unset."""
        return text_masks(self.layout, self.written(), self.delete)


def _batch(chunk: bytes, offset: int, before: int, window: Window, layout: RowLayout, trusted: bool) -> Batch:
    """Read whole lines, with ``PAD`` after them. before: number of lines of the split before them."""
    if trusted:
        data, _ = padded(chunk, window, has_pad=True)
        block = _known_block(data, offset, layout) if _is_simple(layout) else _checked_block(data, offset, layout)
        return Batch(block, (), len(block), 0)
    assert layout.delimiter.literal is not None
    lines = scan(chunk, offset, window, layout.delimiter.literal[0], layout.width, has_pad=True)
    block, odd, said, truncates = _block(lines.data, lines.table, lines.offsets, layout, trusted=False)
    rejects = tuple(lines.rejects(before, _rejects(lines, odd, before, layout)))
    ignored = lines.count - len(block) - len(rejects) - (0 if truncates is None else len(truncates))
    return Batch(block, rejects, lines.count, ignored, said, truncates)


def _rejects(lines: Lines, odd: Ints, before: int, layout: RowLayout) -> Iterator[Reject]:
    """Yield the reject of each odd row, with the reason of the row reader."""
    read = compile_reader(layout)
    for row in odd:
        content = lines.data[lines.table.starts[row] : lines.table.ends[row]].tobytes()
        try:
            read(content)
        except Unreadable as reason:
            yield lines.reject(row, before, str(reason))
            continue
        raise AssertionError(f"the row reader accepts a row that the column code refuses: {content!r}")


def _is_simple(layout: RowLayout) -> bool:
    """Return whether rows begin with the ID, so that it can be read without finding other fields."""
    return layout.id_fields == tuple(range(len(layout.id_fields))) and layout.envelope == UPSERTS


def _known_block(data: Bytes, offset: int, layout: RowLayout) -> TextBlock:
    """Find the line ends of rows that were checked before; fields are found when they are needed."""
    ends = np.flatnonzero(data[: -len(PAD)] == NEWLINE)
    starts = np.zeros(len(ends), np.int64)
    starts[1:] = ends[:-1] + 1
    lines = ByteColumn(data, starts, ends + 1)
    return TextBlock(data, lines, starts + offset, layout, None, (), None, np.zeros(len(ends), np.bool_))


def _leading_ids(lines: ByteColumn, layout: RowLayout) -> list[ByteColumn]:
    """Find the ID at the beginning of lines."""
    assert layout.delimiter.literal is not None
    ids, at, ends = [], lines.starts, lines.ends - 1
    for number in range(len(layout.id_fields)):
        found = ends_of_fields(lines.data, at, layout.delimiter.literal[0])
        if number + 1 == len(layout.id_fields) and layout.width in (None, number + 1):
            found = np.minimum(found, ends)  # only the line end must follow
        if (found > ends).any():
            raise NotReadable(f"a row without an ID: {lines.only([np.argmax(found > ends)]).take()[0]}")
        ids.append(ByteColumn(lines.data, at, found))
        at = np.minimum(found + 1, ends)
    return ids


def _checked_block(data: Bytes, offset: int, layout: RowLayout) -> TextBlock:
    """Find all fields of rows that were checked before."""
    assert layout.delimiter.literal is not None
    table = LineTable.of(data, layout.delimiter.literal[0], layout.width)
    offsets = table.starts + offset
    block, odd, _, _ = _block(data, table, offsets, layout, trusted=True)
    if len(odd):
        raise NotReadable(f"byte {offsets[odd[0]]}: not a row of {layout.width} fields")
    return block


def _block(
    data: Bytes, table: LineTable, offsets: Ints, layout: RowLayout, trusted: bool
) -> tuple[TextBlock, Ints, Operations, Any]:
    """Return the block of plain rows, the numbers of bad rows, and the last members of ``Batch``."""
    rows = _plain(table, layout)
    lines = ByteColumn(data, table.starts[rows], table.ends[rows] + 1)
    order = [table.field(data, rows, field) for field in layout.order_fields]
    envelope, op = layout.envelope, None
    if envelope.field is None:
        said = envelope.of_file(len(lines))
    else:
        op = table.field(data, rows, envelope.field)
        said = envelope.of_column(op)
    delete, truncate, ignored, good = (said.are(kind) for kind in (DELETE, TRUNCATE, IGNORED, REJECTED))
    np.logical_not(good, out=good)
    if op is not None and layout.cut_op:
        gone = with_one_delimiter(op, lines)
        good &= (lines.ends - lines.starts) - (gone.ends - gone.starts) > 1
    ordered, parsed = np.ones(len(lines), np.bool_), None
    partitions: RowPartitions | None = None
    if trusted:
        good[:] = True
    else:
        if order:
            parsed, bad = layout.orders_of(order)
            ordered = ~bad
        good &= ordered
        if layout.lacks_partition:
            good[:] = False
        good &= layout.are_sent(lambda field: table.field(data, rows, field).take(), delete)
        good &= layout.have_values(lambda field: table.field(data, rows, field).take(), delete)
        if layout.partition:
            columns = [table.field(data, rows, source).take() for source in layout.partition_sources]
            partitions = partition_rows(layout.partition, columns)
            good &= (partitions.codes >= 0) | (delete & (not layout.placed))
        if layout.scope is not None:
            good &= layout.scope.inside([table.field(data, rows, one).take() for one in layout.scope.ordinals])
    truncates = None
    if truncate.any():
        truncate &= ordered
        truncates = pa.nulls(int(truncate.sum())) if parsed is None else parsed.filter(pa.array(truncate))
    others = ignored | truncate
    plain, bad = np.zeros(len(table), np.bool_), np.ones(len(table), np.bool_)
    bad[rows] = ~(good | others)
    said = said.only(good | others)
    good &= ~others
    plain[rows] = good
    if not good.all():
        keep = np.flatnonzero(good)
        rows = np.flatnonzero(plain)
        lines, delete = lines.only(keep), delete[keep]
        order, op = [column.only(keep) for column in order], None if op is None else op.only(keep)
        parsed = None if parsed is None else parsed.take(pa.array(keep))
        partitions = None if partitions is None else partitions.only(keep)
    ids = [table.field(data, rows, ordinal) for ordinal in layout.id_fields]
    block = TextBlock(data, lines, offsets[rows], layout, ids, order, op, delete, parsed, partitions)
    return block, np.flatnonzero(bad), said, truncates


def _plain(table: LineTable, layout: RowLayout) -> Any:
    """Return which rows have the layout's width, as an index."""
    plain = table.fields == layout.width if layout.width is not None else table.fields >= layout.needed_width
    return slice(None) if plain.all() else np.flatnonzero(plain)


def _zipped(one: Ints, other: Ints) -> Ints:
    both = np.empty(2 * len(one), np.int64)
    both[0::2], both[1::2] = one, other
    return both
