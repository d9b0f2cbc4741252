"""Wanted keys by bucket: extents have different numbers of buckets where a partition outgrew its number."""

from __future__ import annotations

import numpy as np

from mutator.dataset.versions.version import Extent
from mutator.rules.byte_columns import Ints
from mutator.rules.key_hash import Hashes
from mutator.rules.sort_order import hash_order, then_by

_NONE = np.zeros(0, np.int64)


class KeysByBucket:
    """The numbers of some keys, by scope and bucket: a scope is a partition, or the whole table."""

    def __init__(self, hashes: Hashes, scopes: Ints) -> None:
        """Sort nothing yet. hashes, scopes: of each key."""
        self._hashes, self._scopes = hashes, scopes
        self._known: dict[int, dict[tuple[int, int], Ints]] = {}

    def buckets(self, count: int) -> set[int]:
        """Return those of a number of buckets that any of the keys may be in."""
        return {bucket for _, bucket in self._of(count)}

    def of(self, scope: int, extent: Extent) -> Ints:
        """Return the numbers of the keys, by hash, that an extent of a scope may have."""
        return self._of(extent.buckets).get((scope, extent.bucket), _NONE)

    def _of(self, count: int) -> dict[tuple[int, int], Ints]:
        if count not in self._known:
            self._known[count] = self._sorted(count)
        return self._known[count]

    def _sorted(self, count: int) -> dict[tuple[int, int], Ints]:
        bucket = (self._hashes % np.uint64(count)).astype(np.int64)
        order = then_by(then_by(hash_order(self._hashes), bucket), self._scopes)
        found: dict[tuple[int, int], Ints] = {}
        if len(order):
            pairs = self._scopes[order] * count + bucket[order]
            begins = np.flatnonzero(np.diff(pairs, prepend=pairs[0] - 1))
            for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(order)], strict=True):
                first = order[begin]
                found[int(self._scopes[first]), int(bucket[first])] = order[begin:end]
        return found
