"""Filters by the first ID value keep every row that has one of the values."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mutator.formats.blocks.row_layout import RowLayout
from mutator.formats.blocks.text_rows import TextBlockType
from mutator.rules.byte_columns import PAD, ByteColumn
from mutator.rules.delimiter.field_delimiter import parse
from mutator.rules.first_values import FirstValues

TEXTS = st.one_of(
    st.text("ab", max_size=9), st.integers(0, 99).map("item_{:08}".format), st.integers(0, 10**12).map(str)
).map(str.encode)
PADDING = [b"other %d" % number for number in range(60)]  # enough rows of other values for the filter to pay


@given(st.lists(TEXTS, max_size=6), st.lists(TEXTS, max_size=6), st.sampled_from([b",", b"\x01", b"-"]))
@example([b"item_00000001", b"item_00000002"], [b"item_0000000", b"item_00000003", b""], b",")
@example([b"", b"a"], [b"b", b"aa"], b",")
def test_each_row_with_a_value_is_kept(values, others, delimiter):
    rows = [*PADDING, *values, *others]
    firsts = FirstValues([pa.array(values, pa.large_binary())])
    found = firsts.of_column(ByteColumn.of(rows))
    wanted = {number for number, row in enumerate(rows) if row in values}
    assert found is None or wanted <= set(found.tolist())
    lines = [row + delimiter + b"1" + delimiter + b"item_00000001\n" for row in rows[:-1]] + [rows[-1] + b"\n"]
    data = np.frombuffer(b"".join(lines) + PAD, np.uint8)
    starts = np.cumsum([0, *map(len, lines[:-1])])
    in_lines = firsts.of_lines(data, starts, delimiter + b"\n")
    assert in_lines is None or wanted <= set(in_lines.tolist())
    if not any(row.startswith(value) for value in values for row in PADDING):
        assert found is not None
        assert in_lines is not None


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=6), st.lists(st.integers(-9, 9), max_size=6))
def test_each_row_with_a_number_is_kept(values, others):
    rows = [*range(1000, 1060), *values, *others]
    firsts = FirstValues([pa.array([b"%d" % value for value in values], pa.large_binary())])
    found = firsts.of_integers(pa.array(rows, pa.int64()))
    assert found is None or {number for number, row in enumerate(rows) if row in values} <= set(found.tolist())


def test_few_rows_without_a_value_are_kept():
    values = [pa.array([b"item_%08d" % number for number in range(0, 10_000, 50)], pa.large_binary())]
    firsts = FirstValues(values)
    rows = ByteColumn.of([b"item_%08d" % number for number in range(10_000)])
    found = firsts.of_column(rows)
    assert found is not None
    assert 200 <= len(found) < 1200
    lines = ByteColumn.of([b"item_%08d,1\n" % number for number in range(10_000)])
    assert firsts.of_lines(lines.data, lines.starts, b",\n").tolist() == found.tolist()
    numbers = FirstValues([pa.array([b"%d" % number for number in range(0, 10_000, 50)], pa.large_binary())])
    found = numbers.of_integers(pa.array(range(10_000), pa.int32()))
    assert found is not None
    assert 200 <= len(found) < 1200
    assert FirstValues([pa.array([b"1.5"], pa.large_binary())]).of_integers(pa.array([1])) is None


@pytest.mark.parametrize("id_fields", [(0,), (0, 1), (1,), (1, 0)])
def test_lines_of_text_with_a_value_are_found(id_fields):
    """Where rows begin with the ID, its end is not known; else all fields are."""
    layout = RowLayout(delimiter=parse(","), id_fields=id_fields, order_fields=(2,), order_type="long", width=3)
    block = TextBlockType().load(b"".join(b"%d,k%d,1\n" % (number % 90, number % 90) for number in range(100)), layout)
    firsts = [column[7] for column in block.keys()[:1]]
    found = block.likely(FirstValues([pa.array(firsts, pa.large_binary())]))
    assert {7, 97} <= set(found.tolist())
    assert len(found) < 20
