"""Find the members of JSON objects by the places of their names, many lines at a time, where lines are of few shapes.

A program writes the same members in the same order, without blanks, so the lines of one shape differ in their values
alone. A parser looks at one line of each shape. The names of the others are compared with those of this line, byte for
byte, so what lies between two names is a value; it is checked to be a text, a number or a word. Values keep the text
that they have in a line. Of lines with other escapes than that of a quote, or with arrays, none is read.

>>> shapes = Shapes(pa.schema([("id", pa.int64()), ("source", pa.struct([("lsn", pa.int64())]))]), [("source", "lsn")])
>>> lines = b'{"id":7,"source":{"lsn":1.50}}\\n{"id":8,"source":null}\\n'
>>> [column.to_pylist() for column in shapes.columns(lines, np.array([0, 31]))]
[[b'1.50', None]]
>>> shapes.columns(b'{"id":07,"source":null}', np.array([0])) is None
True
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.formats.files.json_members import Pairs
from mutator.rules.byte_columns import PAD, ByteColumn, Bytes, Flags, Ints, binary, offsets_of, packed

_MOST_SHAPES = 8  # of the lines of a chunk
_MOST_FAILURES = 3  # in a row, after which no more lines are tried
_LONGEST = 1 << 16  # bytes of the line of a shape
_QUOTE, _SLASH, _COLON, _SPACE, _ZERO, _N = b'"\\: 0n'
_NULL = b"null"
_VALUE = r"^(?:true|false|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)$"

Path = tuple[str, ...]
Places = tuple[Ints, Ints]  # where values start and end


class _Name(NamedTuple):
    """The name of a member."""

    path: Path
    text: bytes  # from the end of the value before it to the colon after it
    is_object: bool  # its value is an object, whose names follow


class _Shape(NamedTuple):
    """All that lines have in common."""

    names: Sequence[_Name]
    end: bytes  # the text after the last value


@dataclass(eq=False)
class Shapes:
    """The wanted members of lines."""

    schema: Any  # pa.Schema: the members that lines may have
    paths: Sequence[Path]  # of those that are wanted, none of which is an object
    failures: int = 0  # in a row

    @cached_property
    def _known(self) -> frozenset[Path]:
        return frozenset(_paths(self.schema, ()))

    @cached_property
    def _opened(self) -> frozenset[Path]:
        return frozenset(path[:length] for path in self.paths for length in range(1, len(path)))

    def columns(self, body: bytes, starts: Ints) -> list[Any] | None:
        """Return the texts of the wanted members as pa.Arrays of large_binary; None for lines that are not read.

        body: UTF-8, lines with the first and the last byte of an object, or of ``null``. starts: their offsets.
        """
        if self.failures >= _MOST_FAILURES:
            return None
        lines = _Lines(body, starts)
        found = self._places(lines, body) if lines.are_usual else None
        self.failures = self.failures + 1 if found is None else 0
        return None if found is None else lines.texts([found[path] for path in self.paths])

    def _places(self, lines: _Lines, body: bytes) -> Mapping[Path, Places] | None:
        """Return the places of the wanted values, without quotes; that of NULL is the start of its line."""
        found = {path: (lines.starts.copy(), lines.starts.copy()) for path in self.paths}
        left, texts, others = np.ones(len(lines.starts), np.bool_), 0, list[Places]()
        for _ in range(_MOST_SHAPES):
            if not left.any():
                break
            first = int(left.argmax())
            shape = _shape(body[lines.starts[first] : lines.ends[first]])
            if shape is None or not self._known.issuperset(name.path for name in shape.names):
                return None
            rows, starts, ends = lines.of_shape(shape, np.flatnonzero(left))
            left[rows] = False
            if left[first] or any(name.is_object and name.path in found for name in shape.names):
                return None
            values = [number for number, name in enumerate(shape.names) if not name.is_object]
            starts, ends = starts[values], ends[values]
            firsts = lines.data[starts]
            is_text, is_null = firsts == _QUOTE, firsts == _N
            plain = ~(is_text | is_null)
            if not lines.are_in_quotes(starts[is_text], ends[is_text]):
                return None
            if not lines.are_null(starts[is_null], ends[is_null]):
                return None
            texts += int(np.count_nonzero(is_text))
            others.append((starts[plain], ends[plain]))
            starts, ends = (
                np.where(is_null, lines.starts[rows], place) for place in (starts + is_text, ends - is_text)
            )
            for row, number in enumerate(values):
                path = shape.names[number].path
                if path in self._opened and not is_null[row].all():
                    return None
                if path in found:
                    found[path][0][rows], found[path][1][rows] = starts[row], ends[row]
        # As many quotes as around names and texts: so none is within a text.
        usual = not left.any() and lines.quotes == 2 * (len(lines.name_ends) + texts)
        return found if usual and _are_values(lines.data, others) else None


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
        ends = np.flatnonzero(quotes[:-1] & (self.data[1:] == _COLON))
        self.name_ends: Ints = ends[self.data[ends - 1] != _SLASH] + 2  # with the colons
        self._firsts = np.searchsorted(self.name_ends, starts)
        self._counts = np.diff(np.append(self._firsts, len(self.name_ends)))

    def of_shape(self, shape: _Shape, rows: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the rows that have the names of a shape, and the start and the end of the value of each name."""
        texts, is_empty = [*(name.text for name in shape.names), shape.end], [True, *(n.is_object for n in shape.names)]
        sizes = np.array([*map(len, texts)])[:, None]
        rows = rows[(self._counts[rows] == len(shape.names)) & (self.ends[rows] - self.starts[rows] >= sizes.sum())]
        names = self.name_ends[self._firsts[rows] + np.arange(len(shape.names))[:, None]]
        starts, ends = np.vstack((self.starts[rows], names)), np.vstack((names, self.ends[rows])) - sizes
        fits = np.where(np.array(is_empty)[:, None], ends == starts, ends > starts).all(axis=0)
        for text, places in zip(texts, np.maximum(ends, 0), strict=True):
            fits &= self.have(places, text)
        return rows[fits], starts[1:, fits], ends[1:, fits]

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

    def texts(self, columns: Sequence[Places]) -> list[Any]:
        """Return columns of values as pa.Arrays of large_binary."""
        starts, ends = (np.concatenate([column[end] for column in columns]) for end in (0, 1))
        found, null = ByteColumn(self.data, starts, ends).take(), ends == np.tile(self.starts, len(columns))
        offsets, data = offsets_of(found)
        kept = data != _SLASH
        if not kept.all():
            found = packed(data[kept], np.diff(np.append(0, np.cumsum(kept))[offsets]))
        found = pc.if_else(pa.array(null), binary(None), found) if null.any() else found
        return [found.slice(number * len(self.starts), len(self.starts)) for number in range(len(columns))]


