"""Feed files that a table cannot take, with file, cure and exit code; and the columns that others give it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
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


@pytest.mark.parametrize("is_first", [True, False])
def test_a_file_with_another_delimiter(empty: Table, tmp_path: Path, is_first: bool) -> None:
    """Of a first feed, the setting may be wrong (2); later, the file is (3). So it is with ``mutator run``."""
    if not is_first:
        empty.apply(put(tmp_path / "first.csv", f"id,at,name,op\n{RECORDS}"))
    for row in ("7;2;lamp;U", "7;2;lamp, blue;U"):
        feed = put(tmp_path / "other.csv", f"id;at;name;op\n{row}\n")
        words = "other.csv: delimiter is ',', but a semicolon separates the names in its header, 'id;at;name;op'; use "
        refused(empty, feed, 2 if is_first else 3, words, 'delimiter=";"')
    assert empty.apply(feed, delimiter=";").counts["feed inserted"] == 1


def test_the_first_feed_has_no_files(empty: Table, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    words = "nothing: has no feed files, and the table has no rows yet, so there is nothing to merge; check the path"
    refused(empty, str(tmp_path / "nothing"), 2, words)


def test_a_later_feed_has_no_files(table: Table, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    report = table.apply(str(tmp_path / "nothing"))
    assert "nothing to merge" in report.warnings[0]
    assert (table.version, report.counts["output rows"]) == (1, 2)


def test_a_first_load_without_op_codes(empty: Table, tmp_path: Path) -> None:
    feed = put(tmp_path / "first.csv", "id,at,name\n1,1,lamp\n")
    refused(empty, feed, 3, "first.csv: field op is missing (it has id, at, name); have", "'U' in every row is enough")


def test_a_table_by_ordinals_takes_text_with_the_names_of_an_apply(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), {"key": "0", "order_by": "1"}, buckets=2)
    feed = put(tmp_path / "rows.txt", "1,5,lamp\n2,5,desk\n")
    refused(table, feed, 2, "field_names: is not set, but a table needs names for its columns, and rows.txt is")
    refused(table, feed, 2, "the table's key is id, but this apply has name", field_names=["id", "at", "name"], key=2)
    assert table.apply(feed, field_names=["id", "at", "name"]).counts["feed inserted"] == 2
    assert table.get("2") == {"id": "2", "at": "5", "name": "desk"}


def test_a_setting_that_no_file_fits(table: Table, tmp_path: Path) -> None:
    feed = put(tmp_path / "second.csv", "id,at,name,op\n7,2,lamp,U\n")
    refused(table, feed, 2, "op: no input has a field opp; did you mean op?", op="opp")


@pytest.mark.parametrize("other", [{"key": "name"}, {"order_by": "name"}])
def test_another_key_or_order_is_a_configuration_error(table: Table, tmp_path: Path, other: dict[str, str]) -> None:
    feed = put(tmp_path / "second.csv", "id,at,name,op\n7,2,lamp,U\n")
    refused(table, feed, 2, "the table's ", "leave the setting out", order_type="string", **other)


# --- columns


def columns(table: Table) -> list[str]:
    return list(table.schema.names)


def test_columns_keep_their_order(table: Table, tmp_path: Path) -> None:
    report = table.apply(put(tmp_path / "second.csv", "op,price,name,at,id\nU,5,shelf,2,3\n"))
    assert columns(table) == ["id", "at", "name", "price"]
    assert not any("order" in warning for warning in report.warnings)
    table.apply(pa.table({"size": ["9"], "price": ["6"], "op": ["U"], "id": ["1"], "at": ["2"], "name": ["lamp"]}))
    assert columns(table) == ["id", "at", "name", "price", "size"]
    assert table.get("1") == {"id": "1", "at": "2", "name": "lamp", "price": "6", "size": "9"}
    assert table.get("3") == {"id": "3", "at": "2", "name": "shelf", "price": "5", "size": None}
    table.apply(put(tmp_path / "third.csv", "at,id,op,size\n3,3,U,1\n"), removed_fields=["name", "price"])
    assert columns(table) == ["id", "at", "size"]


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize("header", ["id,at,name,more,op", "op,name,at,id", "id,at,op", "id,at,name,op"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n"])
def test_a_header_alone_changes_no_columns(table: Table, tmp_path: Path, header: str, end: str) -> None:
    report = table.apply(put(tmp_path / "second.csv", header + end))
    assert report.counts["feed rows"] == 0
    assert columns(table) == ["id", "at", "name"]
    table.apply(put(tmp_path / "third.csv", "id,at,name,more,op\n3,1,shelf,x,U\n"))
    assert columns(table) == ["id", "at", "name", "more"]


def test_a_header_alone_beside_rows(table: Table, tmp_path: Path) -> None:
    (tmp_path / "feed").mkdir()
    put(tmp_path / "feed" / "rows_1.csv", "id,at,name,price,op\n3,1,shelf,5,U\n")
    put(tmp_path / "feed" / "rows_2.csv", "id,at,name,op\n")
    table.apply(str(tmp_path / "feed"))
    assert columns(table) == ["id", "at", "name", "price"]


# --- names and formats


def test_a_missing_sequence_is_noted_whatever_decides_the_order(table: Table, tmp_path: Path) -> None:
    table.apply(put(tmp_path / "rows_1.csv", "id,at,name,op\n3,1,shelf,U\n"))
    third = put(tmp_path / "rows_3.csv", "id,at,name,op\n4,1,stool,U\n")
    note = 'gaps: these sequences have not arrived: 2; if none is missing, set sequence_gaps="ignore"'
    assert note in table.apply(third, dry_run=True).notes
    assert not any("gaps" in one for one in table.apply(third, sequence_gaps="ignore").notes)


def test_files_of_two_formats(table: Table, tmp_path: Path) -> None:
    (tmp_path / "feed").mkdir()
    put(tmp_path / "feed" / "rows.csv", "id,at,name,op\n3,1,shelf,U\n")
    frame = pa.table({"id": ["4"], "at": ["1"], "name": ["stool"], "op": ["U"]})
    pq.write_table(frame, tmp_path / "feed" / "rows.parquet")
    refused(table, str(tmp_path / "feed"), 3, "the feed has files of several formats (1 csv, 1 parquet)")
    assert table.apply([str(tmp_path / "feed" / "rows.csv"), frame]).counts["feed inserted"] == 2


def test_a_header_without_rows_leaves_nothing_out(empty: Table, tmp_path: Path) -> None:
    (tmp_path / "feed").mkdir()
    put(tmp_path / "feed" / "names_1.csv", "id,at,name,op\n")
    put(tmp_path / "feed" / "prices_2.csv", "id,at,price,op\n2,1,5,U\n")
    assert empty.apply(str(tmp_path / "feed")).warnings == ()


def test_two_sources_of_one_feed(empty: Table, tmp_path: Path) -> None:
    (tmp_path / "feed").mkdir()
    put(tmp_path / "feed" / "names_1.csv", "id,at,name,op\n1,1,lamp,U\n")
    put(tmp_path / "feed" / "prices_2.csv", "id,at,price,op\n2,1,5,U\n")
    feed = str(tmp_path / "feed")
    words = "field name of names_1.csv: left out, because prices_2.csv, the newest feed file, has no such field; "
    assert empty.apply(feed, dry_run=True).warnings == (f"{words}output_schema keeps it",)
    assert empty.apply(feed, dry_run=True, removed_fields="name").warnings == ()
    report = empty.apply(feed, output_schema=SCHEMA)
    assert (report.warnings, columns(empty)) == ((), ["id", "at", "name", "price"])
