"""Columns of values that share one buffer, each with a start and an end, so that no byte need be copied.

>>> names = ByteColumn.of([b"ab", b"", b"cde"])
>>> names.take(np.array([0, 2])).to_pylist()
[b'ab', b'cde']
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.quick_dataclass import dataclass

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

PAD = bytes(8)  # after the last byte of every buffer, so that eight bytes can be loaded at the start of any value


@dataclass(frozen=True)
class ByteColumn:
    """Values in one buffer, each from a start to an end. At least 8 more bytes follow the last value."""

    data: Bytes
    starts: Ints
    ends: Ints

    @classmethod
    def of(cls, values: Iterable[bytes]) -> ByteColumn:
        """Copy values to a buffer of their own."""
        return cls.of_array(pa.array(values, pa.large_binary()))

    @classmethod
    def of_array(cls, values: Any) -> ByteColumn:
        """Make a column of a pa.Array of large_binary without nulls."""
        offsets, data = offsets_of(values)
        return cls(np.concatenate((data, np.zeros(len(PAD), np.uint8))), offsets[:-1], offsets[1:])

    def __len__(self) -> int:
        return len(self.starts)

    def only(self, rows: Any) -> ByteColumn:
        """Return some rows (numbers, flags or a slice) over the same buffer."""
        return ByteColumn(self.data, self.starts[rows], self.ends[rows])

    def take(self, rows: Any = slice(None)) -> Any:
        """Copy the values of some rows to a pa.Array of large_binary."""
        starts, ends = self.starts[rows], self.ends[rows]
        if not len(starts):
            return pa.array([], pa.large_binary())
        # Gap, value, gap, value, …, gap: Arrow takes every other one.
        positions = np.empty(2 * len(starts) + 2, np.int64)
        positions[0], positions[1:-1:2], positions[2:-1:2], positions[-1] = 0, starts, ends, len(self.data)
        return _binaries(positions, self.data).take(pa.array(np.arange(1, len(positions) - 1, 2)))


def offsets_of(values: Any) -> tuple[Ints, Bytes]:
    """Return the offsets of the values of a pa.Array of large_binary, one more than values, and their bytes.

    >>> offsets, data = offsets_of(pa.array([b"ab", b"c"], pa.large_binary()))
    >>> offsets.tolist(), data.tobytes()
    ([0, 2, 3], b'abc')
    """
    _, offsets, data = values.buffers()
    positions = (
        np.frombuffer(offsets, np.int64, len(values) + 1, values.offset * 8) if len(values) else np.zeros(1, int)
    )
    first, last = int(positions[0]), int(positions[-1])
    return positions - first, np.frombuffer(data, np.uint8, last - first, first) if last > first else np.zeros(
        0, np.uint8
    )


def words_of(data: Bytes) -> Any:
    """Return the eight bytes from each position on, as one uint64 each; nothing is copied.

    >>> hex(words_of(np.frombuffer(b"abcdefghi", np.uint8))[1])
    '0x6968676665646362'
    """
    return np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))


_ONES, _HIGH = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)


def zero_bytes(words: Any) -> Any:
    """Return words, uint64, whose lowest bit that is set is the highest bit of the first zero byte; 0 without any.

    Mycroft's test for a zero byte (see Warren, Hacker's Delight, 6-1).

    >>> hex(zero_bytes(np.array([0x610062], np.uint64))[0] & 0xFFFF)
    '0x8000'
    """
    return (words - _ONES) & ~words & _HIGH


def chosen(column: Any, rows: Ints) -> Any:
    """Return some rows of a pa.Array, without a copy if they are all of its rows in their order.

    >>> chosen(pa.array([b"ab", b"c"]), np.array([1])).to_pylist()
    [b'c']
    """
    if len(rows) == len(column) and bool((rows == np.arange(len(rows))).all()):
        return column
    return column.take(pa.array(rows))


def packed(data: Any, lengths: Ints) -> Any:
    """Make a pa.Array of large_binary of values that follow each other in a buffer.

    >>> packed(b"abc", np.array([2, 1])).to_pylist()
    [b'ab', b'c']
    """
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return _binaries(offsets, data)


def joined(values: Any) -> Any:
    """Return the bytes of all values of a pa.Array of large_binary, without a copy.

    >>> bytes(joined(pa.array([b"ab", b"c"], pa.large_binary())))
    b'abc'
    """
    return memoryview(offsets_of(values)[1])  # type: ignore[arg-type]  # an array is a buffer


def binary(value: bytes | None) -> Any:
    """Return a pa.Scalar of large_binary.

    >>> binary(b"a").as_py()
    b'a'
    """
    return pa.scalar(value, pa.large_binary())


def concatenated(*parts: Any) -> Any:
    """Join columns and constants, row by row: each part is a pa.Array of large_binary, or bytes. NULL gives NULL.

    >>> concatenated(b"<", pa.array([b"a", None], pa.large_binary()), b">").to_pylist()
    [b'<a>', None]
    """
    columns = [binary(part) if isinstance(part, bytes) else part for part in parts]
    return pc.binary_join_element_wise(*columns, binary(b""))


def _binaries(offsets: Ints, data: Any) -> Any:
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def rows_between(first: Ints, last: Ints) -> Ints:
    """Return the numbers of ranges, one after the other. first, last: of each range.

    >>> rows_between(np.array([4, 9]), np.array([6, 9])).tolist()
    [4, 5, 6, 9]
    """
    lengths = last - first + 1
    found: Ints = np.repeat(first - np.cumsum(lengths) + lengths, lengths) + np.arange(int(lengths.sum()))
    return found


def exchanged(values: Any, changes: Sequence[tuple[Ints, Any]], kept: Flags | None = None) -> Any:
    """Return a pa.Array with other values at some places.

    changes: places, and their values. kept: which rows to return; None: all.

    >>> exchanged(pa.array([1, 2, 3]), [(np.array([1]), pa.array([7]))], np.array([False, True, True])).to_pylist()
    [7, 3]
    """
    is_null = [column.null_count == len(values) for column in values.flatten()] if _is_whole(values, changes) else []
    if any(is_null):  # it is not copied
        columns = [
            exchanged(column, [(places, others.flatten()[number]) for places, others in changes], kept)
            for number, column in enumerate(values.flatten())
        ]
        return pa.StructArray.from_arrays(columns, fields=list(values.type))
    if all(one.null_count == len(one) for one in (values, *(others for _, others in changes))):
        return pa.nulls(len(values) if kept is None else int(kept.sum()), values.type)
    rows, parts, count = np.arange(len(values)), [values], len(values)
    for places, others in changes:
        if len(places):
            rows[places] = count + np.arange(len(places))
            parts.append(others)
            count += len(others)
    all_kept = kept is None or bool(kept.all())
    if len(parts) == 1 and all_kept:
        return values
    rows = rows if all_kept else rows[kept]
    if len(rows) and rows.min() >= len(values):  # of values, none is left
        rows, parts = rows - len(values), parts[1:]
    return (parts[0] if len(parts) == 1 else pa.concat_arrays(parts)).take(pa.array(rows))


def _is_whole(values: Any, changes: Sequence[tuple[Ints, Any]]) -> bool:
    """Return whether all values are structs, and not NULL."""
    return pa.types.is_struct(values.type) and not any(one.null_count for one in (values, *(own for _, own in changes)))


class Overrides:
    """Values that come in parts and replace those of some rows of a column; a row has the one that came last."""

    def __init__(self, count: int) -> None:
        """Replace nothing yet. count: number of rows."""
        self._count, self._parts = count, list[Any]()
        self._part = self._at = np.zeros(0, np.int64)  # of each row, the number of its part, or -1, and the place in it

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, rows: Ints, values: Any) -> None:
        """Add the values of some rows, a pa.Array."""
        if not self._parts:
            self._part, self._at = np.full(self._count, -1), np.zeros(self._count, np.int64)
        self._part[rows], self._at[rows] = len(self._parts), np.arange(len(rows))
        self._parts.append(values)

    def over(self, values: Any, places: Ints) -> tuple[Any, Ints]:
        """Return a pa.Array with all values, and the place of the value of each row in it.

        values, places: likewise, without those that replace others.
        """
        if not self._parts:
            return values, places
        own = self._part < 0
        arrays = [values, *self._parts] if own.any() else self._parts
        begins = np.cumsum([0, *map(len, arrays)])[len(arrays) - len(self._parts) :]
        found: Ints = np.where(own, places, begins[self._part] + self._at)
        return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays), found

    def among(self, values: Any, rows: Ints) -> Any:
        """Return a pa.Array with the replaced values. values: of some rows. rows: their numbers."""
        if not self._parts:
            return values
        part, at = self._part[rows], self._at[rows]
        places = np.argsort(part, kind="stable")
        places = places[np.searchsorted(part[places], 0) :]
        numbers, begins = np.unique(part[places], return_index=True)
        each = zip(numbers.tolist(), np.split(at[places], begins[1:]), strict=True) if len(numbers) else ()
        others = [self._parts[number].take(pa.array(own)) for number, own in each]
        return exchanged(values, [(places, pa.concat_arrays(others))]) if others else values
