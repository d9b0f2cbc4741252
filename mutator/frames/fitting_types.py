"""The types besides its own that have every value of a column exactly.

pandas has no 32-bit integers by default, makes floats of integers beside a missing value, and has nanoseconds for every
time; a column of floats whose values happen to be whole is one of integers. A master with other types keeps them where
the values fit.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.rules.byte_columns import Ints
from mutator.rules.timestamps import TICKS

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
_EXACT = 1 << 53  # every integer up to here is a float
_FLOATS = ((pa.float32(), 1 << 24), (pa.float64(), _EXACT))
_DAY = 86400


class FittingTypes:
    """The types that have every value of each column, for the batches so far."""

    def __init__(self, schema: Any, *, floats: bool) -> None:
        """schema: pa.Schema of the batches. floats: whether floats may stand for integers."""
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
