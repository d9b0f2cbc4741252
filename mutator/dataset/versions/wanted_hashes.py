"""Key hashes to look up in key indexes, often the same hashes in thousands of partitions.

Where an index has few of many wanted hashes, a table of their first bits excludes nearly all of its entries. The table
has at most 4 MB, and the index is read in order, so this takes a quarter of the time of a binary search for each hash.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.key_hash import Hashes

_EACH = 64  # places in the table for each wanted hash, at least: fewer than 1 of 64 other hashes pass
_FEW, _MOST = 1 << 11, 1 << 15  # wanted hashes for which the table saves more time than it takes
_TIMES = 4  # with more entries for each wanted hash, a binary search is faster


class WantedHashes:
    """Wanted key hashes, ascending.

    >>> wanted = WantedHashes(np.array([3, 5, 9], np.uint64))
    >>> [column.tolist() for column in wanted.matches(np.array([4, 5, 5, 9], np.uint64))]
    [[1, 1, 2], [1, 2, 3]]
    """

    def __init__(self, hashes: Hashes) -> None:
        """hashes: ascending."""
        self.hashes = hashes

    def __len__(self) -> int:
        return len(self.hashes)

    def matches(self, known: Hashes) -> tuple[Ints, Ints]:
        """Return (numbers of wanted hashes, numbers of known ones) of all pairs that are equal. known: ascending."""
        if not _FEW <= len(self) <= _MOST or len(known) > _TIMES * len(self):
            return matches(known, self.hashes)
        likely = np.flatnonzero(self._prefixes[known >> self._shift])
        at, numbers = matches(self.hashes, known[likely])
        return numbers, likely[at]

    @property
    def _shift(self) -> np.uint64:
        return np.uint64(64 - (_EACH * len(self)).bit_length())

    @cached_property
    def _prefixes(self) -> Flags:
        """Whether a wanted hash has a prefix, by the prefix."""
        found = np.zeros(1 << (_EACH * len(self)).bit_length(), np.bool_)
        found[self.hashes >> self._shift] = True
        return found


def matches(known: Hashes, wanted: Hashes) -> tuple[Ints, Ints]:
    """Return (numbers of wanted hashes, numbers of known ones) of all pairs that are equal. Both are ascending."""
    if not len(known):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    first = np.searchsorted(known, wanted, "left")
    found = np.flatnonzero(known[np.minimum(first, len(known) - 1)] == wanted)
    counts = _counts(known, wanted[found], first[found])
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(found, counts), np.repeat(first[found], counts) + within


def _counts(known: Hashes, wanted: Hashes, first: Ints) -> Ints:
    """Return how often each wanted hash is known, given where it is first; nearly all are known once."""
    counts = np.ones(len(wanted), np.int64)
    following = first + 1
    several = np.flatnonzero((following < len(known)) & (known[np.minimum(following, len(known) - 1)] == wanted))
    counts[several] = np.searchsorted(known, wanted[several], "right") - first[several]
    return counts
