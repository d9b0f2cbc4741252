"""Insert overwrite of a table: each line of its meaning, and the published example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mutator.cli import main
from mutator.engine.versions import absent
from mutator.errors import ConfigError, DataError, MutatorError
from mutator.table import prepare
from mutator.table.table import Table
from tests.support.versioned import left_of

SETTINGS = {"key": "id", "order_by": "at", "op": "op"}
BY_TABLE = {**SETTINGS, "partitioned.by": "part", "key.scope": "table"}
BY_PARTITION = {**SETTINGS, "partitioned.by": "part", "key.scope": "partition"}
WORLDS = {"whole": SETTINGS, "table": BY_TABLE, "partition": BY_PARTITION}
Rows = list[tuple[Any, ...]]


def WHOLE(test: Any) -> Any:  # noqa: N802  # a decorator
    """Run a test without partitions, and with those of each key scope."""
    cases = pytest.mark.parametrize("settings", WORLDS.values(), ids=list(WORLDS))
    return pytest.mark.thorough(keep="table")(cases(test))


def PARTS(test: Any) -> Any:  # noqa: N802
    """Run a test with the partitions of each key scope."""
    cases = pytest.mark.parametrize("settings", [BY_TABLE, BY_PARTITION], ids=["table", "partition"])
    return pytest.mark.thorough(keep="partition")(cases(test))


def feed(*rows: tuple[Any, ...]) -> pa.Table:
    """Return mutations (id, order value, operation, partition, content)."""
    schema = pa.schema([("id", pa.int64()), ("at", pa.int64()), ("op", pa.string()), ("part", pa.string())])
    schema = schema.append(pa.field("note", pa.string()))
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.table([pa.array(column, one.type) for column, one in zip(columns, schema, strict=True)], schema=schema)


def create(path: Path, settings: dict[str, str], *rows: tuple[Any, ...]) -> Table:
    table = Table.create(str(path / "table"), settings, buckets=2)
    table.apply(feed(*rows), max_delete_fraction=1)
    return table


def rows_of(table: Table, version: int | None = None) -> Rows:
    found = table.scan(version=version).to_pylist()
    return sorted((row["id"], row["at"], row["part"], row["note"]) for row in found)


def tombstones(table: Table) -> list[tuple[int, int]]:
    """Return (id, order value) of each tombstone."""
    return [(int(key[0]), int(order)) for key, order in left_of(table.snapshot, {}, width=1).tombstones]


def outcomes(report: Any) -> dict[str, int]:
    """Return the outcomes of rows, without zeros."""
    n = report.counts
    names = [name for name in n if name.startswith(("feed ", "master ")) and not name.endswith((" rows", "ignored"))]
    return {name: n[name] for name in names if n[name]}


def test_no_positions_are_read_to_find_that_no_record_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records of several groups share a file here."""
    rows = [(number, 1, "U", "p", "old") for number in range(20)]
    table = create(tmp_path, SETTINGS, *rows)
    monkeypatch.setattr(prepare, "_GROUP", 1)
    monkeypatch.setattr(absent, "_absent", None)
    report = table.insert_overwrite_table(feed(*((number, 2, "U", "p", "new") for number, *_ in rows)))
    assert outcomes(report) == {"feed updated": 20, "master replaced": 20}


@WHOLE
def test_an_older_input_row_is_updated_never_late(tmp_path: Path, settings: dict[str, str]) -> None:
    table = create(tmp_path, settings, (1, 9, "U", "p", "new"))
    report = table.insert_overwrite(feed((1, 3, "U", "p", "old")))
    assert outcomes(report) == {"feed updated": 1, "master replaced": 1}
    assert rows_of(table) == [(1, 3, "p", "old")]


@WHOLE
def test_an_equal_row_is_a_no_op(tmp_path: Path, settings: dict[str, str]) -> None:
    table = create(tmp_path, settings, (1, 9, "U", "p", "x"), (2, 9, "U", "p", "x"))
    report = table.insert_overwrite(feed((1, 9, "U", "p", "x")))
    assert outcomes(report) == {"feed no-op": 1, "master kept": 1, "master deleted by absence": 1}
    assert rows_of(table) == [(1, 9, "p", "x")]
    assert [row["_change_type"] for row in table.changes(1).to_pylist()] == ["delete"]
    assert len(table.history(1)) == 1


