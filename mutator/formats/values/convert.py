"""Convert columns to a wider type, and text to typed values. Nothing is rounded or cut.

Times in text, in ISO 8601, to columns of timestamps, dates and times of the day: UTC where no zone is given.

Single values that a user gives, typed as the values of a column are.
"""

from __future__ import annotations

from base64 import b64decode
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.formats.values.json_text import from_json
from mutator.formats.values.nested import converted_nested, nulls
from mutator.rules.byte_columns import ByteColumn, Flags, Ints, concatenated, offsets_of
from mutator.rules.order_columns import flags
from mutator.rules.schema_evolution import normal_type
from mutator.rules.timestamp_columns import parse_timestamps
from mutator.rules.timestamps import TICKS
from mutator.rules.typed_values import ticks_type

_SURE = 2**63 // 10**9 - 1  # seconds whose nanoseconds fit into 64 bits


def parse_times(column: Any, data_type: Any) -> tuple[Any, Flags, str]:
    """Read a pa.Array of large_binary to a timestamp, date or time type; nothing is rounded.

    Returns the column, which rows could not be read (they are null), and why.

    >>> column, bad, _ = parse_times(pa.array([b"1970-01-02", b"1970-01-02T01"], pa.large_binary()), pa.date32())
    >>> column.view(pa.int32()).to_pylist(), bad.tolist()
    ([1, None], [False, True])
    """
    if pa.types.is_time(data_type):  # of the first day
        column = concatenated(b"1970-01-01T", column)
    texts = column.drop_null() if column.null_count else column
    seconds, nanos, finer, bad = parse_timestamps(ByteColumn.of_array(texts.cast(pa.large_binary())))
    ticks, beyond = _ticks_of(seconds, nanos, data_type)
    bad |= finer | beyond
    ticks[bad] = 0
    missing = bad
    if column.null_count:
        null = flags(column.is_null())
        all_ticks, all_bad = np.zeros(len(column), np.int64), np.zeros(len(column), np.bool_)
        all_ticks[~null], all_bad[~null] = ticks, bad
        ticks, bad, missing = all_ticks, all_bad, null | all_bad
    plain = np.int64 if data_type.bit_width == 64 else np.int32
    found = pa.array(ticks.astype(plain, copy=False), mask=missing if missing.any() else None).view(data_type)
    return found, bad, f"is not of type {data_type}, in ISO 8601 and without more digits"


