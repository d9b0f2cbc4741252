"""Typed columns: the canonical bytes of keys, order values, and a form that Python can represent without loss.

Canonical bytes depend neither on the file format nor on the width of a type: the key 12 is the text ``12`` in a CSV
file, a 32-bit and a 64-bit column, and a decimal has no trailing zeros.

>>> canonical(pa.array([12, -3], pa.int32())).to_pylist()
[b'12', b'-3']
>>> canonical(pa.array(["2026-01-31 10:00:00.500"]).cast(pa.timestamp("ms"))).to_pylist()
[b'2026-01-31T10:00:00.5Z']
"""

import ast
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.rules.byte_columns import ByteColumn, Flags, Ints
from mutator.rules.order_columns import column_type, encoded_lowest, flags, parse_column, timestamp_column, to_texts
from mutator.rules.order_tuples import orders_of_parts
from mutator.rules.order_types import parts_of
from mutator.rules.timestamps import FIRST_SECOND, LAST_SECOND, TICKS

_DAY = 86400


def canonical(column: Any) -> Any:
    """Return the canonical bytes (pa.Array of large_binary) of a column of key values; null stays null.

    >>> canonical(pa.array([True, None])).to_pylist()
    [b'true', None]
    """
    data_type = column.type
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    if any(is_text(data_type) for is_text in texts):
        return column.cast(pa.large_binary())
    if pa.types.is_fixed_size_binary(data_type):
        return column.cast(pa.binary()).cast(pa.large_binary())
    if pa.types.is_timestamp(data_type):
        return to_texts("timestamp", _stamps(column))
    if pa.types.is_decimal(data_type):
        text = plain_decimals(column)
        if data_type.scale > 0:
            text = pc.replace_substring_regex(text, r"\.?0*$", "")
        return text.cast(pa.large_string()).cast(pa.large_binary())
    return column.cast(pa.large_string()).cast(pa.large_binary())


def unequal(one: Any, other: Any) -> Flags:
    """Return which elements of two pa.Arrays of one type differ; NULL equals NULL, and floats are compared by bits."""
    if pa.types.is_null(one.type):
        return np.zeros(len(one), np.bool_)
    if pa.types.is_struct(one.type):
        found = flags(pc.not_equal(one.is_null(), other.is_null()))
        for left, right in zip(one.flatten(), other.flatten(), strict=True):
            found |= unequal(left, right)
        return found
    if pa.types.is_list(one.type):
        return _unequal_lists(one, other)
    if pa.types.is_nested(one.type):
        pairs = zip(comparable(one).to_pylist(), comparable(other).to_pylist(), strict=True)
        return np.array([left != right for left, right in pairs], np.bool_)
    if pa.types.is_floating(one.type):
        one, other = one.view(ticks_type(one.type)), other.view(ticks_type(one.type))
    differ = flags(pc.fill_null(pc.not_equal(one, other), False))
    return differ | flags(pc.not_equal(one.is_null(), other.is_null()))


def _unequal_lists(one: Any, other: Any) -> Flags:
    found = flags(pc.not_equal(one.is_null(), other.is_null()))
    both = np.flatnonzero(flags(pc.and_(one.is_valid(), other.is_valid())))
    lengths, others = (pc.list_value_length(lists.take(pa.array(both))) for lists in (one, other))
    differ = flags(pc.not_equal(lengths, others))
    found[both[differ]] = True
    rows = both[~differ]
    one, other = (lists.take(pa.array(rows)) for lists in (one, other))
    parents = pc.list_parent_indices(one).to_numpy()
    found[rows[parents[unequal(one.flatten(), other.flatten())]]] = True
    return found


