"""Avro records as blocks: they stay encoded, and only key, order value and op code are decoded.

Decoding and encoding again would lose which branch of a union a value had, and costs more. Where the schema changes,
records are put together anew: of the bytes of fields that stay, of values that get a wider type, and of defaults.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.formats.blocks import row_rules
from mutator.formats.blocks.contract import Batch, Hashes, Record
from mutator.formats.blocks.row_rules import (
    BadRows,
    RowRules,
    RowWriter,
    deletes_of,
    loaded,
    note_partitions,
    orders_of,
    records_of,
)
from mutator.formats.content import Content, NotReadable, Reject, Unfit
from mutator.formats.files.avro import decoded, encoded
from mutator.formats.files.avro_container import BlockWriter, blocks, faults, opened, split_records
from mutator.formats.files.avro_schema import arrow_field, parsed, physical
from mutator.formats.values.convert import converted
from mutator.formats.values.scalar_text import exact_text
from mutator.rules.byte_columns import ByteColumn, Flags, Ints, packed
from mutator.rules.key_hash import hash_columns
from mutator.rules.order_columns import column_type, flags
from mutator.rules.partition_transforms import Placed, place
from mutator.rules.typed_values import canonical, out_of_years

__all__ = ["AvroBlockType", "AvroLayout", "AvroOutput", "Piece", "shown_record"]


@dataclass(frozen=True)
class Piece:
    """Some neighbouring fields of a file's records, and what becomes of them in the result."""

    fields: tuple[Mapping[str, Any], ...]
    places: tuple[int, ...]  # in the result; none: they are left out
    prefix: bytes = b""  # before their bytes: the branch of a union
    target: Mapping[str, Any] | None = None  # field of the result that the (one) value is converted to


@dataclass(frozen=True, kw_only=True)
class AvroLayout(RowRules):
    """How the files of one schema are read."""

    fields: tuple[Mapping[str, Any], ...]  # key, order value and op code, of the file's expanded schema
    id_names: tuple[str, ...]
    order_name: str | None
    pieces: tuple[Piece, ...] | None  # None: records are as they are written
    fill: Mapping[int, bytes] = field(default_factory=dict)  # place in the result -> encoded default
    record: Mapping[str, Any] | None = None  # the result's expanded schema, where its records are to be placed

    @property
    def id_fields(self) -> tuple[str, ...]:
        """The fields of the ID."""
        return self.id_names

    @property
    def row_type(self) -> Any:
        """The type of a row."""
        order = pa.null() if self.order_name is None else column_type(self.order_type)
        keys = [pa.field(f"key_{number}", pa.large_binary()) for number in range(len(self.id_names))]
        more = [pa.field("delete", pa.bool_())] if self.feed else []
        return pa.struct([pa.field("record", pa.large_binary()), *keys, pa.field("order", order), *more])


@dataclass(frozen=True)
class AvroOutput:
    """What is written."""

    schema: Mapping[str, Any]
    codec: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)  # for the head, beside Avro's own
    sync: bytes = b""  # 16 bytes between blocks; empty: random ones


