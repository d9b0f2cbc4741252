"""How many buckets the partitions of a table have.

The rows of a partition are in buckets by the hash of their keys, modulo a number. A partition begins with the number
that the table was created with; where it outgrows that, a compaction doubles it. Every extent says which number it was
written with, so nothing else has to change at once: extents of both numbers lie side by side until they are compacted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mutator.dataset.file_entry import Extent
from mutator.rules.byte_columns import Ints
from mutator.rules.key_hash import Hashes

Place = tuple[int, int]  # number of buckets, and of one of them


@dataclass(frozen=True)
class BucketCounts:
    """The number of buckets of each partition. Without partitions, the table is one, named None."""

    first: int  # of most partitions
    larger: Mapping[str | None, int] = field(default_factory=dict)  # of those that outgrew it, by directory

    def of(self, partition: str | None) -> int:
        """Return the number of a partition.

        >>> BucketCounts(2, {"day=1": 8}).of("day=1"), BucketCounts(2, {"day=1": 8}).of("day=2")
        (8, 2)
        """
        return self.larger.get(partition, self.first)

    @property
    def most(self) -> int:
        """The number of the partition that has most."""
        return max(self.first, *self.larger.values(), 1)

    def of_rows(self, partitions: Sequence[str | None], codes: Ints, hashes: Hashes) -> Ints:
        """Return the bucket of each row. partitions: directories, by code. codes: of each row. hashes: of keys."""
        if not self.larger:
            return (hashes % np.uint64(self.first)).astype(np.int64)
        counts = np.array([self.of(name) for name in partitions], np.uint64)
        return (hashes % counts[codes]).astype(np.int64)

    def after(self, extents: Iterable[Extent]) -> BucketCounts:
        """Return the numbers after some extents were added: a number never gets smaller."""
        larger = dict[str | None, int]()
        for one in extents:  # first the test that nearly all fail: there may be many thousands
            if one.buckets > self.first and one.buckets > max(self.of(one.partition), larger.get(one.partition, 0)):
                larger[one.partition] = one.buckets
        return replace(self, larger={**self.larger, **larger}) if larger else self


def coarsest(place: Place, known: Mapping[int, Collection[int]]) -> Place:
    """Return the largest bucket with the rows of one. known: number of buckets -> those that a partition has, it too.

    >>> coarsest((8, 5), {8: {5}, 4: {0, 2}, 2: {1}}), coarsest((8, 4), {8: {4}, 4: {1}, 2: {1}})
    ((2, 1), (8, 4))
    """
    _, bucket = place
    return next((count, bucket % count) for count in sorted(known) if bucket % count in known[count])