def _ticks_of(seconds: Ints, nanos: Ints, data_type: Any) -> tuple[Ints, Flags]:
    """Return times in the unit of a type, and which of them the type does not hold."""
    if pa.types.is_date(data_type):
        return seconds // 86400, (seconds % 86400 != 0) | (nanos != 0)
    ticks_a_second = TICKS[data_type.unit]
    fraction, rest = np.divmod(nanos, TICKS["ns"] // ticks_a_second)
    ticks, bad = seconds * ticks_a_second + fraction, rest != 0
    if data_type.unit == "ns":
        for row in np.flatnonzero((seconds > _SURE) | (seconds < -_SURE)).tolist():
            exact = int(seconds[row]) * ticks_a_second + int(fraction[row])
            bad[row] |= not -(2**63) <= exact < 2**63
    if pa.types.is_time(data_type):
        bad |= (ticks < 0) | (ticks >= 86400 * ticks_a_second)
    return ticks, bad


_FAMILIES = (pa.types.is_boolean, pa.types.is_temporal, pa.types.is_string)  # Arrow casts between these


def typed_value(value: Any, data_type: Any) -> tuple[Any, str | None]:
    """Return a value as a pa.Scalar of a type, and None; or None and why it is not of the type. Text is parsed.

    >>> typed_value("7", pa.int32()), typed_value("x", pa.int32())
    ((<pyarrow.Int32Scalar: 7>, None), (None, 'is not of type int32'))
    """
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if (is_whole and _is_number(data_type)) or (isinstance(value, float) and pa.types.is_decimal(data_type)):
        value = str(value)  # Arrow takes ints of 64 bits, and would round a float
    if isinstance(value, str):
        text = pa.array([value.encode("utf-8", "surrogateescape")], pa.large_binary())
        found, bad, why = converted(text, data_type, typed=False)
        return (None, why) if bad[0] else (found[0], None)
    try:
        scalar = pa.scalar(value)
        alike = all(family(scalar.type) == family(data_type) for family in _FAMILIES)
        found = scalar.cast(data_type) if alike else None
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        found = None
    if found is None:
        return None, f"is not of type {data_type}"
    return (found, None) if found.is_valid else (None, f"is not of type {data_type}; use `is null`")


def _is_number(data_type: Any) -> bool:
    types = pa.types
    return any(of(data_type) for of in (types.is_integer, types.is_floating, types.is_decimal))


_DAY = {"s": 86400, "ms": 86400 * 10**3, "us": 86400 * 10**6, "ns": 86400 * 10**9}
_SHAPES = (
    (pa.types.is_integer, r"^[+-]?[0-9]+$"),
    (pa.types.is_decimal, r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)$"),
    (pa.types.is_boolean, r"^(true|false|TRUE|FALSE|True|False|0|1)$"),
)


def converted(column: Any, data_type: Any, typed: bool) -> tuple[Any, Flags, str]:
    """Return a pa.Array of another type, which rows could not be converted (they are NULL there), and why.

    typed: False if the column is text, a pa.Array of large_binary.

    >>> column, bad, why = converted(pa.array([b"7", b"x"], pa.large_binary()), pa.int32(), typed=False)
    >>> column.to_pylist(), bad.tolist(), why
    ([7, None], [False, True], 'is not of type int32')
    """
    if not typed:
        return _parse(column, data_type)
    good = np.zeros(len(column), np.bool_)
    if column.type == data_type:
        return column, good, ""
    nested = pa.types.is_nested(column.type) and pa.types.is_nested(data_type)
    if column.null_count == len(column) and not nested:  # Arrow cannot cast every type to every other
        return nulls(len(column), data_type), good, ""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    plain = normal_type(column.type)
    if isinstance(column, pa.DictionaryArray):  # Arrow takes no elements of views, which Polars has
        column = pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(plain))
    if pa.types.is_nested(plain) and pa.types.is_nested(data_type):
        column = column if plain == column.type else column.cast(plain)
        return converted_nested(column, data_type, partial(converted, typed=True))
    try:
        if plain != column.type:
            column = column.cast(plain)
        return column.cast(data_type), good, ""
    except pa.ArrowInvalid:
        return _one_by_one(column, data_type)


def _one_by_one(column: Any, data_type: Any) -> tuple[Any, Flags, str]:
    """Convert the rows that can be converted."""
    bad = np.zeros(len(column), np.bool_)
    parts = []
    for row in range(len(column)):
        try:
            parts.append(column[row : row + 1].cast(data_type))
        except pa.ArrowInvalid:
            bad[row] = True
            parts.append(pa.nulls(1, data_type))
    units = [one.unit for one in (column.type, data_type) if pa.types.is_timestamp(one)]
    why = (
        "is finer than microseconds, see the setting nanos"
        if units == ["ns", "us"]
        else f"does not fit into {data_type}"
    )
    return pa.concat_arrays(parts), bad, why


def _parse(column: Any, data_type: Any) -> tuple[Any, Flags, str]:
    """Parse text; times and floats also from ``@`` and the integer of their bits."""
    types = pa.types
    has_bits = types.is_floating(data_type) or (types.is_temporal(data_type) and not types.is_duration(data_type))
    if has_bits and pc.any(pc.starts_with(column, "@")).as_py():
        is_bits = flags(pc.fill_null(pc.match_substring_regex(column, "^@-?[0-9]+$"), False))
        if is_bits.any():
            return _parse_some_bits(column, data_type, is_bits)
    if types.is_binary(data_type):
        return column.cast(pa.binary()), np.zeros(len(column), np.bool_), ""
    if types.is_fixed_size_binary(data_type):
        return converted(column.cast(pa.binary()), data_type, typed=True)
    if types.is_timestamp(data_type) or types.is_date(data_type) or types.is_time(data_type):
        return parse_times(column, data_type)
    if types.is_nested(data_type):
        return from_json(column, data_type, _parse)
    if types.is_null(data_type):
        return pa.nulls(len(column)), ~flags(column.is_null()), "should be NULL"
    if types.is_duration(data_type):
        found, bad, _ = _parse(column, pa.int64())
        return found.view(data_type), bad, f"is not of type {data_type}, a whole number"
    return _parse_utf8(column, data_type)