class AvroBlockType:
    """The block contract for Avro records."""

    run_together = False

    def unsupported(self, layout: AvroLayout) -> str | None:
        """Return None: all are taken."""
        return None

    def read(self, content: Content, layout: AvroLayout, trusted: bool) -> Iterator[Batch]:
        """Read the blocks of the window."""
        lines = 0
        with content.file() as stream:
            known = opened(stream)
            projected = physical({**known.expanded, "fields": list(layout.fields)})
            for place, block in blocks(stream, known, content.window, projected):
                batch = _batch(place, block, layout, known.expanded, lines)
                if trusted and batch.rejects:
                    first = batch.rejects[0]
                    kind = NotReadable if layout.pieces is None else Unfit
                    raise kind(f"record {first.line}: {first.reason}")
                lines += batch.lines
                yield batch

    def records(self, content: Content, layout: AvroLayout) -> Iterator[Record | Reject | None]:
        """Read records one by one."""
        batches = self.read(content, layout, trusted=False)
        return records_of(self, batches, layout, ordered=layout.order_name is not None)

    def contents(self, rows: Any) -> Any:
        """Return the encoded records; of the feed with a byte that tells whether they are deletes."""
        if pa.types.is_large_binary(rows.type):
            return rows
        records, last = rows.field(0), rows.field(rows.type.num_fields - 1)
        if not pa.types.is_boolean(last.type):
            return records
        mark = pc.if_else(last, pa.scalar(b"D", pa.large_binary()), pa.scalar(b"U", pa.large_binary()))
        return pc.binary_join_element_wise(records, mark, pa.scalar(b"", pa.large_binary()))

    def from_contents(self, contents: Sequence[bytes], layout: AvroLayout) -> Any:
        """Return encoded records."""
        return pa.array(contents, pa.large_binary())

    def partitions(self, rows: Any, layout: AvroLayout) -> Placed:
        """Return where records belong."""
        assert layout.record is not None
        known = {one["name"]: one for one in layout.record["fields"]}
        fields = {name: known[name] for name in dict.fromkeys(str(one.source) for one in layout.partition)}
        writer = parsed(physical(layout.record))
        reader = parsed(physical({**layout.record, "fields": list(fields.values())}))
        with faults():
            values: list[Any] = [
                fastavro.schemaless_reader(io.BytesIO(record), writer, reader) for record in rows.to_pylist()
            ]
        columns = {name: exact_text(decoded([row[name] for row in values], one)) for name, one in fields.items()}
        return place(layout.partition, [columns[str(one.source)] for one in layout.partition])

    def pack(self, rows: Any) -> bytes:
        """Write rows for the shuffle."""
        return row_rules.packed(rows)

    def load(self, packed: Sequence[bytes], layout: AvroLayout) -> AvroBlock:
        """Read what was packed."""
        rows = loaded(packed, layout.row_type)
        return AvroBlock(rows, np.arange(len(rows)), layout)

    def suffix(self, output: AvroOutput) -> str:
        """Return the suffix of Avro files."""
        return ".avro"

    def writer(self, stream: BinaryIO, output: AvroOutput, chunk: int | None) -> RowWriter:
        """Write to a stream."""
        return RowWriter(
            BlockWriter(stream, output.schema, output.codec, output.metadata, output.sync),
            lambda rows: iter(rows.to_pylist()),
        )


class AvroBlock:
    """Encoded records, and beside each what was decoded of it."""

    def __init__(self, rows: Any, offsets: Ints, layout: AvroLayout) -> None:
        self.rows, self.offsets, self._layout = rows, offsets, layout

    def __len__(self) -> int:
        return len(self.rows)

    def hashes(self, rows: Ints | None = None) -> Hashes:
        """Return the key hashes of some rows."""
        return hash_columns([ByteColumn.of_array(column) for column in self.keys(rows)])

    def keys(self, rows: Ints | None = None) -> list[Any]:
        """Return a column of canonical bytes for each ID field."""
        columns = [self.rows.field(1 + number) for number in range(len(self._layout.id_names))]
        return columns if rows is None else [column.take(pa.array(rows)) for column in columns]

    def likely(self, firsts: Collection[bytes]) -> Ints | None:
        """Return the rows whose first ID value is one of a few."""
        known = pa.array(sorted(firsts), pa.large_binary())
        return np.flatnonzero(flags(pc.is_in(self.rows.field(1), value_set=known)))

    def orders(self, rows: Ints | None = None) -> Any:
        """Return the order values of some rows."""
        column = self.rows.field(1 + len(self._layout.id_names))
        return column if rows is None else column.take(pa.array(rows))

    def deletes(self) -> Flags:
        """Tell which rows are deletes."""
        last = self.rows.type.num_fields - 1
        return flags(self.rows.field(last)) if self._layout.feed else np.zeros(len(self), np.bool_)

    def written(self) -> Any:
        """Return the encoded records."""
        return self.rows.field(0)


