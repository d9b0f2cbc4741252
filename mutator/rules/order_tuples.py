"""Order values of several parts, compared part by part, as bytes that compare as the tuples do.

An encoded value is the codes of its parts, one after the other:

    NULL             0
    long             1, and 8 bytes: the number + 2^63, the highest byte first
    decimal          2, and the bytes of ``order_columns``, and 0
    timestamp        3, and the bytes of ``order_columns``, and 0
    string           4, and its bytes, with 0, 255 for each 0, and 0, 1
    position         5, and two numbers as those of a long: the sequence of a file, and the byte offset of a row

An epoch after the first one comes before the parts:

    epoch            32, and 8 bytes as those of a long

16 is added to the first byte of a part in descending order, and its other bytes are complemented; so NULL is the
lowest value in both directions. The codes name the types, so a value can be read without its order type.

>>> lower, higher = (encode("long, string desc", values) for values in ((7, b"b"), (7, b"a")))
>>> lower < higher, decode(higher), shown(higher)
(True, [7, b'a'], '[7, "a"]')
"""

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.rules.byte_columns import Flags, Ints, binary, concatenated, exchanged, offsets_of, packed
from mutator.rules.order_columns import to_column, to_value
from mutator.rules.order_types import Part, parts_of, single_type
from mutator.rules.order_values import format_order, is_tuple, lowest_order, order_parser, order_text

_TYPES = (None, "long", "decimal", "timestamp", "string", "position")  # by the code of a part
_DESCENDING = 16
_EPOCH = 32  # above the codes of all parts, so that values without an epoch are of an earlier one
_LONG = 9  # bytes of a long and its code
_FIXED = {"long": _LONG, "timestamp": 14, "position": 17}  # bytes of parts, unless they are NULL
_COMPLEMENT = bytes(range(255, -1, -1))
_END, _END_OF_TEXT, _ESCAPE = b"\x00", b"\x00\x01", b"\x00\xff"


def orders_of_parts(order_type: str, columns: Sequence[Any], nulls: Sequence[Flags]) -> Any:
    """Return the order values of rows, a pa.Array: the tuples of their parts, encoded, or the values of the only part.

    columns: of the order values of each part, as ``order_columns`` has them. nulls: of each part, the rows where it is
    NULL, whatever the column has there.
    """
    if not is_tuple(order_type):
        return columns[0]
    parts = parts_of(order_type)
    pieces = [_piece(part, column, null) for part, column, null in zip(parts, columns, nulls, strict=True)]
    return pieces[0] if len(pieces) == 1 else concatenated(*pieces)


def encoder(order_type: str) -> Callable[[Sequence[Any]], bytes] | None:
    """Return the function that encodes the values of the parts; None if the value of the only part is the order value.

    >>> encoder("long"), shown(encoder("long desc")([7]))
    (None, '[7]')
    """
    return partial(encode, order_type) if is_tuple(order_type) else None


def with_positions(orders: Any, sequences: Ints, offsets: Ints) -> Any:
    """Return encoded tuples with the positions of rows in the feed as their last part.

    orders: of the parts before. sequences: of the files. offsets: of the rows.
    """
    found = np.empty((len(sequences), 17), np.uint8)
    found[:, 0] = _TYPES.index("position")
    for start, numbers in ((1, sequences), (9, offsets)):
        biased = numbers.view(np.uint64) ^ np.uint64(1 << 63)
        found[:, start : start + 8] = biased.astype(">u8").view(np.uint8).reshape(-1, 8)
    return concatenated(orders, packed(found.reshape(-1), np.full(len(sequences), 17)))


def position(sequence: int, offset: int) -> bytes:
    """Return a position as ``with_positions`` writes it."""
    numbers = ((number + (1 << 63)).to_bytes(8, "big") for number in (sequence, offset))
    return bytes([_TYPES.index("position")]) + b"".join(numbers)


def epoch_prefix(epoch: int) -> bytes:
    """Return the bytes before the parts of the values of an epoch.

    >>> (epoch_prefix(0), epoch_prefix(1) + encode("long asc", [1]) > encode("long asc", [2]))
    (b'', True)
    """
    return bytes([_EPOCH]) + (epoch + (1 << 63)).to_bytes(8, "big") if epoch else b""


def epoch_of(encoded: bytes) -> int:
    """Return the epoch of an encoded tuple.

    >>> epoch_of(epoch_prefix(3) + b"\\x00"), epoch_of(b"\\x00")
    (3, 0)
    """
    return int.from_bytes(encoded[1:9], "big") - (1 << 63) if encoded[:1] == bytes([_EPOCH]) else 0


