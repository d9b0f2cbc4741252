"""A second block type, for tests only: the block contract must support formats that are not text.

A file consists of frames, each the length of an Arrow IPC stream and the stream. Rows are structs; their fields have
types, may be nested, and may be null. The file has no lines, so it is always read whole.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from mutator.formats.blocks.block_type import Batch, Hashes, Record
from mutator.formats.blocks.row_layout import RowLayout
from mutator.formats.content import Content, NotReadable, Reject
from mutator.rules.byte_columns import ByteColumn, Flags, Ints
from mutator.rules.envelope import DELETE
from mutator.rules.first_values import FirstValues
from mutator.rules.key_hash import hash_columns
from mutator.rules.order_columns import flags, to_column, to_value
from mutator.rules.typed_values import from_row_bytes, row_bytes

HEAD = 8
PAYLOAD = pa.struct([("price", pa.float64()), ("tags", pa.list_(pa.string())), ("deep", pa.struct([("x", pa.int8())]))])


def fields(order: Any, has_op: bool) -> list[Any]:
    """Return the fields of a row, in the order of the ordinals in the tests' layouts."""
    made = [
        pa.field("id", pa.string()),
        pa.field("id2", pa.int64()),
        pa.field("stamp", order),
        pa.field("op", pa.string()),
        pa.field("payload", PAYLOAD),
        pa.field("nothing", pa.null()),
    ]
    return [one for one in made if has_op or one.name != "op"]


@dataclass(frozen=True)
class PackedBlockType:
    """The block contract for frames of structs. order: the Arrow type of the order field; frame: rows per frame."""

    order: Any
    frame: int = 3
    run_together = False
    after_packed = b""

    def unsupported(self, layout: RowLayout) -> str | None:
        return None

    def type_of(self, layout: RowLayout) -> Any:
        return pa.struct(fields(self.order, layout.envelope.field is not None))

    def read(self, content: Content, layout: RowLayout, trusted: bool) -> Iterator[Batch]:
        assert (content.window.start, content.window.end) == (0, None), "a file is read whole"
        before = 0
        for rows in frames(content.blocks()):
            offsets = np.arange(before, before + len(rows))
            good, reasons = self._good(rows, layout)
            if trusted and len(reasons):
                raise NotReadable(f"row {offsets[min(reasons)]}: {reasons[min(reasons)]}")
            rejects = tuple(
                Reject(int(offsets[row]), int(offsets[row]) + 1, reason, repr(rows[row].as_py()).encode())
                for row, reason in reasons.items()
            )
            yield Batch(PackedBlock(self, rows.filter(pa.array(good)), offsets[good], layout), rejects, len(rows), 0)
            before += len(rows)

    def _good(self, rows: Any, layout: RowLayout) -> tuple[Flags, dict[int, str]]:
        wanted = [(ordinal, "no ID") for ordinal in layout.id_fields]
        wanted += [(ordinal, "no order value") for ordinal in layout.order_fields]
        reasons: dict[int, str] = {}
        for ordinal, reason in wanted:
            for row in np.flatnonzero(flags(rows.field(ordinal).is_null())).tolist():
                reasons.setdefault(row, reason)
        good = np.ones(len(rows), np.bool_)
        good[list(reasons)] = False
        return good, dict(sorted(reasons.items()))

    def records(self, content: Content, layout: RowLayout) -> Iterator[Record | Reject | None]:
        for batch in self.read(content, layout, trusted=False):
            yield from batch.rejects
            block = batch.block
            orders: list[Any] = [None] * len(block)
            if layout.order_fields:
                orders = [to_value(layout.order_type, value) for value in block.orders().to_pylist()]
            yield from map(
                Record,
                block.offsets.tolist(),
                zip(*(column.to_pylist() for column in block.keys(None)), strict=True),
                orders,
                block.deletes().tolist(),
                [None] * len(block),
                self.contents(block.written()).to_pylist(),
                self.contents(block.rows).to_pylist(),
            )

    def contents(self, rows: Any) -> Any:
        return row_bytes(rows)

    def from_contents(self, contents: Sequence[bytes], layout: RowLayout) -> Any:
        return from_row_bytes(contents, self.type_of(layout))

    def pack(self, rows: Any) -> bytes:
        return framed(rows) if len(rows) else b""

    def load(self, packed: bytes, layout: RowLayout) -> PackedBlock:
        parts = list(frames([packed]))
        rows = pa.concat_arrays(parts) if parts else pa.array([], self.type_of(layout))
        return PackedBlock(self, rows, np.arange(len(rows)), layout)

    def suffix(self, output: str) -> str:
        return output

    def writer(self, stream: BinaryIO, output: str, chunk: int | None) -> PackedWriter:
        return PackedWriter(stream, self.frame)


