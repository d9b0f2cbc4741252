"""Write the rows of a table to a scratch file, which a merge reads like any other input.

Any table becomes Arrow batches: a pa.Schema of normal types, and an iterator of record batches of it.

pandas has no 32-bit integers by default, makes floats of integers beside a missing value, and has nanoseconds for every
time; a column of floats whose values happen to be whole is one of integers. A master with other types keeps them where
the values fit.
Named index levels of a pandas DataFrame become columns, NaN and NaT become NULL.
"""

from __future__ import annotations

import datetime as dt
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mutator.errors import MutatorError, error
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.formats.values.convert import converted
from mutator.frames.recognize import LAZY, PANDAS
from mutator.plan.inspect.table_inputs import TableInput
from mutator.plan.rows.storable_types import storable_schema
from mutator.rules.byte_columns import Ints
from mutator.rules.schema_evolution import normal
from mutator.rules.timestamps import TICKS
from mutator.storage import storage_for

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


_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
_EXACT = 1 << 53  # every integer up to here is a float
_FLOATS = ((pa.float32(), 1 << 24), (pa.float64(), _EXACT))
_DAY = 86400


class FittingTypes:
    """The types that have every value of each column, for the batches so far."""

    def __init__(self, schema: Any, *, floats: bool) -> None:
        """schema: pa.Schema of the batches. floats: whether floats may be written for integers."""
        self._columns: dict[str, _Numbers | _Times] = {}
        self._valueless = set(schema.names)
        for one in schema:
            if pa.types.is_integer(one.type) or (floats and pa.types.is_float64(one.type)):
                self._columns[one.name] = _Numbers(one.type)
            elif pa.types.is_timestamp(one.type):
                self._columns[one.name] = _Times(one.type)

    def add(self, batch: Any) -> None:
        """Note the values of a pa.RecordBatch."""
        for name, column in self._columns.items():
            column.add(batch.column(name))
        self._valueless -= {name for name in self._valueless if batch.column(name).null_count < batch.num_rows}

    def types(self) -> Mapping[str, tuple[Any, ...]]:
        """Return the other types of each column that has any."""
        return {name: found for name, column in self._columns.items() if (found := column.types())}

    @property
    def valueless(self) -> frozenset[str]:
        """The names of the columns that are NULL in every row."""
        return frozenset(self._valueless)


class _Numbers:
    """The range of integers, or of floats that are all integers."""

    def __init__(self, data_type: Any) -> None:
        self._type, self._whole = data_type, True
        self._low: int | None = None
        self._high: int | None = None

    def add(self, column: Any) -> None:
        if not self._whole or column.null_count == len(column):
            return
        if pa.types.is_floating(self._type):
            whole = pc.and_(pc.is_finite(column), pc.equal(pc.floor(column), column))
            self._whole = bool(pc.all(whole).as_py())
            if not self._whole:
                return
        bounds = pc.min_max(column)
        low, high = int(bounds["min"].as_py()), int(bounds["max"].as_py())
        if pa.types.is_floating(self._type) and max(-low, high) > _EXACT:
            self._whole = False
        self._low = low if self._low is None else min(low, self._low)
        self._high = high if self._high is None else max(high, self._high)

    def types(self) -> tuple[Any, ...]:
        if not self._whole or self._low is None or self._high is None:
            return ()
        low, high = self._low, self._high
        integers = tuple(one for one in _INTEGERS if one != self._type and _holds(one, low) and _holds(one, high))
        if pa.types.is_floating(self._type):
            return integers
        return (*integers, *(one for one, exact in _FLOATS if max(-low, high) <= exact))


