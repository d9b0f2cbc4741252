"""The one total order of mutations, and the typed order values it starts with.

Among the mutations of one key the highest of

    (order value, sequence of the file, base name of the file, byte offset in the uncompressed file, the row's bytes)

wins, compared left to right. Every part belongs to the data and none to the run, so no tie is decided by arrival,
partitioning or batching. Against the master's entry only the order value counts (``truth_table``).

An order value is parsed from bytes to a Python value that compares as its type does:

>>> parse_long(b"1427761080") < parse_long(b"+1427761081")
True
>>> parse_timestamp(b"2026-01-31T10:00:00.5Z") == parse_timestamp(b"2026-01-31 12:00:00.50+02:00")
True

A field that is not an order value raises ``ValueError`` with the reason; it is never compared as text instead.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from mutator.rules.timestamps import format_timestamp, parse_timestamp

PRECEDENCE_PARTS = ("order value", "sequence", "file name", "byte offset", "row bytes")

# Older than every sequence: a master file whose name has none, and every row that came from it.
NO_SEQUENCE = -1

_LONG = re.compile(rb"[+-]?[0-9]+\Z")
_DECIMAL = re.compile(rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?\Z")
_MIN_LONG, _MAX_LONG = -(2**63), 2**63 - 1


def precedence(order: Any, sequence: int, name: Any, offset: int, row: bytes) -> tuple[Any, int, Any, int, bytes]:
    """Return the sort key of a mutation among those of its record; the highest wins.

    name: the file's base name as bytes, or its rank among the base names of the run, which compares the same.

    >>> precedence(2, 7, b"ups_7.txt", 0, b"a") > precedence(1, 8, b"ups_8.txt", 0, b"a")
    True
    """
    return (order, sequence, name, offset, row)


def decisive_part(one: tuple[Any, ...], other: tuple[Any, ...]) -> str | None:
    """Return the first part in which two precedences differ, a name of ``PRECEDENCE_PARTS``; None if they are equal.

    >>> decisive_part(precedence(2, 7, b"ups_7.txt", 0, b"a"), precedence(2, 8, b"ups_8.txt", 0, b"a"))
    'sequence'
    """
    parts = zip(PRECEDENCE_PARTS, one, other, strict=True)
    return next((name for name, mine, yours in parts if mine != yours), None)


def parse_long(field: bytes) -> int:
    """Read a 64-bit integer: ASCII digits with an optional sign.

    >>> parse_long(b"-12")
    -12
    """
    if field.isdigit() and len(field) < 19:
        return int(field)
    if not _LONG.match(field):
        raise ValueError("is not an integer")
    # Cut, because int() is slow with thousands of digits: 20 are beyond 64 bits as well.
    value = int(field.lstrip(b"+-").lstrip(b"0")[:20] or b"0") * (-1 if field.startswith(b"-") else 1)
    if not _MIN_LONG <= value <= _MAX_LONG:
        raise ValueError("is beyond 64 bits")
    return value


def parse_decimal(field: bytes) -> Decimal:
    """Read a decimal number of any precision, exactly.

    >>> parse_decimal(b"1.50") == parse_decimal(b"1.5")
    True
    """
    if not _DECIMAL.match(field):
        raise ValueError("is not a decimal number")
    return Decimal(field.decode("ascii"))


def parse_string(field: bytes) -> bytes:
    """Return the bytes as they are: they compare in byte order.

    >>> parse_string(b"a")
    b'a'
    """
    return field


def _format_decimal(value: Decimal) -> bytes:
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return b"0" if text in ("-0", "") else text.encode("ascii")


def _format_integer(value: int) -> bytes:
    return b"%d" % value


def _unhexed(text: bytes) -> bytes:
    return bytes.fromhex(text.decode("ascii"))


def _hexed(value: bytes) -> bytes:  # digits of base 16, which compare as the bytes do
    return value.hex().encode("ascii")


TUPLE = "tuple"  # the key of all types whose values are tuples

# The value that is older than every other, by order type: that of a record without an order value, where allowed.
LOWEST: dict[str, Any] = {
    "long": _MIN_LONG,
    "decimal": Decimal("-Infinity"),
    "timestamp": (-(2**63), b""),
    "string": b"",
    "sequence": NO_SEQUENCE,
    TUPLE: b"",
}

Parser = Callable[[bytes], Any]
Formatter = Callable[[Any], bytes]

# Order type to its parser, and to its formatter for manifests and tombstones.
ORDER_TYPES: dict[str, tuple[Parser, Formatter]] = {
    "long": (parse_long, _format_integer),
    "decimal": (parse_decimal, _format_decimal),
    "timestamp": (parse_timestamp, format_timestamp),
    "string": (parse_string, bytes),
    "sequence": (int, _format_integer),
    TUPLE: (_unhexed, _hexed),
}


def is_tuple(order_type: str) -> bool:
    """Return whether the values of an order type are tuples, encoded as ``order_tuples`` does.

    >>> is_tuple("long"), is_tuple("long, string"), is_tuple("long desc")
    (False, True, True)
    """
    return " " in order_type or order_type == "position"


def basic_type(order_type: str) -> str:
    """Return the order type whose values are stored and compared as those of another one: tuples are bytes."""
    return "string" if is_tuple(order_type) else order_type


def lowest_order(order_type: str) -> Any:
    """Return the value that is older than every other.

    >>> lowest_order("sequence"), lowest_order("long, string")
    (-1, b'')
    """
    return LOWEST[_kind(order_type)]


def order_parser(order_type: str) -> Parser:
    """Return the function that reads a value of manifests and tombstones, and of a field if it is not a tuple."""
    return ORDER_TYPES[_kind(order_type)][0]


def _kind(order_type: str) -> str:
    return TUPLE if is_tuple(order_type) else order_type


def format_order(order_type: str, value: Any) -> bytes | None:
    """Write an order value so that the type's parser reads the same value again; return None for the lowest.

    >>> format_order("timestamp", parse_timestamp(b"2026-01-31 12:00:00.50+02:00"))
    b'2026-01-31T10:00:00.5Z'
    """
    lowest = order_type in ("decimal", "timestamp", "sequence") and value == LOWEST[order_type]
    return None if lowest else ORDER_TYPES[_kind(order_type)][1](value)


def order_text(order_type: str, value: Any) -> str | None:
    """Write an order value as manifests do: "" for the lowest value of a type that has no text for it, None for None.

    >>> order_text("long", 12), order_text("sequence", NO_SEQUENCE)
    ('12', '')
    """
    return None if value is None else (format_order(order_type, value) or b"").decode("utf-8", "surrogateescape")


def order_value(order_type: str, text: str | None) -> Any:
    """Read an order value that ``order_text`` wrote; return None for None.

    >>> order_value("long", "12")
    12
    """
    if text == "":
        return lowest_order(order_type)
    return None if text is None else order_parser(order_type)(text.encode("utf-8", "surrogateescape"))
