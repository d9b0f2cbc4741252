"""Columns of order values: Arrow arrays that compare as the single values of ``order_values`` do.

``long`` and ``sequence`` are int64. The other types are large_binary whose bytes compare as the values do: a string is
itself; timestamps and decimals are encoded so that the first byte that differs decides. ``order_values`` parses every
field that the column code does not know, so both always agree.

>>> column, bad = parse_column("long", ByteColumn.of([b"12", b"+7", b"x"]))
>>> column.to_pylist(), bad.tolist()
([12, 7, 0], [False, False, True])
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from string import hexdigits
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.rules.byte_columns import ByteColumn, Flags, Ints, offsets_of, packed
from mutator.rules.order_values import basic_type, format_order, is_tuple, lowest_order, order_parser
from mutator.rules.timestamp_columns import parse_usual

SEQUENCE = "sequence"  # name of the side column with the sequences of rows
SEQUENCES = (pa.field(SEQUENCE, pa.int64()),)  # the side columns that every run has
_BIAS = 1 << 63
_MOST_SECONDS = (1 << 63) // 1_000_000 - 1  # whose microseconds are an int64
_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint16)  # two digits of each byte
_OF_HEX = np.frombuffer(bytes(int(chr(byte), 16) if chr(byte) in hexdigits else 0 for byte in range(256)), np.uint8)
_STAMP = np.dtype([("seconds", ">u8"), ("nanos", ">u4")])


def column_type(order_type: str) -> Any:
    """Return the Arrow type of a column of order values.

    >>> column_type("long"), column_type("decimal")
    (DataType(int64), DataType(large_binary))
    """
    return pa.int64() if order_type in ("long", "sequence") else pa.large_binary()


def kept_orders(order_type: str) -> tuple[Any, ...]:
    """Return the side columns of rows that lack a part of their order value.

    >>> kept_orders("long")
    (pyarrow.Field<order: int64>,)
    """
    return (pa.field("order", column_type(order_type)),)


def parse_column(order_type: str, fields: ByteColumn) -> tuple[Any, Flags]:
    """Read a column of fields; return a column of order values, and which fields are not order values.

    >>> parse_column("string", ByteColumn.of([b"b", b"a"]))[0].to_pylist()
    [b'b', b'a']
    """
    if order_type == "long":
        values, plain = _longs(fields)
    elif order_type == "string":
        return fields.take(), np.zeros(len(fields), np.bool_)
    elif order_type == "timestamp":
        seconds, nanos, plain = parse_usual(fields)
        values = timestamp_column(seconds[plain], nanos[plain])
    else:
        values, plain = None, np.zeros(len(fields), np.bool_)
    bad = np.zeros(len(fields), np.bool_)
    if plain.all():
        return (pa.array([], column_type(order_type)) if values is None else values), bad
    parse = order_parser(order_type)
    rows = np.flatnonzero(~plain)
    encoded: list[Any] = []
    for row, field in zip(rows, fields.take(rows).to_pylist(), strict=True):
        try:
            encoded.append(_encode(order_type, parse(field)))
        except ValueError:
            bad[row] = True
            encoded.append(0 if order_type == "long" else b"")
    others = pa.array(encoded, column_type(order_type))
    if values is None:
        return others, bad
    positions = np.empty(len(fields), np.int64)
    positions[np.flatnonzero(plain)] = np.arange(len(values))
    positions[rows] = len(values) + np.arange(len(rows))
    return pa.concat_arrays([values, others]).take(pa.array(positions)), bad


def to_value(order_type: str, encoded: Any) -> Any:
    """Return the Python value, as ``order_values`` has it, of one value of a column.

    >>> to_value("timestamp", parse_column("timestamp", ByteColumn.of([b"1970-01-01T00:00:01.25"]))[0][0].as_py())
    (1, b'25')
    """
    if encoded == b"" and basic_type(order_type) != "string":
        return lowest_order(order_type)
    if order_type == "timestamp":
        seconds, nanos = np.frombuffer(encoded[:12], _STAMP)[0]
        return int(seconds) - _BIAS, (b"%09d" % nanos + encoded[12:]).rstrip(b"0")
    return _decode_decimal(encoded) if order_type == "decimal" else encoded


def to_column(order_type: str, values: list[Any]) -> Any:
    """Make a column of Python values; the inverse of ``to_value``.

    >>> to_column("timestamp", [(1, b"25")]) == parse_column("timestamp", ByteColumn.of([b"1970-01-01T00:00:01.25"]))[0]
    True
    """
    return pa.array([_encode(order_type, value) for value in values], column_type(order_type))


def to_texts(order_type: str, column: Any) -> Any:
    """Write a column as ``format_order`` does, with null for the lowest value; undone by ``from_texts``.

    >>> to_texts("sequence", pa.array([12, -1])).to_pylist()
    [b'12', None]
    """
    if column.type == pa.int64():
        found = column.cast(pa.large_string()).cast(pa.large_binary())
        if order_type == "long":
            return found
        return pc.if_else(pc.equal(column, lowest_order(order_type)), pa.scalar(None, found.type), found)
    if order_type == "string":
        return column
    if is_tuple(order_type):
        offsets, data = offsets_of(column)
        return packed(_HEX[data], 2 * np.diff(offsets))
    found = [
        None if value is None else format_order(order_type, to_value(order_type, value)) for value in column.to_pylist()
    ]
    return pa.array(found, pa.large_binary())


def from_texts(order_type: str, column: Any) -> Any:
    """Read a column that ``to_texts`` wrote.

    >>> from_texts("sequence", pa.array([b"12", None])).to_pylist()
    [12, -1]
    """
    column = column.cast(pa.large_binary())
    if is_tuple(order_type):
        offsets, data = offsets_of(column)
        digits = _OF_HEX[data]
        return packed(digits[0::2] << 4 | digits[1::2], np.diff(offsets) // 2)
    null = column.is_null()
    if not column.null_count:
        return parse_column("long" if order_type == "sequence" else order_type, ByteColumn.of_array(column))[0]
    found = from_texts(order_type, column.drop_null())
    return pc.replace_with_mask(pa.nulls(len(column), found.type), pc.invert(null), found).fill_null(
        pa.scalar(encoded_lowest(order_type), found.type)
    )


def encoded_lowest(order_type: str) -> Any:
    """Return the encoded form of the value that is lower than every other.

    >>> encoded_lowest("sequence"), encoded_lowest("decimal")
    (-1, b'')
    """
    return lowest_order(order_type) if order_type in ("long", "sequence") else b""


def timestamp_column(seconds: Ints, nanos: Ints) -> Any:
    """Make a column of timestamps from seconds since 1970 and nanoseconds.

    >>> to_value("timestamp", timestamp_column(np.array([1]), np.array([250_000_000]))[0].as_py())
    (1, b'25')
    """
    found = np.empty(len(seconds), _STAMP)
    found["seconds"] = seconds.view(np.uint64) + np.uint64(_BIAS)
    found["nanos"] = nanos
    return packed(found.view(np.uint8), np.full(len(found), 12))


def compact(order_type: str, column: Any) -> Any:
    """Return a column as int64, timestamps as microseconds since 1970; as it is where a value is no such number.

    >>> compact("timestamp", timestamp_column(np.array([1]), np.array([250_000]))).to_pylist()
    [1000250]
    >>> compact("timestamp", timestamp_column(np.array([1]), np.array([7]))).type
    DataType(large_binary)
    """
    if order_type != "timestamp":
        return column
    offsets, data = offsets_of(column)
    if (np.diff(offsets) != _STAMP.itemsize).any():
        return column
    stamps = data[offsets[0] : offsets[-1]].view(_STAMP)
    seconds = (stamps["seconds"].astype(np.uint64) - np.uint64(_BIAS)).view(np.int64)
    nanos = stamps["nanos"].astype(np.int64)
    if (nanos % 1000).any() or (seconds > _MOST_SECONDS).any() or (seconds < -_MOST_SECONDS).any():
        return column
    return pa.array(seconds * 1_000_000 + nanos // 1000)


def expanded(order_type: str, column: Any) -> Any:
    """Undo ``compact``.

    >>> to_value("timestamp", expanded("timestamp", pa.array([1000250]))[0].as_py())
    (1, b'00025')
    """
    if order_type != "timestamp" or column.type != pa.int64():
        return column
    seconds, micros = np.divmod(column.to_numpy(), 1_000_000)
    return timestamp_column(seconds, micros * 1000)


def converted_orders(order_type: str, column: Any, wanted: str) -> Any:
    """Return a column as one of another order type.

    >>> converted_orders("long", pa.array([12]), "string").to_pylist()
    [b'12']
    """
    if order_type == wanted or is_tuple(wanted) or is_tuple(order_type):  # the same bytes
        return column
    return from_texts(wanted, to_texts(order_type, column))


def ranks(column: Any) -> Ints:
    """Return int64 values that compare as the values of a column do.

    >>> ranks(pa.array([b"b", b"a", b"b"], pa.large_binary())).tolist()
    [1, 0, 1]
    """
    if column.type == pa.int64():
        numbers: Ints = column.to_numpy()
        return numbers
    order = pc.sort_indices(column)
    values = column.take(order)
    steps = np.zeros(len(values), np.int64)
    steps[1:] = flags(pc.not_equal(values[1:], values[:-1]))
    found = np.empty(len(values), np.int64)
    found[order.to_numpy()] = np.cumsum(steps)
    return found


def flags(values: Any) -> Flags:
    """Return an Arrow array of booleans without nulls as a numpy array.

    >>> flags(pa.array([True, False])).tolist()
    [True, False]
    """
    found: Flags = values.to_numpy(zero_copy_only=False).astype(np.bool_, copy=False)
    return found


def placed(values: Any, at: Flags) -> Any:
    """Return a column that has values in some rows, and NULL in the others.

    >>> placed(pa.array([7]), np.array([False, True])).to_pylist()
    [None, 7]
    """
    return values.take(pa.array(np.cumsum(at) - 1, mask=~at))


def _encode(order_type: str, value: Any) -> Any:
    if value == lowest_order(order_type):
        return encoded_lowest(order_type)
    if order_type == "timestamp":
        seconds, fraction = value
        stamp = (seconds + _BIAS).to_bytes(8, "big") + int(fraction[:9].ljust(9, b"0")).to_bytes(4, "big")
        return stamp + fraction[9:]
    return _encode_decimal(value) if order_type == "decimal" else value


def _encode_decimal(value: Decimal) -> bytes:
    """Encode sign, exponent and digits; exponent and digits are complemented in negative values."""
    sign, digits, exponent = value.as_tuple()
    text = bytes(digit + 1 for digit in digits).lstrip(b"\1")  # one digit a byte, and no byte 0
    assert isinstance(exponent, int)
    exponent += len(text)
    text = text.rstrip(b"\1")
    if not text:
        return b"\x01"
    body = (exponent + _BIAS).to_bytes(8, "big") + text
    # The digits of a negative value end with a byte above all others, because the shorter of two values is higher.
    return b"\x00" + bytes(255 - byte for byte in body) + b"\xff" if sign else b"\x02" + body


def _decode_decimal(encoded: bytes) -> Decimal:
    if encoded == b"\x01":
        return Decimal(0)
    negative = encoded[:1] == b"\x00"
    body = bytes(255 - byte for byte in encoded[1:-1]) if negative else encoded[1:]
    digits = tuple(byte - 1 for byte in body[8:])
    return Decimal((int(negative), digits, int.from_bytes(body[:8], "big") - _BIAS - len(digits)))


def _longs(fields: ByteColumn) -> tuple[Any, Flags]:
    """Read fields of up to 18 digits; they cannot overflow."""
    lengths = fields.ends - fields.starts
    plain = (lengths > 0) & (lengths < 19)
    if len(fields) == 0:
        return pa.array([], pa.int64()), plain
    if plain.all() and (lengths.max() < 2 or not (fields.data[fields.starts + 1] >= 64).any()):  # Arrow reads "0x1f"
        try:
            return fields.take().view(pa.large_string()).cast(pa.int64()), plain
        except pa.ArrowInvalid:
            pass
    longest = int(lengths[plain].max(initial=0))
    total = np.zeros(len(fields), np.int64)
    last = len(fields.data) - 1
    for offset in range(longest):
        inside = lengths > offset
        digit = fields.data[np.minimum(fields.starts + offset, last)].astype(np.int64) - 48
        plain &= ~inside | ((digit >= 0) & (digit <= 9))
        total = np.where(inside, total * 10 + digit, total)
    return pa.array(total[plain]), plain


def newest(order_type: str, orders: Any, keys: Sequence[Any], most: int) -> list[tuple[Any, tuple[bytes, ...]]]:
    """Return the order values and keys of the rows with the highest order values. keys: a pa.Array for each ID field.

    >>> newest("long", pa.array([1, 3, 2]), [pa.array([b"a", b"b", b"c"])], 2)
    [(3, (b'b',)), (2, (b'c',))]
    """
    rows = pc.sort_indices(orders, sort_keys=[("", "descending")])[:most]
    values = [to_value(order_type, order) for order in orders.take(rows).to_pylist()]
    return list(zip(values, zip(*(column.take(rows).to_pylist() for column in keys), strict=True), strict=True))


def met_orders(order_type: str, orders: Any, committed: Any, absences: Mapping[int, Any]) -> Any:
    """Return the order values of tombstones that mutations of a delta meet, as ``absences.met_order`` does.

    orders: a column of their own order values. committed: a pa.Array of their commit times.

    >>> met_orders("long", pa.array([5, 12, 5]), pa.array([1000, 1000, 2000]), {1000: 10}).to_pylist()
    [10, 12, 5]
    """
    if not absences:
        return orders
    known = pc.index_in(committed.cast(pa.int64()), value_set=pa.array(list(absences), pa.int64()))
    highest = to_column(order_type, list(absences.values())).take(known)
    return pc.if_else(pc.fill_null(pc.greater(highest, orders), False), highest, orders)