@WHOLE
def test_a_replacing_row_has_its_own_order_value(tmp_path: Path, settings: dict[str, str]) -> None:
    table = create(tmp_path, settings, (1, 9, "U", "p", "new"))
    table.insert_overwrite(feed((1, 3, "U", "p", "old")))
    assert outcomes(table.apply(feed((1, 2, "U", "p", "older")))) == {"feed late": 1, "master kept": 1}
    assert outcomes(table.apply(feed((1, 4, "U", "p", "newer")))) == {"feed updated": 1, "master replaced": 1}
    assert rows_of(table) == [(1, 4, "p", "newer")]


@WHOLE
def test_over_an_older_or_newer_tombstone_it_is_inserted(tmp_path: Path, settings: dict[str, str]) -> None:
    table = create(tmp_path, settings, (1, 1, "U", "p", "x"), (2, 1, "U", "p", "x"), (3, 1, "U", "p", "x"))
    table.apply(feed((1, 9, "D", "p", None), (2, 2, "D", "p", None)), max_delete_fraction=1)
    report = table.insert_overwrite(feed((1, 5, "U", "p", "y"), (2, 5, "U", "p", "y"), (3, 1, "U", "p", "x")))
    assert outcomes(report) == {"feed inserted": 2, "feed no-op": 1, "master kept": 1}
    assert report.counts["revived"] == 2
    assert (rows_of(table), tombstones(table)) == ([(1, 5, "p", "y"), (2, 5, "p", "y"), (3, 1, "p", "x")], [])


@WHOLE
def test_a_delete_keeps_the_higher_of_both_order_values(tmp_path: Path, settings: dict[str, str]) -> None:
    table = create(tmp_path, settings, *((number, 5, "U", "p", "x") for number in range(1, 5)))
    table.apply(feed((3, 7, "D", "p", None), (4, 7, "D", "p", None)), max_delete_fraction=1)
    deletes = [(1, 4, "D", "p", None), (2, 6, "D", "p", None), (3, 6, "D", "p", None), (4, 8, "D", "p", None)]
    report = table.insert_overwrite(feed(*deletes, (9, 1, "D", "p", None)))
    expected = {"feed deleted": 2, "master removed": 2, "feed no-op": 2, "feed delete of unknown": 1}
    assert outcomes(report) == expected
    assert tombstones(table) == [(1, 5), (2, 6), (3, 7), (4, 8), (9, 1)]


@WHOLE
def test_what_the_input_lacks_is_deleted_by_absence(tmp_path: Path, settings: dict[str, str]) -> None:
    table = create(tmp_path, settings, (1, 9, "U", "p", "x"), (2, 5, "U", "p", "x"))
    report = table.insert_overwrite(feed((3, 1, "U", "p", "y")))
    assert outcomes(report) == {"feed inserted": 1, "master deleted by absence": 2}
    assert tombstones(table) == [(1, 9), (2, 5)]
    late = table.apply(feed((1, 8, "U", "p", "z"), (2, 6, "U", "p", "z")))
    assert outcomes(late) == {"feed late": 1, "feed inserted": 1, "master kept": 1}
    assert rows_of(table) == [(2, 6, "p", "z"), (3, 1, "p", "y")]


@WHOLE
def test_tombstones_of_keys_that_the_input_lacks_stay(tmp_path: Path, settings: dict[str, str]) -> None:
    table = create(tmp_path, settings, (1, 1, "U", "p", "x"), (2, 1, "D", "p", None))
    table.insert_overwrite_table(feed((3, 1, "U", "p", "y")))
    assert tombstones(table) == [(1, 1), (2, 1)]


@WHOLE
def test_within_the_input_the_last_mutation_of_a_key_wins(tmp_path: Path, settings: dict[str, str]) -> None:
    table = create(tmp_path, settings, (1, 1, "U", "p", "x"))
    report = table.insert_overwrite(feed((2, 1, "U", "p", "a"), (2, 3, "U", "p", "b"), (2, 2, "D", "p", None)))
    assert outcomes(report) == {"feed inserted": 1, "feed superseded": 2, "master deleted by absence": 1}
    assert rows_of(table) == [(2, 3, "p", "b")]


@PARTS
def test_exactly_the_partitions_of_the_winners_are_replaced(tmp_path: Path, settings: dict[str, str]) -> None:
    table = create(tmp_path, settings, *((number, 5, "U", f"p{number % 4}", "x") for number in range(12)))
    report = table.insert_overwrite(feed((20, 1, "U", "p1", "y"), (2, 9, "D", "p2", None), (21, 1, "U", "p9", "y")))
    assert report.replaced == ("part=p1", "part=p2", "part=p9")
    expected = {"feed inserted": 2, "feed deleted": 1, "master removed": 1, "master deleted by absence": 5}
    assert outcomes(report) == {**expected, "master kept": 6}
    assert {row[2] for row in rows_of(table)} == {"p0", "p1", "p3", "p9"}