def _batch(place: int, block: Any, layout: AvroLayout, schema: Mapping[str, Any], lines: int) -> Batch:
    """Read a block."""
    values, content, ends = split_records(block)
    count = len(values)
    bad_rows = BadRows()
    columns = {one["name"]: decoded([row[one["name"]] for row in values], one) for one in layout.fields}
    keys = []
    for name in layout.id_names:
        far = out_of_years(columns[name])
        bad_rows.note(far, f"field {name} (ID) is not in the years 1 to 9999")
        keys.append(canonical(pc.if_else(pa.array(~far), columns[name], None) if far.any() else columns[name]))
    for name, key in zip(layout.id_names, keys, strict=True):
        bad_rows.note(flags(key.is_null()), f"field {name} (ID) is NULL")
    order = pa.nulls(count)
    if layout.order_name is not None:
        order = orders_of(layout, layout.order_name, columns[layout.order_name], bad_rows)
    places = np.array(ends, np.int64)
    lengths = places[1:] - places[:-1]
    records = packed(np.frombuffer(content, np.uint8), lengths)
    codes = None if layout.op_field is None else columns[layout.op_field]
    delete = deletes_of(layout, codes, count, bad_rows)
    note_partitions(layout, columns, bad_rows, delete)
    if layout.pieces is not None:
        records = _put_together(content, ends, layout, bad_rows)
    parts = [records, *keys, order, *([pa.array(delete)] if layout.feed else [])]
    rows = pa.StructArray.from_arrays(parts, fields=list(layout.row_type))
    offsets = place + np.arange(count)
    rejects: list[Reject] = []
    if bad_rows:
        whole = parsed(physical(schema))
        for row in sorted(bad_rows):
            shown = shown_record(content[ends[row] : ends[row + 1]], whole)
            rejects.append(Reject(int(offsets[row]), lines + row + 1, bad_rows[row], shown))
        good = bad_rows.others(count)
        rows, offsets = rows.filter(pa.array(good)), offsets[good]
    return Batch(AvroBlock(rows, offsets, layout), tuple(rejects), count, 0)


def shown_record(record: bytes, schema: Any) -> bytes:
    """Return an encoded record as JSON. schema: the physical one that it was written with, as fastavro has it."""
    try:
        found = fastavro.schemaless_reader(io.BytesIO(record), schema, None)
        return json.dumps(found, default=repr, ensure_ascii=False).encode()
    except Exception:  # noqa: BLE001  # it is rejected for what may keep it from being shown, too
        return record.hex().encode()


def _put_together(content: bytes, ends: Sequence[int], layout: AvroLayout, bad_rows: BadRows) -> Any:
    """Return records of the result's schema, of those of the file's."""
    assert layout.pieces is not None
    stream, count = io.BytesIO(content), len(ends) - 1
    copied = {place for piece in layout.pieces for place in piece.places}
    width = 1 + max([-1, *layout.fill, *copied])
    # The bytes of neighbours are one part, in the place of the first.
    lacking = [layout.fill.get(place, b"") if place not in copied else b"" for place in range(width)]
    parts: list[list[bytes]] = [[part] * count for part in lacking]
    readers = [_reader(piece) for piece in layout.pieces]
    values: list[list[Any]] = [[] for _ in layout.pieces]
    with faults():
        for row in range(count):
            stream.seek(ends[row])
            start = ends[row]
            for number, piece in enumerate(layout.pieces):
                found: Any = fastavro.schemaless_reader(stream, readers[number], None)
                end = stream.tell()
                if piece.target is not None:
                    values[number].append(found[piece.fields[0]["name"]])
                elif piece.places:
                    parts[piece.places[0]][row : row + 1] = [piece.prefix + content[start:end]]
                start = end
    for number, piece in enumerate(layout.pieces):
        if piece.target is not None:
            (source,), target = piece.fields, arrow_field(piece.target)
            column, bad, why = converted(decoded(values[number], source), target.type, True)
            bad_rows.note(bad, f"field {source['name']} {why}")
            there = np.ones(count, np.bool_) if target.nullable else ~flags(column.is_null())
            if not layout.deletes:
                bad_rows.note(~there, f"field {source['name']} is NULL")
            # What is NULL and may not be is of a reject, or of a delete: nobody reads it.
            values_of = iter(encoded(column.filter(pa.array(there)), piece.target))
            parts[piece.places[0]] = [next(values_of) if has else b"" for has in there.tolist()]
    return pa.array([b"".join(row) for row in zip(*parts, strict=True)], pa.large_binary())


def _reader(piece: Piece) -> Any:
    fields = [{"name": one["name"], "type": physical(one["type"])} for one in piece.fields]
    return parsed({"type": "record", "name": "piece", "fields": fields})
