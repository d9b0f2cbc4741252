"""Lists, structs and maps as compact JSON.

A list is an array, a struct an object with its members in order, and a map an array of [key, value], so that neither
the order nor a repeated key is lost. Integers, finite floats and booleans are JSON's own, binaries are base64, and all
other values are strings of the text that they have as fields.

Replace bytes in a column of values by escapes, all rows at once.

>>> Escapes({10: b"\\\\n"}).applied(pa.array([b"a", b"b\\nc"], pa.large_binary())).to_pylist()
[b'a', b'b\\\\nc']
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.formats.values.scalar_text import exact_text
from mutator.rules.byte_columns import Flags, Ints, binary, concatenated, offsets_of, packed

_FEW = 8  # bytes: searching for more of them, one after the other, is slower than a table


class Escapes:
    """The escape of each special byte; each has one byte or more."""

    def __init__(self, texts: Mapping[int, bytes]) -> None:
        self._longest = max(map(len, texts.values()))
        self._bytes = [bytes([byte]) for byte in texts]
        self._special = np.zeros(256, np.bool_)
        self._more = np.zeros(256, np.int64)  # length of the escape beyond one byte
        self._texts = np.zeros((256, self._longest), np.uint8)
        for byte, text in texts.items():
            self._special[byte], self._more[byte] = True, len(text) - 1
            self._texts[byte, : len(text)] = bytearray(text)

    def applied(self, values: Any) -> Any:
        """Return a pa.Array of large_binary with its special bytes replaced; NULL stays NULL."""
        offsets, data = offsets_of(values)
        if len(self._bytes) <= _FEW:
            content = data.tobytes()
            if not any(byte in content for byte in self._bytes):
                return values
        at = np.flatnonzero(self._special[data])
        if not len(at):
            return values
        found, more = data[at], self._more[data[at]]
        sums = np.concatenate(([0], np.cumsum(more)))
        begins = at + sums[:-1]
        made, kept = np.empty(len(data) + int(sums[-1]), np.uint8), np.ones(len(data) + int(sums[-1]), np.bool_)
        for position in range(self._longest):
            rows = more >= position
            made[begins[rows] + position], kept[begins[rows] + position] = self._texts[found[rows], position], False
        made[kept] = np.delete(data, at)
        column = packed(made, np.diff(offsets + sums[np.searchsorted(at, offsets)]))
        return pc.if_else(values.is_valid(), column, pa.scalar(None, column.type)) if values.null_count else column


Leaf = Callable[[Any, Any], tuple[Any, Flags, str]]  # text and a type -> values, which are bad, and why

_STRINGS = Escapes(
    {byte: b"\\u%04x" % byte for byte in range(32)}
    | {ord('"'): b'\\"', ord("\\"): b"\\\\"}
    | {8: b"\\b", 9: b"\\t", 10: b"\\n", 12: b"\\f", 13: b"\\r"}
)


def to_json(column: Any) -> Any:
    """Return a pa.Array of large_binary with the JSON of each value of a nested column; NULL stays NULL.

    >>> to_json(pa.array([[("k", 1.5), ("k", None)], None], pa.map_(pa.string(), pa.float64()))).to_pylist()
    [b'[["k",1.5],["k",null]]', None]
    """
    data_type, types = column.type, pa.types
    if types.is_struct(data_type):
        names = [json.dumps(one.name, ensure_ascii=False).encode() + b":" for one in data_type]
        parts = [concatenated(name, _value(part)) for name, part in zip(names, column.flatten(), strict=True)]
        inner = pc.binary_join_element_wise(*parts, binary(b",")) if parts else pa.repeat(binary(b""), len(column))
        text = concatenated(b"{", inner, b"}")
    else:
        offsets = column.offsets.to_numpy().astype(np.int64)
        first, last = int(offsets[0]), int(offsets[-1])
        if types.is_map(data_type):
            pair = [_value(part.slice(first, last - first)) for part in (column.keys, column.items)]
            values = concatenated(b"[", pc.binary_join_element_wise(*pair, binary(b",")), b"]")
        else:
            values = _value(column.values.slice(first, last - first))
        offsets -= first
        lists = pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values)
        text = concatenated(b"[", pc.binary_join(lists, binary(b",")), b"]")
    return pc.if_else(column.is_valid(), text, pa.scalar(None, text.type)) if column.null_count else text


def _value(column: Any) -> Any:
    """Return the JSON of values within other values."""
    data_type, types = column.type, pa.types
    if types.is_nested(data_type):
        text = to_json(column)
    elif types.is_binary(data_type) or types.is_fixed_size_binary(data_type):
        coded = [None if one is None else base64.b64encode(one) for one in column.to_pylist()]
        text = concatenated(b'"', pa.array(coded, pa.large_binary()), b'"')
    elif types.is_string(data_type):
        text = concatenated(b'"', _STRINGS.applied(exact_text(column)), b'"')
    else:
        text = exact_text(column)
        if types.is_floating(data_type):
            finite = pc.is_finite(column.cast(pa.float64()))
            if pc.all(finite).as_py() is False:
                text = pc.if_else(finite, text, concatenated(b'"', text, b'"'))
        elif not (types.is_integer(data_type) or types.is_boolean(data_type)):
            text = concatenated(b'"', text, b'"')
    return pc.fill_null(text, binary(b"null"))


# --- reading


class _Number(str):
    """The text of a number."""


class _Members(list[tuple[str, Any]]):
    """The members of an object, in order."""


class _Wrong(ValueError):
    """A JSON value does not fit the type."""


def from_json(column: Any, data_type: Any, leaf: Leaf) -> tuple[Any, Flags, str]:
    """Return a pa.Array of a nested type, which rows could not be read (they are NULL), and why the first could not.

    leaf: parses the text of values that are not nested.
    """
    values, faults = [], _Faults()
    for row, text in enumerate(column.to_pylist()):
        values.append(None if text is None else faults.caught(row, _parsed, text))
    found = _built(values, np.arange(len(values)), data_type, leaf, faults)
    if faults.first:
        values = [None if row in faults.rows else value for row, value in enumerate(values)]
        found = _built(values, np.arange(len(values)), data_type, leaf, _Faults())
    bad = np.zeros(len(values), np.bool_)
    bad[list(faults.rows)] = True
    return found, bad, f"is not JSON of type {data_type}: {faults.first}" if faults.first else ""


class _Faults:
    """Rows of a column that could not be read."""

    def __init__(self) -> None:
        self.rows: set[int] = set()
        self.first = ""

    def add(self, row: int, why: str) -> None:
        """Add a row; only the first reason is kept."""
        self.rows.add(int(row))
        self.first = self.first or why

    def caught(self, row: int, function: Callable[[Any], Any], value: Any) -> Any:
        """Return the result of a function; None, and add the row, if the value does not fit."""
        try:
            return function(value)
        except _Wrong as fault:
            self.add(row, str(fault))
            return None


def _no_constant(text: str) -> NoReturn:
    raise _Wrong(f"{text} needs quotes")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Members, parse_int=_Number, parse_float=_Number, parse_constant=_no_constant
)


def _parsed(text: bytes) -> Any:
    try:
        found = _DECODER.decode(text.decode("utf-8"))
    except UnicodeDecodeError:
        raise _Wrong("it is not UTF-8") from None
    except json.JSONDecodeError as fault:
        raise _Wrong(f"{fault.msg}, at character {fault.pos}") from None
    except RecursionError:
        raise _Wrong("it is nested too deeply") from None
    if found is None:
        raise _Wrong("a field must not be null")
    return found


def _built(values: Sequence[Any], rows: Ints, data_type: Any, leaf: Leaf, faults: _Faults) -> Any:
    """Return the column of parsed values. rows: the row that each value belongs to."""
    types = pa.types
    null = np.fromiter((value is None for value in values), np.bool_, len(values))
    if types.is_struct(data_type):
        parts = _members(values, rows, data_type, faults)
        columns = [_child(one, part, rows, ~null, leaf, faults) for one, part in zip(data_type, parts, strict=True)]
        if not columns:
            return pa.array([None if value is None else {} for value in values], data_type)
        return pa.StructArray.from_arrays(columns, fields=list(data_type), mask=pa.array(null))
    if types.is_map(data_type) or types.is_list(data_type):
        check = _pairs if types.is_map(data_type) else _elements
        lists = [faults.caught(row, check, value) for row, value in zip(rows, values, strict=True)]
        offsets, owners = _layout(lists, rows)
        inner = [element for one in lists if one is not None for element in one]
        present, missing = np.ones(len(inner), np.bool_), np.array([one is None for one in lists], np.bool_)
    if types.is_map(data_type):
        keys = _child(data_type.key_field, [pair[0] for pair in inner], owners, present, leaf, faults)
        items = _child(data_type.item_field, [pair[1] for pair in inner], owners, present, leaf, faults)
        if keys.null_count:  # they are faults, and Arrow allows no NULL keys
            return pa.nulls(len(values), data_type)
        gone = pa.array(np.append(missing, False))
        starts = pc.if_else(gone, pa.scalar(None, pa.int32()), pa.array(offsets, pa.int32()))
        return pa.MapArray.from_arrays(starts, keys, items, type=data_type)
    if types.is_list(data_type):
        column = _child(data_type.value_field, inner, owners, present, leaf, faults)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), column, type=data_type, mask=pa.array(missing))
    text_of = _reader(data_type)
    texts = [faults.caught(row, text_of, value) for row, value in zip(rows, values, strict=True)]
    found, bad, why = leaf(pa.array(texts, pa.large_binary()), data_type)
    for position in np.flatnonzero(bad).tolist():
        faults.add(rows[position], f"a value {why}")
    return found


def _child(field: Any, values: Sequence[Any], rows: Ints, present: Flags, leaf: Leaf, faults: _Faults) -> Any:
    """Return the column of a field within others. present: which values have a parent that is not NULL."""
    if not field.nullable:
        for position, value in enumerate(values):
            if value is None and present[position]:
                faults.add(rows[position], f"{field.name} is null")
    return _built(values, rows, field.type, leaf, faults)


def _members(values: Sequence[Any], rows: Ints, data_type: Any, faults: _Faults) -> list[list[Any]]:
    names = {one.name: number for number, one in enumerate(data_type)}
    parts: list[list[Any]] = [[None] * len(values) for _ in names]
    for position, value in enumerate(values):
        if value is None:
            continue
        if not isinstance(value, _Members):
            faults.add(rows[position], "expected an object")
            continue
        seen = set()
        for name, member in value:
            if name not in names or name in seen:
                faults.add(rows[position], f"member {name} is {'repeated' if name in seen else 'unknown'}")
                continue
            seen.add(name)
            parts[names[name]][position] = member
    return parts


def _elements(value: Any) -> Any:
    if value is not None and (not isinstance(value, list) or isinstance(value, _Members)):
        raise _Wrong("expected an array")
    return value


def _pairs(value: Any) -> Any:
    for pair in _elements(value) or ():
        if not isinstance(pair, list) or isinstance(pair, _Members) or len(pair) != 2:
            raise _Wrong("an entry of a map must be an array of a key and a value")
    return value


def _layout(lists: Sequence[Any], rows: Ints) -> tuple[Ints, Ints]:
    """Return the offsets of lists in their joined elements, and the row of each element."""
    lengths = np.array([0 if one is None else len(one) for one in lists], np.int64)
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64), np.repeat(rows, lengths)


def _reader(data_type: Any) -> Callable[[Any], bytes | None]:
    """Return the function from the JSON values of a flat type to their text."""
    types = pa.types
    if types.is_boolean(data_type):
        return _boolean
    if types.is_integer(data_type):
        return _number
    if types.is_floating(data_type) or types.is_decimal(data_type) or types.is_duration(data_type):
        return lambda value: _number(value) if isinstance(value, _Number) else _string(value)
    if types.is_binary(data_type) or types.is_fixed_size_binary(data_type):
        return _base64
    return _nothing if types.is_null(data_type) else _string


def _boolean(value: Any) -> bytes | None:
    if value is not None and not isinstance(value, bool):
        raise _Wrong("expected a boolean")
    return None if value is None else b"true" if value else b"false"


def _number(value: Any) -> bytes | None:
    if value is not None and not isinstance(value, _Number):
        raise _Wrong("expected a number")
    return None if value is None else value.encode()


def _string(value: Any) -> bytes | None:
    if value is not None and (not isinstance(value, str) or isinstance(value, _Number)):
        raise _Wrong("expected a string")
    try:
        return None if value is None else value.encode("utf-8")
    except UnicodeEncodeError:
        raise _Wrong("half of a surrogate pair is not text") from None


def _base64(value: Any) -> bytes | None:
    text = _string(value)
    try:
        return None if text is None else base64.b64decode(text, validate=True)
    except binascii.Error:
        raise _Wrong("expected base64") from None


def _nothing(value: Any) -> bytes | None:
    if value is not None:
        raise _Wrong("expected null")
    return None
