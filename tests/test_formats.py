"""Every kind of files: what is written is read back to the last bit, in parts as whole, by us and by others."""

from __future__ import annotations

import io
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.formats.block import InMemory, Window
from mutator.formats.convert import converted
from mutator.formats.kinds import KINDS
from tests.columns_data import HEADER, as_table, file_of, read_whole, same_rows, tables

COLUMNS = ["parquet", "orc", "avro"]


@pytest.mark.parametrize("kind", COLUMNS)
@given(st.data())
def test_what_is_written_is_read_back(kind, data):
    table = data.draw(tables(kind))
    found = as_table(read_whole(kind, file_of(kind, table)), table.schema)

    assert found.schema.types == table.schema.types
    assert same_rows(found, table)


@given(st.data())
def test_csv_is_read_back_as_the_types_that_it_had(data):
    table = data.draw(tables("csv"))
    table = table.append_column("last", pa.array(range(table.num_rows)))  # of NULLs alone a line would be blank
    found = read_whole("csv", file_of("csv", table))

    assert [one.rejects for one in found if one.rejects] == []
    text = as_table(found, table.schema)
    assert text.num_rows == table.num_rows
    for name in table.schema.names if table.num_rows else ():
        column, bad, why = converted(text.column(name).combine_chunks(), table.schema.field(name).type, typed=False)
        assert not bad.any(), why
        assert same_rows(pa.table([column], [name]), table.select([name]))


@pytest.mark.parametrize("kind", COLUMNS)
@given(st.data())
def test_parts_of_a_file_are_the_whole(kind, data):
    table = data.draw(tables(kind, most=20))
    content = file_of(kind, table)
    cuts = sorted({0, *data.draw(st.lists(st.integers(1, max(len(content) - 1, 1)), max_size=4)), len(content)})
    look = KINDS[kind].look(io.BytesIO(content), HEADER)
    parts, places = [], []
    for start, end in pairwise(cuts):
        window = Window("", start, end)
        for found in KINDS[kind].read(InMemory(content, window), look.schema, look.schema.names, HEADER):
            parts.append(found)
            places += found.offsets.tolist()

    assert same_rows(as_table(parts, table.schema), table) or not table.num_rows
    assert places == sorted(set(places)), "rows are in their order, and no two have one place"
    assert sum(one.batch.num_rows for one in parts) == table.num_rows
    assert KINDS[kind].count(InMemory(content), HEADER) == table.num_rows
