"""Values that share one buffer."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mutator.rules.byte_columns import ByteColumn, Overrides, joined, offsets_of, packed


@given(st.lists(st.binary(max_size=5), max_size=9), st.data())
def test_values_are_slices_of_their_buffer(values, data):
    start = data.draw(st.integers(0, len(values)))
    spans = ByteColumn.of_array(pa.array(values, pa.large_binary())[start:])  # a slice may start anywhere in its buffer
    values = values[start:]
    rows = data.draw(st.lists(st.sampled_from(range(len(values))), max_size=9)) if values else []
    picked = np.array(rows, np.int64)
    assert len(spans) == len(values)
    assert spans.take().to_pylist() == values
    assert spans.take(picked).to_pylist() == [values[row] for row in rows]
    assert spans.only(picked).take().to_pylist() == [values[row] for row in rows]
    assert spans.only(slice(1, None)).take().to_pylist() == values[1:]
    assert len(spans.data) >= (spans.ends.max(initial=0) + 8)  # eight bytes can be loaded from the start of any value
    offsets, content = offsets_of(pa.array(values, pa.large_binary()))
    assert content.tobytes() == b"".join(values) == bytes(joined(pa.array(values, pa.large_binary())))
    assert packed(content, np.diff(offsets)).to_pylist() == values


@given(st.integers(0, 9), st.data())
def test_values_over_others_are_those_that_came_last(count, data):
    expected, overrides = list(range(count)), Overrides(count)
    for part in range(1, data.draw(st.integers(1, 4))):
        rows = data.draw(st.lists(st.sampled_from(range(count)), unique=True)) if count else []
        overrides.add(np.array(rows, np.int64), pa.array([100 * part + row for row in rows], pa.int64()))
        for row in rows:
            expected[row] = 100 * part + row
    places = np.array(data.draw(st.permutations(range(count))), np.int64)
    values, found = overrides.over(pa.array(np.argsort(places)), places)
    assert values.take(pa.array(found)).to_pylist() == expected
    every = np.arange(count)
    assert overrides.among(pa.array(every), every).to_pylist() == expected