def column_order_type(data_type: Any, stated: str) -> str | None:
    """Return the order type of a column's data type; None if it cannot have order values.

    stated: the order type of the configuration, which decides how text is read.

    >>> column_order_type(pa.int32(), "long"), column_order_type(pa.date32(), "long"), column_order_type(pa.bool_(), "")
    ('long', 'timestamp', None)
    """
    if pa.types.is_string(data_type):
        return stated
    if pa.types.is_integer(data_type):
        return "long" if data_type != pa.uint64() else "decimal"
    if pa.types.is_decimal(data_type) or pa.types.is_floating(data_type):
        return "decimal"
    return "timestamp" if pa.types.is_timestamp(data_type) or pa.types.is_date(data_type) else None


def order_column(order_type: str, column: Any, null_lowest: bool) -> tuple[Any, Flags, str]:
    """Return a column of order values, which rows have no valid one, and why.

    null_lowest: NULL is older than every value; otherwise it is not valid.

    >>> column, bad, _ = order_column("long", pa.array([7, None], pa.int32()), null_lowest=False)
    >>> column[0].as_py(), bad.tolist()
    (7, [False, True])
    """
    null = flags(column.is_null())
    if null.any():
        column = column.drop_null()
    found, bad, why = _orders(order_type, column)
    if not null.any():
        return found, bad, why
    positions = np.zeros(len(null), np.int64)
    positions[~null] = np.arange(len(found))
    positions[null] = len(found)
    all_bad = null & (not null_lowest)
    all_bad[~null] |= bad
    found = pa.concat_arrays([found, pa.array([encoded_lowest(order_type)], column_type(order_type))])
    return found.take(pa.array(positions)), all_bad, why


class Orders(NamedTuple):
    """Order values of rows."""

    column: Any  # pa.Array
    faults: tuple[tuple[Flags, str], ...]  # of each field, the rows without a valid value, and why


def orders_of(order_type: str, columns: Sequence[Any], null_lowest: bool) -> Orders:
    """Return the order values of rows. columns: a pa.Array for each field of the order.

    >>> orders_of("long desc", [pa.array([7, 9])], null_lowest=False).column.to_pylist() < [b"\x12"]
    True
    """
    parts = parts_of(order_type)
    made = [order_column(part.type, column, null_lowest) for part, column in zip(parts, columns, strict=True)]
    nulls = [flags(column.is_null()) for column in columns]
    return Orders(orders_of_parts(order_type, [one[0] for one in made], nulls), tuple(one[1:] for one in made))


def _orders(order_type: str, column: Any) -> tuple[Any, Flags, str]:
    good = np.zeros(len(column), np.bool_)
    if pa.types.is_string(column.type) or pa.types.is_large_binary(column.type):  # of a format whose values are text
        found, bad = parse_column(order_type, ByteColumn.of_array(column.cast(pa.large_binary())))
        return (
            found,
            bad,
            {"long": "is not an integer", "decimal": "is not a decimal number"}.get(order_type, "cannot be read"),
        )
    if order_type == "long":
        return column.cast(pa.int64()), good, ""
    if order_type == "timestamp":
        return _stamps(column), out_of_years(column), "is not in the years 1 to 9999"
    if pa.types.is_floating(column.type):  # as a double: the shortest text of a 32-bit float is another number
        column = column.cast(pa.float64())
    text = plain_decimals(column) if pa.types.is_decimal(column.type) else column.cast(pa.string())
    found, bad = parse_column("decimal", ByteColumn.of_array(text.cast(pa.large_string()).cast(pa.large_binary())))
    return found, bad, "is not a finite number"


def plain_decimals(column: Any) -> Any:
    """Write a column of decimals as text without an exponent.

    >>> plain_decimals(pa.array([Decimal("0.00000012")], pa.decimal128(9, 8))).to_pylist()
    ['0.00000012']
    """
    text = column.cast(pa.string())
    rows = pc.fill_null(pc.match_substring(text, "E"), False)
    if not flags(rows).any():
        return text
    return pc.replace_with_mask(text, rows, _from_digits(column.filter(rows)))


