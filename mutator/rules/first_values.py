"""Filters of the rows that may have one of some keys: by bits of key hashes, and by the first value of the ID.

Most rows of a master have no mutation. Eight bytes of the first ID value exclude nearly all of them, and cost a
fraction of a key hash.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mutator.rules.byte_columns import PAD, ByteColumn, Bytes, Ints, words_of, zero_bytes

Words = npt.NDArray[np.uint64]

_EIGHT = len(PAD)
_SAMPLE = 4096  # values of which the bytes to compare are chosen
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2**64 divided by the golden ratio: spreads words over their highest bits
_BYTES = np.array([(1 << 8 * count) - 1 for count in range(_EIGHT + 1)], np.uint64)  # masks of the first bytes


class PrefixTable:
    """A flag for each prefix of some bits: whether one of some hashes has it.

    >>> known = PrefixTable(np.array([1 << 63, 7], np.uint64))
    >>> known.rows(np.array([1 << 62, 5, 1 << 63], np.uint64)).tolist()
    [1, 2]
    """

    def __init__(self, hashes: Words) -> None:
        """Take uint64 hashes."""
        self._bits = min(24, max(12, len(hashes).bit_length() + 3))
        self._known = np.zeros(1 << self._bits, np.bool_)
        self.add(hashes)

    def add(self, hashes: Words) -> None:
        """Add hashes."""
        self._known[self._prefixes(hashes)] = True

    def rows(self, hashes: Any) -> Ints:
        """Return the numbers of the hashes that may be known. hashes: uint64, or their upper halves as uint32."""
        found: Ints = np.flatnonzero(self._known[self._prefixes(hashes)])
        return found

    def _prefixes(self, hashes: Any) -> Any:
        bits = 8 * hashes.itemsize
        prefixes = hashes >> hashes.dtype.type(bits - self._bits)
        return prefixes.view(f"int{bits}")  # numpy would convert unsigned numbers first


def upper_halves(hashes: Words) -> npt.NDArray[np.uint32]:
    """Return the upper 32 bits of each hash.

    >>> upper_halves(np.array([7 << 32 | 5], np.uint64)).tolist()
    [7]
    """
    return (hashes >> np.uint64(32)).astype(np.uint32)


class FirstValues:
    """The first ID values of some keys. Each method returns None where hashing all rows is as fast.

    >>> firsts = FirstValues(pa.array([b"customer_1234", b"customer_5678"], pa.large_binary()))
    >>> firsts.of_column(ByteColumn.of([b"a", b"customer_5678", b"b"])).tolist()
    [1]
    """

    def __init__(self, values: Any) -> None:
        """Take a pa.Array of large_binary: the canonical bytes of the values."""
        self._values = values
        column = ByteColumn.of_array(values)
        shortest = int((column.ends - column.starts).min(initial=1 << 32))
        self._at = 0  # the bytes that are compared begin so far into a value
        if shortest > _EIGHT and len(values):  # many values may begin alike
            sample = column.only(slice(_SAMPLE))
            first, last = (len(np.unique(_words(sample, at))) for at in (0, shortest - _EIGHT))
            self._at = 0 if first >= last else shortest - _EIGHT
        self._is_whole = shortest >= _EIGHT  # bytes after a shorter value do not count
        self._known = PrefixTable(self._compared(column) * _FACTOR)

    def of_column(self, column: ByteColumn) -> Ints | None:
        """Return the rows that may have one of the values. column: the canonical bytes of each row's first value."""
        return _few(self._known, self._compared(column))

    def of_lines(self, data: Bytes, starts: Ints, ends: bytes) -> Ints | None:
        """Return the rows that may have one of the values.

        data: as in ``ByteColumn``. starts: of each row's first value. ends: the bytes that end a value.
        """
        words = _words(ByteColumn(data, starts, starts), self._at)
        if not self._is_whole:
            after = np.zeros(len(words), np.uint64)
            for end in ends:
                after |= zero_bytes(words ^ np.uint64(end * 0x0101010101010101))
            words &= ((after & (~after + np.uint64(1))) >> np.uint64(7)) - np.uint64(1)
        return _few(self._known, words)

    def of_integers(self, column: Any) -> Ints | None:
        """Return the rows that may have one of the values. column: a pa.Array of signed integers without NULL."""
        if self._integers is None:
            return None
        return _few(self._integers, column.cast(pa.int64()).to_numpy().view(np.uint64))

    @cached_property
    def _integers(self) -> PrefixTable | None:
        try:
            numbers = self._values.cast(pa.large_string()).cast(pa.int64())
        except pa.ArrowInvalid:  # a number that no row has
            return None
        return PrefixTable(numbers.to_numpy().view(np.uint64) * _FACTOR)

    def _compared(self, column: ByteColumn) -> Words:
        words = _words(column, self._at)
        if not self._is_whole:
            words &= _BYTES[np.minimum(column.ends - column.starts, _EIGHT)]
        return words


def _words(column: ByteColumn, at: int) -> Words:
    """Return the eight bytes of each value from a position on; other bytes where a value is too short."""
    words = words_of(column.data)
    found: Words = words[np.minimum(column.starts + at, len(words) - 1) if at else column.starts]
    return found


def _few(known: PrefixTable, words: Words) -> Ints | None:
    rows = known.rows(words * _FACTOR)
    return rows if 2 * len(rows) < len(words) else None
