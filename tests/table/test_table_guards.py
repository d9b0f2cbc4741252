"""The guards of a run hold for an apply, too, and nothing is committed."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutator.config import parse
from mutator.dataset.versions.opening import open_snapshot
from mutator.errors import MutatorError
from mutator.table.table import Table

SETTINGS = {"key": "id", "order_by": "at", "op": "op"}


@pytest.fixture(name="table")
def new_table(tmp_path: Path) -> Table:
    table = Table.create(str(tmp_path / "table"), SETTINGS)
    rows = "".join(f"{number},{1790000000 + number},U,n{number}\n" for number in range(20))
    table.apply(feed_of(tmp_path, "first", rows), order_type="long")
    return table


def files_in(directory: str) -> set[str]:
    return {str(path) for path in Path(directory).rglob("*") if path.is_file()}


def feed_of(directory: Path, name: str, rows: str) -> str:
    path = directory / f"{name}.csv"
    path.write_text(f"id,at,op,name\n{rows}")
    return str(path)


@pytest.mark.parametrize(
    ("rows", "kind", "words"),
    [
        ("3,1790000100000,U,x\n", "order.units", "milliseconds"),
        ("".join(f"{number},1790000100,D,x\n" for number in range(15)), "deletes", "15"),
        ("3,1790000100,DELETE,x\n" * 9, "op.deletes", "DELETE"),
        ("3,soon,U,x\n", "rejects", "soon"),
        ("3,1790000100,U\n", "rejects", "3"),
    ],
)
def test_a_mistake_stops_an_apply(table: Table, tmp_path: Path, rows: str, kind: str, words: str) -> None:
    feed, before = feed_of(tmp_path, "second", rows), files_in(table.path)
    with pytest.raises(MutatorError, match=words) as fault:
        table.apply(feed)
    assert fault.value.kind == kind
    assert open_snapshot(table.path).version.number == 1
    assert files_in(table.path) == before


def test_another_key_is_refused(table: Table, tmp_path: Path) -> None:
    with pytest.raises(MutatorError, match="key"):
        table.apply(feed_of(tmp_path, "second", "3,1790000100,U,x\n"), key="name")


def test_a_feed_is_merged_once(table: Table, tmp_path: Path) -> None:
    feed = feed_of(tmp_path, "second", "3,1790000100,U,x\n")
    assert table.apply(feed, dry_run=True).counts["feed updated"] == 1
    assert table.apply(feed).version == 2
    again = table.apply(feed)
    assert (again.version, again.consumed) == (2, (feed,))
    assert again.counts["feed rows"] == 0


def test_a_second_writer_follows(table: Table, tmp_path: Path) -> None:
    other = Table(table.path)
    table.apply(feed_of(tmp_path, "second", "3,1790000100,U,x\n"))
    feed = feed_of(tmp_path, "third", "4,1790000100,U,x\n")
    other.refresh = lambda: other  # type: ignore[method-assign]  # it has not seen the second version
    report = other.apply(feed)
    assert (report.version, report.counts["output rows"]) == (3, Table(table.path).snapshot.version.records)
    assert Table(table.path).verify().problems == ()


def test_a_forgotten_op_code_field_stops_an_apply(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), {"key": "id", "order_by": "at"})
    first = tmp_path / "first.csv"
    first.write_text("id,at,name\n1,1,a\n2,1,b\n")
    table.apply(str(first))
    feed = feed_of(tmp_path, "second", "1,2,U,x\n2,2,D,x\n")
    with pytest.raises(MutatorError, match=r"field op, which the table lacks, has 'D'.*set op=\"op\"") as fault:
        table.apply(feed)
    assert fault.value.kind == "op.forgotten"
    assert table.apply(feed, op="op", max_delete_fraction=1).counts["feed deleted"] == 1


def test_an_unknown_argument_is_named(table: Table, tmp_path: Path) -> None:
    with pytest.raises(MutatorError, match="max_delete_fraction"):
        table.apply(feed_of(tmp_path, "second", ""), max_delet_fraction=1)


PARTED = {"key": "id", "order_by": "at", "partitioned.by": "shop", "key.scope": "partition"}


@pytest.mark.parametrize(
    ("settings", "other", "words"),
    [
        ({"key": "id", "order_by": "at"}, {"key": "name"}, "key is id, but this apply has name;"),
        ({"key": "id", "order_by": "at"}, {"order_by": "price"}, "order is at, but this apply has price;"),
        (
            {"key": "id", "order_by": "at", "order_type": "long"},
            {"order_type": "string"},
            "order type is long, but this apply has string;",
        ),
        (PARTED, {"key_scope": "table"}, "key scope is partition, but this apply has table;"),
        (PARTED, {"partitioned_by": "name"}, "partitioning is shop, but this apply has name;"),
    ],
)
def test_the_first_apply_has_the_settings_of_version_0(
    tmp_path: Path, settings: dict[str, str], other: dict[str, str], words: str
) -> None:
    feed = tmp_path / "feed.csv"
    feed.write_text("id,at,name,price,shop\n1,1,a,5,x\n2,1,b,5,y\n")
    table = Table.create(str(tmp_path / "table"), settings)
    with pytest.raises(MutatorError, match=words) as fault:
        table.apply(str(feed), **other)
    assert fault.value.kind == "table.spec"
    assert table.apply(str(feed)).version == 1
    with pytest.raises(MutatorError, match="leave the setting out") as fault:
        table.apply(str(feed), **other)
    assert fault.value.kind == "table.spec"


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"key": "name"}, r"the table's key is id \(text\), but this apply has name \(text\);"),
        ({"order_by": "price"}, r"the table's order is at \(long\), but this apply has price \(long\);"),
    ],
)
def test_the_rows_have_a_specification(tmp_path: Path, other: dict[str, str], words: str) -> None:
    feed = tmp_path / "feed.csv"
    feed.write_text("id,at,name,price\n1,1,a,5\n")
    table = Table.create(str(tmp_path / "table"), {"key": "id", "order_by": "at"})
    table.apply(str(feed))
    given = {"key": "id", "order_by": "at", **other}
    config = parse({**given, "feed.format": "csv"})
    with pytest.raises(MutatorError, match=words) as fault:
        table.apply(str(feed), config=config)
    assert fault.value.kind == "table.spec"


def test_a_key_by_position_is_that_of_its_name(tmp_path: Path) -> None:
    feed = tmp_path / "feed.txt"
    feed.write_text("1,1,a\n2,1,b\n")
    settings = {"key": "id", "order_by": "at", "field.names": "id,at,name"}
    table = Table.create(str(tmp_path / "table"), settings)
    assert table.apply(str(feed), key=0, order_by=1).version == 1


def test_a_partition_field_by_position_is_that_of_its_name(tmp_path: Path) -> None:
    feed = tmp_path / "feed.csv"
    feed.write_text("1,1,x\n2,1,y\n")
    table = Table.create(str(tmp_path / "table"), PARTED)
    assert table.apply(str(feed), field_names="id,at,shop").version == 1


def test_settings_that_version_0_lacks_are_those_of_the_first_apply(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), {"key": "id"})
    assert table.apply(feed_of(tmp_path, "first", "1,1790000100,U,x\n"), order_by="at", op="op").version == 1
