"""Values of one type as another: what a wider type takes, and what text says. Nothing is rounded or cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.formats.values.json_text import from_json
from mutator.formats.values.scalar_text import ticks_type
from mutator.formats.values.time_text import parse_times
from mutator.rules.byte_columns import Flags, offsets_of
from mutator.rules.order_columns import flags
from mutator.rules.schema_evolution import normal_type

__all__ = ["converted"]

_DAY = {"s": 86400, "ms": 86400 * 10**3, "us": 86400 * 10**6, "ns": 86400 * 10**9}
_SHAPES = {
    "integer": r"^[+-]?[0-9]+$",
    "decimal": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)$",
    "boolean": r"^(true|false|TRUE|FALSE|True|False|0|1)$",
}


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
    """Read text; of times and floats ``@`` and a whole number too, which is what the value is held as."""
    types = pa.types
    bits = types.is_floating(kind) or (types.is_temporal(kind) and not types.is_duration(kind))
    if bits and pc.any(pc.starts_with(column, "@")).as_py():
        held = flags(pc.fill_null(pc.match_substring_regex(column, "^@-?[0-9]+$"), False))
        if held.any():
            return _held(column, kind, held)
    none = np.zeros(len(column), np.bool_)
    if types.is_binary(kind):
        return column.cast(pa.binary()), none, ""
    if types.is_fixed_size_binary(kind):
        return converted(column.cast(pa.binary()), kind, typed=True)
    if types.is_timestamp(kind) or types.is_date(kind) or types.is_time(kind):
        return parse_times(column, kind)
    if types.is_nested(kind):
        return from_json(column, kind, _said)
    if types.is_null(kind):
        return pa.nulls(len(column)), ~flags(column.is_null()), "should be NULL"
    if types.is_duration(kind):
        found, bad, _ = _said(column, pa.int64())
        return found.view(kind), bad, f"is no {kind}, a whole number"
    try:
        text = column.cast(pa.string())
    except pa.ArrowInvalid:
        text, bad, _ = _one_by_one(column, pa.string())
        if types.is_string(kind):
            return text, bad, "is not UTF-8"
    if types.is_string(kind):
        return text, none, ""
    shape = None
    if (types.is_integer(kind) or types.is_decimal(kind)) and _has_no_letters(column):
        try:
            return text.cast(kind), none, ""
        except pa.ArrowInvalid:  # some are no numbers, or of another form
            pass
    if types.is_integer(kind):
        shape = _SHAPES["integer"]
        if pc.any(pc.starts_with(text, "+")).as_py():
            text = pc.replace_substring_regex(text, r"^\+", "")
    elif types.is_decimal(kind):
        shape = _SHAPES["decimal"]
    elif types.is_boolean(kind):
        shape = _SHAPES["boolean"]
    bad = none.copy() if shape is None else ~flags(pc.fill_null(pc.match_substring_regex(text, shape), True))
    bad |= flags(text.is_null()) & ~flags(column.is_null())
    if bad.any():
        text = pc.if_else(pa.array(bad), pa.scalar(None, pa.string()), text)
    try:
        found = text.cast(kind)
        if types.is_floating(kind):  # beyond what the type holds is no infinity, unless it says so
            beyond = flags(pc.fill_null(pc.is_inf(found), False))
            if beyond.any():
                bad |= beyond & ~flags(pc.fill_null(pc.match_substring_regex(text, r"^[+-]?(?i:inf)"), False))
        return found, bad, f"is no {kind}"
    except pa.ArrowInvalid:
        found, more, _ = _one_by_one(text, kind)
        return found, bad | more, f"is no {kind}"


def _has_no_letters(column: Any) -> bool:
    """Tell whether Arrow takes no other numbers in a column than we do: 0x1F and 1e5 have letters."""
    _, data = offsets_of(column)
    return bool(data.max(initial=0) <= ord("9"))


def _held(column: Any, kind: Any, held: Flags) -> tuple[Any, Flags, str]:
    """Read a column of which some rows are ``@`` and a whole number."""
    rows, plain = pa.array(held), ticks_type(kind)
    numbers, bad, _ = _said(pc.binary_replace_slice(column.filter(rows), 0, 1, b""), plain)
    if pa.types.is_time(kind):  # Arrow has others than those of a day, and takes them for a fault
        inside = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, _DAY[kind.unit]))
        bad |= ~flags(pc.fill_null(inside, True))
        numbers = pc.if_else(pa.array(bad), pa.scalar(None, plain), numbers)
    others, wrong, why = _said(column.filter(pc.invert(rows)), kind)
    place = np.where(held, np.cumsum(held), len(numbers) + np.cumsum(~held)) - 1
    found = pa.concat_arrays([numbers.view(kind), others]).take(pa.array(place))
    return found, np.concatenate((bad, wrong))[place], why or f"is no {kind}"
