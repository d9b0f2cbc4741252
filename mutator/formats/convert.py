"""Values of one type as another: what a wider type takes, and what text says. Nothing is rounded or cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.ordercolumn import flags, parse_column, to_value
from mutator.schema import normal_type
from mutator.spans import Flags, Spans

__all__ = ["converted"]

_SHAPES = {
    "integer": r"^[+-]?[0-9]+$",
    "decimal": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)$",
    "boolean": r"^(true|false|TRUE|FALSE|True|False|0|1)$",
}
_TICKS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def converted(column: Any, kind: Any, typed: bool) -> tuple[Any, Flags, str]:
    """Return a column of another type, which rows could not be converted (they are null), and why.

    typed: else the column holds text (large binaries) that says what the values are.
    """
    good = np.zeros(len(column), np.bool_)
    if not typed:
        return _said(column, kind)
    if column.type == kind:
        return column, good, ""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    plain = normal_type(column.type)
    try:
        if plain != column.type:
            column = column.cast(plain)
        return column.cast(kind), good, ""
    except pa.ArrowInvalid:
        return _one_by_one(column, kind)


def _one_by_one(column: Any, kind: Any) -> tuple[Any, Flags, str]:
    """Convert what can be converted."""
    bad = np.zeros(len(column), np.bool_)
    parts = []
    for row in range(len(column)):
        try:
            parts.append(column[row : row + 1].cast(kind))
        except pa.ArrowInvalid:
            bad[row] = True
            parts.append(pa.nulls(1, kind))
    return pa.concat_arrays(parts), bad, f"does not fit into {kind}"


def _said(column: Any, kind: Any) -> tuple[Any, Flags, str]:
    """Read text."""
    types = pa.types
    none = np.zeros(len(column), np.bool_)
    if types.is_binary(kind):
        return column.cast(pa.binary()), none, ""
    if types.is_fixed_size_binary(kind):
        return converted(column.cast(pa.binary()), kind, typed=True)
    if types.is_timestamp(kind) or types.is_date(kind):
        return _times(column, kind)
    if types.is_time(kind):  # of the first day
        day = pa.scalar(b"1970-01-01T", pa.large_binary())
        return _times(pc.binary_join_element_wise(day, column, pa.scalar(b"", pa.large_binary())), kind)
    try:
        text = column.cast(pa.string())
    except pa.ArrowInvalid:
        text, bad, _ = _one_by_one(column, pa.string())
        if types.is_string(kind):
            return text, bad, "is not UTF-8"
    if types.is_string(kind):
        return text, none, ""
    shape = None
    if types.is_integer(kind):
        shape = _SHAPES["integer"]
        text = pc.replace_substring_regex(text, r"^\+", "")
    elif types.is_decimal(kind):
        shape = _SHAPES["decimal"]
    elif types.is_boolean(kind):
        shape = _SHAPES["boolean"]
    bad = none if shape is None else ~flags(pc.fill_null(pc.match_substring_regex(text, shape), True))
    bad |= flags(text.is_null()) & ~flags(column.is_null())
    if bad.any():
        text = pc.if_else(pa.array(bad), pa.scalar(None, pa.string()), text)
    try:
        found = text.cast(kind)
        if types.is_floating(kind):  # beyond what the type holds is no infinity, unless it says so
            said = flags(pc.fill_null(pc.match_substring_regex(text, r"^[+-]?(?i:inf)"), False))
            bad = bad | (flags(pc.fill_null(pc.is_inf(found), False)) & ~said)
        return found, bad, f"is no {kind}"
    except pa.ArrowInvalid:
        found, more, _ = _one_by_one(text, kind)
        return found, bad | more, f"is no {kind}"


def _times(column: Any, kind: Any) -> tuple[Any, Flags, str]:
    """Read ISO 8601, as order values are read: UTC where no zone is given."""
    null = flags(column.is_null())
    fields = Spans.of_array(column.drop_null().cast(pa.large_binary()))
    stamps, wrong = parse_column("timestamp", fields)
    ticks, bad = np.zeros(len(column), np.int64), np.zeros(len(column), np.bool_)
    digits = None if pa.types.is_date(kind) else _TICKS[kind.unit]
    values: list[int] = []
    fits = ~wrong
    for row, stamp in enumerate(stamps.to_pylist()):
        seconds, fraction = (0, b"") if wrong[row] else to_value("timestamp", stamp)
        value, good = _ticks(seconds, fraction, digits)
        values.append(value)
        fits[row] &= good
    ticks[~null], bad[~null] = values, ~fits
    plain = pa.int64() if kind.bit_width == 64 else pa.int32()
    found = pa.array(ticks.astype(plain.to_pandas_dtype()), mask=null | bad).view(kind)
    return found, bad, f"is no {kind}, in ISO 8601 and without more digits"


def _ticks(seconds: int, fraction: bytes, digits: int | None) -> tuple[int, bool]:
    """Return a time in its unit, days where there are no digits; and whether it is exactly that."""
    if digits is None:
        days, rest = divmod(seconds, 86400)
        return days, not rest and not fraction
    value = seconds * 10**digits + int((fraction[:digits].ljust(digits, b"0")) or b"0")
    return (value, len(fraction) <= digits) if -(2**63) <= value < 2**63 else (0, False)
