"""Read the members of JSON objects, many lines at a time, where each line is of the usual form.

``json_shapes`` reads lines with the same names in the same order. Arrow reads those of other shapes whose members are
all known, each at most once, and each of one kind: a whole number, a text, and so on. Both find columns at once,
without an object for each value. Of any other lines they read none: ``json_members`` does, which also says what is
wrong with a line.

>>> schema = pa.schema([("id", pa.int64()), ("source", pa.struct([("lsn", pa.int64()), ("db", pa.string())]))])
>>> reader = UsualLines.of(schema, ("id", "source.lsn"))
>>> columns = reader.columns(b'{"id":7,"source":{"lsn":5,"db":"a"}}', np.array([0]))
>>> [column.to_pylist() for column in columns]
[[b'7'], [b'5']]
>>> reader.columns(b'{"id":[7]}', np.array([0])) is None
True
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from mutator.errors.quick_dataclass import dataclass
from mutator.formats.files.json_members import OBJECT
from mutator.formats.files.json_shapes import Shapes
from mutator.rules.byte_columns import Ints
from mutator.rules.json_paths import AS_TEXT, path_in, with_text

MOST_LEVELS = 32  # of a nested type; Arrow's files take less than 64
_MOST_TIMES = 4
_MOST = 3  # failures in a row, after which no more lines are tried
_MINUS_ZERO = re.compile(rb"-0[\s,}\]]")  # a whole number, but another text than 0
_NO_NUMBERS = (b"NaN", b"Inf")  # which Arrow takes for numbers
_ANYTHING = msgspec.json.Decoder(msgspec.Raw)
_BYTES = pa.large_binary()
_CLOSE = ord("}")
_NULL = b"null"  # Arrow may not take it for an object without members


@dataclass(eq=False)
class UsualLines:
    """Lines whose members have the names and kinds of a schema."""

    schema: Any  # pa.Schema
    paths: Sequence[tuple[str, ...]]  # of the wanted members
    around: tuple[str, ...] | None  # members around the objects: one with the same text in all lines, and theirs
    shapes: Shapes
    failures_of_arrow: int  # in a row
    failures: int = 0  # successive chunks whose text around the objects was not the usual one
    times: int = 1  # how many times as long as their objects lines are, at most ``_MOST_TIMES``

    @classmethod
    def of(cls, schema: Any, names: Sequence[str]) -> UsualLines | None:
        """Return the lines of a file; None if Arrow cannot read the wanted members as their lines have them."""
        found = [path_in(schema, name) for name in names]
        paths, around = [path for path in found if path is not None], None
        if len(schema) == 2 and pa.types.is_string(schema.types[0]) and pa.types.is_struct(schema.types[1]):
            around, schema = (*schema.names,), pa.schema(list(schema.types[1]))
            if around[1:] in paths:  # their whole text
                return None
            paths = [path[1:] for path in paths]
        read = pa.schema([one.with_type(_read_as(one.type)) for one in schema])
        types = [_type_at(read, path) for path in paths if path]
        if not types or len(paths) < len(names) or any(map(pa.types.is_nested, types)):
            return None
        failures = _MOST if _has_type(read, _is_exact) else 0  # Arrow keeps no text of numbers
        return cls(read, paths, around, Shapes(read, [path for path in paths if path]), failures)

    def columns(self, body: bytes, starts: Ints) -> list[Any] | None:
        """Return the texts of the wanted members as pa.Arrays of large_binary; None for lines of another form.

        body: UTF-8, lines with the first and the last byte of an object. starts: their offsets. The text around the
        objects is a pa.DictionaryArray.
        """
        if self.around is None:
            return self._members(body, starts)
        found = self.wrapped(body)
        return None if found is None else found[0]

    def wrapped(self, body: bytes) -> tuple[list[Any], Ints, Ints] | None:
        """Return the same of lines of any bytes, and the offsets of the lines and of their ends.

        None for lines of another form, also if there is nothing around their objects.
        """
        if self.around is None or self.failures >= _MOST:
            return None
        self.failures += 1
        found = _unwrapped(body, *self.around)
        columns = None if found is None else self._members(found.objects, found.starts_of_objects)
        if found is None or columns is None:
            return None
        self.failures, self.times = 0, min(len(body) // len(found.objects), _MOST_TIMES)
        within = iter(columns)
        return [next(within) if path else found.text for path in self.paths], found.starts, found.ends

    def _members(self, body: bytes, starts: Ints) -> list[Any] | None:
        """Return the texts of the wanted members that are in the objects."""
        return self.shapes.columns(body, starts) or self._by_arrow(body, starts)

    def _by_arrow(self, body: bytes, starts: Ints) -> list[Any] | None:
        """Return the same of lines of any shape."""
        if self.failures_of_arrow >= _MOST:
            return None
        self.failures_of_arrow += 1
        objects = _without_nulls(body, starts)
        table = None if objects is None else self._read(objects)
        if table is None or table.num_rows != len(starts):
            return None
        columns = [_at(table, path) for path in self.paths if path]
        if any(map(_has_zero, columns)) and _MINUS_ZERO.search(body):
            return None
        self.failures_of_arrow = 0
        return [one.cast(pa.string()).cast(_BYTES) for one in columns]

    def _read(self, body: bytes) -> Any:
        """Return the objects as a pa.Table; None if they have other members, one twice, or values of other kinds."""
        if _has_type(self.schema, pa.types.is_float64) and any(one in body for one in _NO_NUMBERS):
            return None
        parsing = arrow_json.ParseOptions(explicit_schema=self.schema, unexpected_field_behavior="error")
        try:
            return arrow_json.read_json(pa.BufferReader(body), _at_once(body), parsing)
        except pa.ArrowInvalid:
            return None


def _at_once(body: bytes) -> Any:
    return arrow_json.ReadOptions(use_threads=False, block_size=len(body) + 1)


def usual_schema(lines: Sequence[bytes]) -> Any:
    """Return the members of some lines with types that fit their values, where all values of each are of one kind.

    None: they are not, or a whole number has more than 64 bits, or a line is not an object.

    >>> print(usual_schema([b'{"id":7,"changed":{"at":null}}', b"null", b'{"id":0.5}']))
    id: double
    changed: struct<at: null>
      child 0, at: null
    >>> usual_schema([b'{"id":7}', b'{"id":"7"}']) is usual_schema([b'{"id":9223372036854775808}']) is None
    True
    """
    objects = [one for one in map(bytes.strip, lines) if one not in (b"", _NULL)]
    if not all(one.startswith(b"{") and one.endswith(b"}") for one in objects):
        return None
    body = b"\n".join(objects)
    found = _schema_around(body, objects[0]) if objects else None
    if found is not None:
        return found
    try:
        _ANYTHING.decode_lines(body)  # refuses NaN, and more levels than Arrow's parser, which is recursive, can take
        table = arrow_json.read_json(pa.BufferReader(body), _at_once(body))
        if table.num_rows != len(objects) or any(depth(kind) > MOST_LEVELS for kind in table.schema.types):
            return None
    except (msgspec.DecodeError, RecursionError, pa.ArrowInvalid):
        return None
    doubles = [one for column in table.columns for one in _doubles(column.chunk(0))]
    if any(map(_is_beyond, doubles)):
        return None
    return pa.schema([(one.name, without_times(one.type)) for one in table.schema])


def _schema_around(body: bytes, first: bytes) -> Any:
    """Return the same of objects within others, beside a text that is the same in all; None for others."""
    with suppress(msgspec.DecodeError, RecursionError):
        names = [*OBJECT.decode(first)]
        found = _unwrapped(body, *names) if len(names) == 2 else None
        if found is not None:
            text = b'{"%b":%b}' % (names[0].encode(), found.text.dictionary[0].as_py())
            around, within = usual_schema([text]), usual_schema(found.objects.splitlines())
            if around is not None and within:
                whole = pa.struct([*within])
                return around.append(pa.field(names[1], whole)) if depth(whole) <= MOST_LEVELS else None
    return None


def _doubles(column: Any) -> Iterator[Any]:
    """Yield the doubles of a column, at all levels."""
    if pa.types.is_float64(column.type):
        yield column
    elif pa.types.is_nested(column.type):
        for inner in column.flatten() if pa.types.is_struct(column.type) else [column.flatten()]:
            yield from _doubles(inner)


def _is_beyond(doubles: Any) -> bool:
    """Return whether some may have been made of whole numbers of more than 64 bits."""
    return bool(pc.any(pc.greater_equal(pc.abs(doubles), 2.0**63)).as_py())


def depth(data_type: Any) -> int:
    """Return the number of levels of a type."""
    if not pa.types.is_nested(data_type):
        return 0
    return 1 + max((depth(data_type.field(number).type) for number in range(data_type.num_fields)), default=0)


def without_times(data_type: Any) -> Any:
    """Return a type with text in place of the times that Arrow sees in texts."""
    return with_text(data_type, pa.types.is_temporal)


class _Unwrapped(NamedTuple):
    """Objects that are members of the objects in lines."""

    text: Any  # of another member of each line: pa.DictionaryArray
    objects: bytes  # in lines
    starts_of_objects: Ints
    starts: Ints  # of the lines
    ends: Ints


def _unwrapped(body: bytes, name: str, of_objects: str) -> _Unwrapped | None:
    """Return the objects in a member, and the text of another member before it, which is long.

    None unless that text is the same in all lines that have it: so it is compared, and not parsed.
    """
    nothing = (_NULL, b'{"%b":null,"%b":null}' % (name.encode(), of_objects.encode()))
    first = next((line for line in map(bytes.rstrip, BytesIO(body)) if line not in nothing), _NULL)
    try:
        text = bytes(OBJECT.decode(first).get(name, b""))
    except (msgspec.DecodeError, RecursionError):
        return None
    before = b'{"%b":%b,"%b":' % (name.encode(), text, of_objects.encode())
    if not text.startswith(b"{") or not first.startswith(before):
        return None
    heads = before + b"{", before + _NULL
    size, at, starts, ends, objects, usual = len(before), 0, list[int](), list[int](), list[bytes](), list[bool]()
    while at < len(body):
        usual.append(body.startswith(heads, at))
        end = body.find(b"\n", at + size if usual[-1] else at)
        end = len(body) if end < 0 else end
        if not usual[-1] and body[at:end] not in nothing:
            return None
        if usual[-1] and body[end - 1] != _CLOSE:
            return None
        objects.append(body[at + size : end - 1] if usual[-1] else _NULL)
        starts.append(at)
        ends.append(end)
        at = end + 1
    found = b"\n".join(objects)
    try:
        (text + found).decode()
    except UnicodeDecodeError:
        return None
    sizes = np.fromiter(map(len, objects), np.int64, len(objects))
    indices = pa.array(np.zeros(len(usual), np.int32), mask=~np.array(usual, np.bool_))
    return _Unwrapped(
        pa.DictionaryArray.from_arrays(indices, pa.array([text], _BYTES)),
        found,
        np.cumsum(sizes + 1) - sizes - 1,
        np.array(starts, np.int64),
        np.array(ends, np.int64),
    )


def _read_as(data_type: Any) -> Any:
    """Return the type as which Arrow reads values that become those of another one; ``AS_TEXT`` if it has none."""
    types = pa.types
    if types.is_struct(data_type):
        return pa.struct([one.with_type(_read_as(one.type)) for one in data_type])
    if types.is_integer(data_type) and data_type != pa.uint64():
        return pa.int64()
    if types.is_temporal(data_type) or types.is_null(data_type):
        return pa.string()
    same = (types.is_string, types.is_boolean, types.is_float64, types.is_decimal128, types.is_list)
    return data_type if any(of(data_type) for of in same) else AS_TEXT


def _is_exact(data_type: Any) -> bool:
    return bool(data_type == AS_TEXT)


def _without_nulls(body: bytes, starts: Ints) -> bytes | None:
    """Return lines with ``{}`` in place of ``null``; None for other words. starts: offsets of all lines.

    >>> _without_nulls(b'{"a":1}\\nnull\\n', np.array([0, 8]))
    b'{"a":1}\\n{}  \\n'
    """
    text = np.frombuffer(body, np.uint8)
    nulls = starts[text[starts] == _NULL[0]]
    if not len(nulls):
        return body
    text, places = text.copy(), nulls[:, None] + np.arange(len(_NULL) + 1)
    if places.max() >= len(text) or (text[places] != np.frombuffer(_NULL + b"\n", np.uint8)).any():
        return None
    text[places] = np.frombuffer(b"{}  \n", np.uint8)
    return text.tobytes()


def _type_at(schema: Any, path: Sequence[str]) -> Any:
    found = schema.field(path[0]).type
    for name in path[1:]:
        found = found.field(name).type
    return found


def _has_type(fields: Any, is_it: Callable[[Any], bool]) -> bool:
    """Return whether a field is of some type, or has one within it."""
    return any(is_it(one.type) or (pa.types.is_struct(one.type) and _has_type(one.type, is_it)) for one in fields)


def _at(table: Any, path: Sequence[str]) -> Any:
    column = table.column(path[0]).chunk(0)
    return pc.struct_field(column, list(path[1:])) if len(path) > 1 else column


def _has_zero(column: Any) -> bool:
    return bool(pa.types.is_int64(column.type) and pc.any(pc.equal(column, 0)).as_py())