def _from_digits(column: Any) -> Any:
    """Write decimals without an exponent, from the digits that Arrow stores."""
    scale = column.type.scale
    wide = column.cast(pa.decimal256(76, scale))  # whichever width its values have
    whole = pa.Array.from_buffers(pa.decimal256(76, 0), len(wide), wide.buffers(), offset=wide.offset)
    digits, none = whole.cast(pa.string()), pa.scalar("", pa.string())
    if scale <= 0:
        filled = pc.binary_join_element_wise(digits, "0" * -scale, none)
        return pc.if_else(pc.equal(digits, "0"), digits, filled)
    sign = pc.if_else(pc.starts_with(digits, "-"), pa.scalar("-", pa.string()), none)
    digits = pc.utf8_lpad(pc.utf8_ltrim(digits, "-"), scale + 1, "0")
    parts = (pc.utf8_slice_codeunits(digits, 0, -scale), ".", pc.utf8_slice_codeunits(digits, -scale))
    return pc.binary_join_element_wise(sign, *parts, none)


def seconds_and_nanos(column: Any) -> tuple[Ints, Ints]:
    """Return the seconds since 1970 and the nanoseconds of a column of timestamps or dates without nulls.

    >>> [values.tolist() for values in seconds_and_nanos(pa.array([1250], pa.timestamp("ms")))]
    [[1], [250000000]]
    """
    if pa.types.is_date(column.type):
        days = column.cast(pa.date32()).view(pa.int32()).to_numpy().astype(np.int64)
        return days * _DAY, np.zeros(len(days), np.int64)
    unit = TICKS[column.type.unit]
    ticks = column.view(pa.int64()).to_numpy()
    return ticks // unit, ticks % unit * (1_000_000_000 // unit)


def out_of_years(column: Any) -> Flags:
    """Return which timestamps or dates lie outside of the years 1 to 9999, which ISO 8601 cannot write.

    In a column of any other type, no row does.

    >>> out_of_years(pa.array([0, -800_000], pa.date32())).tolist()
    [False, True]
    """
    if not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
        return np.zeros(len(column), np.bool_)
    seconds, _ = seconds_and_nanos(pc.fill_null(column, _epoch(column.type)) if column.null_count else column)
    found: Flags = (seconds < FIRST_SECOND) | (seconds > LAST_SECOND)
    return found


def _epoch(data_type: Any) -> Any:
    return pa.scalar(0, pa.int32() if pa.types.is_date(data_type) else pa.int64()).cast(data_type)


def _stamps(column: Any) -> Any:
    """Return order values of timestamps; null stays null."""
    if column.null_count:
        found = _stamps(pc.fill_null(column, _epoch(column.type)))
        return pc.if_else(column.is_null(), pa.scalar(None, found.type), found)
    return timestamp_column(*seconds_and_nanos(column))


# --- rows as bytes


def row_bytes(rows: Any) -> Any:
    """Return bytes (pa.Array of large_binary) for each struct of an array; equal bytes mean equal values, to the bit.

    >>> row_bytes(pa.array([{"id": 7, "price": 1.5}])).to_pylist()
    [b"{'id': 7, 'price': 4609434218613702656}"]
    """
    return pa.array([repr(row).encode() for row in comparable(rows).to_pylist()], pa.large_binary())


def from_row_bytes(values: Sequence[bytes], data_type: Any) -> Any:
    """Return the structs that ``row_bytes`` encoded.

    >>> rows = pa.array([{"id": 7, "price": 1.5}])
    >>> from_row_bytes(row_bytes(rows).to_pylist(), rows.type) == rows
    True
    """
    rows = [ast.literal_eval(value.decode()) for value in values]
    return _restored(pa.array(rows, convert_leaf_types(data_type, _exact_type)), data_type)


def comparable(column: Any) -> Any:
    """Return a column whose Python values are equal exactly if the column's are.

    Floats and times become integers, and decimals text.

    >>> comparable(pa.array([1.5])).to_pylist()
    [4609434218613702656]
    """
    return convert_leaves(column, _exact_type, _exact)