def encode(order_type: str, values: Sequence[Any]) -> bytes:
    """Return a tuple, encoded. values: of the parts, as ``order_values`` has them; None is NULL."""
    columns = [
        pa.array([0 if part.type == "long" else b""], pa.int64() if part.type == "long" else pa.large_binary())
        if value is None
        else to_column(part.type, [value])
        for part, value in zip(parts_of(order_type), values, strict=True)
    ]
    found: bytes = orders_of_parts(order_type, columns, [np.array([value is None]) for value in values])[0].as_py()
    return found


def read_order(order_type: str, text: str, epoch: int = 0) -> Any:
    """Read an order value of one part in ascending order, as users write it. Raises ValueError.

    epoch: of the value.

    >>> read_order("long", "7"), read_order("long asc", "7") == encode("long asc", [7])
    (7, True)
    """
    own_type = single_type(order_type)
    if own_type is None:
        raise ValueError(f"cannot be compared with order values of type {order_type}")
    found = order_parser(own_type)(text.encode("utf-8", "surrogateescape"))
    return epoch_prefix(epoch) + encode(order_type, [found]) if is_tuple(order_type) else found


def decode(encoded: bytes) -> list[Any]:
    """Return the values of the parts of an encoded tuple, as ``order_values`` has them; None is NULL."""
    found: list[Any] = []
    at = len(epoch_prefix(epoch_of(encoded)))
    while at < len(encoded):
        code, descending = encoded[at] & ~_DESCENDING, bool(encoded[at] & _DESCENDING)
        body, at, data_type = encoded[at + 1 :], at + 1, _TYPES[code]
        if data_type is None:
            found.append(None)
            continue
        if descending:
            body = body.translate(_COMPLEMENT)
        end = {"long": 8, "timestamp": body.find(_END, 12) + 1, "decimal": _decimal_end(body)}.get(data_type)
        if data_type == "position":
            found.append([int.from_bytes(body[at : at + 8], "big") - (1 << 63) for at in (0, 8)])
            end = 16
        elif data_type == "long":
            found.append(int.from_bytes(body[:8], "big") - (1 << 63))
        elif data_type == "string":
            end = body.index(_END_OF_TEXT) + 2
            found.append(body[: end - 2].replace(_ESCAPE, b"\0"))
        else:
            found.append(to_value(data_type, body[: end - 1] if end else body))
        at += end or len(body)
    return found


def part_column(order_type: str, orders: Any, number: int) -> Any:
    """Return a part of encoded tuples, a column as ``order_columns`` has it; the lowest value for NULL.

    number: of the part, in ascending order.

    >>> part_column("string, long", pa.array([encode("string, long", [b"a", 7])], pa.large_binary()), 1).to_pylist()
    [7]
    """
    data_type = parts_of(order_type)[number].type
    found = _fixed_part(order_type, orders, number)
    if found is not None:
        return found
    values = (decode(one)[number] if one else None for one in orders.to_pylist())
    return to_column(data_type, [lowest_order(data_type) if value is None else value for value in values])


def _fixed_part(order_type: str, orders: Any, number: int) -> Any:
    """Return a part where its place in each value follows from the codes alone; None where a text comes before it."""
    offsets, data = offsets_of(orders)
    at, ends = offsets[:-1].copy(), offsets[1:]
    if not len(at) or (at == ends).any():
        return None
    data = np.append(data, np.zeros(16, data.dtype))
    at += np.where(data[at] == _EPOCH, _LONG, 0)
    *before, own = parts_of(order_type)[: number + 1]
    for part in before:
        if part.type not in _FIXED:
            return None
        is_value = data[at] != 0
        at += np.where(is_value, _FIXED[part.type], 1)
        if part.type == "timestamp" and (data[at[is_value] - 1] != (255 if part.descending else 0)).any():
            return None  # it is finer than a nanosecond
    is_value = data[at] != 0
    if own.type == "timestamp":
        stamps = data[at[:, None] + np.arange(1, 15)]
        if (stamps[is_value, 12] != 0).any():
            return None
        return packed(stamps[:, :12][is_value].ravel(), np.where(is_value, 12, 0))
    if own.type != "long":
        return None
    numbers = data[at[:, None] + np.arange(1, 9)].view(">u8").ravel().astype(np.uint64) ^ np.uint64(1 << 63)
    return pa.array(np.where(is_value, numbers.view(np.int64), lowest_order("long")))


