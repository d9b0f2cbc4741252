"""Order values parsed as a column equal those parsed one by one: the row code is the reference."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.rules.byte_columns import ByteColumn
from mutator.rules.order_columns import column_type, parse_column, ranks, to_column, to_value
from mutator.rules.order_values import ORDER_TYPES
from tests.support.order_texts import FIELDS


def parsed(order_type, field):
    try:
        return ORDER_TYPES[order_type][0](field)
    except ValueError:
        return None


@pytest.mark.parametrize("order_type", FIELDS)
def test_columns_agree_with_the_row_code(order_type):
    @given(st.lists(FIELDS[order_type], max_size=12))
    def check(fields):
        column, bad = parse_column(order_type, ByteColumn.of(fields))
        expected = [parsed(order_type, field) for field in fields]

        assert column.type == column_type(order_type)
        assert bad.tolist() == [value is None for value in expected]
        good = [row for row, value in enumerate(expected) if value is not None]
        assert [to_value(order_type, column[row].as_py()) for row in good] == [expected[row] for row in good]
        places = ranks(column)
        for one in good:
            for other in good:
                assert (places[one] < places[other]) == (expected[one] < expected[other])
                assert (column[one].as_py() < column[other].as_py()) == (expected[one] < expected[other])
        values = [expected[row] for row in good]
        assert to_column(order_type, values).to_pylist() == [column[row].as_py() for row in good]

    check()


def test_ranks_of_equal_values_are_equal():
    assert ranks(pa.array([5, -1, 5])).tolist() == [5, -1, 5]
    assert np.unique(ranks(pa.array([b"x", b"x", b""], pa.large_binary()))).tolist() == [0, 1]
