"""Any table as Arrow batches: a pa.Schema of normal types, and an iterator of record batches of it."""

import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from mutator.errors import error
from mutator.formats.values.convert import converted
from mutator.frames.pandas_tables import arrow_table
from mutator.frames.recognize import LAZY, PANDAS
from mutator.plan.rows.storable_types import storable_schema
from mutator.rules.schema_evolution import normal

_READ: weakref.WeakSet[Any] = weakref.WeakSet()  # readers whose rows a merge has read: each has them only once


class Batches(NamedTuple):
    """The rows of a table."""

    schema: Any  # pa.Schema
    rows: Iterator[Any]  # pa.RecordBatch


def batches_of(table: Any, kind: str, label: str) -> Batches:
    """Return the rows of a table other than Spark's, in types that Parquet stores.

    kind: as ``recognize.kind_of`` returns it. label: of the table, for messages. Raises DataError.
    """
    if kind == LAZY:
        table = table.collect()
    reader = _reader(arrow_table(table, label) if kind == PANDAS else table, label)
    if not len(reader.schema):
        raise error("table.rows", table=label, what="has no columns", cure="give it columns, even if it has no rows")
    schema = storable_schema(normal(reader.schema.remove_metadata(), label), "parquet", label)
    return Batches(schema, (_cast(batch, schema, label) for batch in _read(reader, label)))


def _reader(table: Any, label: str) -> Any:
    """Return a pa.RecordBatchReader of a table of Arrow, or of anything with ``__arrow_c_stream__``."""
    if isinstance(table, pa.RecordBatchReader):
        if table in _READ:
            cure = "give the merge a new reader, or reader.read_all(), which is a table"
            raise error("table.rows", table=label, what="was read before, and has no rows left", cure=cure)
        _READ.add(table)
        return table
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if isinstance(table, pa.Table):
        return table.to_reader()
    try:
        return pa.RecordBatchReader.from_stream(table)
    except (pa.ArrowException, TypeError, ValueError) as fault:
        cure = "give a table whose stream has one column for each field"
        raise error("table.rows", table=label, what=f"its Arrow stream cannot be read: {fault}", cure=cure) from None


def _read(reader: Any, label: str) -> Iterator[Any]:
    try:
        yield from reader
    except (pa.ArrowException, OSError) as fault:
        cure = "make the table anew, because a stream can be read only once"
        raise error("table.rows", table=label, what=f"reading its rows failed: {fault}", cure=cure) from None


def _cast(batch: Any, schema: Any, label: str) -> Any:
    columns = []
    for field, column in zip(schema, batch.columns, strict=True):
        try:
            found, bad, why = converted(column, field.type, typed=True)
            lost = bool(bad.any())
        except (pa.ArrowException, NotImplementedError) as fault:
            lost, why = True, f"cannot be converted from {column.type}: {fault}"
        if lost:
            cure = f"convert the column to a type that has all of its values, such as {field.type}"
            raise error("table.column", table=label, column=field.name, what=why, cure=cure)
        columns.append(found)
    return pa.RecordBatch.from_arrays(columns, schema=schema)
