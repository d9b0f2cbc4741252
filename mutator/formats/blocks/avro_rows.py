"""Blocks of encoded Avro records, of which only the key, order value, op code and partition are decoded.

Decoding and encoding a record again would cost more, and would lose the branch of a union that a value had. Where the
schema changes, ``avro_resolution`` makes records of the new schema.

Changed rows as Avro: the fields of a change are encoded before those of the record, whose bytes stay as they are.

The encoding of a record is that of its fields, one after the other, so no record need be decoded.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, BinaryIO

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.avro_fields import AvroFields
from mutator.formats.blocks.avro_resolution import Resolution, resolve, without
from mutator.formats.blocks.block_type import Batch, KeptAsBytes
from mutator.formats.blocks.changed_rows import ChangeForm, ChangeWriter
from mutator.formats.blocks.schema_rows import UNSET, BadRows, RowRules, RowWriter, SchemaBlock, SchemaBlockType
from mutator.formats.content import Content, NotReadable, Reject, Unfit
from mutator.formats.files.avro import decoded, encoded
from mutator.formats.files.avro_container import AvroOutput, BlockWriter, blocks, faults, opened, split_records
from mutator.formats.files.avro_schema import arrow_field, expanded, parsed, physical
from mutator.formats.files.path_fields import path_column
from mutator.formats.values.scalar_text import exact_text
from mutator.rules.byte_columns import ByteColumn, Flags, Ints, binary, concatenated, packed
from mutator.rules.changes import CHANGE, CHANGES, TIME, VERSION, Changes
from mutator.rules.envelope import DELETE, IGNORED
from mutator.rules.first_values import FirstValues
from mutator.rules.order_columns import column_type, flags
from mutator.rules.partition_transforms import RowPartitions, partition_rows
from mutator.rules.typed_values import canonical, out_of_years

_FIELDS: list[dict[str, Any]] = [
    {"name": CHANGE, "type": "string"},
    {"name": VERSION, "type": ["null", "long"], "default": None},
    {"name": TIME, "type": {"type": "long", "logicalType": "timestamp-micros"}},
]


class AvroChanges:
    """Write changed rows as Avro."""

    def __init__(self, stream: BinaryIO, output: AvroOutput, form: ChangeForm) -> None:
        """Write the header. output: of the rows."""
        schema = {**output.schema, "fields": [*_FIELDS, *output.schema["fields"]]}
        self._writer = BlockWriter(stream, replace(output, schema=schema))
        self._heads = pa.array([_head(change, form) for change in CHANGES], pa.large_binary())
        self.rows = 0

    def write(self, changes: Changes, rows: Any) -> None:
        """Write the next rows. rows: a pa.Array of encoded records."""
        whole = concatenated(self._heads.take(pa.array(changes)), rows)
        self._writer.write(iter(whole.to_pylist()))
        self.rows += len(rows)

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


def _head(change: str, form: ChangeForm) -> bytes:
    """Return the encoded fields of a change."""
    schema = fastavro.parse_schema({"type": "record", "name": "change", "fields": [*_FIELDS[:2], _TICKS]})
    made = io.BytesIO()
    fastavro.schemaless_writer(made, schema, {CHANGE: change, VERSION: form.version, TIME: form.committed * 1000})
    return made.getvalue()


_TICKS = {"name": TIME, "type": "long"}  # as it is encoded


@dataclass(frozen=True, kw_only=True)
class AvroLayout(RowRules):
    """How to read the files of one schema."""

    fields: tuple[Mapping[str, Any], ...]  # those to decode, of the file's expanded schema
    id_fields: tuple[str, ...]
    resolution: Resolution | None  # None: records are copied as they are
    record: Mapping[str, Any] | None = None  # the result's expanded schema, to find the partitions of its records
    path_fields: tuple[tuple[int, Mapping[str, Any]], ...] = ()  # of the result, with their positions: see ``of_path``
    tested: tuple[Mapping[str, Any], ...] = ()  # fields of the file in which NULL says nothing

    @property
    def row_type(self) -> Any:
        """The pa.StructType of a row: encoded record, canonical key values, order value, mask, delete mark."""
        order = column_type(self.order_type) if self.order_fields else pa.null()
        keys = [pa.field(f"key_{number}", pa.large_binary()) for number in range(len(self.id_fields))]
        more = [*self.masks, pa.field("delete", pa.bool_())] if self.feed else []
        return pa.struct([pa.field("record", pa.large_binary()), *keys, pa.field("order", order), *more])

    @property
    def converts(self) -> bool:
        """Return whether records change by more than fields that their files have in the path."""
        only_in_path = self.path_fields and self.resolution is not None and self.resolution.copies
        return self.resolution is not None and not only_in_path

    def of_path(self, values: Mapping[str, str | None]) -> AvroLayout:
        """Return how to read a file that has some fields in its path alone. values: of these."""
        if not self.path_fields or self.resolution is None:
            return self
        columns = {
            position: path_column(one["name"], values[one["name"]], arrow_field(one).type, 1)
            for position, one in self.path_fields
        }
        fields = dict(self.path_fields)
        encodings = {position: encoded(column, fields[position])[0] for position, column in columns.items()}
        return replace(self, resolution=self.resolution.filled(encodings))


class AvroBlock(SchemaBlock):
    """Encoded records, each beside its decoded key, order value and delete mark."""

    def keys(self, rows: Ints | None = None) -> list[Any]:
        """Return a column of canonical bytes for each ID field."""
        columns = [self.rows.field(1 + number) for number in range(len(self._layout.id_fields))]
        return columns if rows is None else [column.take(pa.array(rows)) for column in columns]

    def likely(self, firsts: FirstValues) -> Ints | None:
        """Return the numbers of the rows that may have one of the first values; None if hashing all is as fast."""
        return firsts.of_column(ByteColumn.of_array(self.rows.field(1)))

    def orders(self, rows: Ints | None = None) -> Any:
        """Return the order values of some rows."""
        column = self.rows.field(1 + len(self._layout.id_fields))
        return column if rows is None else column.take(pa.array(rows))

    def written(self) -> Any:
        """Return the encoded records."""
        return self.rows.field(0)


class AvroBlockType(KeptAsBytes, SchemaBlockType):
    """The block contract for Avro records."""

    block = AvroBlock
    changes_suffix = ".records"

    def read(self, content: Content, layout: AvroLayout, trusted: bool) -> Iterator[Batch]:
        """Read the Avro blocks of the window."""
        lines = 0
        with content.file() as stream:
            container = opened(stream, content.window.renamed)
            values = dict(content.window.in_path)
            fields = {one["name"]: one for one in (*layout.fields, *layout.tested)}
            projected = physical(without({**container.expanded, "fields": [*fields.values()]}, values))
            own = layout.of_path(values)
            for offset, block in blocks(stream, container, content.window, projected):
                batch = _batch(offset, block, own, container.expanded, lines, values, trusted)
                if trusted and batch.rejects:
                    first = batch.rejects[0]
                    fault = Unfit if layout.converts else NotReadable
                    raise fault(f"record {first.line}: {first.reason}")
                lines += batch.lines
                yield batch

    def contents(self, rows: Any) -> Any:
        """Return the encoded records; those of the feed are followed by D for a delete, else U, and by their mask."""
        if pa.types.is_large_binary(rows.type):
            return rows
        records, last = rows.field(0), rows.field(rows.type.num_fields - 1)
        if not pa.types.is_boolean(last.type):
            return records
        found = concatenated(records, pc.if_else(last, binary(b"D"), binary(b"U")))
        if rows.type.get_field_index(UNSET.name) < 0:
            return found
        return concatenated(found, rows.field(UNSET.name).cast(pa.large_binary()).fill_null(b""))

    def from_contents(self, contents: Sequence[bytes], layout: AvroLayout) -> Any:
        """Return encoded records."""
        return pa.array(contents, pa.large_binary())

    def shown(self, rows: Any, written: Any, spec: Mapping[str, Any]) -> list[bytes]:
        """Return written records as JSON."""
        schema = parsed(physical(expanded(spec["schema"])))
        return [shown_record(record, schema) for record in written.to_pylist()]

    def fields(self, layout: AvroLayout, null: bytes, types: Mapping[int, Any] | None = None) -> AvroFields:
        """Return how encoded records are taken apart."""
        return AvroFields(layout.record)

    def partitions(self, rows: Any, layout: AvroLayout) -> RowPartitions:
        """Return the partition of each record."""
        columns = _fields_of(rows, layout, {str(one.source) for one in layout.partition})
        return partition_rows(layout.partition, [exact_text(columns[str(one.source)]) for one in layout.partition])

    def inside(self, rows: Any, layout: AvroLayout) -> Flags:
        """Return which records are in the layout's scope."""
        assert layout.scope is not None
        columns = _fields_of(rows, layout, layout.scope.columns)
        return layout.scope.inside([columns[name] for name in layout.scope.columns])

    def suffix(self, output: AvroOutput) -> str:
        """Return the suffix of Avro files."""
        return ".avro"

    def writer(self, stream: BinaryIO, output: AvroOutput, chunk: int | None) -> RowWriter:
        """Return a writer to a stream."""
        if not output.in_path:
            return RowWriter(BlockWriter(stream, output), lambda rows: iter(rows.to_pylist()))
        schema = without(output.schema, output.in_path)
        in_file = resolve(output.schema, schema, {})
        assert in_file is not None
        inner = BlockWriter(stream, replace(output, schema=schema))
        return RowWriter(inner, lambda rows: iter(in_file.of_records(rows).to_pylist()))

    def changes_writer(
        self, stream: BinaryIO, output: AvroOutput, layout: AvroLayout, form: ChangeForm
    ) -> ChangeWriter:
        """Return a writer of changed rows, which stay as they are encoded."""
        return AvroChanges(stream, output, form)


