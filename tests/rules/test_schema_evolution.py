"""The type that has the values of two types."""

import pyarrow as pa
import pytest

from mutator.rules.schema_evolution import widened


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (pa.int8(), pa.int32(), pa.int32()),
        (pa.uint8(), pa.uint16(), pa.uint16()),
        (pa.uint8(), pa.int8(), pa.int16()),
        (pa.uint16(), pa.int64(), pa.int64()),
        (pa.uint32(), pa.int32(), pa.int64()),
        (pa.uint32(), pa.int8(), pa.int64()),
        (pa.uint64(), pa.int64(), None),
        (pa.uint64(), pa.int8(), None),
    ],
    ids=str,
)
def test_whole_numbers(one, other, both):
    assert (widened(one, other), widened(other, one)) == (both, both)
