"""Blocks of typed columns: rows have the types of the result, whichever file format they come from.

A row is a struct of the result's fields. Other fields of a file are not read, fields that it lacks get a default or
NULL, and values of another type are converted. Rows of the feed also carry a delete mark.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.block_type import Batch
from mutator.formats.blocks.changed_rows import ChangeForm, ChangeWriter, ParquetChanges
from mutator.formats.blocks.row_fields import ColumnFields, with_fields
from mutator.formats.blocks.schema_rows import (
    BadRows,
    RowRules,
    RowWriter,
    SchemaBlock,
    SchemaBlockType,
    deleted_and_upserted,
)
from mutator.formats.blocks.shown_rows import shown_rows
from mutator.formats.blocks.unset_columns import cleared, with_carried, without_carried
from mutator.formats.content import Content, NotReadable, Reject, Unfit
from mutator.formats.files.file_format import Dialect, RowBatch
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.formats.files.marked_lines import change_fields, marked_lines
from mutator.formats.files.path_fields import checked, read_rows, without
from mutator.formats.values.convert import converted, from_base64, is_binary
from mutator.formats.values.nested import nulls
from mutator.formats.values.scalar_text import exact_text
from mutator.formats.values.typed_text import values_of
from mutator.rules.byte_columns import ByteColumn, Flags, Ints
from mutator.rules.envelope import DELETE, IGNORED
from mutator.rules.first_values import FirstValues
from mutator.rules.known_formats import FORMATS
from mutator.rules.order_columns import column_type, flags
from mutator.rules.partition_transforms import RowPartitions, partition_rows
from mutator.rules.typed_values import canonical, from_row_bytes, out_of_years, row_bytes

_DELETE = pa.field("\x01delete", pa.bool_(), nullable=False)  # as ``schema_rows.UNSET``
_ORDER = "\x01order"


@dataclass(frozen=True, kw_only=True)
class ColumnLayout(RowRules):
    """How to read the files of one schema, and what their rows become."""

    format: str
    schema: Any  # pa.Schema of the files
    result: Any  # pa.Schema of the rows
    id_fields: tuple[int, ...]  # positions in the result
    dialect: Dialect = field(default_factory=Dialect)
    within_years: bool = False  # times must be in the years 1 to 9999, as the output format can hold no others
    defaults: Mapping[str, Any] = field(
        default_factory=dict
    )  # pa.Array of one value: unlike a pa.Scalar, pickled exactly
    typed: Mapping[str, Any] = field(default_factory=dict)  # Arrow's types of the values of fields of text

    @property
    def fields(self) -> list[Any]:
        """The pa.Field list of a written row; all are nullable, because a delete needs few of them."""
        return [one.with_nullable(True) for one in self.result]

    @property
    def row_type(self) -> Any:
        """The pa.StructType of a row."""
        order = [pa.field(_ORDER, column_type(self.order_type))] if self.orders_beside else []
        return pa.struct([*self.fields, *order, *self.masks, _DELETE] if self.feed else self.fields)

    @property
    def needed_by_deletes(self) -> set[str]:
        """The names of the fields that a delete must have: ID, order value and partition."""
        ids = (self.result.names[position] for position in self.id_fields)
        return {*ids, *self.ordered_by, *(str(one.source) for one in self.partition)}

    @property
    def wanted(self) -> tuple[str, ...]:
        """The names of the fields to read from a file."""
        names = [name for name in self.result.names if self.schema.get_field_index(name) >= 0]
        orders = self.ordered_by if self.orders_beside else ()
        listing = () if self.unset is None or self.unset.listing is None else (self.unset.listing,)
        return tuple(dict.fromkeys((*names, *self.envelope.fields, *orders, *listing)))


@dataclass(frozen=True)
class ColumnOutput:
    """How to write a file."""

    format: str
    schema: Any  # pa.Schema of the rows
    dialect: Dialect = field(default_factory=Dialect)
    in_path: tuple[str, ...] = ()  # fields that the file lacks


class ColumnBlock(SchemaBlock):
    """Rows as a struct array."""

    def __init__(
        self,
        rows: Any,
        offsets: Ints,
        layout: ColumnLayout,
        partitions: RowPartitions | None = None,
        parsed: Any = None,
    ) -> None:
        super().__init__(rows, offsets, layout, partitions)
        self._parsed = parsed

    @cached_property
    def _columns(self) -> list[Any]:
        return list(self.rows.flatten())

    @cached_property
    def _keys(self) -> list[Any]:
        return [canonical(self._columns[ordinal]) for ordinal in self._layout.id_fields]

    def keys(self, rows: Ints | None = None) -> list[Any]:
        """Return a column of canonical bytes for each ID field."""
        if rows is None or "_keys" in vars(self):
            return self._keys if rows is None else [column.take(pa.array(rows)) for column in self._keys]
        return [canonical(self._columns[ordinal].take(pa.array(rows))) for ordinal in self._layout.id_fields]

    def likely(self, firsts: FirstValues) -> Ints | None:
        """Return the numbers of the rows that may have one of the first values; None if hashing all is as fast."""
        column = self._columns[self._layout.id_fields[0]]
        if pa.types.is_signed_integer(column.type):
            return firsts.of_integers(column)
        return firsts.of_column(ByteColumn.of_array(canonical(column))) if pa.types.is_string(column.type) else None

    def orders(self, rows: Ints | None = None) -> Any:
        """Return the order values of some rows."""
        if self._parsed is not None:
            return self._parsed if rows is None else self._parsed.take(pa.array(rows))
        if self._layout.orders_beside:
            column = self._columns[len(self._layout.result)]
            return column if rows is None else column.take(pa.array(rows))
        columns = {name: self._columns[self._layout.result.get_field_index(name)] for name in self._layout.ordered_by}
        if rows is not None:
            columns = {name: column.take(pa.array(rows)) for name, column in columns.items()}
        bad_rows = BadRows()
        found = self._layout.orders_of(columns, bad_rows)
        if bad_rows:
            raise NotReadable(f"row {min(bad_rows)}: {bad_rows[min(bad_rows)]}")
        return found

    def written(self) -> Any:
        """Return the rows without the delete mark."""
        if not self._layout.feed:
            return self.rows
        return pa.StructArray.from_arrays(self._columns[: len(self._layout.result)], fields=self._layout.fields)


class ColumnBlockType(SchemaBlockType):
    """The block contract for typed columns."""

    block = ColumnBlock
    changes_suffix = ".changes"

    def read(self, content: Content, layout: ColumnLayout, trusted: bool) -> Iterator[Batch]:
        """Read rows."""
        for found in read_rows(layout.format, content, layout.schema, layout.wanted, layout.dialect):
            yield _batch(found, layout, trusted)

    def read_changes(
        self, content: Content, layout: ColumnLayout, near: int | None = None
    ) -> Iterator[tuple[Batch, Any, Ints]]:
        """Read rows of messages, with what both halves of a changed key share."""
        lines, fields = None if near is None else marked_lines(content, layout.format, near), change_fields(content)
        names = tuple(dict.fromkeys((*layout.wanted, *(one.name for one in fields))))
        own = [one for one in fields if layout.schema.get_field_index(one.name) < 0]
        schema = pa.schema([*layout.schema, *own])
        for found in read_rows(layout.format, content if lines is None else lines, schema, names, layout.dialect):
            batch = _batch(found, layout, False)
            offsets = batch.block.offsets
            rows = pa.array(np.searchsorted(found.offsets, offsets))
            beside = found.batch.select([one.name for one in fields]).take(rows)
            yield batch, beside, offsets if lines is None else lines.offsets(offsets)

    def contents(self, rows: Any) -> Any:
        """Return bytes that are equal for equal rows alone."""
        return row_bytes(rows)

    def kept_type(self, layout: ColumnLayout) -> Any:
        """Return the type of a row."""
        return pa.struct(layout.fields)

    def kept(self, rows: Any) -> Any:
        """Return rows."""
        return rows

    def from_kept(self, rows: Any, layout: ColumnLayout) -> Any:
        """Return rows: fields that they lack are NULL, and values of another type are converted."""
        return with_fields(rows, layout.fields)

    def from_contents(self, contents: Sequence[bytes], layout: ColumnLayout) -> Any:
        """Return the rows that have these bytes."""
        return from_row_bytes(contents, pa.struct(layout.fields))

    def shown(self, rows: Any, written: Any, spec: Mapping[str, Any]) -> list[bytes]:
        """Return written rows as JSON."""
        return shown_rows(pa.RecordBatch.from_struct_array(written))

    def fields(self, layout: ColumnLayout, null: bytes, types: Mapping[int, Any] | None = None) -> ColumnFields:
        """Return how rows are taken apart."""
        return ColumnFields(pa.struct(layout.fields), types or {})

    def partitions(self, rows: Any, layout: ColumnLayout) -> RowPartitions:
        """Return the partition of each row."""
        columns = [exact_text(rows.field(layout.result.get_field_index(one.source))) for one in layout.partition]
        return partition_rows(layout.partition, columns)

    def inside(self, rows: Any, layout: ColumnLayout) -> Flags:
        """Return which written rows are in the layout's scope."""
        assert layout.scope is not None
        return layout.scope.inside([rows.field(name) for name in layout.scope.columns])

    def suffix(self, output: ColumnOutput) -> str:
        """Return the suffix of the format."""
        return FORMATS[output.format].suffix

    def writer(self, stream: BinaryIO, output: ColumnOutput, chunk: int | None) -> RowWriter:
        """Return a writer to a stream."""
        inner = FILE_FORMATS[output.format].writer(stream, without(output.schema, output.in_path), output.dialect)

        def in_file(rows: Any) -> Any:
            return checked(pa.RecordBatch.from_arrays(rows.flatten(), schema=output.schema), output.in_path)

        return RowWriter(inner, in_file)

    def changes_writer(
        self, stream: BinaryIO, output: ColumnOutput, layout: ColumnLayout, form: ChangeForm
    ) -> ChangeWriter:
        """Return a writer of changed rows, whose columns have the types of the rows."""
        return ParquetChanges(stream, form, layout.fields, lambda rows: rows.flatten())


