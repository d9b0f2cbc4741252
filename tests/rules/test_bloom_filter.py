"""Key hashes that are looked for in many filters are found in those that have them."""

import numpy as np
import pytest

from mutator.rules.bloom_filter import Sought, Words, filter_of, may_contain


def _hashes(seed: int, count: int) -> Words:
    return np.random.default_rng(seed).integers(0, 1 << 64, count, dtype=np.uint64)


@pytest.mark.parametrize("keys", [0, 1, 700, 5000])
def test_many_filters_answer_as_one_by_one(keys: int) -> None:
    """Filters of one size follow each other, then two of another size; some are asked for a part of the keys."""
    filters = [filter_of(_hashes(seed, 1000)) for seed in range(4)] + [
        filter_of(_hashes(9, 90)),
        filter_of(_hashes(9, 90)),
        filter_of(_hashes(1, 1000)),
    ]
    sought = np.concatenate([_hashes(2, keys), _hashes(5, keys), _hashes(9, min(keys, 90))])
    known = Sought(sought)
    for words in filters:
        for begin, end in ((0, len(sought)), (keys // 3, keys // 2), (keys // 4, 2 * keys)):
            assert (known.may_be_in(words, begin, end) == may_contain(words, sought[begin:end])).all()


@pytest.mark.parametrize("keys", [100, 1000, 5000])
def test_every_key_is_found(keys: int) -> None:
    hashes = _hashes(1, keys)
    sought, words = Sought(hashes), filter_of(hashes)
    for _ in range(2):  # the second filter of a size is asked in another way
        assert sought.may_be_in(words, 0, keys).all()
        assert sought.may_be_in(filter_of(_hashes(2, keys)), 0, keys).sum() <= 1
