"""Wanted keys by bucket: extents have different numbers of buckets where a partition outgrew its number."""

from __future__ import annotations

import numpy as np

from mutator.dataset.file_entry import Extent
from mutator.dataset.versions.key_index import WantedHashes
from mutator.rules.byte_columns import Ints
from mutator.rules.key_hash import Hashes
from mutator.rules.sort_order import hash_order, then_by

# Wanted hashes that are kept, each with up to 4 MB: in the scope of a table, those of a bucket are looked up in every
# partition.
_KEPT = 8
_Keys = tuple[Ints, Hashes]  # numbers of some keys by hash, and their hashes
_NONE: _Keys = np.zeros(0, np.int64), np.zeros(0, np.uint64)


class KeysByBucket:
    """The numbers of some keys, by scope and bucket: a scope is a partition, or the whole table."""

    def __init__(self, hashes: Hashes, scopes: Ints) -> None:
        """Sort nothing yet. hashes, scopes: of each key."""
        self._hashes, self._scopes = hashes, scopes
        self._known: dict[int, dict[tuple[int, int], _Keys]] = {}
        self._kept: dict[tuple[int, int, int], tuple[Ints, WantedHashes]] = {}  # by scope, and number of a bucket

    def buckets(self, count: int) -> set[int]:
        """Return those of a number of buckets that any of the keys may be in."""
        return {bucket for _, bucket in self._of(count)}

    def of(self, scope: int, extent: Extent) -> tuple[Ints, WantedHashes]:
        """Return the numbers of the keys, by hash, that an extent of a scope may have, and their hashes."""
        place = scope, extent.buckets, extent.bucket
        if place not in self._kept:
            if len(self._kept) == _KEPT:
                self._kept.pop(next(iter(self._kept)))
            numbers, hashes = self._of(extent.buckets).get((scope, extent.bucket), _NONE)
            self._kept[place] = numbers, WantedHashes(hashes)
        return self._kept[place]

    def _of(self, count: int) -> dict[tuple[int, int], _Keys]:
        if count not in self._known:
            self._known[count] = self._sorted(count)
        return self._known[count]

    def _sorted(self, count: int) -> dict[tuple[int, int], _Keys]:
        bucket = (self._hashes % np.uint64(count)).astype(np.int64)
        order = then_by(then_by(hash_order(self._hashes), bucket), self._scopes)
        hashes = self._hashes[order]
        found: dict[tuple[int, int], _Keys] = {}
        if len(order):
            pairs = self._scopes[order] * count + bucket[order]
            begins = np.flatnonzero(np.diff(pairs, prepend=pairs[0] - 1))
            for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(order)], strict=True):
                first = order[begin]
                found[int(self._scopes[first]), int(bucket[first])] = order[begin:end], hashes[begin:end]
        return found