def convert_leaves(column: Any, type_of: Callable[[Any], Any], convert: Callable[[Any], Any]) -> Any:
    """Convert the values of a column, at any depth of lists, maps and structs. Maps become lists of structs.

    type_of: returns the type to which values of a type are converted. convert: converts a column to it.

    >>> column = pa.array([[1, 2]], pa.list_(pa.int32()))
    >>> convert_leaves(column, lambda data_type: pa.string(), lambda leaf: leaf.cast(pa.string())).to_pylist()
    [['1', '2']]
    """
    data_type = column.type
    plain = convert_leaf_types(data_type, type_of)
    if data_type == plain:
        return column
    if pa.types.is_struct(data_type):
        parts = [convert_leaves(part, type_of, convert) for part in column.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(plain), mask=column.is_null())
    if pa.types.is_map(data_type):
        parts = [convert_leaves(column.keys, type_of, convert), convert_leaves(column.items, type_of, convert)]
        return _listed(column, pa.StructArray.from_arrays(parts, fields=list(plain.value_type)), plain)
    if pa.types.is_list(data_type):
        return _listed(column, convert_leaves(column.values, type_of, convert), plain)
    return convert(column)


def convert_leaf_types(data_type: Any, type_of: Callable[[Any], Any]) -> Any:
    """Return the type to which ``convert_leaves`` converts a type.

    >>> convert_leaf_types(pa.list_(pa.int32()), lambda data_type: pa.string()) == pa.list_(pa.string())
    True
    """
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(convert_leaf_types(field.type, type_of)) for field in data_type])
    if pa.types.is_map(data_type):
        key, item = convert_leaf_types(data_type.key_type, type_of), convert_leaf_types(data_type.item_type, type_of)
        return pa.list_(pa.struct([pa.field("key", key), pa.field("value", item)]))
    if pa.types.is_list(data_type):
        return pa.list_(convert_leaf_types(data_type.value_type, type_of))
    return type_of(data_type)


def _exact(column: Any) -> Any:
    return plain_decimals(column) if pa.types.is_decimal(column.type) else column.view(_exact_type(column.type))


def _exact_type(data_type: Any) -> Any:
    if pa.types.is_decimal(data_type):
        return pa.string()
    if pa.types.is_temporal(data_type) or pa.types.is_floating(data_type):
        return ticks_type(data_type)
    return data_type


def ticks_type(data_type: Any) -> Any:
    """Return the integer type with as many bits as a type.

    >>> ticks_type(pa.float32())
    DataType(int32)
    """
    return {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[data_type.bit_width]


def _listed(column: Any, values: Any, plain: Any) -> Any:
    """Make a list array of other values with the offsets and nulls of a list or map array."""
    offsets, mask = column.offsets, column.is_null() if column.null_count else None
    if mask is not None and column.offset:  # Arrow takes no mask beside offsets of a slice
        offsets = pa.array(offsets.to_numpy())
    return pa.ListArray.from_arrays(offsets, values, type=plain, mask=mask)


def _restored(column: Any, data_type: Any) -> Any:
    """Undo ``comparable``."""
    if column.type == data_type:
        return column
    if pa.types.is_struct(data_type):
        parts = [_restored(part, field.type) for part, field in zip(column.flatten(), data_type, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(data_type), mask=column.is_null())
    if pa.types.is_map(data_type):
        entries, offsets = column.values, column.offsets
        keys, items = _restored(entries.field(0), data_type.key_type), _restored(entries.field(1), data_type.item_type)
        if column.null_count:  # a null offset is a null map
            null = pa.array(np.append(flags(column.is_null()), False))
            offsets = pc.if_else(null, pa.scalar(None, pa.int32()), offsets)
        return pa.MapArray.from_arrays(offsets, keys, items, type=data_type)
    if pa.types.is_list(data_type):
        return _listed(column, _restored(column.values, data_type.value_type), data_type)
    if pa.types.is_decimal(data_type):
        values = [None if value is None else Decimal(value) for value in column.to_pylist()]
        return pa.array(values, data_type)
    return column.view(data_type)