def trusted_block(batches: Sequence[Any], offsets: Ints, layout: ColumnLayout) -> ColumnBlock:
    """Return the block of rows of a file that this program wrote.

    batches: pa.RecordBatches of ``layout.wanted`` fields. offsets: one per row. Raises NotReadable.
    """
    blocks, start = [], 0
    for batch in batches:
        own = offsets[start : start + batch.num_rows]
        blocks.append(_batch(RowBatch(batch, own, own + 1), layout, trusted=True).block.rows)
        start += batch.num_rows
    # One block needs no copy.
    rows = blocks[0] if len(blocks) == 1 else pa.concat_arrays([pa.array([], layout.row_type), *blocks])
    return ColumnBlock(rows, offsets, layout)


def _batch(found: RowBatch, layout: ColumnLayout, trusted: bool) -> Batch:
    """Convert columns to the types of the result; rows whose values cannot be converted are rejects."""
    batch, bad_rows = found.batch, BadRows()
    said = layout.operations_of(dict(zip(batch.schema.names, batch.columns, strict=True)), batch.num_rows, bad_rows)
    delete = said.are(DELETE)
    read, unset = (found, {}) if layout.unset is None else cleared(found, layout, bad_rows)
    carried = {} if found.carried is None else found.carried.in_rows(found.offsets, unset, delete)
    masks = layout.masks_of(without_carried(unset, carried), bad_rows, delete)
    columns = _converted(read, layout, bad_rows, delete, unset, trusted)
    columns = with_carried(columns, layout.result.names, carried) if carried else columns
    if found.joined and len(again := deleted_and_upserted(found.offsets, columns, layout.id_fields, delete)):
        return _batch(found.without(again), layout, trusted)
    parsed, partitions = (None, None) if trusted else _checked(read, columns, layout, bad_rows, delete)
    if trusted:
        _check_trusted(found, layout, bad_rows)
    orders = [parsed] if layout.orders_beside else []
    marked = [*columns, *orders, *masks, pa.array(delete)] if layout.feed else columns
    rows = pa.StructArray.from_arrays(marked, fields=list(layout.row_type))
    offsets, rejects = found.offsets, tuple(found.rejects)
    if found.joined:
        bad_rows.join(found.offsets)
    good, truncates = bad_rows.settle(said, parsed)
    if not good.all():
        rejects += _rejects(found, layout, bad_rows) if bad_rows else ()
        keep = pa.array(good)
        rows, offsets = rows.filter(keep), offsets[good]
        parsed = None if parsed is None else parsed.filter(keep)
        partitions = None if partitions is None else partitions.only(good)
        said = said.only(~bad_rows.are(len(said)))
    block, ignored = ColumnBlock(rows, offsets, layout, partitions, parsed), found.ignored
    ignored += int(said.are(IGNORED).sum())
    halves = int((offsets[1:] == offsets[:-1]).sum()) if found.joined else 0
    return Batch(block, rejects, found.lines, ignored, said, truncates, halves)


