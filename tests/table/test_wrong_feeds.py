"""Feed files that a table cannot take: the message names the file and the cure, and the exit code says whose fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutator.errors import MutatorError
from mutator.table.table import Table

SETTINGS = {"key": "id", "order_by": "at", "op": "op", "header": "true"}
RECORDS = "1,1,lamp,U\n2,1,desk,U\n"
SCHEMA = """{"type": "record", "name": "row", "fields": [{"name": "id", "type": "string"},
    {"name": "at", "type": "string"}, {"name": "name", "type": ["null", "string"]},
    {"name": "price", "type": ["null", "string"]}]}"""


def put(path: Path, content: str) -> str:
    path.write_text(content)
    return str(path)


@pytest.fixture(name="empty")
def new_empty_table(tmp_path: Path) -> Table:
    return Table.create(str(tmp_path / "table"), SETTINGS, buckets=2)


@pytest.fixture(name="table")
def new_table(empty: Table, tmp_path: Path) -> Table:
    empty.apply(put(tmp_path / "first.csv", f"id,at,name,op\n{RECORDS}"))
    return empty


def refused(table: Table, feed: str, code: int, *words: str, **settings: object) -> None:
    before = table.version
    with pytest.raises(MutatorError) as fault:
        table.apply(feed, **settings)
    assert fault.value.exit_code == code
    for one in words:
        assert one in str(fault.value)
    assert table.refresh().version == before


def test_a_source_with_other_columns(table: Table, tmp_path: Path) -> None:
    other = put(tmp_path / "prices.csv", "id,at,price,op\n3,1,5,U\n")
    refused(table, other, 3, "prices.csv", "lacks field name", "set output_schema to an Avro schema of all fields")
    assert table.apply(other, output_schema=SCHEMA).version == 2
    assert table.get("3") == {"id": "3", "at": "1", "name": None, "price": "5"}
    assert table.get("1") == {"id": "1", "at": "1", "name": "lamp", "price": None}


@pytest.mark.parametrize("is_first", [True, False])
def test_a_file_without_a_header(empty: Table, tmp_path: Path, is_first: bool) -> None:
    if not is_first:
        empty.apply(put(tmp_path / "first.csv", f"id,at,name,op\n{RECORDS}"))
    feed = put(tmp_path / "bare.csv", "7,2,lamp,U\n8,2,desk,U\n")
    words = "bare.csv: its first row, '7,2,lamp,U', is read as a header, and names none of the fields id, at, op"
    refused(empty, feed, 3, words, "set field_names to the names of its fields in order, and header=0")
    report = empty.apply(feed, field_names=["id", "at", "name", "op"], header=0)
    assert report.counts["feed inserted"] == 2


def test_a_file_whose_header_has_other_names(table: Table, tmp_path: Path) -> None:
    feed = put(tmp_path / "upper.csv", "ID,AT,NAME,OP\n7,2,lamp,U\n")
    refused(table, feed, 3, "upper.csv", "names none of the fields id, at, op", "with a header of these names")


@pytest.mark.parametrize("column", ["id", "at", "op"])
def test_a_file_without_one_column(table: Table, tmp_path: Path, column: str) -> None:
    names = [name for name in ("id", "at", "name", "op") if name != column]
    feed = put(tmp_path / "second.csv", ",".join(names) + "\n7,lamp,U\n")
    refused(table, feed, 3, "second.csv", f"field {column} is missing (it has {', '.join(names)})")


def test_a_setting_that_no_file_fits(table: Table, tmp_path: Path) -> None:
    feed = put(tmp_path / "second.csv", "id,at,name,op\n7,2,lamp,U\n")
    refused(table, feed, 2, "op: no input has a field opp; did you mean op?", op="opp")


@pytest.mark.parametrize("other", [{"key": "name"}, {"order_by": "name"}])
def test_another_key_or_order_is_a_configuration_error(table: Table, tmp_path: Path, other: dict[str, str]) -> None:
    feed = put(tmp_path / "second.csv", "id,at,name,op\n7,2,lamp,U\n")
    refused(table, feed, 2, "the table's ", "leave the setting out", order_type="string", **other)
