"""Key indexes: every entry of a wanted hash is found, and a damaged page never is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.dataset import key_index, paged_file
from mutator.dataset.key_index import KeyIndex, index_bytes
from mutator.dataset.paged_file import PAGE, DamagedPage, Remote

_SOME = np.array([7, 5, 7, 9, 1], np.uint64)


def _index(hashes: Any, extents: list[int], sequences: Any = None) -> KeyIndex:
    hashes = np.asarray(hashes, np.uint64)
    row_hashes = (hashes * np.uint64(3)).astype(np.uint32)
    content, checksum = index_bytes(hashes, row_hashes, np.array(extents, np.int64), sequences)
    return KeyIndex.open("/none", len(hashes), checksum, sequences=sequences is not None, content=content)


def test_entries_have_positions_row_hashes_and_sequences() -> None:
    index = _index(_SOME, [5], np.arange(50, 55))
    numbers, entries = index.find(np.array([1, 2, 7], np.uint64), 0, 5)
    assert numbers.tolist() == [0, 2, 2]
    assert index.positions(entries).tolist() == [4, 0, 2]
    assert index.sequences(entries).tolist() == [54, 50, 52]
    assert index.row_hashes(entries).tolist() == [3, 21, 21]


def test_an_extent_is_searched_alone() -> None:
    index = _index(_SOME, [2, 3])
    assert index.positions(index.find(np.array([7], np.uint64), 0, 2)[1]).tolist() == [0]
    assert index.positions(index.find(np.array([7], np.uint64), 2, 5)[1]).tolist() == [2]
    assert not len(index.find(np.array([5], np.uint64), 2, 5)[1])


@given(st.lists(st.integers(0, 30), max_size=60), st.lists(st.integers(0, 30), max_size=8), st.data())
def test_single_pages_find_what_the_whole_column_finds(known: list[int], wanted: list[int], data: Any) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(known)), max_size=3)))
    extents = np.diff([0, *cuts, len(known)]).tolist()
    found = []
    for page, sparse in ((PAGE, key_index._SPARSE), (32, 0)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(paged_file, "PAGE", page)
            patch.setattr(key_index, "PAGE", page)
            patch.setattr(key_index, "_SPARSE", sparse)
            index = _index(known, extents)
            sought = np.unique(np.array(wanted, np.uint64))
            begin = 0
            for rows in extents:
                numbers, entries = index.find(sought, begin, begin + rows)
                found.append((page, begin, sought[numbers].tolist(), index.positions(entries).tolist()))
                begin += rows
    half = len(found) // 2
    assert [one[1:] for one in found[:half]] == [one[1:] for one in found[half:]]
    begin = 0
    for rows, one in zip(extents, found, strict=False):
        expected = [(known[row], row) for row in range(begin, begin + rows) if known[row] in wanted]
        assert sorted(zip(one[2], one[3], strict=True)) == sorted(expected)
        begin += rows


@pytest.mark.parametrize("remote", [False, True])
def test_a_file_is_read_by_pages(tmp_path: Path, remote: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if remote:
        monkeypatch.setattr(paged_file, "_handle", lambda stream: None)
    hashes = np.random.default_rng(1).integers(0, 1 << 63, 100_000, np.uint64)
    content, checksum = index_bytes(hashes, hashes.astype(np.uint32), np.array([100_000]))
    path = tmp_path / "index"
    path.write_bytes(content)
    index = KeyIndex.open(str(path), 100_000, checksum, sequences=False)
    wanted = np.sort(hashes[[3, 50_000]])
    assert sorted(index.positions(index.find(wanted, 0, 100_000)[1]).tolist()) == [3, 50_000]
    assert isinstance(index._file._source, Remote) is remote
    assert index._file._verified.sum() < 14  # of 25


@pytest.mark.parametrize("change", ["flip", "cut", "foreign", "digests"])
def test_damage_is_an_error(tmp_path: Path, change: str) -> None:
    hashes = np.arange(100_000, dtype=np.uint64)
    content, checksum = index_bytes(hashes, hashes.astype(np.uint32), np.array([100_000]))
    damaged = bytearray(content)
    if change == "flip":
        damaged[80_000] ^= 1
    elif change == "cut":
        del damaged[-PAGE:]
    elif change == "digests":
        damaged[-1] ^= 1
    else:
        damaged = bytearray(index_bytes(hashes + np.uint64(1), hashes.astype(np.uint32), np.array([100_000]))[0])
    path = tmp_path / "index"
    path.write_bytes(damaged)
    with pytest.raises(DamagedPage):
        KeyIndex.open(str(path), 100_000, checksum, sequences=False).find(hashes, 0, 100_000)


def test_pages_that_nobody_reads_are_not_verified() -> None:
    hashes = np.arange(100_000, dtype=np.uint64)
    content, checksum = index_bytes(hashes, hashes.astype(np.uint32), np.array([100_000]))
    damaged = bytearray(content)
    damaged[5 * PAGE] ^= 1
    index = KeyIndex.open("/none", 100_000, checksum, sequences=False, content=bytes(damaged))
    assert index.positions(index.find(hashes[:1], 0, 100_000)[1]).tolist() == [0]
    with pytest.raises(DamagedPage):
        index.verify()


def test_an_empty_index() -> None:
    index = _index([], [])
    assert not len(index.find(_SOME[:1], 0, 0)[0])
    index.verify()
