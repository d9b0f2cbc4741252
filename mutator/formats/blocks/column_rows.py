"""Rows with named, typed fields as blocks: whatever kind of file they come from, they have the types of the result.

A row is a struct of the result's fields. What a file has beside them is not read, what it lacks gets a default or
NULL, and where its type is another one the values are converted. A row of the feed also carries whether it is a delete.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.formats.blocks.contract import Batch, Hashes, Record
from mutator.formats.blocks.row_rules import (
    BadRows,
    RowRules,
    RowWriter,
    deletes_of,
    loaded,
    note_partitions,
    orders_of,
    packed,
    records_of,
)
from mutator.formats.content import Content, NotReadable, Reject, Unfit
from mutator.formats.files.contract import Dialect, RowBatch
from mutator.formats.files.registry import FILE_FORMATS
from mutator.formats.values.convert import converted
from mutator.formats.values.scalar_text import exact_text
from mutator.rules.byte_columns import ByteColumn, Flags, Ints
from mutator.rules.key_hash import hash_columns
from mutator.rules.order_columns import flags
from mutator.rules.partition_transforms import Placed, place
from mutator.rules.typed_values import canonical, from_row_bytes, mapped, order_column, out_of_years, row_bytes

__all__ = ["ColumnBlockType", "ColumnLayout", "ColumnOutput", "shown_rows"]

_FEW = 256  # first ID values that are looked for sooner than the rows' hashes are computed
# Not with a NUL, which ends a name in some of what Arrow does with a table, and not in the rest.
_DELETE = pa.field("\x01delete", pa.bool_(), nullable=False)  # called as no field of a file is


@dataclass(frozen=True, kw_only=True)
class ColumnLayout(RowRules):
    """How the files of one schema are read, and what their rows become."""

    format: str
    schema: Any  # of the files
    result: Any  # of the rows
    id_fields: tuple[int, ...]  # their places in the result
    order_field: int | None  # its place in the result; None: order comes from file names
    dialect: Dialect = field(default_factory=Dialect)
    typed: bool = True
    within_years: bool = False  # what is written holds no time but of the years 1 to 9999
    defaults: Mapping[str, Any] = field(default_factory=dict)  # pa.Array of one value: a scalar is pickled as Python's

    @property
    def fields(self) -> list[Any]:
        """The fields of a row as it would be written; each may be NULL, because a delete needs few of them."""
        return [one.with_nullable(True) for one in self.result]

    @property
    def row_type(self) -> Any:
        """The type of a row."""
        return pa.struct([*self.fields, _DELETE] if self.feed else self.fields)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The fields that are read of a file."""
        names = [name for name in self.result.names if self.schema.get_field_index(name) >= 0]
        return (*names, self.op_field) if self.op_field is not None and self.op_field not in names else tuple(names)


@dataclass(frozen=True)
class ColumnOutput:
    """What is written."""

    format: str
    schema: Any
    dialect: Dialect = field(default_factory=Dialect)


class ColumnBlockType:
    """The block contract for typed columns."""

    run_together = False

    def unsupported(self, layout: ColumnLayout) -> str | None:
        """Return None: all are taken."""
        return None

    def read(self, content: Content, layout: ColumnLayout, trusted: bool) -> Iterator[Batch]:
        """Read rows."""
        for found in FILE_FORMATS[layout.format].read(content, layout.schema, layout.wanted, layout.dialect):
            yield _batch(found, layout, trusted)

    def records(self, content: Content, layout: ColumnLayout) -> Iterator[Record | Reject | None]:
        """Read rows one by one."""
        batches = self.read(content, layout, trusted=False)
        return records_of(self, batches, layout, ordered=layout.order_field is not None)

    def contents(self, rows: Any) -> Any:
        """Return bytes that tell rows apart."""
        return row_bytes(rows)

    def from_contents(self, contents: Sequence[bytes], layout: ColumnLayout) -> Any:
        """Return the rows that have these bytes."""
        return from_row_bytes(contents, pa.struct(layout.fields))

    def partitions(self, rows: Any, layout: ColumnLayout) -> Placed:
        """Return where rows belong."""
        columns = [exact_text(rows.field(layout.result.get_field_index(one.source))) for one in layout.partition]
        return place(layout.partition, columns)

    def pack(self, rows: Any) -> bytes:
        """Write rows for the shuffle."""
        return packed(rows)

    def load(self, packed: Sequence[bytes], layout: ColumnLayout) -> ColumnBlock:
        """Read what was packed."""
        rows = loaded(packed, layout.row_type)
        return ColumnBlock(rows, np.arange(len(rows)), layout)

    def suffix(self, output: ColumnOutput) -> str:
        """Return the suffix of the kind."""
        return FILE_FORMATS[output.format].suffix

    def writer(self, stream: BinaryIO, output: ColumnOutput, chunk: int | None) -> RowWriter:
        """Write to a stream."""
        inner = FILE_FORMATS[output.format].writer(stream, output.schema, output.dialect)
        return RowWriter(inner, lambda rows: pa.RecordBatch.from_arrays(rows.flatten(), schema=output.schema))


