"""Row groups of Parquet files: those that are written are small, and successive ones are read together."""

from __future__ import annotations

import io
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.formats.content import Window
from mutator.formats.files import parquet
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from tests.support.columns_data import file_of
from tests.support.in_memory import InMemory

PARQUET = FILE_FORMATS["parquet"]


def groups_of(content):
    metadata = pq.ParquetFile(io.BytesIO(content)).metadata
    return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]


def test_written_row_groups_are_small_and_even():
    table = pa.table({"id": pa.array(range(150_001))})

    assert groups_of(file_of("parquet", table, rows=70_000)) == [50_001, 50_001, 49_999]
    assert groups_of(file_of("parquet", table.slice(0, 0))) == []


@given(st.data())
def test_any_parts_of_any_row_groups_give_the_whole(data):
    table = pa.table({"id": pa.array(range(data.draw(st.integers(0, 40))))})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "_GROUP_ROWS", data.draw(st.integers(1, 5)))
        patch.setattr(parquet, "_ROWS_AT_ONCE", data.draw(st.integers(1, 20)))
        patch.setattr(parquet, "_BYTES_AT_ONCE", data.draw(st.sampled_from([1, 300, 1 << 20])))
        content = file_of("parquet", table)
        cuts = sorted({0, *data.draw(st.lists(st.integers(1, len(content)), max_size=3)), len(content)})
        positions, ids = [], []
        for start, end in pairwise(cuts):
            seen = 0
            for rows in PARQUET.read(InMemory(content, Window("", start, end)), table.schema, ["id"], Dialect()):
                positions += rows.offsets.tolist()
                ids += rows.batch.column("id").to_pylist()
                assert rows.numbers.tolist() == list(range(seen + 1, seen + rows.batch.num_rows + 1))
                seen += rows.batch.num_rows

    assert positions == ids == table.column("id").to_pylist()


@pytest.mark.parametrize(("rows", "size", "together"), [(20, 1 << 20, 2), (9, 1 << 20, 5), (1 << 20, 1, 9)])
def test_as_many_row_groups_are_read_together_as_are_allowed(monkeypatch, rows, size, together):
    content = file_of("parquet", pa.table({"id": pa.array(range(36))}), rows=4)
    stream = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(content)), stream, row_group_size=4)
    monkeypatch.setattr(parquet, "_ROWS_AT_ONCE", rows)
    monkeypatch.setattr(parquet, "_BYTES_AT_ONCE", size)
    read = parquet._batches
    asked = []
    monkeypatch.setattr(
        parquet, "_batches", lambda file, numbers, *rest: asked.append(numbers) or read(file, numbers, *rest)
    )

    found = list(PARQUET.read(InMemory(stream.getvalue()), None, ["id"], Dialect()))

    assert [row for one in found for row in one.offsets.tolist()] == list(range(36))
    assert len(asked) == together


@pytest.mark.parametrize("has_arrow_schema", [False, True])
def test_old_timestamps_are_instants_at_any_depth(has_arrow_schema):
    """Spark and Hive write instants in UTC as INT96, and Arrow reads them without a zone."""
    local, instant, uuid = pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.uuid()

    def schema(inner):
        struct = pa.struct([("n", pa.int32()), ("t", inner)])
        types = [uuid, inner, pa.list_(pa.field("element", inner)), struct, pa.map_(pa.string(), struct)]
        return pa.schema([(f"f{number}", data_type) for number, data_type in enumerate(types)])

    rows = [[b"0" * 16, 7, [8, None], {"n": 1, "t": 9}, [("k", {"n": 2, "t": 10})]], [None] * 5]
    columns = [pa.array(values, one.type) for values, one in zip(zip(*rows, strict=True), schema(local), strict=True)]
    stream = io.BytesIO()
    table = pa.Table.from_arrays(columns, schema=schema(local))
    pq.write_table(table, stream, use_deprecated_int96_timestamps=True, store_schema=has_arrow_schema)
    content = stream.getvalue()

    found = PARQUET.probe(io.BytesIO(content), Dialect()).schema
    assert found.types[1:] == schema(instant).types[1:]
    (read,) = PARQUET.read(InMemory(content), found, found.names, Dialect())
    assert read.batch.schema.types == found.types
    assert read.batch.drop_columns("f0").to_pylist() == table.cast(schema(instant)).drop_columns("f0").to_pylist()
    assert next(parquet.opened(stream).iter_batches(columns=["f1"])).schema.types == [instant]
