"""Typed values: the canonical bytes of a key, the order value, and a form that Python can hold without a loss.

Canonical bytes do not depend on the format of a file, nor on how wide a type is: the key 12 is the text ``12``, whether
it stood in a CSV file, in a 32-bit or in a 64-bit column, and a decimal has no zeros at its end.

>>> canonical(pa.array([12, -3], pa.int32())).to_pylist()
[b'12', b'-3']
>>> canonical(pa.array(["2026-01-31 10:00:00.500"]).cast(pa.timestamp("ms"))).to_pylist()
[b'2026-01-31T10:00:00.5Z']
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.rules.byte_columns import ByteColumn, Flags, Ints
from mutator.rules.order_columns import column_type, encoded_lowest, flags, parse_column, timestamp_column, to_texts
from mutator.rules.timestamps import FIRST_SECOND, LAST_SECOND, TICKS

__all__ = [
    "canonical",
    "column_order_type",
    "comparable",
    "convert_leaf_types",
    "convert_leaves",
    "from_row_bytes",
    "moments",
    "order_column",
    "out_of_years",
    "plain_decimals",
    "row_bytes",
]

_DAY = 86400


def canonical(column: Any) -> Any:
    """Return the canonical bytes (large binaries) of a column of key values; null stays null."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        return column.cast(pa.large_binary())
    if pa.types.is_fixed_size_binary(kind):
        return column.cast(pa.binary()).cast(pa.large_binary())
    if pa.types.is_timestamp(kind):
        return to_texts("timestamp", _stamps(column))
    if pa.types.is_decimal(kind):
        text = plain_decimals(column)
        if kind.scale > 0:
            text = pc.replace_substring_regex(text, r"\.?0*$", "")
        return text.cast(pa.large_string()).cast(pa.large_binary())
    return column.cast(pa.large_string()).cast(pa.large_binary())


def column_order_type(kind: Any, stated: str) -> str | None:
    """Return the type of order values that a column gives; None where it cannot give any.

    stated: what the configuration says, which decides how text is read.
    """
    if pa.types.is_string(kind):
        return stated
    if pa.types.is_integer(kind):
        return "long" if kind != pa.uint64() else "decimal"
    if pa.types.is_decimal(kind) or pa.types.is_floating(kind):
        return "decimal"
    return "timestamp" if pa.types.is_timestamp(kind) or pa.types.is_date(kind) else None


def order_column(kind: str, column: Any, null_lowest: bool) -> tuple[Any, Flags, str]:
    """Return a column of order values, which of them are none, and why.

    null_lowest: NULL is older than every value; else it is no order value.
    """
    null = flags(column.is_null())
    if null.any():
        column = column.drop_null()
    found, bad, why = _orders(kind, column)
    if not null.any():
        return found, bad, why
    place = np.zeros(len(null), np.int64)
    place[~null] = np.arange(len(found))
    place[null] = len(found)
    all_bad = null & (not null_lowest)
    all_bad[~null] |= bad
    found = pa.concat_arrays([found, pa.array([encoded_lowest(kind)], column_type(kind))])
    return found.take(pa.array(place)), all_bad, why


def _orders(kind: str, column: Any) -> tuple[Any, Flags, str]:
    good = np.zeros(len(column), np.bool_)
    if pa.types.is_string(column.type):
        found, bad = parse_column(kind, ByteColumn.of_array(column.cast(pa.large_binary())))
        return (
            found,
            bad,
            {"long": "is not an integer", "decimal": "is not a decimal number"}.get(kind, "cannot be read"),
        )
    if kind == "long":
        return column.cast(pa.int64()), good, ""
    if kind == "timestamp":
        return _stamps(column), out_of_years(column), "is not in the years 1 to 9999"
    if pa.types.is_floating(column.type):  # as a double: the shortest text of a 32-bit float is another number
        column = column.cast(pa.float64())
    text = plain_decimals(column) if pa.types.is_decimal(column.type) else column.cast(pa.string())
    found, bad = parse_column("decimal", ByteColumn.of_array(text.cast(pa.large_string()).cast(pa.large_binary())))
    return found, bad, "is not a finite number"


def plain_decimals(column: Any) -> Any:
    """Write decimals without an exponent."""
    text = column.cast(pa.string())
    rows = pc.fill_null(pc.match_substring(text, "E"), False)
    if not flags(rows).any():
        return text
    return pc.replace_with_mask(text, rows, _from_digits(column.filter(rows)))


def _from_digits(column: Any) -> Any:
    """Write decimals without an exponent by the digits that they are held as."""
    scale = column.type.scale
    whole = pa.Array.from_buffers(pa.decimal128(38, 0), len(column), column.buffers(), offset=column.offset)
    digits, none = whole.cast(pa.string()), pa.scalar("", pa.string())
    if scale <= 0:
        filled = pc.binary_join_element_wise(digits, "0" * -scale, none)
        return pc.if_else(pc.equal(digits, "0"), digits, filled)
    sign = pc.if_else(pc.starts_with(digits, "-"), pa.scalar("-", pa.string()), none)
    digits = pc.utf8_lpad(pc.utf8_ltrim(digits, "-"), scale + 1, "0")
    parts = (pc.utf8_slice_codeunits(digits, 0, -scale), ".", pc.utf8_slice_codeunits(digits, -scale))
    return pc.binary_join_element_wise(sign, *parts, none)


