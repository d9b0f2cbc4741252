"""Every file format: written rows are read back to the last bit, whole, in parts, and by other readers."""

from __future__ import annotations

import io
from itertools import pairwise

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.formats.content import Window
from mutator.formats.files import avro_container
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.formats.values.convert import converted
from mutator.rules.known_formats import FORMATS
from tests.support.columns_data import HEADER, as_table, file_of, read_whole, same_rows, tables
from tests.support.effort import law
from tests.support.in_memory import InMemory

COLUMNS = ["parquet", "orc", "avro"]


@pytest.mark.parametrize("file_format", COLUMNS)
@given(st.data())
def test_written_rows_are_read_back(file_format, data):
    table = data.draw(tables(file_format))
    found = as_table(read_whole(file_format, file_of(file_format, table)), table.schema)

    assert found.schema.types == table.schema.types
    assert same_rows(found, table)


def typed(found, schema):
    """Convert rows of text to the types of a schema."""
    assert [one.rejects for one in found if one.rejects] == []
    if not found:
        return schema.empty_table()
    text, columns = as_table(found, schema), []
    for one in schema:
        column, bad, why = converted(text.column(one.name).combine_chunks(), one.type, typed=False)
        assert not bad.any(), why
        column.validate(full=True)
        columns.append(column)
    return pa.table(columns, schema=schema)


@given(st.data())
def test_csv_is_read_back_with_its_types(data):
    table = data.draw(tables("csv"))
    table = table.append_column("last", pa.array(range(table.num_rows)))  # a line of NULLs alone would be blank

    assert same_rows(typed(read_whole("csv", file_of("csv", table)), table.schema), table)


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("delimiter", [b",", b"\t", b"|", b"\x01", b";", b":", b"-", b'"', b"[", b"\xc3"])
@given(st.data(), st.booleans())
@law(60)
def test_escaped_text_is_read_back_in_parts_as_whole(delimiter, data, header):
    table = data.draw(tables("escaped"))
    dialect = Dialect(delimiter, header=header, names=() if header else tuple(table.schema.names))
    content = file_of("escaped", table, dialect)
    probed = FILE_FORMATS["escaped"].probe(io.BytesIO(content), dialect)
    size = data.draw(st.integers(1, 12))
    parts = []
    for start in range(0, len(content), size):
        window = Window("lf", start, start + size, probed.bom, probed.header_end)
        parts += FILE_FORMATS["escaped"].read(InMemory(content, window), probed.schema, probed.schema.names, dialect)
    places = [place for one in parts for place in one.offsets.tolist()]

    assert not probed.bom
    assert content.count(b"\n") == table.num_rows + header
    assert same_rows(typed(read_whole("escaped", content, dialect), table.schema), table)
    assert same_rows(typed(parts, table.schema), table)
    assert places == sorted(set(places))
    assert FILE_FORMATS["escaped"].count(InMemory(content, Window("lf", header_end=probed.header_end)), dialect) == len(
        table
    )


@pytest.mark.parametrize("file_format", COLUMNS)
@given(st.data())
def test_parts_of_a_file_give_the_whole(file_format, data):
    table = data.draw(tables(file_format, most=20))
    content = file_of(file_format, table)
    cuts = sorted({0, *data.draw(st.lists(st.integers(1, max(len(content) - 1, 1)), max_size=4)), len(content)})
    probed = FILE_FORMATS[file_format].probe(io.BytesIO(content), HEADER)
    parts, places = [], []
    for start, end in pairwise(cuts):
        window = Window("", start, end)
        for found in FILE_FORMATS[file_format].read(
            InMemory(content, window), probed.schema, probed.schema.names, HEADER
        ):
            parts.append(found)
            places += found.offsets.tolist()

    assert same_rows(as_table(parts, table.schema), table) or not table.num_rows
    assert places == sorted(set(places)), "rows are in their order, and no two have one place"
    assert sum(one.batch.num_rows for one in parts) == table.num_rows
    assert FILE_FORMATS[file_format].count(InMemory(content), HEADER) == table.num_rows


NUMBERS = ("7", "-7", "+7", "007", "", "-", "0x1F", "1e2", "1.", ".5", "1.2.3", " 1", "\u0667", "300", "1.234", "inf")
DATES = ("2026-02-28", "2026-02-30", "0000-01-01", "0001-01-01", "2026/02/28", "+2026-02-2", "@000000007")
TIMES = tuple(f"{day}{rest}" for day in DATES[:5] for rest in ("T10:00:00", " 10:00:60", "t10:00:00", "T1000:000"))
STAMP = "2026-01-31T10:00:00"


@pytest.mark.parametrize(
    ("file_format", "usual", "texts"),
    [
        *((file_format, "12", NUMBERS) for file_format in (pa.int8(), pa.uint64(), pa.decimal128(5, 2), pa.float32())),
        (pa.date32(), "2026-01-31", DATES),
        *((file_format, STAMP, TIMES) for file_format in (pa.timestamp("s"), pa.timestamp("us"))),
        (pa.timestamp("us", "UTC"), f"{STAMP}Z", tuple(f"{text}Z" for text in TIMES)),
    ],
    ids=str,
)
def test_the_value_of_a_text_does_not_depend_on_its_column(file_format, usual, texts):
    """Columns whose values all have the usual form take another code path than other columns."""

    def read(*column):
        values, bad, _ = converted(pa.array(column, pa.large_binary()), file_format, typed=False)
        return values[-1], bad.tolist()[-1]

    for text in texts:
        alone = read(text.encode())
        assert read(usual.encode(), text.encode()) == alone, text
        assert read(b"no value", None, text.encode()) == alone, text


def test_each_known_format_has_a_reader():
    """What is known of a format is in a table of its own, which loads no library."""
    assert list(FORMATS) == list(FILE_FORMATS)


def test_a_sync_marker_lies_across_two_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Avro: from each offset, the blocks that begin there or later are found, however long a read is."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}
    stream = io.BytesIO()
    fastavro.writer(stream, schema, [{"id": number} for number in range(40)], sync_interval=8)
    stream.seek(0)
    container = avro_container.opened(stream)
    whole = [offset for offset, _ in avro_container.blocks(stream, container, Window(), schema)]
    assert len(whole) > 3
    for step in (17, 23, 64):
        monkeypatch.setattr(avro_container, "_STEP", step)
        for start in range(0, len(stream.getvalue()), 5):
            found = [offset for offset, _ in avro_container.blocks(stream, container, Window(start=start), schema)]
            assert found == [one for one in whole if one >> avro_container.ROW_BITS >= start], (step, start)
