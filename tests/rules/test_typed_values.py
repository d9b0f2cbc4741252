"""Values of keys and rows as text."""

from decimal import Decimal

import pyarrow as pa
import pytest

from mutator.rules.typed_values import canonical, plain_decimals


@pytest.mark.parametrize("width", [pa.decimal128(30, 8), pa.decimal256(30, 8)], ids=["128 bits", "256 bits"])
def test_small_decimals_are_written_without_an_exponent(width: pa.DataType) -> None:
    values = ["0.00000012", "-0.00000003", None, "0.00000099", "12.50000000"]
    column = pa.array([value and Decimal(value) for value in values], width)
    assert plain_decimals(column).to_pylist() == values
    assert canonical(column.slice(1, 3)).to_pylist() == [b"-0.00000003", None, b"0.00000099"]
