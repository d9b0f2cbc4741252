"""Times that text says, in ISO 8601: UTC where no zone is given.

The forms that files mostly have are read by Arrow, a column at a time; all others as order values are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.rules.byte_columns import ByteColumn, Flags, Ints, offsets_of
from mutator.rules.order_columns import flags, parse_column, seconds_of

__all__ = ["said_times"]

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_YEAR = r"(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_DATE = f"^{_YEAR}-[0-9]{{2}}-[0-9]{{2}}"
_TIME = "[T ][0-9]{2}:[0-9]{2}:[0-9]{2}"
_NO_YEAR = int.from_bytes(b"0000", "little")
_SURE = 2**63 // 10**9 - 1  # seconds whose nanoseconds fit into 64 bits


def said_times(column: Any, kind: Any) -> tuple[Any, Flags, str]:
    """Read timestamps, dates and times of the day; nothing is rounded.

    Returns the column, which rows could not be read (they are null), and why.
    """
    why = f"is no {kind}, in ISO 8601 and without more digits"
    if pa.types.is_time(kind):  # of the first day
        day = pa.scalar(b"1970-01-01T", pa.large_binary())
        column = pc.binary_join_element_wise(day, column, pa.scalar(b"", pa.large_binary()))
    found = _canonical(column, kind)
    if found is not None:
        return found, np.zeros(len(column), np.bool_), ""
    return *_any(column, kind), why


def _canonical(column: Any, kind: Any) -> Any:
    """Read a column that has but one usual form; None where it has another, or holds what is no time."""
    if pa.types.is_date(kind):
        shapes = [(f"{_DATE}$", kind)]
    else:
        digits = _DIGITS[kind.unit]
        shape = _DATE + _TIME + (rf"(?:\.[0-9]{{1,{digits}}})?" if digits else "")
        shapes = [(f"{shape}$", pa.timestamp(kind.unit)), (f"{shape}Z$", pa.timestamp(kind.unit, "UTC"))]
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            shapes.reverse()
    sample = column.drop_null() if column.null_count else column
    if _are_alike(sample):
        sample = sample.slice(0, 1)
    for shape, read in shapes:
        if pc.all(pc.match_substring_regex(sample, shape)).as_py() in (True, None):
            try:
                found = column.cast(pa.large_string()).cast(read)
            except pa.ArrowInvalid:
                return None
            if pa.types.is_date(kind):
                return found
            ticks = found.view(pa.int64())
            return (ticks if kind.bit_width == 64 else ticks.cast(pa.int32())).view(kind)
    return None


def _are_alike(values: Any) -> bool:
    """Tell whether all values have digits where the first one has some, and everywhere else what it has; no year 0."""
    offsets, data = offsets_of(values)
    size = int(offsets[1]) if len(values) else 0
    if size < 4 or (np.diff(offsets) != size).any():
        return False
    rows = data.reshape(-1, size)
    digit = (rows[0] >= ord("0")) & (rows[0] <= ord("9"))
    lowest, more = np.where(digit, ord("0"), rows[0]).astype(np.uint8), np.where(digit, 9, 0).astype(np.uint8)
    years = np.ascontiguousarray(rows[:, :4]).view("<u4")
    return bool((rows - lowest <= more).all() and (years != _NO_YEAR).all())


def _any(column: Any, kind: Any) -> tuple[Any, Flags]:
    """Read what order values may be."""
    null = flags(column.is_null())
    stamps, wrong = parse_column("timestamp", ByteColumn.of_array(column.drop_null().cast(pa.large_binary())))
    seconds, nanos, finer = seconds_of(stamps)
    wrong |= finer
    if pa.types.is_date(kind):
        values = seconds // 86400
        wrong |= (seconds % 86400 != 0) | (nanos != 0)
    else:
        digits = _DIGITS[kind.unit]
        wrong |= nanos % 10 ** (9 - digits) != 0
        values, beyond = _ticks(seconds, nanos // 10 ** (9 - digits), digits)
        wrong |= beyond
        if pa.types.is_time(kind):
            wrong |= (values < 0) | (values >= 86400 * 10**digits)
    ticks, bad = np.zeros(len(column), np.int64), np.zeros(len(column), np.bool_)
    ticks[~null], bad[~null] = np.where(wrong, 0, values), wrong
    plain = pa.int64() if kind.bit_width == 64 else pa.int32()
    return pa.array(ticks.astype(plain.to_pandas_dtype()), mask=null | bad).view(kind), bad


def _ticks(seconds: Ints, fraction: Ints, digits: int) -> tuple[Ints, Flags]:
    """Return seconds and their fraction in a unit, and which are beyond 64 bits."""
    values = seconds * 10**digits + fraction
    beyond = np.zeros(len(values), np.bool_)
    if digits == _DIGITS["ns"]:
        for row in np.flatnonzero((seconds > _SURE) | (seconds < -_SURE)).tolist():
            exact = int(seconds[row]) * 10**digits + int(fraction[row])
            beyond[row] = not -(2**63) <= exact < 2**63
    return values, beyond
