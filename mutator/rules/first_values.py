"""A filter of rows by the first value of the ID.

Most rows of a master have no mutation. Eight bytes of the first ID value exclude nearly all of them, and cost a
fraction of a key hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.rules.byte_columns import PAD, ByteColumn, Bytes, Ints, words_of, zero_bytes
from mutator.rules.key_hash import Hashes, PrefixTable

_WIDTH = len(PAD)
_SAMPLE = 4096  # values of which the bytes to compare are chosen
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2**64 divided by the golden ratio: spreads words over their highest bits
_BYTES = np.array([(1 << 8 * count) - 1 for count in range(_WIDTH + 1)], np.uint64)  # masks of the first bytes


class FirstValues:
    """The first ID values of some keys. Each method returns None where hashing all rows is as fast.

    The bytes that are compared begin at one offset for all values. They are the first eight, or the last eight of the
    shortest value if those differ more.

    >>> firsts = FirstValues([pa.array([b"customer_1234", b"customer_5678"], pa.large_binary())])
    >>> firsts.of_column(ByteColumn.of([b"a", b"customer_5678", b"b", b"customer_9999"])).tolist()
    [1]
    """

    def __init__(self, values: Sequence[Any]) -> None:
        """Take the canonical bytes of the values, in one or several pa.Arrays of large_binary."""
        self._values = values
        columns = [*map(ByteColumn.of_array, values)]
        shortest = min((int((one.ends - one.starts).min()) for one in columns if len(one)), default=0)
        self._offset = 0
        if shortest > _WIDTH:  # many values may begin alike
            sample = columns[0].only(slice(_SAMPLE))
            first, last = (len(np.unique(_words(sample, at))) for at in (0, shortest - _WIDTH))
            self._offset = 0 if first >= last else shortest - _WIDTH
        self._fills_word = shortest >= _WIDTH  # else, the bytes after a value are cleared
        self._known = _table_of([self._compared(one) for one in columns])

    def of_column(self, column: ByteColumn) -> Ints | None:
        """Return the numbers of the rows that may have one of the values.

        column: the canonical bytes of the first value of each row.
        """
        return _few(self._known, self._compared(column))

    def of_lines(self, data: Bytes, starts: Ints, ends: bytes) -> Ints | None:
        """Return the numbers of the rows that may have one of the values.

        data: as in ``ByteColumn``. starts: of each row's first value. ends: the bytes that end a value.
        """
        words = _words(ByteColumn(data, starts, starts), self._offset)
        if not self._fills_word:
            after = np.zeros(len(words), np.uint64)
            for end in ends:
                after |= zero_bytes(words ^ np.uint64(end * 0x0101010101010101))
            words &= ((after & (~after + np.uint64(1))) >> np.uint64(7)) - np.uint64(1)
        return _few(self._known, words)

    def of_integers(self, column: Any) -> Ints | None:
        """Return the numbers of the rows that may have one of the values.

        column: a pa.Array of signed integers without NULL.
        """
        if self._integers is None:
            return None
        return _few(self._integers, column.cast(pa.int64()).to_numpy().view(np.uint64))

    @cached_property
    def _integers(self) -> PrefixTable | None:
        try:
            numbers = [one.cast(pa.large_string()).cast(pa.int64()) for one in self._values]
        except pa.ArrowInvalid:  # a number that no row has
            return None
        return _table_of([one.to_numpy().view(np.uint64) for one in numbers])

    def _compared(self, column: ByteColumn) -> Hashes:
        words = _words(column, self._offset)
        if not self._fills_word:
            words &= _BYTES[np.minimum(column.ends - column.starts, _WIDTH)]
        return words


def _table_of(words: Sequence[Hashes]) -> PrefixTable:
    return PrefixTable([one * _FACTOR for one in words])


def _words(column: ByteColumn, at: int) -> Hashes:
    """Return the eight bytes of each value from a position on; other bytes where a value is too short."""
    words = words_of(column.data)
    found: Hashes = words[np.minimum(column.starts + at, len(words) - 1) if at else column.starts]
    return found


def _few(known: PrefixTable, words: Hashes) -> Ints | None:
    rows = known.rows(words * _FACTOR)
    return rows if 2 * len(rows) < len(words) else None
