"""Values of text as those of a type."""

import pyarrow as pa
import pytest

from mutator.formats.values.convert import converted


@pytest.mark.parametrize("data_type", [pa.int64(), pa.float64(), pa.bool_(), pa.decimal128(9, 2), pa.string()], ids=str)
def test_bytes_that_are_not_utf8_have_no_value(data_type):
    good = b"true" if pa.types.is_boolean(data_type) else b"1"
    column = pa.array([good, b"\xff", None, b"1\xe4", good], pa.large_binary())

    _, bad, why = converted(column, data_type, False)

    assert bad.tolist() == [False, True, False, True, False]
    assert why