def test_the_partition_of_a_superseded_mutation_is_kept(tmp_path: Path) -> None:
    table = create(tmp_path, BY_TABLE, (1, 5, "U", "p1", "x"), (2, 5, "U", "p2", "x"))
    report = table.insert_overwrite(feed((3, 1, "U", "p1", "y"), (3, 2, "U", "p2", "y")))
    assert report.replaced == ("part=p2",)
    assert rows_of(table) == [(1, 5, "p1", "x"), (3, 2, "p2", "y")]


def test_a_key_in_a_partition_that_is_kept_moves_if_the_input_row_is_not_older(tmp_path: Path) -> None:
    table = create(tmp_path, BY_TABLE, *((number, 5, "U", "p1", "x") for number in (1, 2, 3)), (4, 9, "U", "p2", "x"))
    report = table.insert_overwrite(feed((1, 4, "U", "p2", "y"), (2, 5, "U", "p2", "y"), (3, 6, "U", "p2", "y")))
    expected = {"feed late": 1, "feed updated": 2, "master replaced": 2, "master deleted by absence": 1}
    assert outcomes(report) == {**expected, "master kept": 1}
    assert rows_of(table) == [(1, 5, "p1", "x"), (2, 5, "p2", "y"), (3, 6, "p2", "y")]


def test_a_key_moves_between_two_replaced_partitions_even_if_it_is_older(tmp_path: Path) -> None:
    table = create(tmp_path, BY_TABLE, (1, 5, "U", "p1", "x"), (2, 5, "U", "p2", "x"))
    report = table.insert_overwrite(feed((1, 1, "U", "p2", "y"), (2, 1, "U", "p1", "y")))
    assert outcomes(report) == {"feed updated": 2, "master replaced": 2}
    assert rows_of(table) == [(1, 1, "p2", "y"), (2, 1, "p1", "y")]


def test_a_delete_without_a_partition_replaces_none(tmp_path: Path) -> None:
    table = create(tmp_path, BY_TABLE, (1, 5, "U", "p1", "x"), (2, 5, "U", "p1", "x"), (3, 5, "U", "p2", "x"))
    report = table.insert_overwrite(feed((1, 9, "D", None, None), (2, 1, "D", None, None), (4, 1, "U", "p2", "y")))
    expected = {"feed deleted": 1, "master removed": 1, "feed late": 1, "feed inserted": 1}
    assert outcomes(report) == {**expected, "master deleted by absence": 1, "master kept": 1}
    assert rows_of(table) == [(2, 5, "p1", "x"), (4, 1, "p2", "y")]


def test_with_key_scope_partition_equal_keys_of_other_partitions_are_other_records(tmp_path: Path) -> None:
    table = create(tmp_path, BY_PARTITION, (1, 5, "U", "p1", "x"), (1, 5, "U", "p2", "x"))
    assert outcomes(table.insert_overwrite(feed((1, 1, "U", "p2", "y")))) == {
        "feed updated": 1,
        "master replaced": 1,
        "master kept": 1,
    }
    assert rows_of(table) == [(1, 1, "p2", "y"), (1, 5, "p1", "x")]


@WHOLE
@pytest.mark.parametrize("operation", ["insert_overwrite", "insert_overwrite_table"])
def test_any_reject_fails(tmp_path: Path, settings: dict[str, str], operation: str) -> None:
    table = create(tmp_path, settings, (1, 5, "U", "p1", "x"))
    with pytest.raises(DataError, match="1 feed row cannot be read"):
        getattr(table, operation)(feed((2, None, "U", "p1", "y"), (3, 1, "U", "p1", "y")))
    with pytest.raises(ConfigError, match="a reject would be a delete"):
        getattr(table, operation)(feed((2, None, "U", "p1", "y")), reject_policy="quarantine")
    assert (table.refresh().version, rows_of(table)) == (1, [(1, 5, "p1", "x")])


def test_consumed_files_are_not_skipped(tmp_path: Path) -> None:
    table = create(tmp_path, BY_PARTITION, (1, 5, "U", "p1", "x"))
    path = tmp_path / "feed_1.csv"
    path.write_text("id,at,op,part,note\n2,1,U,p1,y\n")
    for version in (2, 3):
        report = table.insert_overwrite(str(path), header=True)
        assert (report.version, report.consumed, report.counts["feed rows"]) == (version, (), 1)
    assert table.apply(str(path), header=True).consumed == (str(path),)


