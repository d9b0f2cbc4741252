"""Wanted keys by bucket, asked for in any order."""

from __future__ import annotations

import numpy as np

from mutator.dataset.file_entry import Extent
from mutator.engine.versions.key_search import KeysByBucket


def test_the_keys_of_a_bucket_are_found_again_after_those_of_many_others() -> None:
    random = np.random.default_rng(3)
    hashes, scopes = random.integers(0, 1 << 64, 500, np.uint64), random.integers(0, 3, 500)
    wanted = KeysByBucket(hashes, scopes)
    places = [(scope, count, bucket) for scope in range(4) for count in (1, 4, 8) for bucket in range(count)]
    for scope, count, bucket in [*places, *reversed(places), *places[:2], *places[:2]]:
        extent = Extent(partition=None, bucket=bucket, buckets=count, rows=1, high=None)
        numbers, found = wanted.of(scope, extent)
        expected = np.flatnonzero((scopes == scope) & (hashes % np.uint64(count) == np.uint64(bucket)))
        assert sorted(numbers.tolist()) == expected.tolist()
        assert found.hashes.tolist() == sorted(hashes[expected].tolist())
        assert hashes[numbers].tolist() == found.hashes.tolist()