def _parse_utf8(column: Any, data_type: Any) -> tuple[Any, Flags, str]:
    """Parse text to strings, numbers or booleans."""
    types, good = pa.types, np.zeros(len(column), np.bool_)
    try:
        text = column.cast(pa.string())
    except pa.ArrowInvalid:
        text, bad, _ = _one_by_one(column, pa.string())
        if types.is_string(data_type):
            return text, bad, "is not UTF-8"
    if types.is_string(data_type):
        return text, good, ""
    if (types.is_integer(data_type) or types.is_decimal(data_type)) and _has_no_letters(column):
        try:
            return text.cast(data_type), good, ""
        except pa.ArrowInvalid:  # some values are not numbers, or need another form
            pass
    shape = next((shape for has_shape, shape in _SHAPES if has_shape(data_type)), None)
    if types.is_integer(data_type) and pc.any(pc.starts_with(text, "+")).as_py():
        text = pc.replace_substring_regex(text, r"^\+", "")
    bad = good if shape is None else ~flags(pc.fill_null(pc.match_substring_regex(text, shape), True))
    bad |= flags(text.is_null()) & ~flags(column.is_null())
    if bad.any():
        text = pc.if_else(pa.array(bad), pa.scalar(None, pa.string()), text)
    try:
        found = text.cast(data_type)
    except pa.ArrowInvalid:
        found, more, _ = _one_by_one(text, data_type)
        return found, bad | more, f"is not of type {data_type}"
    if types.is_floating(data_type):  # a number beyond the type's range is not infinity
        beyond = flags(pc.fill_null(pc.is_inf(found), False))
        if beyond.any():
            bad |= beyond & ~flags(pc.fill_null(pc.match_substring_regex(text, r"^[+-]?(?i:inf)"), False))
    return found, bad, f"is not of type {data_type}"


def _has_no_letters(column: Any) -> bool:
    """Return whether a column has only numbers that Arrow may parse for us; it also accepts 0x1F and 1e5."""
    _, data = offsets_of(column)
    return bool(data.max(initial=0) <= ord("9"))


def _parse_some_bits(column: Any, data_type: Any, is_bits: Flags) -> tuple[Any, Flags, str]:
    """Parse a column of which some rows are ``@`` and an integer."""
    rows, integers = pa.array(is_bits), ticks_type(data_type)
    numbers, bad, _ = _parse(pc.binary_replace_slice(column.filter(rows), 0, 1, b""), integers)
    if pa.types.is_time(data_type):  # Arrow raises for times beyond a day
        inside = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, _DAY[data_type.unit]))
        bad |= ~flags(pc.fill_null(inside, True))
        numbers = pc.if_else(pa.array(bad), pa.scalar(None, integers), numbers)
    others, wrong, why = _parse(column.filter(pc.invert(rows)), data_type)
    order = np.where(is_bits, np.cumsum(is_bits), len(numbers) + np.cumsum(~is_bits)) - 1
    found = pa.concat_arrays([numbers.view(data_type), others]).take(pa.array(order))
    return found, np.concatenate((bad, wrong))[order], why or f"is not of type {data_type}"


def is_binary(data_type: Any) -> bool:
    """Return whether values are binary."""
    types = pa.types
    return bool(types.is_binary(data_type) or types.is_large_binary(data_type) or types.is_fixed_size_binary(data_type))


def from_base64(column: Any, data_type: Any) -> tuple[Any, Flags, str]:
    """Return binaries as JSON has them, by the convention of all its writers; else as ``converted`` does."""
    values, bad = column.cast(pa.binary()).to_pylist(), np.zeros(len(column), np.bool_)
    for row, value in enumerate(values):
        try:
            values[row] = None if value is None else b64decode(value, validate=True)
        except ValueError:
            values[row], bad[row] = None, True
    found, other, why = converted(pa.array(values, pa.binary()), data_type, True)
    return found, bad | other, why if other.any() else "is not base64, as JSON has binary values"
