"""Key indexes: every entry of a wanted hash is found, and a damaged page never is."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mutator.dataset.versions import key_index, paged_file
from mutator.dataset.versions.key_index import KeyIndex, WantedHashes, decoded_key, encoded_keys, index_bytes
from mutator.dataset.versions.paged_file import PAGE, DamagedPage, Remote
from mutator.rules.order_columns import from_texts
from mutator.storage.local import LocalStorage

_SOME = np.array([7, 5, 7, 9, 1], np.uint64)


def _keys(hashes: Any) -> Any:
    return pa.array([b"k%d" % number for number in hashes], pa.large_binary())


def _longs(orders: Any, count: int) -> tuple[str, Any]:
    """Return the order type and order values of an index, by default zeros."""
    return "long", pa.array(np.zeros(count, np.int64) if orders is None else orders, pa.int64())


def _index(hashes: Any, extents: list[int], orders: Any = None, keys: Any = None) -> KeyIndex:
    hashes = np.asarray(hashes, np.uint64)
    row_hashes = (hashes * np.uint64(3)).astype(np.uint32)
    keys = _keys(hashes) if keys is None else pa.array(keys, pa.large_binary())
    content, checksum = index_bytes(hashes, keys, row_hashes, np.array(extents, np.int64), *_longs(orders, len(hashes)))
    return KeyIndex.open("/none", len(hashes), len(content), checksum, content=content)


def _find(index: KeyIndex, hashes: list[int], start: int, end: int) -> list[int]:
    wanted = np.array(hashes, np.uint64)
    return index.positions(index.find(wanted, _keys(hashes), start, end)[1]).tolist()


def test_entries_have_positions_row_hashes_keys_and_order_values() -> None:
    index = _index(_SOME, [5], np.arange(50, 55))
    numbers, entries = index.find_hashes(WantedHashes(np.array([1, 2, 7], np.uint64)), 0, 5)
    assert numbers.tolist() == [0, 2, 2]
    assert index.positions(entries).tolist() == [4, 0, 2]
    assert index.orders(entries).to_pylist() == [54, 50, 52]
    assert index.row_hashes(entries).tolist() == [3, 21, 21]
    assert index.keys(entries).to_pylist() == [b"k1", b"k7", b"k7"]


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=5))
@example([-(1 << 63), (1 << 63) - 1])
@example([-5, 250])
@example([7, 7])
def test_order_values_are_kept(orders: list[int]) -> None:
    index = _index(range(len(orders)), [len(orders)], np.array(orders, np.int64))
    assert index.orders(np.arange(len(orders))).to_pylist() == orders


@pytest.mark.parametrize(("highest", "width"), [(7, 0), (262, 1), (263, 2), (1 << 17, 4), (1 << 40, 8)])
def test_order_values_take_as_few_bytes_as_they_can(highest: int, width: int) -> None:
    sizes = [
        len(index_bytes(_SOME, _keys(_SOME), _SOME.astype(np.uint32), np.array([5]), *_longs(orders, 5))[0])
        for orders in (np.full(5, 7), np.array([7, 7, 7, 7, highest]))
    ]
    assert sizes[1] - sizes[0] == 5 * width


@pytest.mark.parametrize(
    ("order_type", "texts", "compact"),
    [
        ("decimal", [b"1", b"2.5", b"-3"], False),
        ("string", [b"a", b"", b"b" * 70_000], False),
        ("timestamp", [b"2026-01-31T10:00:00Z", b"1969-12-31T23:59:59.999999Z", b"0001-01-01"], True),
        ("timestamp", [b"2026-01-31T10:00:00Z", b"2026-01-31T10:00:00.0000001Z", None], False),
        ("sequence", [b"1427761080", None, b"7"], True),
    ],
)
def test_order_values_of_each_type_are_kept(order_type: str, texts: list[bytes | None], compact: bool) -> None:
    hashes, orders = _SOME[:3], from_texts(order_type, pa.array(texts, pa.large_binary()))
    content, checksum = index_bytes(hashes, _keys(hashes), hashes.astype(np.uint32), np.array([3]), order_type, orders)
    index = KeyIndex.open("/none", 3, len(content), checksum, content=content)
    by_position = np.argsort(index.positions(np.arange(3)))
    assert index.order_type == order_type
    assert index.orders(by_position).equals(orders)
    assert index.orders(by_position[1:2]).equals(orders[1:2])
    assert (index.compact_orders(by_position).type == pa.int64()) == compact


def test_two_keys_with_one_hash_are_two_keys() -> None:
    index = _index([7, 7, 7], [3], keys=[b"a", b"b", b""])
    wanted = np.array([7, 7], np.uint64)
    numbers, entries = index.find(wanted, pa.array([b"b", b"x"], pa.large_binary()), 0, 3)
    assert numbers.tolist() == [0]
    assert index.positions(entries).tolist() == [1]


def test_an_extent_is_searched_alone() -> None:
    index = _index(_SOME, [2, 3])
    assert _find(index, [7], 0, 2) == [0]
    assert _find(index, [7], 2, 5) == [2]
    assert not _find(index, [5], 2, 5)


@given(st.lists(st.integers(0, 30), max_size=60), st.lists(st.integers(0, 30), max_size=8), st.data())
def test_single_pages_find_what_the_whole_column_finds(known: list[int], wanted: list[int], data: Any) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(known)), max_size=3)))
    extents = np.diff([0, *cuts, len(known)]).tolist()
    sought = sorted(set(wanted))
    for page, sparse in ((PAGE, key_index._SPARSE), (32, 0)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(paged_file, "PAGE", page)
            patch.setattr(key_index, "PAGE", page)
            patch.setattr(key_index, "_EACH", page // 8)
            patch.setattr(key_index, "_SPARSE", sparse)
            index = _index(known, extents)
            begin = 0
            for rows in extents:
                expected = [row for row in range(begin, begin + rows) if known[row] in sought]
                assert sorted(_find(index, sought, begin, begin + rows)) == expected
                begin += rows


@given(st.lists(st.tuples(st.binary(max_size=5), st.binary(max_size=5), st.binary(max_size=5)), max_size=9))
def test_encoded_keys_are_equal_for_equal_keys_alone(keys: list[tuple[bytes, ...]]) -> None:
    columns = [pa.array([key[field] for key in keys], pa.large_binary()) for field in range(3)]
    encoded = encoded_keys(columns).to_pylist()
    assert [decoded_key(one, 3) for one in encoded] == keys
    assert len(set(encoded)) == len(set(keys))


@pytest.mark.parametrize("remote", [False, True])
def test_a_file_is_read_by_pages(tmp_path: Path, remote: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if remote:
        monkeypatch.setattr(LocalStorage, "mapped", lambda self, path: None)
    hashes = np.random.default_rng(1).integers(0, 1 << 63, 100_000, np.uint64)
    content, checksum = index_bytes(
        hashes, _keys(hashes), hashes.astype(np.uint32), np.array([100_000]), *_longs(None, 100_000)
    )
    path = tmp_path / "index"
    path.write_bytes(content)
    index = KeyIndex.open(str(path), 100_000, len(content), checksum)
    assert sorted(_find(index, np.sort(hashes[[3, 50_000]]).tolist(), 0, 100_000)) == [3, 50_000]
    assert isinstance(index._file._source, Remote) is remote
    assert index._file._verified.sum() < 20  # of 63


@pytest.mark.parametrize("change", ["flip", "cut", "foreign", "digests"])
def test_damage_is_an_error(tmp_path: Path, change: str) -> None:
    hashes = np.arange(100_000, dtype=np.uint64)
    content, checksum = index_bytes(
        hashes, _keys(hashes), hashes.astype(np.uint32), np.array([100_000]), *_longs(None, 100_000)
    )
    damaged = bytearray(content)
    if change == "flip":
        damaged[80_000] ^= 1
    elif change == "cut":
        del damaged[-PAGE:]
    elif change == "digests":
        damaged[-1] ^= 1
    else:
        damaged = bytearray(
            index_bytes(
                hashes + np.uint64(1),
                _keys(hashes),
                hashes.astype(np.uint32),
                np.array([100_000]),
                *_longs(None, 100_000),
            )[0]
        )
    path = tmp_path / "index"
    path.write_bytes(damaged)
    with pytest.raises(DamagedPage):
        KeyIndex.open(str(path), 100_000, len(content), checksum).find(hashes, _keys(hashes), 0, 100_000)


def test_pages_that_nobody_reads_are_not_verified() -> None:
    hashes = np.arange(100_000, dtype=np.uint64)
    content, checksum = index_bytes(
        hashes, _keys(hashes), hashes.astype(np.uint32), np.array([100_000]), *_longs(None, 100_000)
    )
    damaged = bytearray(content)
    damaged[5 * PAGE] ^= 1
    index = KeyIndex.open("/none", 100_000, len(content), checksum, content=bytes(damaged))
    assert _find(index, [0], 0, 100_000) == [0]
    with pytest.raises(DamagedPage):
        index.verify()


def test_an_empty_index() -> None:
    index = _index([], [])
    assert not _find(index, [7], 0, 0)
    index.verify()