@WHOLE
def test_the_fraction_of_deletes_is_limited_only_where_it_is_set(tmp_path: Path, settings: dict[str, str]) -> None:
    table = create(tmp_path, settings, *((number, 5, "U", "p", "x") for number in range(10)))
    with pytest.raises(DataError, match="10 of the table's 10 records"):
        table.insert_overwrite(feed((99, 1, "U", "p", "y")), max_delete_fraction=0.5)
    assert table.insert_overwrite(feed((99, 1, "U", "p", "y"))).counts["output rows"] == 1


@WHOLE
def test_an_empty_input(tmp_path: Path, settings: dict[str, str]) -> None:
    table = create(tmp_path, settings, (1, 5, "U", "p", "x"))
    report = table.insert_overwrite(feed())
    assert (report.is_new, table.refresh().version, len(rows_of(table))) == (False, 1, 1)
    with pytest.raises(MutatorError, match="would delete every record"):
        table.insert_overwrite_table(feed())
    report = table.insert_overwrite_table(feed(), allow_empty_feed=True)
    assert outcomes(report) == {"master deleted by absence": 1}
    assert (rows_of(table), tombstones(table)) == ([], [(1, 5)])


def test_an_empty_input_is_allowed_in_the_words_of_its_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = create(tmp_path, SETTINGS, (1, 5, "U", "p", "x"))
    (tmp_path / "none.csv").write_text("id,at,op,part,note\n")
    none = ["--feed", str(tmp_path / "none.csv")]
    cases = [
        (["insert-overwrite-table", table.path, *none], "--allow-empty"),
        (["apply", table.path, *none, "-D", "write.operation=insert_overwrite_table"], "-D allow.empty.feed=true"),
    ]
    for words, cure in cases:
        assert main(["table", *words]) == 3
        assert capsys.readouterr().err.endswith(f"; if that is intended, run again with {cure}\n")
    with pytest.raises(DataError, match=r"; if that is intended, run again with allow_empty_feed=True$"):
        table.insert_overwrite_table(feed())


@WHOLE
@pytest.mark.parametrize("operation", ["insert_overwrite", "insert_overwrite_table"])
def test_a_dry_run_has_the_same_counts(tmp_path: Path, settings: dict[str, str], operation: str) -> None:
    table = create(tmp_path, settings, *((number, 5, "U", f"p{number % 2}", "x") for number in range(10)))
    before = sorted(tmp_path.rglob("*"))
    rows = feed((1, 3, "U", "p1", "x"), (3, 5, "U", "p1", "x"), (5, 7, "D", "p1", None), (99, 1, "U", "p1", "x"))
    trial = getattr(table, operation)(rows, dry_run=True)
    assert sorted(tmp_path.rglob("*")) == before
    done = getattr(table, operation)(rows)
    assert (trial.counts, trial.replaced, trial.files_removed) == (
        done.counts,
        done.replaced,
        done.files_removed,
    )
    assert (trial.version, done.version, trial.dry_run) == (2, 2, True)


def test_another_operation_is_refused(tmp_path: Path) -> None:
    table = create(tmp_path, SETTINGS, (1, 5, "U", "p", "x"))
    with pytest.raises(ConfigError, match=r"write\.operation is apply; leave it out, or set insert_overwrite"):
        table.insert_overwrite(feed((1, 6, "U", "p", "x")), write_operation="apply")
    report = table.apply(feed((2, 6, "U", "p", "x")), write_operation="insert_overwrite_table")
    assert (report.operation, report.counts["master deleted by absence"]) == ("insert_overwrite_table", 1)
    assert [one.kind for one in table.refresh().log()] == ["create", "apply", "insert_overwrite_table"]


