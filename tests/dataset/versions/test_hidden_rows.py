"""A version index, and the rows of it that its version has withdrawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from mutator.dataset.versions.hidden_rows import Hidden, index_table, written_index


def index_of(rows: Mapping[str, Sequence[int]], *, touched: bool = False) -> bytes:
    """Return the content of a version index. rows: positions by file."""
    tables = []
    for file, positions in rows.items():
        hashes = np.zeros(len(positions), np.uint64)
        keys, orders = pa.array([b"k"] * len(positions)), pa.array([b"1"] * len(positions))
        tables.append(index_table(file, np.array(positions), hashes, keys, orders, touched=touched))
    content = written_index(tables)
    assert content is not None
    return content


def test_a_file_whose_rows_are_all_withdrawn_has_none() -> None:
    withdrawn = [Hidden(index_of({"a": [1], "b": [4]})), Hidden(index_of({"a": [3], "x": [1]}))]
    for touched in (False, True):
        found = Hidden(index_of({"a": [1, 3], "b": [4, 5], "c": [6]}, touched=touched), withdrawn)
        rows = {file: (found.touched(file)[0] if touched else found.hidden(file)).tolist() for file in "abc"}
        assert rows == {"a": [], "b": [5], "c": [6]}
        assert list(found.files) == ["b", "c"]
        assert list(found.places().paths) == ["b", "c"]
        assert [found.positions(file).tolist() for file in "abc"] == [[1, 3], [4, 5], [6]]


def test_rows_of_some_files_alone() -> None:
    found = Hidden(index_of({"a": [1], "b": [4]}), [Hidden(index_of({"a": [1]}))]).of_files({"b"})
    assert list(found.files) == ["b"]
    assert [found.positions(file).tolist() for file in "ab"] == [[], [4]]