def _fields_of(records: Any, layout: AvroLayout, names: Collection[str]) -> dict[str, Any]:
    """Return some fields of encoded records of the result, a pa.Array by name."""
    assert layout.record is not None
    fields = {one["name"]: one for one in layout.record["fields"] if one["name"] in names}
    writer = parsed(physical(layout.record))
    reader = parsed(physical({**layout.record, "fields": list(fields.values())}))
    with faults():
        values: list[Any] = [
            fastavro.schemaless_reader(io.BytesIO(record), writer, reader) for record in records.to_pylist()
        ]
    return {name: decoded([row[name] for row in values], one) for name, one in fields.items()}


def _batch(
    offset: int,
    block: Any,
    layout: AvroLayout,
    schema: Mapping[str, Any],
    lines: int,
    in_path: Mapping[str, str | None],
    trusted: bool,
) -> Batch:
    """Read an Avro block.

    offset: of its first row. lines: rows of the split before it. in_path: values of fields that the records lack.
    """
    values, content, ends = split_records(block)
    count = len(values)
    bad_rows = BadRows()

    def column(field: Mapping[str, Any]) -> Any:
        name = field["name"]
        if name in in_path:
            return path_column(name, in_path[name], arrow_field(field).type, count)
        return decoded([row[name] for row in values], field)

    columns = {field["name"]: column(field) for field in layout.fields}
    keys = _keys(layout, columns, bad_rows)
    order = layout.orders_of(columns, bad_rows) if layout.order_fields else pa.nulls(count)
    said = layout.operations_of(columns, count, bad_rows)
    delete = said.are(DELETE)
    unset = {} if layout.unset is None else _unset(layout, values, columns, in_path, bad_rows)
    masks = layout.masks_of(unset, bad_rows, delete)
    # A value of another type may have another text, and so another partition.
    typed = columns if layout.resolution is None or not layout.partition else layout.resolution.retyped(columns)
    partitions = layout.partitions_of(typed, bad_rows, delete, trusted=trusted)
    if layout.resolution is None:
        positions = np.array(ends, np.int64)
        records = packed(np.frombuffer(content, np.uint8), positions[1:] - positions[:-1])
    else:
        records = layout.resolution.apply(content, ends, bad_rows, deletes=layout.envelope.deletes_all)
    if layout.scope is not None and layout.feed:
        rest = np.flatnonzero(~(bad_rows.are(count) | delete))
        outside = np.zeros(count, np.bool_)
        outside[rest] = ~AvroBlockType().inside(records.take(pa.array(rest)), layout)
        bad_rows.note(outside, layout.scope.outside)
    parts = [records, *keys, order, *masks, *([pa.array(delete)] if layout.feed else [])]
    rows = pa.StructArray.from_arrays(parts, fields=list(layout.row_type))
    offsets = offset + np.arange(count)
    rejects: list[Reject] = []
    good, truncates = bad_rows.settle(said, order if layout.order_fields else None)
    if not good.all():
        writer = parsed(physical(schema))
        for row in sorted(bad_rows):
            shown = shown_record(content[ends[row] : ends[row + 1]], writer)
            rejects.append(Reject(int(offsets[row]), lines + row + 1, bad_rows[row], shown))
        rows, offsets = rows.filter(pa.array(good)), offsets[good]
        partitions = None if partitions is None else partitions.only(good)
        said = said.only(~bad_rows.are(count))
    block = AvroBlock(rows, offsets, layout, partitions)
    return Batch(block, tuple(rejects), count, int(said.are(IGNORED).sum()), said, truncates)


