"""Key hashes that are looked up in key indexes, beside a comparison of each pair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.dataset.versions import key_index
from mutator.dataset.versions.key_index import WantedHashes

HASHES = st.lists(st.integers(0, 40) | st.integers(0, (1 << 64) - 1), max_size=60)


def pairs_of(wanted: list[int], known: list[int]) -> list[tuple[int, int]]:
    return sorted((number, at) for number, one in enumerate(wanted) for at, two in enumerate(known) if one == two)


@pytest.mark.parametrize("few", [0, 1 << 30], ids=["by first bits", "by search alone"])
@given(wanted=HASHES, known=HASHES)
def test_all_pairs_of_equal_hashes_are_found(few: int, wanted: list[int], known: list[int]) -> None:
    wanted, known = sorted(wanted), sorted(known)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_index, "_FEW", few)
        found = WantedHashes(np.array(wanted, np.uint64)).matches(np.array(known, np.uint64))
    assert sorted(zip(*(column.tolist() for column in found), strict=True)) == pairs_of(wanted, known)


def test_the_hashes_of_thousands_of_keys_are_found_in_another_index() -> None:
    random = np.random.default_rng(1)
    wanted = np.sort(random.integers(0, 1 << 64, 20_000, np.uint64))
    known = np.sort(np.concatenate((random.integers(0, 1 << 64, 20_000, np.uint64), wanted[::100], wanted[:3])))
    numbers, at = WantedHashes(wanted).matches(known)
    assert (wanted[numbers] == known[at]).all()
    assert len(at) == 200 + 3