@pytest.mark.parametrize("settings", [BY_TABLE, BY_PARTITION], ids=["table", "partition"])
def test_the_published_example(tmp_path: Path, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mutator.table.apply._INLINE_FEED", 0)
    monkeypatch.setattr("mutator.table.apply.INLINE", 0)
    monkeypatch.setattr("mutator.engine.versions.delta_files._OWN", 1)
    table = create(tmp_path, settings, *((number, 5, "U", f"p{number % 3}", "x") for number in range(99)))
    before = {path: path.read_bytes() for path in (tmp_path / "table").glob("_mutator/table/rows/part=*/*/*.rows")}
    ten = feed(*((number, 1, "U", "p2", "y") for number in range(100, 110)))
    table.insert_overwrite(ten)
    assert {path for path in before if path.read_bytes() != before[path]} == set()
    live = table.snapshot.files.column("path").to_pylist()
    old = {str(path.relative_to(tmp_path / "table")) for path in before}
    assert old - set(live) == {path for path in old if "/part=p2/" in path}
    for partition, count in (("p0", 33), ("p1", 33), ("p2", 10)):
        assert table.scan(where=f"part = '{partition}'").to_arrow().num_rows == count
    report = table.insert_overwrite_table(ten)
    assert report.counts["master deleted by absence"] == 66
    for partition, count in (("p0", 0), ("p1", 0), ("p2", 10)):
        assert table.scan(where=f"part = '{partition}'").to_arrow().num_rows == count


@PARTS
@pytest.mark.parametrize(("before", "after"), [(1000, 3000), (3000, 1000), (3000, 3000)])
def test_more_fewer_and_as_many_rows(tmp_path: Path, settings: dict[str, str], before: int, after: int) -> None:
    table = create(
        tmp_path, settings, *((number, 5, "U", "p1", "x") for number in range(before)), (-1, 1, "U", "p0", "x")
    )
    report = table.insert_overwrite(feed(*((number, 3, "U", "p1", "y") for number in range(after))))
    both = min(before, after)
    assert report.counts["feed updated"] == report.counts["master replaced"] == both
    assert report.counts["feed inserted"] == after - both
    assert report.counts["master deleted by absence"] == before - both == table.snapshot.version.tombstones
    assert table.snapshot.version.records == after + 1
    assert table.verify().problems == ()


@PARTS
def test_rows_of_a_packed_file_are_hidden_and_a_dead_one_is_removed(tmp_path: Path, settings: dict[str, str]) -> None:
    table = create(tmp_path, settings, (1, 5, "U", "p1", "x"), (2, 5, "U", "p2", "x"))
    (path,) = table.snapshot.files.column("path").to_pylist()
    assert "packed" in path
    assert table.insert_overwrite(feed((3, 1, "U", "p1", "y"))).files_removed == 0
    assert path in table.snapshot.files.column("path").to_pylist()
    assert table.insert_overwrite(feed((4, 1, "U", "p2", "y"))).files_removed == 1
    assert path not in table.snapshot.files.column("path").to_pylist()
    assert table.snapshot.masks.hidden(path).tolist() != []
    assert rows_of(table) == [(3, 1, "p1", "y"), (4, 1, "p2", "y")]
    assert table.verify().problems == ()


def test_a_table_that_has_no_rows_yet(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), BY_PARTITION)
    table.insert_overwrite(feed((1, 1, "U", "p1", "x")))
    assert rows_of(table) == [(1, 1, "p1", "x")]
    other = Table.create(str(tmp_path / "other"), SETTINGS)
    other.insert_overwrite_table(feed((1, 1, "U", "p1", "x")))
    assert rows_of(other) == [(1, 1, "p1", "x")]


def test_new_fields_come_with_an_overwrite(tmp_path: Path) -> None:
    table = create(tmp_path, BY_PARTITION, (1, 5, "U", "p1", "x"), (2, 5, "U", "p2", "x"))
    more = feed((1, 5, "U", "p1", "x")).append_column("size", pa.array([7], pa.int64()))
    report = table.insert_overwrite(more)
    assert outcomes(report) == {"feed updated": 1, "master replaced": 1, "master kept": 1}
    assert [row["size"] for row in table.scan().to_pylist()] in ([7, None], [None, 7])


@pytest.mark.parametrize("make", ["pandas", "polars", "arrow", "reader", "path"])
def test_inputs_of_every_kind(tmp_path: Path, make: str) -> None:
    table = create(tmp_path, BY_PARTITION, (1, 5, "U", "p1", "x"), (2, 5, "U", "p2", "x"))
    rows = feed((3, 1, "U", "p1", "y"))
    given: Any = rows
    if make == "pandas":
        given = rows.to_pandas()
    elif make == "polars":
        given = pytest.importorskip("polars").from_arrow(rows)
    elif make == "reader":
        given = rows.to_reader()
    elif make == "path":
        pa.parquet.write_table(rows, given := str(tmp_path / "feed.parquet"))
    table.insert_overwrite(given)
    assert rows_of(table) == [(2, 5, "p2", "x"), (3, 1, "p1", "y")]
    table.insert_overwrite_table([given] if make != "reader" else rows.to_reader())
    assert rows_of(table) == [(3, 1, "p1", "y")]
