"""Order values a column at a time: Arrow arrays that compare as ``order_values`` does value by value.

``long`` and ``sequence`` are 64-bit integers. The others are binaries whose bytes compare as the values do: a string
is itself, a timestamp and a decimal are written so that the first byte that differs decides. What the column code does
not know, the row code of ``order_values`` reads, so both always agree.

>>> column, bad = parse_column("long", ByteColumn.of([b"12", b"+7", b"x"]))
>>> column.to_pylist(), bad.tolist()
([12, 7, 0], [False, False, True])
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.rules.byte_columns import ByteColumn, Flags, Ints, packed
from mutator.rules.order_values import LOWEST, ORDER_TYPES, format_order
from mutator.rules.timestamps import parse_usual

__all__ = [
    "column_type",
    "encoded_lowest",
    "flags",
    "from_texts",
    "parse_column",
    "ranks",
    "timestamp_column",
    "to_column",
    "to_texts",
    "to_value",
]

_BIAS = 1 << 63
_STAMP = np.dtype([("seconds", ">u8"), ("nanos", ">u4")])


def column_type(kind: str) -> Any:
    """Return the Arrow type of a column of order values."""
    return pa.int64() if kind in ("long", "sequence") else pa.large_binary()


def parse_column(kind: str, fields: ByteColumn) -> tuple[Any, Flags]:
    """Read a column of fields; return it, and which of them are no order values."""
    if kind == "long":
        values, plain = _longs(fields)
    elif kind == "string":
        return fields.take(), np.zeros(len(fields), np.bool_)
    elif kind == "timestamp":
        seconds, nanos, plain = parse_usual(fields)
        values = timestamp_column(seconds[plain], nanos[plain])
    else:
        values, plain = None, np.zeros(len(fields), np.bool_)
    bad = np.zeros(len(fields), np.bool_)
    if plain.all():
        return (pa.array([], column_type(kind)) if values is None else values), bad
    parse = ORDER_TYPES[kind][0]
    rows = np.flatnonzero(~plain)
    read: list[Any] = []
    for row, field in zip(rows, fields.take(rows).to_pylist(), strict=True):
        try:
            read.append(_encode(kind, parse(field)))
        except ValueError:
            bad[row] = True
            read.append(0 if kind == "long" else b"")
    others = pa.array(read, column_type(kind))
    if values is None:
        return others, bad
    place = np.empty(len(fields), np.int64)
    place[np.flatnonzero(plain)] = np.arange(len(values))
    place[rows] = len(values) + np.arange(len(rows))
    return pa.concat_arrays([values, others]).take(pa.array(place)), bad


def to_value(kind: str, encoded: Any) -> Any:
    """Return the Python value, as ``order_values`` has it, of one value of a column.

    >>> to_value("timestamp", parse_column("timestamp", ByteColumn.of([b"1970-01-01T00:00:01.25"]))[0][0].as_py())
    (1, b'25')
    """
    if encoded == b"" and kind != "string":
        return LOWEST[kind]
    if kind == "timestamp":
        seconds, nanos = np.frombuffer(encoded[:12], _STAMP)[0]
        return int(seconds) - _BIAS, (b"%09d" % nanos + encoded[12:]).rstrip(b"0")
    return _decode_decimal(encoded) if kind == "decimal" else encoded


def to_column(kind: str, values: list[Any]) -> Any:
    """Make a column of Python values; the inverse of ``to_value``."""
    return pa.array([_encode(kind, value) for value in values], column_type(kind))


def to_texts(kind: str, column: Any) -> Any:
    """Write a column as ``format_order`` does, null for what is lower than every value; undone by ``from_texts``.

    >>> to_texts("sequence", pa.array([12, -1])).to_pylist()
    [b'12', None]
    """
    if column.type == pa.int64():
        found = column.cast(pa.large_string()).cast(pa.large_binary())
        if kind == "long":
            return found
        return pc.if_else(pc.equal(column, LOWEST[kind]), pa.scalar(None, found.type), found)
    if kind == "string":
        return column
    found = [None if value is None else format_order(kind, to_value(kind, value)) for value in column.to_pylist()]
    return pa.array(found, pa.large_binary())


def from_texts(kind: str, column: Any) -> Any:
    """Read a column of texts that ``texts`` wrote."""
    column = column.cast(pa.large_binary())
    null = column.is_null()
    if not column.null_count:
        return parse_column("long" if kind == "sequence" else kind, ByteColumn.of_array(column))[0]
    found = from_texts(kind, column.drop_null())
    return pc.replace_with_mask(pa.nulls(len(column), found.type), pc.invert(null), found).fill_null(
        pa.scalar(encoded_lowest(kind), found.type)
    )


def encoded_lowest(kind: str) -> Any:
    """Return what stands in a column for a value that is lower than every other."""
    return LOWEST[kind] if kind in ("long", "sequence") else b""


def timestamp_column(seconds: Ints, nanos: Ints) -> Any:
    """Make a column of timestamps of seconds since 1970 and nanoseconds.

    >>> to_value("timestamp", timestamp_column(np.array([1]), np.array([250_000_000]))[0].as_py())
    (1, b'25')
    """
    found = np.empty(len(seconds), _STAMP)
    found["seconds"] = seconds.view(np.uint64) + np.uint64(_BIAS)
    found["nanos"] = nanos
    return packed(found.view(np.uint8), np.full(len(found), 12))


def ranks(column: Any) -> Ints:
    """Return integers that compare as the values of a column do.

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
    """Return an Arrow array of booleans without nulls as a numpy array."""
    found: Flags = values.to_numpy(zero_copy_only=False).astype(np.bool_, copy=False)
    return found


def _encode(kind: str, value: Any) -> Any:
    if value == LOWEST[kind]:
        return encoded_lowest(kind)
    if kind == "timestamp":
        seconds, fraction = value
        stamp = (seconds + _BIAS).to_bytes(8, "big") + int(fraction[:9].ljust(9, b"0")).to_bytes(4, "big")
        return stamp + fraction[9:]
    return _encode_decimal(value) if kind == "decimal" else value


def _encode_decimal(value: Decimal) -> bytes:
    """Write sign, exponent and digits; the two latter complemented where the value is negative."""
    sign, digits, exponent = value.as_tuple()
    text = bytes(digit + 1 for digit in digits).lstrip(b"\1")  # one digit a byte, and none of them 0
    assert isinstance(exponent, int)
    exponent += len(text)
    text = text.rstrip(b"\1")
    if not text:
        return b"\x01"
    body = (exponent + _BIAS).to_bytes(8, "big") + text
    # Behind the digits of a negative value comes what is higher than any of them: of two, the shorter one is higher.
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
    for place in range(longest):
        inside = lengths > place
        digit = fields.data[np.minimum(fields.starts + place, last)].astype(np.int64) - 48
        plain &= ~inside | ((digit >= 0) & (digit <= 9))
        total = np.where(inside, total * 10 + digit, total)
    return pa.array(total[plain]), plain