def _converted(
    found: RowBatch,
    layout: ColumnLayout,
    bad_rows: BadRows,
    delete: Flags,
    unset: Mapping[str, Flags],
    trusted: bool,
) -> list[Any]:
    """Return a column of the result's type for each of its fields; note the rows with a value that has none.

    A delete needs few fields; a value of another one that cannot be converted is NULL. unset: fields are NULL there.
    """
    batch, columns, needed = found.batch, [], layout.needed_by_deletes
    for wanted in layout.result:
        if layout.schema.get_field_index(wanted.name) < 0:
            default = None if wanted.name in unset else layout.defaults.get(wanted.name)
            columns.append(nulls(len(batch), wanted.type) if default is None else pa.repeat(default[0], len(batch)))
            continue
        bad_values = bad_rows.others()
        if not trusted:
            bad_values.note_invalid(batch.column(wanted.name), wanted.name)
        own = batch.column(wanted.name)
        is_text = found.as_text and pa.types.is_large_binary(own.type)  # an envelope may have made values of it
        if is_text and layout.format == "json" and is_binary(wanted.type):
            column, bad, why = from_base64(own, wanted.type)
        else:
            column, bad, why = converted(own, wanted.type, not is_text)
        bad_values.note(bad, f"field {wanted.name} {why}")
        if not wanted.nullable and column.null_count:
            may_lack = delete | unset.get(wanted.name, delete)
            bad_values.note(flags(column.is_null()) & ~may_lack, f"field {wanted.name} is NULL")
        if wanted.name in layout.typed:
            _, bad, why = values_of(column.cast(pa.large_binary()), layout.typed[wanted.name])
            bad_values.note(bad, f"field {wanted.name} {why}")
        if layout.within_years:
            bad_values.note(out_of_years(column), f"field {wanted.name} is not in the years 1 to 9999")
        if bad_values and wanted.name not in needed:
            ignored = bad_values.are(len(column)) & delete
            column = column.take(pa.array(np.arange(len(column)), mask=ignored))
            bad_values = BadRows({row: reason for row, reason in bad_values.items() if not ignored[row]})
        columns.append(column)
        for row, reason in bad_values.items():
            bad_rows.setdefault(row, reason)
    return columns


