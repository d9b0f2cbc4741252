"""Pieces of one buffer: where each of many values begins and ends, before a byte of them is copied.

>>> names = ByteColumn.of([b"ab", b"", b"cde"])
>>> names.take(np.array([0, 2])).to_pylist()
[b'ab', b'cde']
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["PAD", "ByteColumn", "Bytes", "Flags", "Ints", "joined", "offsets_of", "packed"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

PAD = bytes(8)  # behind the last byte of every buffer, so that eight bytes can be loaded from wherever a value begins


@dataclass(frozen=True)
class ByteColumn:
    """Values that stand in one buffer, each from a start to an end. The buffer goes on for 8 bytes behind the last."""

    data: Bytes
    starts: Ints
    ends: Ints

    @classmethod
    def of(cls, values: Iterable[bytes]) -> ByteColumn:
        """Lay values out in a buffer of their own."""
        return cls.of_array(pa.array(values, pa.large_binary()))

    @classmethod
    def of_array(cls, values: Any) -> ByteColumn:
        """Lay out an Arrow array of large binaries without nulls."""
        offsets, data = offsets_of(values)
        return cls(np.concatenate((data, np.zeros(len(PAD), np.uint8))), offsets[:-1], offsets[1:])

    def __len__(self) -> int:
        return len(self.starts)

    def only(self, rows: Any) -> ByteColumn:
        """Return the spans of some rows (numbers, flags or a slice) over the same buffer."""
        return ByteColumn(self.data, self.starts[rows], self.ends[rows])

    def take(self, rows: Any = slice(None)) -> Any:
        """Copy the values of some rows to an Arrow array of large binaries."""
        starts, ends = self.starts[rows], self.ends[rows]
        if not len(starts):
            return pa.array([], pa.large_binary())
        # Gap, value, gap, value, …, gap: Arrow takes every other one.
        places = np.empty(2 * len(starts) + 2, np.int64)
        places[0], places[1:-1:2], places[2:-1:2], places[-1] = 0, starts, ends, len(self.data)
        return _binaries(places, self.data).take(pa.array(np.arange(1, len(places) - 1, 2)))


def offsets_of(values: Any) -> tuple[Ints, Bytes]:
    """Return where the values of an array of large binaries stand, and the bytes they stand in, from the first on."""
    _, offsets, data = values.buffers()
    places = np.frombuffer(offsets, np.int64, len(values) + 1, values.offset * 8) if len(values) else np.zeros(1, int)
    first, last = int(places[0]), int(places[-1])
    return places - first, np.frombuffer(data, np.uint8, last - first, first) if last > first else np.zeros(0, np.uint8)


def packed(data: Any, lengths: Ints) -> Any:
    """Make an Arrow array of the values that stand one behind the other in some bytes."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return _binaries(offsets, data)


def joined(values: Any) -> Any:
    """Return all bytes of an array of large binaries, one value behind the other, without a copy."""
    return memoryview(offsets_of(values)[1])  # type: ignore[arg-type]  # an array is a buffer


def _binaries(offsets: Ints, data: Any) -> Any:
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