def moments(column: Any) -> tuple[Ints, Ints]:
    """Return the seconds since 1970 and the nanoseconds of a column of timestamps or dates without nulls."""
    if pa.types.is_date(column.type):
        days = column.cast(pa.date32()).view(pa.int32()).to_numpy().astype(np.int64)
        return days * _DAY, np.zeros(len(days), np.int64)
    unit = TICKS[column.type.unit]
    ticks = column.view(pa.int64()).to_numpy()
    return ticks // unit, ticks % unit * (1_000_000_000 // unit)


def out_of_years(column: Any) -> Flags:
    """Tell which times are not in the years 1 to 9999, which ISO 8601 cannot write; none of what is no time."""
    if not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
        return np.zeros(len(column), np.bool_)
    seconds, _ = moments(pc.fill_null(column, _epoch(column.type)) if column.null_count else column)
    found: Flags = (seconds < FIRST_SECOND) | (seconds > LAST_SECOND)
    return found


def _epoch(kind: Any) -> Any:
    return pa.scalar(0, pa.int32() if pa.types.is_date(kind) else pa.int64()).cast(kind)


def _stamps(column: Any) -> Any:
    """Return timestamps as ``order_columns`` has them; null for null."""
    if column.null_count:
        found = _stamps(pc.fill_null(column, _epoch(column.type)))
        return pc.if_else(column.is_null(), pa.scalar(None, found.type), found)
    return timestamp_column(*moments(column))


# --- rows as bytes


def row_bytes(rows: Any) -> Any:
    """Return bytes (large binaries) for each struct of an array: equal where all values are, to the last bit."""
    return pa.array([repr(row).encode() for row in comparable(rows).to_pylist()], pa.large_binary())


def from_row_bytes(values: Sequence[bytes], kind: Any) -> Any:
    """Read what ``row_bytes`` made."""
    rows = [ast.literal_eval(value.decode()) for value in values]
    return _restored(pa.array(rows, convert_leaf_types(kind, _exact_type)), kind)


def comparable(column: Any) -> Any:
    """Return a column whose Python values are equal where the values are: no float, and no time of any resolution."""
    return convert_leaves(column, _exact_type, _exact)


def convert_leaves(column: Any, kind_of: Callable[[Any], Any], convert: Callable[[Any], Any]) -> Any:
    """Convert the values within a column, however deep they lie in lists, maps and structs.

    kind_of: returns the type that values of a type get. convert: converts a column of values to it. Maps become lists
    of structs.
    """
    kind = column.type
    plain = convert_leaf_types(kind, kind_of)
    if kind == plain:
        return column
    if pa.types.is_struct(kind):
        parts = [convert_leaves(part, kind_of, convert) for part in column.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(plain), mask=column.is_null())
    if pa.types.is_map(kind):
        parts = [convert_leaves(column.keys, kind_of, convert), convert_leaves(column.items, kind_of, convert)]
        return _listed(column, pa.StructArray.from_arrays(parts, fields=list(plain.value_type)), plain)
    if pa.types.is_list(kind):
        return _listed(column, convert_leaves(column.values, kind_of, convert), plain)
    return convert(column)


def convert_leaf_types(kind: Any, kind_of: Callable[[Any], Any]) -> Any:
    """Return the type that ``mapped`` makes of a type."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(convert_leaf_types(field.type, kind_of)) for field in kind])
    if pa.types.is_map(kind):
        key, item = convert_leaf_types(kind.key_type, kind_of), convert_leaf_types(kind.item_type, kind_of)
        return pa.list_(pa.struct([pa.field("key", key), pa.field("value", item)]))
    if pa.types.is_list(kind):
        return pa.list_(convert_leaf_types(kind.value_type, kind_of))
    return kind_of(kind)


def _exact(column: Any) -> Any:
    return plain_decimals(column) if pa.types.is_decimal(column.type) else column.view(_exact_type(column.type))


def _exact_type(kind: Any) -> Any:
    if pa.types.is_decimal(kind):
        return pa.string()
    if pa.types.is_temporal(kind) or pa.types.is_floating(kind):
        return {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width]
    return kind


def _listed(column: Any, values: Any, plain: Any) -> Any:
    """Make a list array of other values with the offsets and nulls of a list or map array."""
    offsets, mask = column.offsets, column.is_null() if column.null_count else None
    if mask is not None and column.offset:  # Arrow takes no mask beside offsets of a slice
        offsets = pa.array(offsets.to_numpy())
    return pa.ListArray.from_arrays(offsets, values, type=plain, mask=mask)


def _restored(column: Any, kind: Any) -> Any:
    """Turn the exact form back."""
    if column.type == kind:
        return column
    if pa.types.is_struct(kind):
        parts = [_restored(part, field.type) for part, field in zip(column.flatten(), kind, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
    if pa.types.is_map(kind):
        entries, offsets = column.values, column.offsets
        keys, items = _restored(entries.field(0), kind.key_type), _restored(entries.field(1), kind.item_type)
        if column.null_count:  # a null offset is a null map
            null = pa.array(np.append(flags(column.is_null()), False))
            offsets = pc.if_else(null, pa.scalar(None, pa.int32()), offsets)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind)
    if pa.types.is_list(kind):
        return _listed(column, _restored(column.values, kind.value_type), kind)
    if pa.types.is_decimal(kind):
        values = [None if value is None else Decimal(value) for value in column.to_pylist()]
        return pa.array(values, kind)
    return column.view(kind)