class PackedBlock:
    def __init__(self, form: PackedBlockType, rows: Any, offsets: Ints, layout: RowLayout) -> None:
        self._form, self._layout = form, layout
        self.rows, self.offsets = rows, offsets

    def __len__(self) -> int:
        return len(self.rows)

    def hashes(self, rows: Ints | None = None) -> Hashes:
        return hash_columns([ByteColumn.of_array(column) for column in self.keys(rows)])

    def likely(self, firsts: FirstValues) -> Ints | None:
        return None

    def keys(self, rows: Ints | None = None) -> list[Any]:
        columns = [self._of(ordinal, rows) for ordinal in self._layout.id_fields]
        return [column.cast(pa.large_string()).cast(pa.large_binary()) for column in columns]

    def orders(self, rows: Ints | None = None) -> Any:
        column = self._of(self._layout.order_fields[0], rows)
        if column.type == pa.int64():
            return column
        return to_column("timestamp", [moment(micros) for micros in column.cast(pa.int64()).to_pylist()])

    def unset(self) -> Any:
        return pa.nulls(len(self))

    def deletes(self) -> Flags:
        envelope = self._layout.envelope
        if envelope.field is None:
            return envelope.of_file(len(self)).are(DELETE)
        return envelope.of_array(self.rows.field(envelope.field).cast(pa.large_binary())).are(DELETE)

    def written(self) -> Any:
        if self._layout.envelope.field is None:
            return self.rows
        kept = [n for n in range(self.rows.type.num_fields) if n != self._layout.envelope.field]
        return pa.StructArray.from_arrays(
            [self.rows.field(n) for n in kept], fields=[self.rows.type.field(n) for n in kept]
        )

    def _of(self, ordinal: int | None, rows: Ints | None) -> Any:
        column = self.rows.field(ordinal)
        return column if rows is None else column.take(pa.array(rows))


class PackedWriter:
    def __init__(self, stream: BinaryIO, frame: int) -> None:
        self._stream, self._frame = stream, frame
        self.rows = 0

    def write(self, rows: Any) -> None:
        for start in range(0, len(rows), self._frame):
            self._stream.write(framed(rows.slice(start, self._frame)))
        self.rows += len(rows)

    def close(self) -> None:
        pass

    @property
    def rows_by_chunk(self) -> list[int]:
        return [self.rows]  # a file is one split, whatever parts its checksum has


def moment(micros: int) -> tuple[int, bytes]:
    """Return a timestamp in the form of ``order_values``."""
    seconds, rest = divmod(micros, 1_000_000)
    return seconds, (b"%06d" % rest).rstrip(b"0")


def framed(rows: Any) -> bytes:
    """Write structs as one frame."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([rows], ["row"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    body = bytes(sink.getvalue())
    return len(body).to_bytes(HEAD, "big") + body


def frames(content: Iterable[bytes]) -> Iterator[Any]:
    """Read the structs of each frame; a frame may start anywhere in the blocks of bytes."""
    buffer = b""
    for piece in content:
        buffer += piece
        while len(buffer) >= HEAD and len(buffer) >= HEAD + int.from_bytes(buffer[:HEAD], "big"):
            end = HEAD + int.from_bytes(buffer[:HEAD], "big")
            try:
                table = pa.ipc.open_stream(io.BytesIO(buffer[HEAD:end])).read_all()
            except (pa.ArrowException, OSError) as fault:
                raise NotReadable(f"a frame is none: {fault}") from None
            yield table.column("row").combine_chunks()
            buffer = buffer[end:]
    if buffer:
        raise NotReadable("it ends within a frame")
