"""Stable orders of hashes, numbers and keys, found by a radix sort.

numpy sorts integers of 16 bits by radix, in a small part of the time that it takes to compare wider ones. So wider
values are sorted by 16 bits at a time, the lowest first; bits that are the same in all values need no sort. Values
that consist of a few sorted runs, as keys of several files do, are merged instead: numpy's timsort finds the runs.

>>> hash_order(np.array([3, 1, 2], np.uint64)).tolist()
[1, 2, 0]
>>> first, second = (pa.array(values, pa.large_binary()) for values in ([b"b", b"a", b"b"], [b"2", b"3", b"1"]))
>>> key_order([first, second]).tolist()
[1, 2, 0]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.rules.byte_columns import ByteColumn, Ints
from mutator.rules.key_hash import Hashes

_FEW = 1 << 10  # values that are compared in less time than several sorts need to begin
_MOST_WORDS = 8  # of eight bytes of a key: beyond these, Arrow's comparison is faster
_WORD_ENDS = np.array([(1 << 64) - (1 << 64 - 8 * count) for count in range(9)], np.uint64)  # masks of first bytes
_HALF = np.uint64(32)
_RUN = 1 << 10  # values of a sorted run, at least, so that a merge of the runs is faster than a radix sort


def hash_order(hashes: Hashes) -> Ints:
    """Return the stable ascending order of hashes."""
    if len(hashes) < _FEW or bool((hashes[1:] >= hashes[:-1]).all()):
        return np.argsort(hashes, kind="stable")
    order = _by_digits(np.arange(len(hashes)), hashes >> _HALF)
    found = hashes[order]
    if (found[1:] >= found[:-1]).all():
        return order
    # Few hashes share their upper half with another one: only these are sorted by the lower one.
    upper = found >> _HALF
    equal = upper[1:] == upper[:-1]
    tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
    order[tied] = order[tied[np.argsort(found[tied], kind="stable")]]
    return order


def number_order(numbers: Ints) -> Ints:
    """Return the stable ascending order of numbers from 0."""
    if len(numbers) < _FEW:
        return np.argsort(numbers, kind="stable")
    return _by_digits(np.arange(len(numbers)), numbers.view(np.uint64))


def then_by(order: Ints, numbers: Ints | Hashes) -> Ints:
    """Return an order by numbers from 0, in which rows with equal numbers keep another order.

    >>> then_by(np.array([2, 1, 0]), np.array([1, 0, 1])).tolist()
    [1, 2, 0]
    """
    return _by_digits(order, numbers.astype(np.uint64, copy=False))


def key_order(keys: Sequence[pa.Array]) -> Ints:
    """Return the stable ascending order of keys. keys: a column of large_binary without nulls for each ID field."""
    count = len(keys[0])
    columns = [ByteColumn.of_array(column) for column in keys] if count >= _FEW else []
    longest = [int((column.ends - column.starts).max()) for column in columns]
    if not columns or sum(-(-length // 8) for length in longest) > _MOST_WORDS:
        names = [str(number) for number in range(len(keys))]
        found = pc.sort_indices(pa.table(list(keys), names), sort_keys=[(name, "ascending") for name in names])
        return found.to_numpy().astype(np.int64)  # type: ignore[no-any-return]
    words = [word for column, length in zip(columns, longest, strict=True) for word in _column_words(column, length)]
    if len(words) == 1 and np.count_nonzero(words[0][1:] < words[0][:-1]) * _RUN < count:
        return np.argsort(words[0], kind="stable")
    order = np.arange(count)
    for word in reversed(words):
        order = _by_digits(order, word)
    return order


def _column_words(column: ByteColumn, longest: int) -> list[Hashes]:
    """Return numbers by which values compare, the most significant first. longest: bytes of a value."""
    lengths = column.ends - column.starts
    shortest = int(lengths.min())
    first = _words(column, 0)
    same = min((64 - int(np.bitwise_or.reduce(first ^ first[0])).bit_length()) // 8, shortest)  # bytes of all values
    words = [first if start == 0 else _words(column, start) for start in range(same, longest, 8)]
    # A value that another one begins with comes first, also where zeros follow.
    return words if shortest == longest else [*words, lengths.view(np.uint64)]


def _words(column: ByteColumn, start: int) -> Hashes:
    """Return eight bytes of each value as a number that compares as they do; zeros follow its end. start: of them."""
    left = np.clip(column.ends - column.starts - start, 0, 8)
    words = np.ndarray((len(column.data) - 7,), "<u8", column.data, strides=(1,))
    found = words[np.where(left > 0, column.starts + start, 0)].byteswap()
    found &= _WORD_ENDS[left]
    return found


def _by_digits(order: Ints, words: Hashes) -> Ints:
    """Return an order by words, in which rows with equal words keep another order."""
    if not len(words):
        return order
    differing = int(np.bitwise_or.reduce(words ^ words[0]))
    for shift in range(0, differing.bit_length(), 16):
        if differing >> shift & 0xFFFF:
            digits = (words >> np.uint64(shift)).astype(np.uint16)
            order = order[np.argsort(digits[order], kind="stable")]
    return order
