"""Decode the members of JSON objects that are wanted, in one pass over a line, each to its text.

A wanted name is that of a member, or the path to one within other objects: ``source.lsn`` is member ``lsn`` of the
object in member ``source``. Only the objects on these paths are opened. A member whose own name has a dot is found by
the schema of the file, which tells it from a path; where both are there, the name is an error.

>>> schema = pa.schema([("id", pa.int64()), ("source", pa.struct([("lsn", pa.int64()), ("db", pa.string())]))])
>>> path_in(schema, "source.lsn"), path_in(schema, "id"), path_in(schema, "source.pos")
(('source', 'lsn'), ('id',), None)
>>> members = members_of(schema, ("id", "source.lsn"))
>>> members.leaves([members.decoder.decode(b'{"id":7,"source":{"lsn":5,"db":"a"}}')]).texts("source.lsn").to_pylist()
[b'5']
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.quick_dataclass import dataclass
from mutator.formats.content import NotReadable
from mutator.rules.byte_columns import PAD, ByteColumn, Bytes, Flags, Ints, binary, exchanged
from mutator.rules.json_paths import NULLS, OTHERS, path_in

OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_QUOTE, _N, _SLASH, _SPACE = b'"n\\ '
_NULL = 4  # bytes


class Pairs(list[tuple[str, Any]]):
    """The members of an object, repeated ones too."""


class ObjectForm(NamedTuple):
    """Which objects are read."""

    others: bool  # they may have other members, which are not read
    nulls: bool  # null is one without members


@dataclass(frozen=True, eq=False)
class Members:
    """The members of an object, and how it is decoded. Its leaves have the names that are wanted."""

    names: tuple[str, ...]
    is_object: ObjectForm
    inner: Mapping[str, Members]  # the objects that are opened
    again: Mapping[str, Members]  # those that are wanted as a whole, too
    around: tuple[str, ...]  # names of the members around it
    leaf: Mapping[str, str]  # of its own members, as far as they are wanted: name -> wanted name
    row: type
    decoder: Any
    empty: Any  # an object without members
    sizes: Sequence[int]  # bytes of each name with quotes, colon and comma

    def leaves(self, objects: Sequence[Any]) -> Leaves:
        """Return the values of the leaves of decoded objects."""
        found = Leaves(len(objects))
        found.size = self._add(objects, found)
        return found

    def _add(self, objects: Sequence[Any], found: Leaves) -> Ints:
        """Add leaves; return the number of bytes of each object, without blanks; 0 where it is missing."""
        count = len(objects)
        missing = null = np.zeros(count, np.bool_)
        if self.around or self.is_object.nulls:
            missing = np.fromiter((one is self.empty for one in objects), np.bool_, count)
            null = np.fromiter((one is None for one in objects), np.bool_, count)
            if null.any():
                objects = [self.empty if one is None else one for one in objects]
        size, members = np.ones(count, np.int64), np.zeros(count, np.int64)
        for number, (name, own) in enumerate(zip(self.names, self.sizes, strict=True)):
            values = map(attrgetter(f"f{number}"), objects)
            if name in self.inner:
                lengths = self.inner[name]._add([*values], found)
            else:
                text = _Values(values, count)
                lengths = text.lengths
                found.values.append(text)
                if name in self.leaf:
                    found.by_name[self.leaf[name]] = text
                if name in self.again:
                    self.again[name]._add_again(text, found)
            size += np.where(lengths > 0, lengths + own, 0)
            members += lengths > 0
        found.blanks += np.where(missing | null, 0, 2 * members - 1)
        size[null] = _NULL
        size[missing] = 0
        return size

    def _add_again(self, texts: _Values, found: Leaves) -> None:
        """Add the leaves in objects whose text is read as a whole; the values of other texts are missing."""
        objects, ends = [], np.cumsum(texts.lengths)
        for start, end in zip((ends - texts.lengths).tolist(), ends.tolist(), strict=True):
            try:
                objects.append(self.decoder.decode(texts.data[start:end].tobytes()))
            except msgspec.DecodeError:
                objects.append(None)
        inner = Leaves(len(objects))
        self._add(objects, inner)
        found.by_name |= inner.by_name

    def other_form(self, text: bytes) -> str | None:
        """Return why the text of an object cannot be decoded; None if it can."""
        try:
            values = OBJECT.decode(text)
        except msgspec.DecodeError:
            if text.strip() == b"null" and self.is_object.nulls:
                return None
            return f"has no JSON object in {'.'.join(self.around)!r}" if self.around else "is not a JSON object"
        other = None if self.is_object.others else next((name for name in values if name not in self.names), None)
        if other is not None:
            shown = ".".join((*self.around, other))
            return f"has the member {shown!r}, which none of the first rows has; name it in output.schema"
        whys = (one.other_form(bytes(values[name])) for name, one in self.inner.items() if name in values)
        return next((why for why in whys if why is not None), None)

    def repeated(self, pairs: Any) -> str | None:
        """Return the first member that an object has twice, with those around it. pairs: Pairs, or other JSON."""
        if not isinstance(pairs, Pairs):
            return None
        seen = set[str]()
        for name, value in pairs:
            if name in seen:
                return ".".join((*self.around, name))
            seen.add(name)
            within = self.inner[name].repeated(value) if name in self.inner else None
            if within is not None:
                return within
        return None


class Leaves:
    """The values of the leaves of some objects."""

    def __init__(self, count: int) -> None:
        """count: of the objects."""
        self.by_name: dict[str, _Values] = {}
        self.values: list[_Values] = []  # of all members that are no opened objects
        self.size = np.zeros(count, np.int64)  # bytes of each object, without blanks
        self.blanks = np.zeros(count, np.int64)  # in each object of a usual style, beside those in its values

    def texts(self, name: str) -> Any:
        """Return the texts of a leaf as a pa.Array of large_binary."""
        return _texts(self.by_name[name])

    def of_other_lengths(self, data: Bytes, starts: Ints, ends: Ints) -> Ints:
        """Return the objects whose lines have more than their members: blanks, escapes in names, or a member twice.

        Nearly all programs write no blanks, or one after each comma and colon, which do not count.
        """
        size = self.size
        others = ends - starts != size
        if not others.any():
            return np.flatnonzero(others)
        blanks = _spaces(data, starts, ends) - sum(one.spaces() for one in self.values)
        return np.flatnonzero(others & ~((ends - starts == size + blanks) & (blanks == self.blanks)))


@lru_cache
def members_of(schema: Any, names: tuple[str, ...]) -> Members:
    """Return the members of the lines of a file, of which some leaves are wanted. schema: pa.Schema of the file.

    Raises NotReadable for a name that the file does not have.
    """
    paths = dict[tuple[str, ...], str]()
    for name in names:
        try:
            path = path_in(schema, name)
        except ValueError as fault:
            raise NotReadable(str(fault)) from None
        if path is None:
            raise NotReadable(f"it has no member {name}")
        paths[path] = name
    return _members(schema, schema.metadata, paths, ())


def _members(
    fields: Iterable[Any], marks: Mapping[bytes, bytes] | None, paths: Mapping[tuple[str, ...], str], around: Any
) -> Members:
    """Return the members of an object. fields: pa.Field of each. paths: to the wanted leaves in it."""
    fields, marks = list(fields), marks or {}
    inner, again = dict[str, Members](), dict[str, Members]()
    for field in fields:
        below = {path[1:]: name for path, name in paths.items() if path[0] == field.name and len(path) > 1}
        if below:
            whole = (field.name,) in paths  # its other members are in the text of the whole
            found = _members(field.type, {OTHERS: b""} if whole else field.metadata, below, (*around, field.name))
            (again if whole else inner)[field.name] = found
    others = OTHERS in marks
    form = ObjectForm(others, NULLS in marks or bool(around))
    kinds = [
        (f"f{number}", inner[one.name].row | None, inner[one.name].empty)
        if one.name in inner
        else (f"f{number}", msgspec.Raw, msgspec.Raw(b""))
        for number, one in enumerate(fields)
    ]
    renamed = {f"f{number}": one.name for number, one in enumerate(fields)}
    row: Any = msgspec.defstruct(
        "Row", kinds, rename=renamed, forbid_unknown_fields=not others, gc=False, frozen=bool(around)
    )
    return Members(
        tuple(one.name for one in fields),
        form,
        inner,
        again,
        around,
        {path[0]: name for path, name in paths.items() if len(path) == 1},
        row,
        msgspec.json.Decoder(row | None if form.nulls else row),
        row(),
        [len(json.dumps(one.name, ensure_ascii=False).encode()) + 2 for one in fields],
    )


class _Values:
    """The values of one member as the lines have them; empty where a line lacks it."""

    def __init__(self, found: Iterator[Any], count: int) -> None:
        self.raw = list(found)
        self.lengths = np.fromiter(map(len, self.raw), np.int64, count)

    @cached_property
    def data(self) -> Bytes:
        """The values, one after the other, with ``PAD``."""
        return np.frombuffer(b"".join((*self.raw, PAD)), np.uint8)

    def spaces(self) -> Ints:
        """Return the number of spaces in each."""
        ends = np.cumsum(self.lengths)
        return _spaces(self.data, ends - self.lengths, ends)


def _spaces(data: Bytes, starts: Ints, ends: Ints) -> Ints:
    before = np.zeros(len(data) + 1, np.int64)
    np.cumsum(data == _SPACE, out=before[1:])
    found: Ints = before[ends] - before[starts]
    return found


def _texts(values: _Values) -> Any:
    """Return the texts of values as a pa.Array of large_binary."""
    body, lengths = values.data, values.lengths
    ends = np.cumsum(lengths)
    starts = ends - lengths
    first = body[starts]
    null: Flags = (lengths == 0) | (first == _N)
    text = (first == _QUOTE) & (lengths > 0)
    found = ByteColumn(body, starts + text, ends - text).take()
    slashes = np.flatnonzero(body == _SLASH)
    if len(slashes):
        rows = np.unique(np.searchsorted(ends, slashes, side="right"))
        escaped = rows[text[rows]]
        if len(escaped):
            spelled = b",".join(body[starts[row] : ends[row]].tobytes() for row in escaped.tolist())
            read = [text.encode() for text in json.loads(b"[%b]" % spelled)]
            found = exchanged(found, [(escaped, pa.array(read, pa.large_binary()))])
    return pc.if_else(pa.array(null), binary(None), found) if null.any() else found
