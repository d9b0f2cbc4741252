"""Tables for tests: schemas and rows that hypothesis draws, and files of every format with these rows."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from mutator.formats.content import Window
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.plan.rows.storable_types import map_leaf_types
from mutator.rules.typed_values import comparable
from tests.support.in_memory import InMemory

HEADER = Dialect(header=True)
LEAVES: list[Any] = [
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.uint8(),
    pa.uint32(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.binary(3),
    pa.date32(),
    pa.decimal128(5, 2),
    pa.decimal128(38, 10),
    pa.timestamp("s"),
    pa.timestamp("ms", "UTC"),
    pa.timestamp("us"),
    pa.timestamp("us", "Europe/Berlin"),
    pa.timestamp("ns"),
    pa.time32("ms"),
    pa.time64("us"),
]
MORE: list[Any] = [  # types that some formats cannot store
    pa.null(),
    pa.uint16(),
    pa.uint64(),
    pa.float16(),
    pa.decimal128(7, -3),
    pa.decimal128(38, 38),
    pa.time32("s"),
    pa.time64("ns"),
    pa.duration("s"),
    pa.duration("ns"),
]
TEXTS = st.text(st.sampled_from('abN&,"\n\r\\ \té\0;|:-@[\x01\ufeff'), max_size=6)
# Arrow reads ORC's timestamps as nanoseconds, which reach from 1677 to 2262.
_EARLY, _LATE = datetime(1700, 1, 1), datetime(2200, 1, 1)  # noqa: DTZ001  # hypothesis wants them so


@st.composite
def kinds_of_fields(draw: Any, nested: bool = True, more: bool = False) -> Any:
    """Draw a type, possibly with lists, maps and records."""
    leaf = st.sampled_from(LEAVES + MORE if more else LEAVES)
    if not nested or draw(st.integers(0, 3)):
        return draw(leaf)
    inner = kinds_of_fields(more=more)
    shape = draw(st.sampled_from(["list", "struct", "map"]))
    if shape == "list":
        return pa.list_(draw(inner))
    if shape == "map":
        return pa.map_(pa.string(), draw(inner))
    return pa.struct([pa.field(f"p{number}", draw(inner)) for number in range(draw(st.integers(1, 2)))])


def values(data_type: Any) -> Any:
    """Draw Python values of a type, NULL among them."""
    return st.one_of(st.none(), _some(data_type))


def _some(data_type: Any) -> Any:
    types = pa.types
    if types.is_null(data_type):
        return st.none()
    if types.is_duration(data_type):
        return st.integers(-(2**63), 2**63 - 1)
    if types.is_boolean(data_type):
        return st.booleans()
    if types.is_integer(data_type):
        low = 0 if types.is_unsigned_integer(data_type) else -(2 ** (data_type.bit_width - 1))
        return st.integers(low, low + 2**data_type.bit_width - 1)
    if types.is_floating(data_type):
        return st.floats(width=data_type.bit_width)
    if types.is_string(data_type):
        return TEXTS
    if types.is_fixed_size_binary(data_type):
        return st.binary(min_size=data_type.byte_width, max_size=data_type.byte_width)
    if types.is_binary(data_type):
        return st.binary(max_size=4)
    if types.is_date(data_type):
        return st.dates(date(1, 1, 1), date(9999, 12, 31))
    if types.is_decimal(data_type):
        most = 10**data_type.precision - 1
        return st.integers(-most, most).map(lambda number: Decimal(number).scaleb(-data_type.scale, Context(prec=50)))
    if types.is_timestamp(data_type):
        unit = {"s": 1_000_000, "ms": 1_000}.get(data_type.unit, 1)
        stamps = st.datetimes(_EARLY, _LATE).map(lambda at: at - timedelta(microseconds=at.microsecond % unit))
        return stamps.map(lambda at: at.replace(tzinfo=UTC)) if data_type.tz else stamps
    if types.is_time(data_type):
        step = {"s": 1_000_000, "ms": 1000}.get(data_type.unit, 1)
        return st.times().map(lambda at: time(at.hour, at.minute, at.second, at.microsecond // step * step))
    if types.is_struct(data_type):
        return st.fixed_dictionaries({one.name: values(one.type) for one in data_type})
    if types.is_map(data_type):
        return st.lists(st.tuples(TEXTS, values(data_type.item_type)), max_size=3, unique_by=lambda pair: pair[0])
    return st.lists(values(data_type.value_type), max_size=3)


@st.composite
def tables(draw: Any, file_format: str, most: int = 8) -> Any:
    """Draw a table whose types a file format stores without change."""
    nested = FILE_FORMATS[file_format].nested
    fields = []
    for number in range(draw(st.integers(1, 4))):
        found = draw(kinds_of_fields(nested, file_format == "escaped"))
        if file_format == "orc" and holds(found, pa.types.is_map) and holds(found, pa.types.is_time):
            found = pa.int64()
        leaves: list[Any] = []
        stored = map_leaf_types(
            found,
            lambda leaf, leaves=leaves: (
                leaves.append(FILE_FORMATS[file_format].storable_type(leaf)) or leaves[-1] or leaf
            ),
        )
        fields.append(pa.field(f"f{number}", stored if None not in leaves else pa.string()))
    schema = pa.schema(fields)
    rows = draw(st.lists(st.fixed_dictionaries({one.name: values(one.type) for one in schema}), max_size=most))
    return pa.Table.from_pylist(rows, schema)


def holds(data_type: Any, what: Any) -> bool:
    """Return whether a type or one of its nested types passes a test."""
    parts = (
        [data_type.field(number).type for number in range(data_type.num_fields)]
        if pa.types.is_nested(data_type)
        else []
    )
    return bool(what(data_type)) or any(holds(part, what) for part in parts)


def file_of(file_format: str, table: Any, dialect: Dialect = HEADER, rows: int = 3) -> bytes:
    """Write a file, some rows at a time."""
    stream = io.BytesIO()
    writer = FILE_FORMATS[file_format].writer(_Open(stream), table.schema, dialect)
    for batch in table.to_batches(max_chunksize=rows):
        writer.write(batch)
    writer.close()
    return stream.getvalue()


class _Open(io.RawIOBase):
    """A stream whose close() does nothing, so that a writer cannot close it."""

    def __init__(self, inner: io.BytesIO) -> None:
        self._inner = inner

    def write(self, data: Any) -> int:
        return self._inner.write(data)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._inner.tell()


def read_whole(file_format: str, data: bytes, dialect: Dialect = HEADER, window: Window | None = None) -> list[Any]:
    """Return the blocks and rejects of a file."""
    probed = FILE_FORMATS[file_format].probe(io.BytesIO(data), dialect)
    if window is None:
        window = Window("lf", bom=probed.bom, header_end=probed.header_end)
    return list(FILE_FORMATS[file_format].read(InMemory(data, window), probed.schema, probed.schema.names, dialect))


def same_rows(one: Any, other: Any) -> bool:
    """Return whether two tables or arrays have the same values, to the last bit."""
    columns = zip(one.columns, other.columns, strict=True)
    return one.schema.names == other.schema.names and all(_same(left, right) for left, right in columns)


def _same(one: Any, other: Any) -> bool:
    left, right = _whole(one), _whole(other)
    return left.type == right.type and comparable(left).to_pylist() == comparable(right).to_pylist()


def _whole(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def as_table(found: Sequence[Any], schema: Any) -> Any:
    """Concatenate batches into a table."""
    return pa.Table.from_batches([one.batch for one in found], found[0].batch.schema if found else schema)