class ColumnBlock:
    """Rows as a struct array."""

    def __init__(self, rows: Any, offsets: Ints, layout: ColumnLayout, parsed: Any = None) -> None:
        self.rows, self.offsets = rows, offsets
        self._layout, self._parsed = layout, parsed

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def _columns(self) -> list[Any]:
        return list(self.rows.flatten())

    @cached_property
    def _keys(self) -> list[Any]:
        return [canonical(self._columns[place]) for place in self._layout.id_fields]

    def hashes(self, rows: Ints | None = None) -> Hashes:
        """Return the key hashes of some rows."""
        return hash_columns([ByteColumn.of_array(column) for column in self.keys(rows)])

    def keys(self, rows: Ints | None = None) -> list[Any]:
        """Return a column of canonical bytes for each ID field."""
        if rows is None or "_keys" in vars(self):
            return self._keys if rows is None else [column.take(pa.array(rows)) for column in self._keys]
        return [canonical(self._columns[place].take(pa.array(rows))) for place in self._layout.id_fields]

    def likely(self, firsts: Collection[bytes]) -> Ints | None:
        """Return the rows whose first ID value is one of a few."""
        column = self._columns[self._layout.id_fields[0]]
        if len(firsts) > _FEW:
            return None
        if pa.types.is_string(column.type):
            found = pa.array([first.decode("utf-8", "replace") for first in firsts], pa.string())
        elif pa.types.is_signed_integer(column.type):
            most = 1 << column.type.bit_width - 1
            numbers = [int(first) for first in firsts]
            found = pa.array([number for number in numbers if -most <= number < most], column.type)
        else:
            return None
        return np.flatnonzero(flags(pc.is_in(column, value_set=found)))

    def orders(self, rows: Ints | None = None) -> Any:
        """Return the order values of some rows."""
        if self._parsed is not None:
            return self._parsed if rows is None else self._parsed.take(pa.array(rows))
        assert self._layout.order_field is not None
        column = self._columns[self._layout.order_field]
        column = column if rows is None else column.take(pa.array(rows))
        found, bad, why = order_column(self._layout.order_type, column, self._layout.null_lowest)
        if bad.any():
            raise NotReadable(f"a row has an order value that {why or 'is NULL'}")
        return found

    def deletes(self) -> Flags:
        """Tell which rows are deletes."""
        return flags(self._columns[-1]) if self._layout.feed else np.zeros(len(self), np.bool_)

    def written(self) -> Any:
        """Return the rows without the mark of a delete."""
        if not self._layout.feed:
            return self.rows
        return pa.StructArray.from_arrays(self._columns[:-1], fields=self._layout.fields)