def _unset(
    layout: AvroLayout,
    values: Sequence[Any],
    columns: Mapping[str, Any],
    in_path: Mapping[str, str | None],
    bad_rows: BadRows,
) -> Mapping[str, Flags]:
    """Return which records leave each field unset; note those that do not say it right. values: decoded records."""
    assert layout.unset is not None
    count, listing = len(values), layout.unset.listing

    def are_null(name: str) -> Flags:
        if name in in_path:
            return np.full(count, in_path[name] is None)
        return np.fromiter((row[name] is None for row in values), np.bool_, count)

    unset, faults = layout.unset.in_rows(count, {}, are_null, {}, None if listing is None else columns[listing])
    for reason, rows in faults.items():
        bad_rows.note(rows, reason)
    return unset


def _keys(layout: AvroLayout, columns: Mapping[str, Any], bad_rows: BadRows) -> list[Any]:
    """Return the canonical values of the ID fields; note the rows that lack one."""
    keys = []
    for name in layout.id_fields:
        far = out_of_years(columns[name])
        bad_rows.note(far, f"field {name} (ID) is not in the years 1 to 9999")
        keys.append(canonical(pc.if_else(pa.array(~far), columns[name], None) if far.any() else columns[name]))
    for name, key in zip(layout.id_fields, keys, strict=True):
        bad_rows.note(flags(key.is_null()), f"field {name} (ID) is NULL")
    return keys


def shown_record(record: bytes, schema: Any) -> bytes:
    """Return an encoded record as JSON. schema: that of its writer, physical and in fastavro's own form."""
    try:
        found = fastavro.schemaless_reader(io.BytesIO(record), schema, None)
        return json.dumps(found, default=repr, ensure_ascii=False).encode()
    except Exception:  # noqa: BLE001  # the reason for its rejection may also keep it from being shown
        return record.hex().encode()
