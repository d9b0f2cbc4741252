"""Orders by radix are those of a stable sort that compares."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mutator.rules import sort_order
from mutator.rules.sort_order import hash_order, key_order, number_order, then_by
from tests.support.effort import EXAMPLES

_HASHES = st.lists(st.sampled_from([0, 1, 7, 1 << 31, 1 << 32, 1 << 33, (1 << 64) - 1]) | st.integers(0, (1 << 64) - 1))
_VALUES = st.binary(max_size=20) | st.text("ab\0\x80", max_size=17).map(lambda text: text.encode("latin-1"))


@pytest.fixture(autouse=True)
def no_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort_order, "_FEW", 1)


def _sorted(values: list) -> list[int]:  # type: ignore[type-arg]
    return sorted(range(len(values)), key=values.__getitem__)


@settings(max_examples=EXAMPLES)
@given(values=_HASHES)
def test_hashes(values: list[int]) -> None:
    values = values + values[:3]
    assert hash_order(np.array(values, np.uint64)).tolist() == _sorted(values)


def test_many_hashes_that_share_their_upper_half() -> None:
    values = (np.arange(5000, dtype=np.uint64) * np.uint64(7919) % np.uint64(1013)) | np.uint64(5 << 32)
    values[::7] += np.uint64(1 << 40)
    assert (hash_order(values) == np.argsort(values, kind="stable")).all()


@settings(max_examples=EXAMPLES)
@given(rows=st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 5, 70_000, 1 << 40]))))
def test_numbers(rows: list[tuple[int, int]]) -> None:
    numbers = np.array([number for _, number in rows], np.int64)
    order = number_order(numbers)
    assert order.tolist() == _sorted(numbers.tolist())
    assert then_by(order, np.array([code for code, _ in rows], np.int64)).tolist() == _sorted(rows)


@settings(max_examples=EXAMPLES)
@given(
    keys=st.lists(st.tuples(_VALUES, _VALUES)),
    prefix=st.sampled_from([b"", b"P", b"of a product"]),
    most=st.sampled_from([1, 8]),
    run=st.sampled_from([1, 1 << 10]),
)
def test_keys(keys: list[tuple[bytes, bytes]], prefix: bytes, most: int, run: int) -> None:
    keys = [(prefix + first, second) for first, second in keys]
    columns = [pa.array([b"first", *(key[field] for key in keys)], pa.large_binary())[1:] for field in (0, 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sort_order, "_MOST_WORDS", most)
        patch.setattr(sort_order, "_RUN", run)
        assert key_order(columns).tolist() == _sorted(keys)
        assert key_order(columns[:1]).tolist() == _sorted([key[0] for key in keys])