def _checked(
    found: RowBatch, columns: Sequence[Any], layout: ColumnLayout, bad_rows: BadRows, delete: Flags
) -> tuple[Any, RowPartitions | None]:
    """Return order values and partitions, each None if the file has none.

    Rows without ID, order value or partition are noted.
    """
    for position in layout.id_fields:
        name = layout.result.field(position).name
        bad_rows.note(flags(columns[position].is_null()), f"field {name} (ID) is NULL")
        bad_rows.note(out_of_years(columns[position]), f"field {name} (ID) is not in the years 1 to 9999")
    by_name = dict(zip(layout.result.names, columns, strict=True))
    of_orders = (
        dict(zip(found.batch.schema.names, found.batch.columns, strict=True)) if layout.orders_beside else by_name
    )
    parsed = layout.orders_of(of_orders, bad_rows) if layout.order_fields else None
    if layout.scope is not None and layout.feed:
        inside = layout.scope.inside([by_name[name] for name in layout.scope.columns])
        bad_rows.note(~inside & ~delete, layout.scope.outside)
    in_file = {name: column for name, column in by_name.items() if layout.schema.get_field_index(name) >= 0}
    return parsed, layout.partitions_of(in_file, bad_rows, delete)


def _check_trusted(found: RowBatch, layout: ColumnLayout, bad_rows: BadRows) -> None:
    """Raise NotReadable for a reject in a trusted file; Unfit if the row is intact and this run wants other types."""
    if found.rejects:
        raise NotReadable(f"line {found.rejects[0].line}: {found.rejects[0].reason}")
    if bad_rows:
        row, schema = min(bad_rows), found.batch.schema
        fields = [name for name in schema.names if layout.result.get_field_index(name) >= 0]  # without the op code
        same_types = all(schema.field(name).type == layout.result.field(name).type for name in fields)
        fault = NotReadable if same_types or found.as_text else Unfit
        raise fault(f"row {int(found.offsets[row]) + 1}: {bad_rows[row]}")


def _rejects(found: RowBatch, layout: ColumnLayout, bad_rows: BadRows) -> tuple[Reject, ...]:
    """Return the rejects of bad rows: lines of text as they are, other rows as JSON."""
    numbers = [*{int(found.offsets[row]): row for row in sorted(bad_rows, reverse=True)}.values()][::-1]
    if found.raw is None or not found.as_text:
        shown = shown_rows(found.batch.take(pa.array(numbers)))
    else:
        shown = pc.binary_slice(found.raw().take(np.array(numbers)), 0, -1).to_pylist()
    return tuple(
        Reject(int(found.offsets[row]), int(found.numbers[row]), bad_rows[row], text)
        for row, text in zip(numbers, shown, strict=True)
    )
