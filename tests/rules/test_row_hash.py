"""The row hash is part of the table format: the hashes of known rows never change."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from mutator.rules.key_hash import murmur64a
from mutator.rules.row_hash import row_hashes

_DECIMALS = ["0.00", "-0.01", "316.43", "-1234567.89", "0.00000012", "12E3"]


@pytest.mark.parametrize("data_type", [pa.decimal128(18, 8), pa.decimal128(9, 2), pa.decimal128(9, -3)])
def test_decimals_are_hashed_as_literals_of_their_plain_text(data_type):
    numbers = [Decimal(text) for text in _DECIMALS]
    scale = Decimal(1).scaleb(-data_type.scale)
    values = [number for number in numbers if number == number.quantize(scale)]
    rows = pa.StructArray.from_arrays([pa.array(values, data_type)], names=["price"])
    assert len(values) > 1
    literals = [repr(f"{value.quantize(scale):f}").encode() for value in values]
    assert row_hashes(rows).tolist() == [murmur64a(literal) >> 32 for literal in literals]


def test_hashes_of_known_rows():
    rows = pa.array(
        [{"id": "P1", "stock": 103, "price": Decimal("316.43"), "open": True, "tags": ["a"]}, dict.fromkeys(["id"])],
        pa.struct(
            {
                "id": pa.string(),
                "stock": pa.int64(),
                "price": pa.decimal128(9, 2),
                "open": pa.bool_(),
                "tags": pa.list_(pa.string()),
            }.items()
        ),
    )
    assert row_hashes(rows).dtype == np.uint32
    assert row_hashes(rows).tolist() == [2126638094, 3730632418]
