"""Find the members of JSON objects by the places of their names, many lines at a time, where lines are of few shapes.

A program writes the same members in the same order, without blanks, so the lines of one shape differ in their values
alone. A parser looks at one line of each shape. The names of the others are compared with those of this line, byte for
byte, so what lies between two names is a value; it is checked to be a text, a number or a word. Values that are the
same in a sample of the lines, such as the name of a table, are compared together with the names around them. Values
keep the text that they have in a line. Of lines with other escapes than that of a quote, or with arrays, none is read.

>>> shapes = Shapes(pa.schema([("id", pa.int64()), ("source", pa.struct([("lsn", pa.int64())]))]), [("source", "lsn")])
>>> lines = b'{"id":7,"source":{"lsn":1.50}}\\n{"id":8,"source":null}\\n'
>>> [column.to_pylist() for column in shapes.columns(lines, np.array([0, 31]))]
[[b'1.50', None]]
>>> shapes.columns(b'{"id":07,"source":null}', np.array([0])) is None
True
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.quick_dataclass import dataclass
from mutator.formats.files.json_members import Pairs
from mutator.rules.byte_columns import PAD, ByteColumn, Bytes, Flags, Ints, binary, offsets_of, packed

_MOST_SHAPES = 8  # of the lines of a chunk
_MOST_TRIES = 3  # to find the values that the lines of a shape have in common
_MOST_FAILURES = 3  # in a row, after which no more lines are tried
_SAMPLE, _FEWEST = 64, 4  # lines that show which values are the same in all
_LONGEST = 1 << 16  # bytes of the line of a shape
_QUOTE, _SLASH, _COLON, _SPACE, _ZERO, _N = b'"\\: 0n'
_NULL = b"null"
_BYTES = pa.large_binary()
_VALUE = r"(?:true|false|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
_USUAL = re.compile(rb'"[^"\\]*"|null|' + _VALUE.encode())

Path = tuple[str, ...]
Places = tuple[Ints, Ints]  # where values start and end


class _Same(NamedTuple):
    """A value that is the same in all lines of a shape."""

    path: Path
    text: int  # the number of the text that it is in
    value: bytes
    start: int  # in the text


@dataclass(frozen=True)
class _Shape:
    """All that lines have in common: texts, with a value between each two of them."""

    texts: Sequence[bytes]  # each ends with the colon after the name of a member, but for the last one
    paths: Sequence[Path]  # of the members with these values
    numbers: Ints  # of their names, among all names of a line
    names: int  # of a line
    objects: frozenset[Path] = frozenset()
    same: Sequence[_Same] = ()
    tries: int = 1

    @cached_property
    def sizes(self) -> Ints:
        """The lengths of the texts."""
        return np.array([*map(len, self.texts)])

    def with_same(self, same: Mapping[Path, bytes]) -> _Shape:
        """Return the shape of the lines among these that have some values. same: values by path."""
        texts, kept, found = [b""], list[int](), list[_Same]()
        for number, (text, path) in enumerate(zip(self.texts, self.paths, strict=False)):
            texts[-1] += text
            if path in same:
                found.append(_Same(path, len(texts) - 1, same[path], len(texts[-1])))
                texts[-1] += same[path]
            else:
                kept.append(number)
                texts.append(b"")
        texts[-1] += self.texts[-1]
        paths, numbers = [self.paths[number] for number in kept], self.numbers[kept]
        return replace(self, texts=texts, paths=paths, numbers=numbers, same=found)


@dataclass(eq=False)
class Shapes:
    """The wanted members of lines."""

    schema: Any  # pa.Schema: the members that lines may have
    paths: Sequence[Path]  # of those that are wanted, none of which is an object
    failures: int = 0  # in a row
    _found: dict[tuple[bytes, ...], _Shape] = field(default_factory=dict)  # by the texts of the same without values

    @cached_property
    def _known(self) -> frozenset[Path]:
        return frozenset(_paths(self.schema, ()))

    def columns(self, body: bytes, starts: Ints) -> list[Any] | None:
        """Return the texts of the wanted members as pa.Arrays of large_binary; None for lines that are not read.

        body: UTF-8, lines with the first and the last byte of an object, or of ``null``. starts: their offsets.
        """
        if self.failures >= _MOST_FAILURES:
            return None
        lines = _Lines(body, starts)
        found = self._places(lines, body) if lines.are_usual else None
        self.failures = self.failures + 1 if found is None else 0
        return None if found is None else lines.texts([found.get(path) for path in self.paths])

    def _places(self, lines: _Lines, body: bytes) -> Mapping[Path, Places] | None:
        """Return the places of the wanted values as ``_Values`` has them; a member without any is not there."""
        left, used = np.arange(len(lines.starts)), dict[tuple[bytes, ...], _Shape]()
        values = _Values(lines, frozenset(self.paths))
        for known, shape in self._found.items():  # most lines have the shapes of those before them
            rest = values.add(shape, left)
            used |= {known: shape} if len(rest) < len(left) else {}
            left = rest
        for _ in range(_MOST_SHAPES * _MOST_TRIES):
            if not len(left) or not values.are_usual:
                break
            whole = _shape(body[lines.starts[left[0]] : lines.ends[left[0]]])
            if whole is None or not self._known.issuperset((*whole.paths, *whole.objects)):
                return None
            known = tuple(whole.texts)
            used[known] = _with_same(whole, self._found.get(known), lines, body, left)
            self._found |= used
            left, first = values.add(used[known], left), left[0]
            if first in left[:1]:
                return None
        self._found = used
        usual = not len(left) and len(used) <= _MOST_SHAPES and values.are_whole()
        return values.places if usual else None


class _Values:
    """The values of lines, one shape of lines after the other."""

    def __init__(self, lines: _Lines, paths: frozenset[Path]) -> None:
        """Begin without any. paths: those that are wanted."""
        self._lines, self._paths = lines, paths
        self._opened = frozenset(path[:length] for path in paths for length in range(1, len(path)))
        self._texts, self._others = 0, list[Places]()
        self.places = dict[Path, Places]()  # without quotes; that of NULL is the start of its line
        self.are_usual = True  # as far as each value shows it

    def add(self, shape: _Shape, left: Ints) -> Ints:
        """Add the values of the lines of a shape; return the numbers of the other lines. left: of lines."""
        rows, parts = self._lines.of_shape(shape, left)
        if not len(rows):
            return left
        self.are_usual &= self._paths.isdisjoint(shape.objects)
        for path, starts, ends in zip(shape.paths, parts[:-1] + shape.sizes[:-1, None], parts[1:], strict=True):
            self._add(path, rows, starts, ends)
        for path, text, value, start in shape.same:
            quote = int(value.startswith(b'"'))
            self._texts += quote * len(rows)
            if value != _NULL:
                starts = parts[text] + (start + quote)
                self._put(path, rows, starts, starts + (len(value) - 2 * quote))
        if len(rows) == len(left):
            return left[:0]
        others = np.ones(len(self._lines.starts), np.bool_)
        others[rows] = False
        return left[others[left]]

    def are_whole(self) -> bool:
        """Return whether all values that were added are usual, and none has a quote within it."""
        lines = self._lines
        # As many quotes as around names and texts
        usual = self.are_usual and lines.quotes == 2 * (len(lines.name_ends) + self._texts)
        return usual and _are_values(lines.data, self._others)

    def _add(self, path: Path, rows: Ints, starts: Ints, ends: Ints) -> None:
        """Add the values of a member."""
        lines = self._lines
        firsts = lines.data[starts]
        is_text = firsts == _QUOTE
        if is_text.all():
            self.are_usual &= lines.are_in_quotes(starts, ends)
            self._texts += len(rows)
            self._put(path, rows, starts + 1, ends - 1)
            return
        is_null = firsts == _N
        plain = ~(is_text | is_null)
        if plain.all():
            self._others.append((starts, ends))
            self._put(path, rows, starts, ends)
            return
        self._texts += int(np.count_nonzero(is_text))
        self.are_usual &= lines.are_in_quotes(starts[is_text], ends[is_text])
        self.are_usual &= lines.are_null(starts[is_null], ends[is_null])
        self._others.append((starts[plain], ends[plain]))
        if not is_null.all():
            nothing = lines.starts[rows]
            starts, ends = (np.where(is_null, nothing, place) for place in (starts + is_text, ends - is_text))
            self._put(path, rows, starts, ends)

    def _put(self, path: Path, rows: Ints, starts: Ints, ends: Ints) -> None:
        """Keep the places of the values of a member that are not all NULL, if it is wanted."""
        self.are_usual &= path not in self._opened
        if path not in self._paths:
            return
        nothing = self._lines.starts
        if len(rows) == len(nothing):
            self.places[path] = starts, ends
            return
        found = self.places.setdefault(path, (nothing.copy(), nothing.copy()))
        found[0][rows], found[1][rows] = starts, ends


class _Lines:
    """Lines, and where their names end."""

    def __init__(self, body: bytes, starts: Ints) -> None:
        self.data: Bytes = np.frombuffer(body + PAD, np.uint8)
        self.starts, last = starts, len(body) - body.endswith(b"\n")
        self.ends: Ints = np.append(starts[1:] - 1, last)
        quotes, slashes = self.data == _QUOTE, np.flatnonzero(self.data == _SLASH)
        # No blanks, and no escapes but that of a quote
        controls = np.count_nonzero(self.data[:last] < _SPACE)
        self.are_usual = controls == len(starts) - 1 and bool((self.data[slashes + 1] == _QUOTE).all())
        self.quotes = np.count_nonzero(quotes) - len(slashes)
        self._has_slashes = len(slashes) > 0
        ends = np.flatnonzero(quotes[:-1] & (self.data[1:] == _COLON))
        self.name_ends: Ints = ends[self.data[ends - 1] != _SLASH] + 2  # with the colons
        self._firsts = np.searchsorted(self.name_ends, starts)
        self._counts = np.diff(np.append(self._firsts, len(self.name_ends)))

    def of_shape(self, shape: _Shape, rows: Ints) -> tuple[Ints, Ints]:
        """Return the rows of a shape, and where each of its texts begins: an array for each text."""
        sizes = shape.sizes
        rows = rows[(self._counts[rows] == shape.names) & (self.ends[rows] - self.starts[rows] >= sizes.sum())]
        values = self.name_ends[self._firsts[rows] + shape.numbers[:, None]]
        parts = np.vstack((values, self.ends[rows])) - sizes[:, None]
        fits = (parts[0] == self.starts[rows]) & (parts[1:] > values).all(axis=0)
        for text, places in zip(shape.texts, np.maximum(parts, 0), strict=True):
            fits &= self.have(places, text)
        return (rows, parts) if fits.all() else (rows[fits], parts[:, fits])

    def have(self, places: Ints, text: bytes) -> Flags:
        """Return at which places a text is."""
        found = np.ndarray((len(self.data) - len(text) + 1,), f"V{len(text)}", self.data, strides=(1,))[places]
        if found.tobytes() == text * len(places):  # faster than to compare each
            return np.ones(len(places), np.bool_)
        equal: Flags = (found.view(np.uint8).reshape(-1, len(text)) == np.frombuffer(text, np.uint8)).all(axis=1)
        return equal

    def are_in_quotes(self, starts: Ints, ends: Ints) -> bool:
        """Return whether values that begin with a quote end with another one."""
        last = ends - 1
        return bool(((last > starts) & (self.data[last] == _QUOTE) & (self.data[last - 1] != _SLASH)).all())

    def are_null(self, starts: Ints, ends: Ints) -> bool:
        """Return whether values are ``null``."""
        return bool((self.have(starts, _NULL) & (ends - starts == len(_NULL))).all())

    def texts(self, columns: Sequence[Places | None]) -> list[Any]:
        """Return columns of values as pa.Arrays of large_binary. None: all are NULL."""
        count, known = len(self.starts), [column for column in columns if column is not None]
        starts, ends = (np.concatenate([self.starts[:0], *(column[end] for column in known)]) for end in (0, 1))
        offsets, data = offsets_of(ByteColumn(self.data, starts, ends).take())
        valid = np.packbits(ends != np.tile(self.starts, len(known)), bitorder="little")
        whole = pa.LargeBinaryArray.from_buffers(_BYTES, len(starts), [*map(pa.py_buffer, (valid, offsets, data))])
        slashes = np.flatnonzero(data == _SLASH) if self._has_slashes else ()
        escaped = {*np.unique((np.searchsorted(offsets, slashes, side="right") - 1) // count).tolist()}
        each = (whole.slice(number * count, count) for number in range(len(known)))
        found = (_without_slashes(one) if number in escaped else one for number, one in enumerate(each))
        return [pa.nulls(count, _BYTES) if column is None else next(found) for column in columns]


def _with_same(shape: _Shape, before: _Shape | None, lines: _Lines, body: bytes, left: Ints) -> _Shape:
    """Return a shape with the values that are the same in a sample of its lines.

    before: what it was, for lines that are not all that it has. left: the numbers of lines that may be of the shape.
    """
    tries, same = 1 if before is None else before.tries + 1, dict[Path, bytes]()
    rows, parts = lines.of_shape(shape, left[:: max(len(left) // _SAMPLE, 1)])
    if tries < _MOST_TRIES and len(rows) >= _FEWEST:
        starts, ends = (parts[:-1] + shape.sizes[:-1, None]).tolist(), parts[1:].tolist()
        for path, *places in zip(shape.paths, starts, ends, strict=True):
            first, *others = {body[start:end] for start, end in zip(*places, strict=True)}
            if not others and _USUAL.fullmatch(first):
                same[path] = first
    if before is not None:
        known = {one.path: one.value for one in before.same}
        same = {path: value for path, value in same.items() if known.get(path) == value}
    return replace(shape.with_same(same), tries=tries)


def _shape(line: bytes) -> _Shape | None:
    """Return the shape of a line; None if it cannot be read, has an array, or has a member twice."""
    if len(line) > _LONGEST:
        return None
    try:
        found = json.loads(line, object_pairs_hook=Pairs)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, Pairs):
        return _Names([line]).shape() if found is None else None
    names = _Names([b""])
    _add(found, (), names)
    return names.shape() if len({*names.paths, *names.objects}) == names.count else None


@dataclass
class _Names:
    """The names of a line, as far as it was looked at."""

    texts: list[bytes]
    paths: list[Path] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    objects: list[Path] = field(default_factory=list)
    count: int = 0

    def shape(self) -> _Shape:
        """Return the shape of the line."""
        return _Shape(self.texts, self.paths, np.array(self.numbers, np.int64), self.count, frozenset(self.objects))


def _add(members: Pairs, around: Path, found: _Names) -> None:
    """Add the names in an object."""
    before = b"{"
    for name, value in members:
        path, number = (*around, name), found.count
        found.count += 1
        found.texts[-1] += before + json.dumps(name, ensure_ascii=False).encode() + b":"
        if isinstance(value, Pairs):
            found.objects.append(path)
            _add(value, path, found)
        else:
            found.paths.append(path)
            found.numbers.append(number)
            found.texts.append(b"")
        before = b","
    found.texts[-1] += b"}" if members else b"{}"


def _without_slashes(values: Any) -> Any:
    """Return texts without the escapes of quotes."""
    offsets, data = offsets_of(values)
    kept = data != _SLASH
    found = packed(data[kept], np.diff(np.append(0, np.cumsum(kept))[offsets]))
    return pc.if_else(values.is_valid(), found, binary(None)) if values.null_count else found


def _are_values(data: Bytes, places: Sequence[Places]) -> bool:
    """Return whether values are numbers or words of JSON."""
    starts, ends = (np.concatenate([place[end] for place in places] or [np.zeros(0, np.int64)]) for end in (0, 1))
    values = ByteColumn(data, starts, ends).take()
    offsets, text = offsets_of(values)
    doubtful = np.searchsorted(offsets, np.flatnonzero(text - _ZERO > 9), side="right") - 1  # others are whole numbers
    with_zeros = np.flatnonzero((text[offsets[:-1]] == _ZERO) & (np.diff(offsets) > 1))
    some = values.take(pa.array(np.unique(np.concatenate((doubtful, with_zeros)))))
    return bool(pc.all(pc.match_substring_regex(some, f"^{_VALUE}$")).as_py() is not False)


def _paths(fields: Iterable[Any], around: Path) -> Iterator[Path]:
    """Yield the paths of members, and of those within them."""
    for one in fields:
        yield (*around, one.name)
        if pa.types.is_struct(one.type):
            yield from _paths(one.type, (*around, one.name))