def _shape(line: bytes) -> _Shape | None:
    """Return the shape of a line; None if it cannot be read, has an array, or has a member twice."""
    if len(line) > _LONGEST:
        return None
    try:
        found = json.loads(line, object_pairs_hook=Pairs)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, Pairs):
        return _Shape([], line) if found is None else None
    names = list[_Name]()
    end = _add(found, (), b"", names)
    return _Shape(names, end) if len({name.path for name in names}) == len(names) else None


def _add(members: Pairs, around: Path, before: bytes, found: list[_Name]) -> bytes:
    """Add the names in an object; return the text after its last value. before: the text in front of the object."""
    before += b"{"
    for name, value in members:
        path, is_object = (*around, name), isinstance(value, Pairs)
        found.append(_Name(path, before + json.dumps(name, ensure_ascii=False).encode() + b":", is_object))
        before = (_add(value, path, b"", found) if is_object else b"") + b","
    return before.removesuffix(b",") + b"}"


def _are_values(data: Bytes, places: Sequence[Places]) -> bool:
    """Return whether values are numbers or words of JSON."""
    starts, ends = (np.concatenate([place[end] for place in places] or [np.zeros(0, np.int64)]) for end in (0, 1))
    values = ByteColumn(data, starts, ends).take()
    offsets, text = offsets_of(values)
    doubtful = np.searchsorted(offsets, np.flatnonzero(text - _ZERO > 9), side="right") - 1  # others are whole numbers
    with_zeros = np.flatnonzero((text[offsets[:-1]] == _ZERO) & (np.diff(offsets) > 1))
    some = values.take(pa.array(np.unique(np.concatenate((doubtful, with_zeros)))))
    return bool(pc.all(pc.match_substring_regex(some, _VALUE)).as_py() is not False)


def _paths(fields: Iterable[Any], around: Path) -> Iterator[Path]:
    """Yield the paths of members, and of those within them."""
    for one in fields:
        yield (*around, one.name)
        if pa.types.is_struct(one.type):
            yield from _paths(one.type, (*around, one.name))
