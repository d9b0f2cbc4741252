"""Side files: row sequences and tombstones."""

import io
from array import array

from hypothesis import given
from hypothesis import strategies as st

from mutator.dataset.side_columns import (
    TombstoneWriter,
    read_sequences,
    read_tombstones,
    tombstone_table,
    write_sequences,
)


@given(st.lists(st.lists(st.integers(-1, 2**63 - 1), max_size=5), min_size=1, max_size=5))
def test_sequences_are_read_back_by_chunk(chunks):
    stream = io.BytesIO()
    write_sequences(
        stream, array("q", [number for chunk in chunks for number in chunk]), [len(chunk) for chunk in chunks]
    )

    assert [read_sequences(io.BytesIO(stream.getvalue()), number).tolist() for number in range(len(chunks))] == chunks


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
