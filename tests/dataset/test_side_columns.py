"""Side files: row sequences and tombstones."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.dataset import side_columns
from mutator.dataset.side_columns import (
    TombstoneWriter,
    read_sides,
    read_tombstones,
    tombstone_table,
    write_sides,
)
from mutator.rules.order_columns import SEQUENCES


@given(
    st.lists(st.lists(st.tuples(st.integers(-1, 2**63 - 1), st.text()), max_size=5), min_size=1, max_size=5),
    st.sampled_from([1 << 17, 2]),
)
def test_columns_are_read_back_by_chunk(chunks, group):
    stream, at = io.BytesIO(), pa.field("at", pa.string())
    schema = pa.schema([*SEQUENCES, at])
    rows = [dict(zip(schema.names, row, strict=True)) for chunk in chunks for row in chunk]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(side_columns, "_ROWS", group)
        write_sides(stream, pa.Table.from_pylist(rows, schema=schema), [len(chunk) for chunk in chunks])

    def read(*columns, chunk=None):
        return read_sides(io.BytesIO(stream.getvalue()), columns, chunk).to_pylist()

    assert [row for number in range(len(chunks)) for row in read(*schema, chunk=number)] == rows == read(*schema)
    assert [len(read(*SEQUENCES, chunk=number)) for number in range(len(chunks))] == list(map(len, chunks))
    other = pa.field("other", pa.int64())
    assert [row["other"] for row in read(*SEQUENCES, other)] == [None] * len(rows)


@given(
    st.lists(
        st.tuples(st.tuples(st.binary(), st.binary()), st.none() | st.binary(), st.integers(0, 2**40)), max_size=20
    )
)
def test_tombstones_are_read_back(tombstones):
    stream = io.BytesIO()
    writer = TombstoneWriter(stream, 2)
    for start in range(0, len(tombstones), 3):
        writer.write(tombstone_table(2, tombstones[start : start + 3]))
    writer.close()

    assert list(read_tombstones(io.BytesIO(stream.getvalue()))) == tombstones


def tombstones_of(sizes):
    """Return tombstones whose keys have these sizes, as the merge does; untouched zeros take no memory."""
    ends = np.cumsum([0, *sizes])
    keys = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(sizes), [None, pa.py_buffer(ends), pa.py_buffer(np.zeros(ends[-1], np.uint8))]
    )
    numbers = range(len(sizes))
    orders = pa.array([b"%d" % number for number in numbers], pa.large_binary())
    return pa.table({"key_0": keys, "order": orders, "committed": pa.array(numbers, pa.int64())})


def test_more_than_two_gigabytes_of_keys_are_one_table():
    stream = io.BytesIO()
    writer = TombstoneWriter(stream, 1)
    writer.write(tombstones_of([1 << 31, 3, 5]).slice(1))  # as a batch of a larger table
    writer.close()

    assert list(read_tombstones(io.BytesIO(stream.getvalue()))) == [((bytes(3),), b"1", 1), ((bytes(5),), b"2", 2)]


def test_row_groups_of_tombstones_are_bounded_in_bytes(monkeypatch):
    monkeypatch.setattr(side_columns, "_BYTES", 1000)
    stream = io.BytesIO()
    writer = TombstoneWriter(stream, 1)
    writer.write(tombstones_of([400] * 5))
    writer.close()

    metadata = pq.ParquetFile(io.BytesIO(stream.getvalue())).metadata
    assert [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)] == [2, 2, 1]
