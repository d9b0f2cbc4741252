"""Types of Kafka Connect, and those that Debezium adds: which Arrow type each has, and how its JSON is read.

A schema in the message says the type of a field exactly. Without one, the type that a field has in the master decides
what can be known: days are whole numbers, but the unit of a whole number that is a time, and the scale of a decimal in
base64, are nowhere in the file. These are read only if the user has said it (``Said``).

>>> import json
>>> date = json.loads('{"type": "int32", "optional": true, "name": "io.debezium.time.Date", "field": "born"}')
>>> column, bad, why = type_of(date).read(pa.array([b"-719162", b"x", None], pa.large_binary()))
>>> column.to_pylist(), bad.tolist(), why
([datetime.date(1, 1, 1), None, None], [False, True, False], 'is not a whole number')
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.parts import setting
from mutator.rules.byte_columns import PAD, Flags, binary, concatenated, offsets_of
from mutator.rules.envelope import Unclear
from mutator.rules.order_columns import flags

TIME_UNIT, DECIMALS = "feed.time.unit", "feed.decimals"
_MOST_DIGITS = 38
_GROUP, _PAD = 4, ord("=")  # of base64: characters of three bytes, and what fills them up
_NOT_WHOLE, _NOT_BASE64 = "is not a whole number", "is not base64"
_WITH_SCHEMA = "have the messages delivered with their schema (schemas.enable=true of the JsonConverter)"
_YEARS = (-62135596800, 253402300799)  # seconds of the years 1 to 9999
_DAYS = (-719162, 2932896)
_MOST = str(2**63)
_ZERO, _NINE = ord("0"), 9
_TICKS = {"ms": 10**3, "us": 10**6, "ns": 10**9}
Read = Callable[[Any], tuple[Any, Flags, str]]  # pa.Array of large_binary -> values or text, which are bad, and why


class ConnectType(NamedTuple):
    """A type."""

    data_type: Any  # pa.DataType
    read: Read
    is_list: bool = False


class Said(NamedTuple):
    """What the user says of files without a schema."""

    unit: str | None = None  # of times that are whole numbers: ms, us or ns
    decimals: str | None = None  # base64 or text


def type_of(field: Mapping[str, Any]) -> ConnectType:
    """Return the type of a field in the schema of a message.

    >>> scale = {"scale": "2", "connect.decimal.precision": "9"}
    >>> price = type_of({"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": scale})
    >>> price.data_type, price.read(pa.array([b"UkTI"], pa.large_binary()))[0].to_pylist()
    (Decimal128Type(decimal128(9, 2)), [b'53915.60'])
    """
    name, parameters = field.get("name") or "", field.get("parameters") or {}
    kind = field.get("type")
    if name in TIMES:
        data_type = TIMES[name]
        return ConnectType(data_type, partial(_times, data_type))
    if name.endswith(".ZonedTimestamp"):
        return ConnectType(pa.timestamp("us", "UTC"), as_it_is)
    if name == "org.apache.kafka.connect.data.Decimal":
        most, scale = int(parameters.get("connect.decimal.precision", _MOST_DIGITS)), int(parameters["scale"])
        data_type = pa.decimal128(most, scale) if max(most, scale) <= _MOST_DIGITS else pa.string()
        return ConnectType(data_type, partial(_decimals, scale))
    if name == "io.debezium.data.VariableScaleDecimal":
        return ConnectType(pa.string(), _scaled)
    if name == "io.debezium.data.Bits":
        length = int(parameters.get("length", 0))
        read = partial(_decoded, partial(bits, length=length))
        return ConnectType(pa.string(), partial(each, read, pa.large_binary()))
    if kind == "bytes":
        return ConnectType(pa.binary(), partial(each, _bytes, pa.binary()))
    if kind == "array":
        items = field.get("items") or {}
        inner = None if (items.get("name") or "") in TIMES else _PLAIN.get(items.get("type") or "")
        return ConnectType(pa.string() if inner is None else pa.list_(inner), as_it_is, is_list=True)
    return ConnectType(_PLAIN.get(kind or "", pa.string()), as_it_is)


def read_without_schema(name: str, column: Any, data_type: Any, said: Said) -> tuple[Any, Flags, str]:
    """Read a column whose type is that of the master. Raises Unclear if the type does not say how to read it.

    >>> read_without_schema("a", pa.array([b"1"], pa.large_binary()), pa.timestamp("us"), Said())
    Traceback (most recent call last):
    ...
    mutator.rules.envelope.Unclear: field a is timestamp[us] in the result and 1 here, of an unknown unit
    """
    types = pa.types
    shown = f"field {name} is {data_type} in the result and"
    if types.is_date(data_type):
        return _mixed(column, partial(_times_of_texts, pa.date32()))
    if types.is_timestamp(data_type) or types.is_time(data_type):
        if said.unit is None and (whole := _whole(column)).any():
            first = column.filter(pa.array(whole))[0].as_py().decode()
            units = f"{setting(TIME_UNIT)} to ms, us or ns (time.precision.mode of the connector)"
            raise Unclear(f"{shown} {first} here, of an unknown unit", f"set {units}, or {_WITH_SCHEMA}")
        return _mixed(column, lambda whole: _times_of_texts(_in_unit(data_type, said.unit), whole))
    if types.is_decimal(data_type):
        if said.decimals == "base64":
            return _decimals(data_type.scale, column)
        doubtful = said.decimals is None and flags(
            pc.fill_null(pc.and_(pc.match_substring_regex(column, _MAY_BE_BASE64), pc.not_equal(column, b"")), False)
        )
        if np.any(doubtful):
            first = column.filter(pa.array(doubtful))[0].as_py().decode()
            how = f"set {setting(f'{DECIMALS}=base64')} if decimal.handling.mode is precise, and the master has the "
            how += f"scale of the source; set {setting(f'{DECIMALS}=text')} if these are numbers; or {_WITH_SCHEMA}"
            raise Unclear(f"{shown} {first!r} here, which may be a number or base64", how)
        return as_it_is(column)
    is_bytes = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
    if any(of(data_type) for of in is_bytes) and pc.any(pc.not_equal(column, b"")).as_py():
        raise Unclear(f"{shown} text here, which may be base64 or hex", _WITH_SCHEMA)
    return as_it_is(column)


_MAY_BE_BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==|[A-Za-z0-9+/]=))?$"
TIMES = {
    "io.debezium.time.Date": pa.date32(),
    "org.apache.kafka.connect.data.Date": pa.date32(),
    "io.debezium.time.Time": pa.time32("ms"),
    "org.apache.kafka.connect.data.Time": pa.time32("ms"),
    "io.debezium.time.MicroTime": pa.time64("us"),
    "io.debezium.time.NanoTime": pa.time64("ns"),
    "io.debezium.time.Timestamp": pa.timestamp("ms"),
    "org.apache.kafka.connect.data.Timestamp": pa.timestamp("ms"),
    "io.debezium.time.MicroTimestamp": pa.timestamp("us"),
    "io.debezium.time.NanoTimestamp": pa.timestamp("ns"),
}
_PLAIN = {
    "boolean": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "float32": pa.float32(),
    "double": pa.float64(),
    "float64": pa.float64(),
    "string": pa.string(),
}


def as_it_is(column: Any) -> tuple[Any, Flags, str]:
    """Return values as they are."""
    return column, np.zeros(len(column), np.bool_), ""


def _whole(column: Any) -> Flags:
    """Return which texts are whole numbers of 64 bits."""
    offsets, data = offsets_of(column)
    sizes = np.diff(offsets)
    if len(data) and sizes.max() < len(_MOST) and (data - _ZERO <= _NINE).all():  # digits alone, as nearly always
        alone = (data[np.minimum(offsets[:-1], len(data) - 1)] != _ZERO) | (sizes == 1)
        usual: Flags = flags(column.is_valid()) & (sizes > 0) & alone
        return usual
    found = flags(pc.fill_null(pc.match_substring_regex(column, r"^-?(?:0|[1-9][0-9]{0,18})$"), False))
    longest = found & flags(pc.fill_null(pc.greater_equal(pc.binary_length(column), len(_MOST)), False))
    for row in np.flatnonzero(longest).tolist():
        found[row] = -(2**63) <= int(column[row].as_py()) < 2**63
    return found


def _mixed(column: Any, read: Read) -> tuple[Any, Flags, str]:
    """Read whole numbers; other texts, such as those of dates, stay as they are."""
    whole = _whole(column)
    if not whole.any():
        return as_it_is(column)
    found, bad, why = read(column if whole.all() else pc.if_else(pa.array(whole), column, binary(None)))
    if (whole | flags(column.is_null())).all():
        return found, bad, why
    text = found.cast(pa.string()).cast(pa.binary()).cast(pa.large_binary())
    return pc.if_else(pa.array(whole), text, column), bad, why


def _in_unit(data_type: Any, unit: str | None) -> Any:
    """Return the type of times of the same kind, in a unit."""
    if pa.types.is_timestamp(data_type):
        return pa.timestamp(unit, data_type.tz)
    return pa.time32(unit) if unit == "ms" else pa.time64(unit)


def _times(data_type: Any, column: Any) -> tuple[Any, Flags, str]:
    """Read whole numbers as dates or times."""
    null = flags(column.is_null())
    bad, why = ~(_whole(column) | null), _NOT_WHOLE
    numbers = pc.if_else(pa.array(bad), pa.scalar(None, pa.large_binary()), column)
    values, beyond, other = _times_of_texts(data_type, numbers)
    return values, bad | beyond, other if beyond.any() else why


def _times_of_texts(data_type: Any, whole: Any) -> tuple[Any, Flags, str]:
    """Return whole numbers as dates or times. whole: their texts."""
    return times_of(data_type, whole.cast(pa.string()).cast(pa.int64()))


def times_of(data_type: Any, numbers: Any) -> tuple[Any, Flags, str]:
    """Return whole numbers as dates or times. numbers: pa.Array of int64."""
    low, high = _bounds(data_type)
    inside = pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high))
    beyond = ~flags(pc.fill_null(inside, True))
    if beyond.any():
        numbers = pc.if_else(pa.array(beyond), pa.scalar(None, pa.int64()), numbers)
    values = (numbers.cast(pa.int32()) if data_type.bit_width == 32 else numbers).view(data_type)
    return values, beyond, "is infinity, or no time of the years 1 to 9999, or no time of a day"


def _bounds(data_type: Any) -> tuple[int, int]:
    if pa.types.is_date(data_type):
        return _DAYS
    ticks = _TICKS[data_type.unit]
    if pa.types.is_time(data_type):
        return 0, 86400 * ticks - 1
    return max(_YEARS[0] * ticks, -(2**63)), min((_YEARS[1] + 1) * ticks, 2**63) - 1


def each(read: Callable[[bytes], bytes], data_type: Any, column: Any) -> tuple[Any, Flags, str]:
    """Read each different value."""
    encoded = column.dictionary_encode()
    found: list[bytes | None] = []
    for value in encoded.dictionary.to_pylist():
        try:
            found.append(read(value))
        except (ValueError, binascii.Error, KeyError, TypeError):
            found.append(None)
    values = pa.array(found, data_type).take(encoded.indices)
    return values, flags(values.is_null()) & ~flags(column.is_null()), _NOT_BASE64


def _bytes(text: bytes) -> bytes:
    return binascii.a2b_base64(text, strict_mode=True)


def _decoded(read: Callable[[bytes], bytes], text: bytes) -> bytes:
    return read(_bytes(text))


def bits(value: bytes, length: int) -> bytes:
    """Return the digits of bits, which come in bytes from the lowest to the highest.

    >>> bits(bytes([5, 1]), 10)
    b'0100000101'
    """
    return f"{int.from_bytes(value, 'little'):0{length or 8 * len(value)}b}".encode()


def digits(unscaled: bytes, scale: int) -> bytes:
    """Write a number of bytes, from the highest to the lowest, with decimal places.

    >>> digits(bytes([255, 133]), 2), digits(bytes([5]), 3), digits(bytes([5]), -1)
    (b'-1.23', b'0.005', b'50')
    """
    number = int.from_bytes(unscaled, "big", signed=True)
    if not unscaled:
        raise ValueError
    shown, sign = str(abs(number)), "-" if number < 0 else ""
    if scale <= 0:
        return f"{sign}{shown}{'0' * -scale if number else ''}".encode()
    shown = shown.zfill(scale + 1)
    return f"{sign}{shown[:-scale]}.{shown[-scale:]}".encode()


def _decimals(scale: int, column: Any) -> tuple[Any, Flags, str]:
    """Read decimals in base64 to the text of numbers."""
    numbers = _numbers(column) if scale > 0 else None
    if numbers is not None:
        shown = (
            pc.utf8_lpad(pc.abs(numbers).cast(pa.string()), scale + 1, "0").cast(pa.binary()).cast(pa.large_binary())
        )
        sign = pc.if_else(pc.less(numbers, 0), binary(b"-"), binary(b""))
        whole, part = pc.binary_slice(shown, 0, -scale), pc.binary_slice(shown, -scale)
        return as_it_is(concatenated(sign, whole, b".", part))
    return each(partial(_decoded, partial(digits, scale=scale)), pa.large_binary(), column)


def _numbers(column: Any) -> Any:
    """Return numbers in base64 as a pa.Array of int64; None unless all are of one to seven bytes."""
    offsets, data = offsets_of(column.fill_null(b"AA=="))
    lengths, ends = np.diff(offsets), offsets[1:]
    if not len(lengths) or (lengths < _GROUP).any() or (lengths % _GROUP).any():
        return None
    pads = (data[ends - 1] == _PAD).astype(np.int64)
    pads += pads & (data[ends - 2] == _PAD)
    sizes = lengths // _GROUP * 3 - pads
    if np.count_nonzero(data == _PAD) != pads.sum() or sizes.max() > 7:
        return None
    try:
        found = binascii.a2b_base64(data.tobytes().replace(b"=", b"A"), strict_mode=True)
    except binascii.Error:
        return None
    words = np.ndarray((len(found) + 1,), ">i8", found + PAD, strides=(1,))[offsets[:-1] // _GROUP * 3]
    return pa.array(words.astype(np.int64) >> (64 - 8 * sizes), mask=flags(column.is_null()))


def _scaled(column: Any) -> tuple[Any, Flags, str]:
    """Read decimals that have a scale each to the text of numbers."""

    def read(text: bytes) -> bytes:
        value = json.loads(text)
        return digits(_bytes(value["value"].encode()), int(value["scale"]))

    return each(read, pa.large_binary(), column)