def _batch(found: RowBatch, layout: ColumnLayout, trusted: bool) -> Batch:
    """Convert columns to those of the result; what cannot be is a reject."""
    batch, count = found.batch, found.batch.num_rows
    bad_rows = BadRows()
    codes = None if layout.op_field is None else batch.column(layout.op_field)
    delete = deletes_of(layout, codes, count, bad_rows)
    columns = []
    for one in layout.result:
        if layout.schema.get_field_index(one.name) < 0:
            columns.append(_filled(layout.defaults.get(one.name), one.type, count))
            continue
        if not trusted:
            _note_invalid(bad_rows, batch.column(one.name), one.name)
        column, bad, why = converted(batch.column(one.name), one.type, layout.typed)
        columns.append(column)
        bad_rows.note(bad, f"field {one.name} {why}")
        if not one.nullable and column.null_count:
            bad_rows.note(flags(column.is_null()) & ~delete, f"field {one.name} is NULL")
        if layout.within_years:
            bad_rows.note(out_of_years(column), f"field {one.name} is not in the years 1 to 9999")
    parsed = None
    if not trusted:
        for place in layout.id_fields:
            name = layout.result.field(place).name
            bad_rows.note(flags(columns[place].is_null()), f"field {name} (ID) is NULL")
            bad_rows.note(out_of_years(columns[place]), f"field {name} (ID) is not in the years 1 to 9999")
        if layout.order_field is not None:
            column, name = columns[layout.order_field], layout.result.field(layout.order_field).name
            parsed = orders_of(layout, name, column, bad_rows)
        here = {
            one.name: column
            for one, column in zip(layout.result, columns, strict=True)
            if layout.schema.get_field_index(one.name) >= 0
        }
        note_partitions(layout, here, bad_rows, delete)
    if layout.feed:
        columns.append(pa.array(delete))
    rows = pa.StructArray.from_arrays(columns, fields=list(layout.row_type))
    offsets, rejects = found.offsets, tuple(found.rejects)
    if trusted and rejects:
        raise NotReadable(f"line {rejects[0].line}: {rejects[0].reason}")
    if bad_rows:
        if trusted:
            row = min(bad_rows)
            # A type that is not the file's own is this run's wish, and no fault of the file.
            fits = batch.schema.types == [layout.result.field(name).type for name in batch.schema.names]
            kind = NotReadable if fits or not layout.typed else Unfit
            raise kind(f"row {int(offsets[row]) + 1}: {bad_rows[row]}")
        good = bad_rows.good(count)
        places = sorted(bad_rows)
        shown = shown_rows(batch.take(pa.array(places)))
        rejects += tuple(
            Reject(int(offsets[row]), int(found.numbers[row]), bad_rows[row], one)
            for row, one in zip(places, shown, strict=True)
        )
        keep = pa.array(good)
        rows, offsets = rows.filter(keep), offsets[good]
        parsed = None if parsed is None else parsed.filter(keep)
    return Batch(ColumnBlock(rows, offsets, layout, parsed), rejects, found.lines, found.ignored)


def _note_invalid(bad_rows: BadRows, column: Any, name: str) -> None:
    """Note the rows whose value is none of its type, such as text that is not UTF-8: reading does not check it."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        for row in range(len(column)):
            try:
                column.take(pa.array([row])).validate(full=True)
            except pa.ArrowInvalid as fault:
                bad_rows.setdefault(row, f"field {name} holds what its type has not: {fault}")


def shown_rows(batch: Any) -> list[bytes]:
    """Return the rows of a batch as JSON, for a person who looks at what was rejected."""
    return [_shown(row) for row in _readable(batch)]


def _readable(batch: Any) -> list[dict[str, Any]]:
    """Return rows whose values Python can hold: it has no nanoseconds, no year 10000, and no text but UTF-8."""
    try:
        columns = [mapped(column, _readable_type, _to_readable) for column in batch.columns]
        return cast(list[dict[str, Any]], pa.RecordBatch.from_arrays(columns, batch.schema.names).to_pylist())
    except (pa.ArrowException, ValueError, OverflowError, TypeError):
        return [{"row": "holds what cannot be shown"} for _ in range(batch.num_rows)]


def _readable_type(kind: Any) -> Any:
    return pa.binary() if pa.types.is_temporal(kind) or pa.types.is_string(kind) else kind


def _to_readable(column: Any) -> Any:
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
    return column.cast(pa.string()).cast(pa.binary())


def _filled(values: Any, kind: Any, count: int) -> Any:
    return pa.nulls(count, kind) if values is None else pa.repeat(values[0], count)


def _shown(row: Mapping[str, Any]) -> bytes:
    shown = {name: _text(value) for name, value in row.items()}
    return json.dumps(shown, default=str, ensure_ascii=False).encode()


def _text(value: Any) -> Any:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
