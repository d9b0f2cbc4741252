"""``mutator.Table``: tables in memory as feeds, rows as tables of other libraries, and wrong calls."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import mutator
from mutator.cli import main
from mutator.dataset.versions.log import TableLog

FEED = {"id": [1, 2, 3], "city": ["Bonn", "Rome", "Oslo"], "changed": [10, 10, 10], "op": ["I", "I", "I"]}


@pytest.fixture
def table(tmp_path: Path) -> mutator.Table:
    return mutator.Table.create(tmp_path / "table", key="id", order_by="changed", op="op", max_delete_fraction=1)


def rows_of(table: mutator.Table, **arguments: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.scan(**arguments).to_pylist())


@pytest.mark.parametrize(
    "made", [pa.table, pd.DataFrame, pl.DataFrame, lambda columns: pl.LazyFrame(columns), lambda one: [pa.table(one)]]
)
def test_a_table_in_memory_is_a_feed(table: mutator.Table, made: Any) -> None:
    report = table.apply(made(FEED))

    assert report.counts["feed inserted"] == 3
    assert rows_of(table) == [(1, "Bonn", 10), (2, "Rome", 10), (3, "Oslo", 10)]
    assert report.feed[0].startswith("feed")
    assert "/" not in str(report.feed) + str(report.notes) + str(report.warnings)
    assert TableLog(table.path).read(1).feed == ()  # a table in memory is not remembered as merged
    assert table.apply(made(FEED)).counts["feed no-op"] == 3


@pytest.mark.parametrize(
    ("value", "data_type", "text"),
    [
        (2**62, pa.timestamp("us"), "@4611686018427387904"),
        (253402300799 * 10**6, pa.timestamp("us", "Europe/Berlin"), "9999-12-31 23:59:59.000000Z"),  # 10000 in Berlin
        (1, pa.time64("ns"), "00:00:00.000000001"),
        (3_000_000, pa.date32(), "@3000000"),
    ],
)
def test_values_that_python_lacks_are_text(table: mutator.Table, value: int, data_type: Any, text: str) -> None:
    column = pa.array([0, value, None], data_type)
    at = pa.StructArray.from_arrays([column], ["at"])
    pairs = pa.MapArray.from_arrays([0, 1, 2, 3], pa.array(["k"] * 3), column)
    nested = pa.ListArray.from_arrays([0, 1, 2, 3], at)
    lengths = pa.array([1.5, 2.5, None])
    columns = {"id": [0, 1, 2], "changed": [1] * 3, "op": ["I"] * 3}
    table.apply(pa.table({**columns, "flat": column, "nested": nested, "pairs": pairs, "length": lengths}))

    row = {"id": 1, "changed": 1, "flat": text, "nested": [{"at": text}], "pairs": [("k", text)], "length": 2.5}
    plain = column[0].as_py()
    first = {**row, "id": 0, "flat": plain, "nested": [{"at": plain}], "pairs": [("k", plain)], "length": 1.5}
    last = {**row, "id": 2, "flat": None, "nested": [{"at": None}], "pairs": [("k", None)], "length": None}
    assert [table.get(number) for number in range(3)] == [first, row, last]
    assert sorted(table.scan().to_pylist(), key=lambda one: one["id"]) == [first, row, last]


def test_paths_and_tables_are_one_feed(table: mutator.Table, tmp_path: Path) -> None:
    pl.DataFrame(FEED).write_parquet(tmp_path / "file.parquet")
    newer = pa.table({"id": [2, 4], "city": ["Riga", "Kyiv"], "changed": [11, 11], "op": ["U", "I"]})

    report = table.apply([tmp_path / "file.parquet", newer])

    assert (report.counts["feed inserted"], report.counts["feed superseded"]) == (4, 1)
    assert table.get(2) == {"id": 2, "city": "Riga", "changed": 11}
    assert [file.name for file in TableLog(table.path).read(1).feed] == ["file.parquet"]


def test_ties_among_rows_of_tables_do_not_depend_on_their_order(tmp_path: Path) -> None:
    for number, cities in enumerate((["Bonn", "Rome"], ["Rome", "Bonn"])):
        table = mutator.Table.create(tmp_path / f"t{number}", key="id", order_by="changed")
        table.apply(pa.table({"id": [1, 1], "city": cities, "changed": [1, 1]}))
        assert rows_of(table) == [(1, "Rome", 1)]


def test_order_by_file_name_is_an_error_for_a_table(tmp_path: Path) -> None:
    table = mutator.Table.create(tmp_path / "table", key="id")
    with pytest.raises(mutator.ConfigError, match=r"feed \(Arrow table\): has no file name that could order its rows"):
        table.apply(pa.table({"id": [1]}))
    assert table.version == 0


def test_a_result_of_a_merge_is_a_feed_and_a_beginning(tmp_path: Path) -> None:
    table = mutator.Table.create(tmp_path / "table", key="id", order_by="changed")
    rows = pa.table({name: FEED[name] for name in ("id", "city", "changed")})
    nothing = rows.slice(0, 0)
    merged = mutator.merge(master=nothing, feed=rows, key="id", order_by="changed", output=tmp_path / "merged")
    assert table.apply(merged.result, dry_run=True).counts["feed inserted"] == 3
    assert table.version == 0
    begun = mutator.Table.create(tmp_path / "begun", key="id", order_by="changed", dataset=tmp_path / "merged")
    assert begun.version == 1
    assert rows_of(begun) == [(1, "Bonn", 10), (2, "Rome", 10), (3, "Oslo", 10)]


def test_rows_are_tables_of_other_libraries(table: mutator.Table) -> None:
    table.apply(pa.table(FEED))
    wanted = {"id": [1, 2], "city": ["Bonn", "Rome"]}
    scan = {"columns": ["id", "city"], "where": "id < 3"}
    assert table.scan(**scan).to_arrow().sort_by("id").to_pydict() == wanted
    assert table.scan(**scan).to_pandas().sort_values("id").to_dict("list") == wanted
    assert table.scan(**scan).to_polars().sort("id").to_dict(as_series=False) == wanted
    assert pl.DataFrame(table.scan(**scan)).sort("id").to_dict(as_series=False) == wanted
    assert table.scan(**scan).schema.names == ["id", "city"]
    assert mutator.Table(table.path).scan(version=0).to_arrow().num_rows == 0


@pytest.mark.parametrize("again", [list, lambda rows: rows.to_arrow(), pa.table, lambda rows: rows.to_pylist()])
def test_rows_are_read_once(table: mutator.Table, tmp_path: Path, again: Any) -> None:
    table.apply(pa.table(FEED))
    empty = mutator.Table.create(tmp_path / "empty", key="id", order_by="changed").scan()
    changes = table.changes(0)
    begun = table.scan()
    next(begun)
    for rows in (table.scan(), empty, changes, begun):
        rows.to_arrow()
        with pytest.raises(mutator.ConfigError, match=r"can be read only once; call scan\(\) or changes\(\) again"):
            again(rows)


def test_the_runner_of_a_call_is_used(table: mutator.Table) -> None:
    report = table.apply(pa.table(FEED), runner="local")
    assert report.runner is not None
    assert "asked for" in report.runner


def test_messages_have_arguments(table: mutator.Table) -> None:
    table.apply(pa.table(FEED))
    deletes = pa.table({**FEED, "changed": [11] * 3, "op": ["D"] * 3})
    with pytest.raises(mutator.DataError, match="run again with max_delete_fraction=1"):
        table.apply(deletes, max_delete_fraction=0.5)
    with pytest.raises(mutator.DataError, match=r"feed \(pandas DataFrame\)"):
        table.apply(pd.DataFrame({**FEED, "changed": [12, None, 12]}))
    assert table.version == 1


WRONG = {
    "an unknown setting": (
        ("apply", ["x"], {"max_delete": 1}),
        r"Table.apply\(\): has no argument max_delete; did you",
    ),
    "a limit": (
        ("apply", ["x"], {"max_delete_fraction": "x"}),
        r"Table.apply\(\): .*\n  max_delete_fraction: 'x' must",
    ),
    "no feed": (("apply", [None], {}), r"Table.apply\(\): feed is None, but should be a path"),
    "a list of rows": (("apply", [[{"id": 1}]], {}), r"feed\[0\] is a dict, but should be a path"),
    "a number in a feed": (("apply", [["x", 7]], {}), r"feed\[1\] is 7, an int"),
    "dry_run": (("apply", ["x"], {"dry_run": "no"}), "dry_run is 'no', a str, but should be True or False"),
    "config": (("apply", ["x"], {"config": 7}), "config is 7, an int, but should be a Config"),
    "two configurations": (
        ("apply", ["x"], {"config": mutator.parse({"key": "id"}), "header": True}),
        "config is a Config already, and header is given",
    ),
    "scratch": (("apply", ["x"], {"scratch": 7}), "scratch is 7, an int, but should be the path"),
    "a version": (("scan", [], {"version": "1"}), "mutator.Table: version is '1', a str, but should be the number"),
    "a time": (("scan", [], {"as_of": 7}), "as_of is 7, an int, but should be a datetime, or text in ISO 8601"),
    "columns": (("scan", ["id"], {}), r"Table.scan\(\): columns is 'id', a str, but should be a list of names"),
    "a number among columns": (
        ("scan", [["id", 7]], {}),
        r"Table.scan\(\): columns\[1\] is 7, an int, but should be the",
    ),
    "one condition": (
        ("scan", [], {"where": ("id", "=", 1)}),
        r"where\[0\] is 'id', a str, but should be a \(column, op",
    ),
    "a mapping": (
        ("scan", [], {"where": {"id": 1}}),
        "where is a dict, but should be text such as 'price > 5', or a list",
    ),
    "a number as filter": (("scan", [], {"where": 5}), "where is 5, an int, but should be text"),
    "a short condition": (("scan", [], {"where": [("id",)]}), r"where\[0\] is a tuple, but should be a \(column, op"),
    "a column by number": (("scan", [], {"where": [(1, "=", 1)]}), r"where\[0\] is a tuple, but should be a \(column"),
    "changes": (("changes", ["1"], {}), r"Table.changes\(\): from_version is '1', a str, but should be the number"),
    "no changes": (("changes", [None], {}), "from_version is None, but should be the number"),
    "the end of changes": (("changes", [0, "1"], {}), "to_version is '1', a str, but should be the number"),
    "net": (("changes", [0], {"net": 1}), "net is 1, an int, but should be True or False"),
    "a directory": (("export", [7], {}), r"Table.export\(\): directory is 7, an int, but should be the path"),
    "another name": (
        ("clean", [], {"keep_version": 1}),
        r"Table.clean\(\): has no argument keep_version; did you mean",
    ),
    "no name": (
        ("clean", [], {"zzz": 1}),
        r"Table.clean\(\): has no argument zzz; its arguments are keep_versions, older_than",
    ),
    "a name of a read": (
        ("scan", [], {"columm": ["id"]}),
        r"Table.scan\(\): has no argument columm; did you mean colum",
    ),
    "no arguments": (("log", [], {"zzz": 1}), r"Table.log\(\): has no argument zzz \(docs"),
    "repair": (("verify", [], {"repair": "all"}), "repair is 'all', a str, but should be True or False"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_call_is_explained(case: str, table: mutator.Table) -> None:
    (name, positional, arguments), message = WRONG[case]
    with pytest.raises(mutator.ConfigError, match=f"(?s){message}"):
        getattr(table, name)(*positional, **arguments)


WRONG_NEW = {
    "a path": ((7, {}), {}, "path is 7, an int, but should be the path of a new directory"),
    "settings": (("t", "id"), {}, "settings is 'id', a str, but should be a mapping"),
    "a dataset": (
        ("t", {"key": "id"}),
        {"dataset": pa.table(FEED)},
        r"dataset is an Arrow table, but should be .*apply\(\)",
    ),
    "buckets": (("t", {"key": "id"}), {"buckets": 0}, "buckets is 0, an int, but should be a number from 1"),
    "a keyword": (("t",), {"keys": "id"}, r"Table.create\(\): has no argument keys; did you mean key\?"),
    "a value": (("t",), {"key": True}, "key is True, a bool, but should be the name of a field"),
    "no key": (("t",), {"order_by": "at"}, r"Table.create\(\): key is None, but should be the field or fields"),
    "a dataset that does not exist": (("t",), {"dataset": "no"}, "/no: there is no such directory; check the path"),
    "a limit": (
        ("t", {"key": "id"}),
        {"max_delete_fraction": "x"},
        r"Table.create\(\): .*\n  max_delete_fraction: 'x'",
    ),
    "a format": (("t", {"key": "id"}), {"output_format": "csv"}, 'output_format="csv": the files of a table are Parq'),
}


def test_a_table_is_no_input_of_a_merge(table: mutator.Table) -> None:
    feed = pa.table(FEED)
    for master, own in ((table, feed), (feed, table)):
        with pytest.raises(mutator.ConfigError, match=r"is a mutator.Table: table.scan\(\) gives its rows"):
            mutator.merge(master=master, feed=own, key="id", order_by="changed")  # type: ignore[arg-type]
    table.apply(feed)
    report = mutator.merge(master=table.scan(), feed=feed, key="id", order_by="changed")
    assert report.result.to_arrow().sort_by("id")["id"].to_pylist() == FEED["id"]


def test_a_table_begins_with_the_result_of_a_merge(tmp_path: Path) -> None:
    feed = pa.table(FEED)
    report = mutator.merge(master=feed.slice(0, 0), feed=feed, key="id", order_by="changed")
    begun = mutator.Table.create(tmp_path / "begun", dataset=report.result)
    del report
    assert len(begun.scan().to_pylist()) == 3
    assert not begun.verify().problems


@pytest.mark.parametrize("case", WRONG_NEW)
def test_a_wrong_new_table_is_explained(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    positional, arguments, message = WRONG_NEW[case]
    with pytest.raises(mutator.ConfigError, match=f"(?s){message}"):
        mutator.Table.create(*positional, **arguments)
    with pytest.raises(mutator.ConfigError, match=r"mutator.Table\(\): path is 7, an int"):
        mutator.Table(7)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_spark_frame_is_a_feed(table: mutator.Table, sc: Any) -> None:
    from pyspark.sql import SparkSession

    frame = SparkSession(sc).createDataFrame(pd.DataFrame(FEED)).repartition(2)
    report = table.apply(frame, runner="spark")

    assert report.counts["feed inserted"] == 3
    assert report.feed == ("feed (Spark DataFrame)",)
    assert rows_of(table) == [(1, "Bonn", 10), (2, "Rome", 10), (3, "Oslo", 10)]


def test_tables_and_their_reports_are_printed_as_by_commands(
    table: mutator.Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table.apply(pa.table(FEED))

    assert repr(table) == str(table) == f"<mutator.Table {table.path}: version 1, 3 records>"
    for command, found in (("describe", table.describe()), ("verify", table.verify())):
        assert main(["table", command, table.path]) == 0
        assert capsys.readouterr().out == f"{found}\n"
    assert str(table.export(tmp_path / "out")).startswith(f"exported version 1 of {table.path} to {tmp_path / 'out'}")


def test_changes_are_returned_as_the_rows_of_a_scan(table: mutator.Table) -> None:
    table.apply(pa.table(FEED))

    changes = table.changes(0)
    assert type(changes) is type(table.scan())
    assert next(changes).schema == changes.schema
    assert table.changes(0).to_pandas()["city"].tolist() == table.changes(0).to_polars()["city"].to_list()
    assert pa.table(table.changes(0)).num_rows == len(table.changes(0).to_pylist()) == 3


@pytest.mark.parametrize("method", ["scan", "get", "records", "history", "export"])
def test_a_version_is_given_by_its_name(method: str) -> None:
    parameters = inspect.signature(getattr(mutator.Table, method)).parameters
    assert parameters["version"].kind is inspect.Parameter.KEYWORD_ONLY


def test_every_method_has_a_docstring() -> None:
    public = [value for name, value in vars(mutator.Table).items() if not name.startswith("_")]
    assert all(inspect.getdoc(value) for value in public)


def test_a_full_snapshot_needs_no_settings_of_deletes(tmp_path: Path) -> None:
    table = mutator.Table.create(tmp_path / "t", key="id", order_by="at", op="op", delete_codes=["D", "X"])
    table.apply(pa.table({"id": [1, 2, 3], "at": [1, 1, 1], "op": ["I", "I", "I"]}))
    report = table.apply(pa.table({"id": [1, 2], "at": [2, 1]}), sync_mode="full", max_absence_fraction=1)
    assert report.counts["master deleted by absence"] == 1
    table.apply(pa.table({"id": [2], "at": [3], "op": ["X"]}))
    assert table.scan().to_pylist() == [{"id": 1, "at": 2}]
    with pytest.raises(mutator.ConfigError, match='conflicts with sync_mode="full"'):
        table.apply(pa.table({"id": [1]}), sync_mode="full", op="op")
