"""The live files of a table as columns, and back."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

from mutator.dataset.file_entry import INDEX, Extent, FileEntry
from mutator.dataset.versions.checkpoint import file_columns, files_of, read_files, written_files
from mutator.table.create import create_empty


def a_file(number):
    index = FileEntry(path=f"index-{number}", role=INDEX, bytes=number, checksum="c")
    extents = tuple(Extent(partition=None, bucket=bucket, buckets=3, rows=1, high=None) for bucket in range(number % 3))
    more = {"rows": number % 3, "form": 1, "extents": extents, "index": index}
    return FileEntry(path=f"data-{number}", bytes=number, checksum="c", **more)


FILES = [a_file(number) for number in range(300)]


@pytest.mark.parametrize("rows", [[], [7], list(range(300)), list(range(0, 300, 7)), [299, 3, 3]])
def test_files_of_several_versions_are_the_same_one_by_one_and_together(rows):
    columns = pa.concat_tables([file_columns(FILES[start : start + 100], start) for start in (0, 100, 200)])

    found = list(files_of(columns, np.array(rows, np.int64)))

    assert found == [FILES[row] for row in rows]
    assert found == [file for row in rows for file in files_of(columns, np.array([row]))]


def test_the_files_of_a_checkpoint_are_sent_to_tasks_once(tmp_path):
    """Arrow reads 131,072 rows at a time. Parts of one buffer would each be sent with the whole buffer."""
    state = create_empty(str(tmp_path / "table"), {}).state
    columns = file_columns(FILES[2:3], 1).take(pa.array(np.zeros(150_000, np.int64)))

    found, _, _ = read_files(written_files(columns, state, None))

    assert found.equals(columns)
    assert len(pickle.dumps(found)) < 1.1 * found.nbytes