def shown(encoded: bytes) -> str:
    """Write an encoded tuple for people: as a JSON array, after the epoch if there were several.

    >>> shown(b""), shown(epoch_prefix(2) + encode("timestamp, decimal", [None, Decimal("1.5")]))
    ('[]', 'epoch 2 [null, 1.5]')
    """
    epoch = epoch_of(encoded)
    return f"{f'epoch {epoch} ' if epoch else ''}[{', '.join(map(_text, decode(encoded)))}]"


def shown_order(order_type: str, value: Any) -> str | None:
    """Write an order value for people; None for None.

    >>> shown_order("long, long", encode("long, long", [7, 2])), shown_order("long", 7)
    ('[7, 2]', '7')
    """
    return shown(value) if value is not None and is_tuple(order_type) else order_text(order_type, value)


def bytes_of(order_type: str, epoch: int = 0) -> str:
    """Return how many bytes a value of an epoch has, for people.

    >>> bytes_of("long, position"), bytes_of("long"), bytes_of("string, long desc")
    ('26 bytes', '8 bytes', '9 bytes and a text')
    """
    if not is_tuple(order_type):
        return {"long": "8 bytes", "timestamp": "12 bytes"}.get(order_type, "a text")
    parts = parts_of(order_type)
    fixed = sum(_FIXED.get(part.type, 0) for part in parts)
    fixed += len(epoch_prefix(epoch))
    texts = sum(part.type in ("string", "decimal") for part in parts)
    words = [f"{fixed} bytes"] * bool(fixed) + ([] if not texts else ["a text"] if texts == 1 else [f"{texts} texts"])
    return " and ".join(words)


def shown_text(order_type: str, text: str | None) -> str | None:
    """Write an order value of a manifest for people. text: as in the manifest; "" is the lowest value.

    >>> shown_text("long desc", encode("long desc", [7]).hex()), shown_text("long", "7"), shown_text("long", "")
    ('[7]', '7', '')
    """
    return shown(bytes.fromhex(text)) if text and is_tuple(order_type) else text


def _text(value: Any) -> str:
    if value is None or isinstance(value, int | list):
        return json.dumps(value)
    if isinstance(value, Decimal):
        return (format_order("decimal", value) or b"null").decode()
    text = value if isinstance(value, bytes) else format_order("timestamp", value) or b""
    return json.dumps(text.decode("utf-8", "backslashreplace"), ensure_ascii=False)


def _decimal_end(body: bytes) -> int:
    """Return the number of bytes of a decimal with its end: its sign, eight bytes of its exponent, and its digits."""
    return 2 if body[:1] == b"\x01" else body.find(_END, 9) + 1


def _piece(part: Part, column: Any, null: Flags) -> Any:
    """Return the bytes of a part of each tuple."""
    code = _TYPES.index(part.type) + (_DESCENDING if part.descending else 0)
    if part.type == "long":
        return _longs(code, column, null, part.descending)
    if part.type == "string":
        body = concatenated(_escaped(column), _END_OF_TEXT)
    else:
        body = concatenated(column, _END)
    if part.descending:
        offsets, data = offsets_of(body)
        body = packed(255 - data, np.diff(offsets))
    found = concatenated(bytes([code]), body)
    return pc.if_else(pa.array(null), binary(b"\0"), found) if null.any() else found


def _longs(code: int, column: Any, null: Flags, descending: bool) -> Any:
    found = np.empty((len(column), _LONG), np.uint8)
    found[:, 0] = np.where(null, 0, code)
    numbers = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False).view(np.uint64) ^ np.uint64(1 << 63)
    found[:, 1:] = (~numbers if descending else numbers).astype(">u8").view(np.uint8).reshape(-1, 8)
    lengths: Ints = np.where(null, 1, _LONG)
    return packed(found[np.arange(_LONG) < lengths[:, None]] if null.any() else found.reshape(-1), lengths)


def _escaped(column: Any) -> Any:
    """Return texts in which 0 is written as 0, 255."""
    offsets, data = offsets_of(column)
    zeros = np.flatnonzero(data == 0)
    if not len(zeros):
        return column
    rows = np.unique(np.searchsorted(offsets, zeros, side="right") - 1)
    values = [value.replace(b"\0", _ESCAPE) for value in column.take(pa.array(rows)).to_pylist()]
    return exchanged(column, [(rows, pa.array(values, pa.large_binary()))])