class _Times:
    """The coarsest unit of timestamps."""

    def __init__(self, data_type: Any) -> None:
        self._type = data_type
        own = TICKS[data_type.unit]
        self._ticks = {unit: own // ticks for unit, ticks in TICKS.items() if ticks < own}  # ticks of one of the unit
        self._days = own * _DAY if data_type.tz is None else None

    def add(self, column: Any) -> None:
        ticks = column.drop_null().view(pa.int64())
        if not len(ticks):
            return
        self._ticks = {unit: size for unit, size in self._ticks.items() if _divides(size, ticks)}
        if self._days is not None and not _divides(self._days, ticks):
            self._days = None

    def types(self) -> tuple[Any, ...]:
        zones = [self._type.tz] if self._type.tz in (None, "UTC") else [self._type.tz, "UTC"]
        found = [pa.timestamp(unit, zone) for unit in self._ticks for zone in zones]
        return (*found, pa.date32()) if self._days is not None else tuple(found)


def _divides(size: int, ticks: Any) -> bool:
    rest: Ints = ticks.to_numpy() % size
    return int(np.count_nonzero(rest)) == 0


def _holds(data_type: Any, value: int) -> bool:
    """Return whether an integer is within the range of an integer type."""
    bits: int = data_type.bit_width
    low, high = 0, 1 << bits
    if pa.types.is_signed_integer(data_type):
        low, high = -1 << bits - 1, 1 << bits - 1
    return low <= value < high


_SHOWN = 3  # types of a mixed column that a message names


def arrow_table(frame: Any, label: str) -> Any:
    """Return the rows of a pandas DataFrame as a pa.Table. label: of the table, for messages.

    Raises DataError that names the column whose values have no common type.
    """
    frame = _with_index(frame, label)
    if frame.columns.nlevels > 1:
        cure = "join the levels to one name: frame.columns = ['_'.join(map(str, names)) for names in frame.columns]"
        raise error("table.rows", table=label, what="has columns with names of several levels", cure=cure)
    names = [str(name) for name in frame.columns]
    columns = [_column(frame.iloc[:, number], name, label) for number, name in enumerate(names)]
    return pa.Table.from_arrays(columns, names)


def _with_index(frame: Any, label: str) -> Any:
    """Return a DataFrame whose named index levels are columns; the numbers of rows are left out."""
    named = [name for name in frame.index.names if name is not None]
    twice = [name for name in named if name in frame.columns]
    if twice:
        what = "is both in the index and among the columns"
        raise error("table.column", table=label, column=twice[0], what=what, cure="drop one of them")
    return frame.reset_index(level=named) if named else frame


def _column(series: Any, name: str, label: str) -> Any:
    try:
        found = pa.Array.from_pandas(series)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as fault:
        raise _mixed(series, name, label, fault) from None
    if series.dtype == object and pa.types.is_temporal(found.type):
        _check_times(series, name, label)
    # Their values would silently become the integers in which pandas has them.
    if isinstance(found.type, pa.BaseExtensionType) and found.type.extension_name.startswith("pandas."):
        cure = f"convert it, for example with frame[{name!r}].astype(str), or .dt.to_timestamp() for periods"
        raise error("table.column", table=label, column=name, what=f"has the type {series.dtype}", cure=cure)
    return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])


def _check_times(series: Any, name: str, label: str) -> None:
    """Raise DataError for objects that Arrow would cut to dates, or take for times of UTC."""
    values = series[series.notna()]
    if len({isinstance(value, dt.datetime) for value in values}) > 1:
        raise _mixed(series, name, label, ValueError())
    if len({getattr(value, "tzinfo", None) is None for value in values}) > 1:
        cure = f"give all a zone, or none, for example with frame[{name!r}] = pd.to_datetime(frame[{name!r}], utc=True)"
        raise error("table.column", table=label, column=name, what="has times with and without a zone", cure=cure)


def _mixed(series: Any, name: str, label: str, fault: Exception) -> MutatorError:
    types = _types_of(series)
    what = f"has values of several types: {', '.join(types)}" if len(types) > 1 else f"cannot be read: {fault}"
    cure = f"give it one type, for example with frame[{name!r}] = frame[{name!r}].astype('string')"
    return error("table.column", table=label, column=name, what=what, cure=cure)


def _types_of(series: Any) -> Sequence[str]:
    """Return the names of the types in a column, the first few; without missing values."""
    found = dict.fromkeys(type(value).__name__ for value in series[series.notna()])
    return [*sorted(found)[:_SHOWN], *(["…"] if len(found) > _SHOWN else [])]


def write_table(path: str, table: Any, kind: str, label: str) -> TableInput:
    """Write a table other than Spark's to a Parquet file. path: full path. label: of the table, for messages.

    Raises DataError that names the table and the column.
    """
    found = batches_of(table, kind, label)
    fitting = FittingTypes(found.schema, floats=kind == PANDAS)
    with storage_for(path).create_new(path) as stream:
        writer, count = FILE_FORMATS["parquet"].writer(stream, found.schema, Dialect()), 0
        for batch in found.rows:
            count += batch.num_rows
            fitting.add(batch)
            writer.write(batch)
        writer.close()
    return TableInput(path, fitting.types(), fitting.valueless, rows=count)


def valueless_columns(directory: str) -> frozenset[str]:
    """Return the names of the columns without any value in the Parquet files of a directory, by their footers.

    directory: full path. Columns with parts, such as lists, count as having values.
    """
    storage, found = storage_for(directory), None
    for entry in storage.entries(directory):
        with storage.open(entry.path) as stream:
            metadata = pq.read_metadata(stream)
        if found is None:
            found = set(metadata.schema.to_arrow_schema().names)
        found &= {metadata.schema.column(number).path for number in range(metadata.num_columns)}
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            columns = map(group.column, range(group.num_columns))
            found -= {column.path_in_schema for column in columns if _has_values(column, group.num_rows)}
    return frozenset(found or ())


def _has_values(column: Any, rows: int) -> bool:
    statistics = column.statistics
    return statistics is None or not statistics.has_null_count or int(statistics.null_count) < rows
