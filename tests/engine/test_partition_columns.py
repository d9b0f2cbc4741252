"""Fields of partitions in the paths of files alone (partition.columns=path): reading, writing and other programs."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import mutator
from mutator.cli import main
from mutator.dataset.directory import read_manifest
from mutator.storage import storage_for
from tests.support import local_engine
from tests.support.columns_data import file_of, read_whole

FORMATS = ("parquet", "orc", "avro")
FIRST, LAST = datetime.date(1, 1, 1), datetime.date(9999, 12, 31)
TEXTS = ["a/b", "=x", "100%", " blank ", "ä€", "q\"'\\", "007", "x:y*?#[]{}^\x7f\n", "x" * 200, None]
VALUES: dict[str, Any] = {
    "text": pa.array(TEXTS),
    "number": pa.array([1, -5, 0, None, 1 << 40] * 2),
    "day": pa.array([FIRST, LAST, None, datetime.date(2026, 1, 31), datetime.date(1969, 12, 31)] * 2),
    "local": pa.array([1, None, -1, 10**15, 1_500_000] * 2, pa.timestamp("us")),
    "utc": pa.array([1, None, -1, 10**15, 1_500_000] * 2, pa.timestamp("us", "UTC")),
    "amount": pa.array([Decimal("1.50"), Decimal("-0.01"), Decimal("100.00"), None, Decimal("0.00")] * 2),
    "flag": pa.array([True, False, None, True, True] * 2),
    "bytes": pa.array([b"\xff\x00", b"ok", None, b"a=b", b"/"] * 2, pa.binary()),
}
DAYS = [datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)]
ROWS = pa.table({"id": pa.array(range(10)), **VALUES, "at": pa.array([1] * 10)})
KEY = {"id.field.ordinals": "id", "temporal.ordering.field.ordinal": "at", "op.code.field.ordinal": "op"}
KEY |= {"max.delete.fraction": "1", "num.reducer": "2"}


def put(path: Path, file_format: str, table: Any) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / f"rows.{file_format}").write_bytes(file_of(file_format, table))
    return path


def fed(path: Path, file_format: str, table: Any, ops: list[str], at: int = 2) -> Path:
    table = table.set_column(table.schema.get_field_index("at"), "at", pa.array([at] * len(table), pa.int64()))
    return put(path, file_format, table.append_column("op", pa.array(ops, pa.string())))


def run(master: Path, feed: Path, output: Path, **more: str) -> Any:
    named = {name.replace("_", "."): value for name, value in more.items()}
    return local_engine.mutate(KEY | named, master=str(master), feed=[str(feed)], output=str(output))


def rows_of(path: Path) -> Any:
    return mutator.Dataset(path).to_arrow().sort_by("id")


def fields_of(path: Path) -> set[tuple[str, ...]]:
    """Return the fields of the data files."""
    found = (one for one in path.glob("**/part-*") if "_mutator" not in one.parts)
    return {tuple(read_whole(one.suffix[1:], one.read_bytes())[0].batch.schema.names) for one in found}


def assert_intact(*paths: Path) -> None:
    for path in paths:
        assert main(["verify", str(path)]) == 0, path


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("scope", ["table", "partition"])
@pytest.mark.parametrize("file_format", FORMATS)
def test_path_and_file_give_equal_rows_with_all_types_and_odd_values(tmp_path, file_format, scope):
    put(tmp_path / "master", file_format, ROWS)
    none = fed(tmp_path / "none", file_format, ROWS.slice(0, 0), [])
    feed = fed(tmp_path / "feed", file_format, ROWS, list("UUUDDDUUUU"))
    moved = fed(tmp_path / "moved", file_format, ROWS.slice(2, 2), ["U", "U"], at=3)
    found = {}
    for columns in ("path", "file"):
        first, second, third = (tmp_path / columns / name for name in ("first", "second", "third"))
        run(
            tmp_path / "master",
            none,
            first,
            partitioned_by=",".join(VALUES),
            key_scope=scope,
            partition_columns=columns,
        )
        reports = [run(first, feed, second, changes="true"), run(second, moved, third)]
        assert_intact(first, second, third)
        assert fields_of(third) == {("id", "at") if columns == "path" else tuple(ROWS.schema.names)}
        changed = mutator.Dataset(second).changes().sort_by([("id", "ascending"), ("_change_type", "ascending")])
        counts = [{name: n for name, n in one.counts.items() if n} for one in reports]
        found[columns] = [rows_of(first), rows_of(third), changed.drop_columns(["_commit_timestamp"]), counts]

    assert found["path"] == found["file"]
    stored = found["path"][0]
    assert all(stored.column(name).to_pylist() == ROWS.column(name).to_pylist() for name in ROWS.schema.names)
    assert sorted(found["path"][1].column("id").to_pylist()) == [0, 1, 2, 3, 6, 7, 8, 9]


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_value_that_a_path_cannot_tell_from_null_is_a_reject(tmp_path, file_format):
    rows = pa.table({"id": [1, 2, 3], "shop": ["", "__HIVE_DEFAULT_PARTITION__", None], "at": [1, 1, 1]})
    put(tmp_path / "master", file_format, rows.slice(2))
    feed = fed(tmp_path / "feed", file_format, rows, ["U", "U", "U"])
    more = {"reject_policy": "quarantine", "reject_limit": "9", "max_reject_fraction": "1"}
    report = run(tmp_path / "master", feed, tmp_path / "path", partitioned_by="shop", **more)
    assert report.counts["feed rejected"] == 2
    rejected = next((tmp_path / "path" / "_mutator" / "rejected").iterdir()).read_text()
    assert "field shop (partition) is '', which the name of a directory cannot tell from NULL" in rejected
    assert rejected.count("set partition.columns=file") == 2

    run(tmp_path / "master", feed, tmp_path / "file", partitioned_by="shop", partition_columns="file")
    assert rows_of(tmp_path / "file").column("shop").to_pylist() == rows.column("shop").to_pylist()
    with pytest.raises(mutator.DataError, match=r"partition.columns=.?file"):
        run(tmp_path / "file", feed, tmp_path / "moved", partition_columns="path")
    # A delete finds its record by the ID, whatever its other fields are.
    gone = fed(tmp_path / "gone", file_format, rows.set_column(1, "shop", pa.array(["", "", ""])), ["D"] * 3, at=3)
    assert run(tmp_path / "path", gone, tmp_path / "empty").counts["feed deleted"] == 1


@pytest.mark.parametrize("file_format", FORMATS)
def test_the_other_setting_rewrites_all_partitions_and_keeps_their_state(tmp_path, file_format):
    put(tmp_path / "master", file_format, ROWS)
    feed = fed(tmp_path / "feed", file_format, ROWS.slice(0, 3), ["D", "U", "U"])
    few = fed(tmp_path / "few", file_format, ROWS.slice(0, 1), ["U"], at=1)  # older than the tombstone
    places = [tmp_path / name for name in ("path", "file", "kept", "again")]
    run(tmp_path / "master", feed, places[0], partitioned_by="number,flag")
    report = run(places[0], few, places[1], partition_columns="file")
    assert report.counts["feed late"] == 1
    run(places[1], feed, places[2])
    run(places[2], few, places[3], partition_columns="path")

    whole = tuple(ROWS.schema.names)
    own = tuple(name for name in whole if name not in ("number", "flag"))
    assert [fields_of(place) for place in places] == [{own}, {whole}, {whole}, {own}]
    assert all(rows_of(place) == rows_of(places[0]) for place in places)
    tombstones = [len(list((place / "_mutator" / "tombstones").glob("**/*.tombstones"))) for place in places]
    assert tombstones == [1, 1, 1, 1]
    assert_intact(*places)


@pytest.mark.parametrize("columns", ["path", "file"])
def test_only_fields_in_files_can_move(tmp_path, columns):
    rows = ROWS.select(["id", "flag", "number", "at"])
    put(tmp_path / "master", "parquet", rows)
    fed(tmp_path / "feed", "parquet", rows.slice(0, 1).select(["id", "number", "at", "flag"]), ["U"])
    fed(tmp_path / "other", "parquet", rows.slice(0, 1).select(["number", "id", "flag", "at"]), ["U"])
    none = fed(tmp_path / "none", "parquet", rows.slice(0, 0), [])
    run(tmp_path / "master", none, tmp_path / "one", partitioned_by="flag", partition_columns=columns)
    warnings = run(tmp_path / "one", tmp_path / "feed", tmp_path / "two").warnings
    assert [one for one in warnings if "by position" in one] == list(warnings)
    assert len(warnings) == (columns == "file")
    (warning,) = run(tmp_path / "one", tmp_path / "other", tmp_path / "three").warnings
    assert ("(number, id, at)" in warning) == (columns == "path")


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("columns", ["path", "file"])
@pytest.mark.parametrize("file_format", FORMATS)
def test_the_form_outlives_a_run_that_writes_csv(tmp_path, file_format, columns):
    rows = ROWS.select(["id", "flag", "at"])
    put(tmp_path / "master", file_format, rows)
    feeds = [fed(tmp_path / f"feed{at}", file_format, rows.slice(at - 2, 1), ["U"], at=at) for at in (2, 3, 4)]
    run(tmp_path / "master", feeds[0], tmp_path / "one", partitioned_by="flag", partition_columns=columns)
    run(tmp_path / "one", feeds[1], tmp_path / "two", output_format="csv")
    other = "file" if columns == "path" else "path"
    for place, one, more in (("kept", columns, {}), ("moved", other, {"partition_columns": other})):
        run(tmp_path / "two", feeds[2], tmp_path / place, output_format=file_format, **more)
        run(tmp_path / place, feeds[1], tmp_path / f"{place}2")
        for path in (place, f"{place}2"):
            typed = [file for file in (tmp_path / path).glob("flag=*/part-*") if file.suffix == f".{file_format}"]
            names = {tuple(read_whole(file_format, file.read_bytes())[0].batch.schema.names) for file in typed}
            assert names == {("id", "at") if one == "path" else ("id", "flag", "at")}
            assert len(rows_of(tmp_path / path)) == len(ROWS)


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("scope", ["table", "partition"])
@pytest.mark.parametrize("file_format", FORMATS)
def test_a_diff_sees_that_equal_files_are_in_other_partitions(tmp_path, file_format, scope):
    rows = pa.table({"id": [1, 2, 3], "shop": ["a", "b", "c"], "at": [1, 1, 1]})
    moved = rows.set_column(1, "shop", pa.array(["b", "a", "c"]))
    none = fed(tmp_path / "none", file_format, rows.slice(0, 0), [])
    found = {}
    for columns in ("path", "file"):
        old, new = (tmp_path / columns / name for name in ("old", "new"))
        for place, table in ((old, rows), (new, moved)):
            put(tmp_path / columns / f"of_{place.name}", file_format, table)
            more = {"partitioned_by": "shop", "key_scope": scope, "partition_columns": columns}
            run(tmp_path / columns / f"of_{place.name}", none, place, **more)
        one = mutator.diff(str(old), str(new))
        assert one.skipped == (file_format != "avro")  # whose files of equal rows differ
        found[columns] = {name: count for name, count in one.counts.items() if count}
    assert found["path"] == found["file"]
    assert found["path"] == ({"changed": 2, "moved": 2} if scope == "table" else {"added": 2, "removed": 2})


@pytest.mark.parametrize("columns", ["path", "file"])
@pytest.mark.parametrize("file_format", FORMATS)
def test_a_diff_sees_another_type_of_a_field_in_the_path(tmp_path, file_format, columns):
    rows = pa.table({"id": [1], "day": ["2026-01-01"], "at": [1]})
    for name, day in (("text", rows.column("day")), ("days", pa.array(DAYS[:1]))):
        own = rows.set_column(1, "day", day)
        put(tmp_path / f"of_{name}", file_format, own)
        none = fed(tmp_path / f"none_{name}", file_format, own.slice(0, 0), [])
        more = {"partitioned_by": "day", "partition_columns": columns}
        run(tmp_path / f"of_{name}", none, tmp_path / name, **more)
    with pytest.raises(mutator.DataError, match="field day is"):
        mutator.diff(str(tmp_path / "text"), str(tmp_path / "days"))


def test_a_derived_or_renamed_partition_field_stays_in_the_files(tmp_path):
    put(tmp_path / "master", "parquet", ROWS)
    feed = fed(tmp_path / "feed", "parquet", ROWS.slice(0, 1), ["U"])
    run(tmp_path / "master", feed, tmp_path / "out", partitioned_by="flag,n=number,bucket(id,2)")
    assert fields_of(tmp_path / "out") == {tuple(name for name in ROWS.schema.names if name != "flag")}


def test_fields_stay_in_the_files_where_all_are_partition_fields(tmp_path):
    rows = ROWS.select(["id", "flag", "at"])
    put(tmp_path / "master", "parquet", rows)
    feed = fed(tmp_path / "feed", "parquet", rows.slice(0, 2), ["D", "U"])
    partitioned = {"partitioned_by": ",".join(rows.schema.names)}
    with pytest.raises(mutator.ConfigError, match="would leave no field in the files"):
        run(tmp_path / "master", feed, tmp_path / "none", partition_columns="path", **partitioned)
    run(tmp_path / "master", feed, tmp_path / "one", **partitioned)
    run(tmp_path / "one", feed, tmp_path / "two")
    assert fields_of(tmp_path / "two") == {tuple(rows.schema.names)}
    assert rows_of(tmp_path / "two").column("id").to_pylist() == list(range(1, 10))
    table = mutator.Table.create(tmp_path / "table", dataset=tmp_path / "two", key="id", order_by="at", op="op")
    table.export(tmp_path / "export")
    assert rows_of(tmp_path / "export") == rows_of(tmp_path / "two")


@pytest.mark.parametrize("columns", ["path", "file"])
def test_tables_keep_the_fields_and_exports_follow_the_setting(tmp_path, capsys, columns):
    put(tmp_path / "master", "parquet", ROWS)
    feed = fed(tmp_path / "feed", "parquet", ROWS.slice(0, 3), ["D", "U", "U"])
    run(tmp_path / "master", feed, tmp_path / "out", partitioned_by="text,amount", partition_columns=columns)
    table = mutator.Table.create(tmp_path / "table", dataset=tmp_path / "out", key="id", order_by="at", op="op")
    assert table.scan().to_arrow().sort_by("id") == rows_of(tmp_path / "out")
    table.apply(ROWS.slice(0, 1).set_column(9, "at", pa.array([9])).append_column("op", pa.array(["U"])))
    table.export(tmp_path / "export")
    assert fields_of(tmp_path / "export") == {tuple(n for n in ROWS.schema.names if n not in ("text", "amount"))}
    assert rows_of(tmp_path / "export") == table.scan().to_arrow().sort_by("id")
    assert_intact(tmp_path / "export")
    odd = ROWS.slice(0, 1).set_column(9, "at", pa.array([10])).set_column(1, "text", pa.array([""]))
    table.apply(odd.append_column("op", pa.array(["U"])))
    with pytest.raises(mutator.DataError, match='set partition_columns="file"'):
        table.export(tmp_path / "export")
    words = ["table", "export", str(tmp_path / "table"), str(tmp_path / "export")]
    assert main(words) == 3
    assert "set --partition-columns=file" in capsys.readouterr().err
    with pytest.raises(mutator.ConfigError, match="partition_columns"):
        table.export(tmp_path / "export", partition_columns="files")
    assert main([*words, "--partition-columns", "file"]) == 0
    for _ in range(2):  # the second one keeps the form
        assert fields_of(tmp_path / "export") == {tuple(ROWS.schema.names)}
        assert rows_of(tmp_path / "export") == table.scan().to_arrow().sort_by("id")
        table.apply(odd.set_column(9, "at", pa.array([11])).append_column("op", pa.array(["D"])))
        table.export(tmp_path / "export")


def test_a_run_for_each_partition_needs_the_fields_in_the_files(tmp_path, capsys):
    rows = ROWS.select(["id", "flag", "at"])
    put(tmp_path / "master", "parquet", rows)
    feed = fed(tmp_path / "feed", "parquet", rows.slice(0, 2), ["U", "D"])
    run(tmp_path / "master", feed, tmp_path / "path", partitioned_by="flag")
    run(tmp_path / "path", feed, tmp_path / "file", partition_columns="file")
    options = ["--key", "id", "--order-by", "at", "--op", "op", "-D", "max.delete.fraction=1"]
    assert (
        main(
            [
                "partition",
                *options,
                "--feed",
                str(feed),
                "--partitioned-by",
                "flag",
                "--output",
                str(tmp_path / "split"),
            ]
        )
        == 0
    )
    of_path = ["--feed", str(tmp_path / "path"), "--partitioned-by", "at", "--output", str(tmp_path / "lost")]
    assert main(["partition", *options, *of_path]) == 2
    assert "path: its files have flag in the names of their directories alone" in capsys.readouterr().err
    both = [*options, "--feed", str(tmp_path / "split"), "--output", str(tmp_path / "out")]
    assert main(["partition-runs", *both, "--master", str(tmp_path / "path")]) == 2
    assert "write it with partition.columns=file first" in capsys.readouterr().err
    assert main(["partition-runs", *both, "--master", str(tmp_path / "file")]) == 0
    found = [rows_of(place) for place in sorted((tmp_path / "out").glob("flag=*"))]
    assert pa.concat_tables(found).sort_by("id") == rows_of(tmp_path / "file")


# -- masters and feeds that other programs wrote


def test_a_master_of_directories_is_read_as_hive_writes_it(tmp_path):
    rows = ROWS.select(["id", "text", "day", "at"])
    pq.write_to_dataset(rows, str(tmp_path / "hive"), partition_cols=["text", "day"])
    ops = rows.set_column(3, "at", pa.array([2] * 10)).append_column("op", pa.array(list("UUUDUUUUUU")))
    feed = put(tmp_path / "feed", "parquet", ops)
    run(tmp_path / "hive", feed, tmp_path / "out", partitioned_by="text,day")
    put(tmp_path / "plain", "parquet", rows)
    run(tmp_path / "plain", feed, tmp_path / "expected", partitioned_by="text,day")
    assert rows_of(tmp_path / "out") == rows_of(tmp_path / "expected")

    pq.write_to_dataset(ops.set_column(3, "at", pa.array([3] * 10)), str(tmp_path / "fed"), partition_cols=["text"])
    put(tmp_path / "fed_plain", "parquet", ops.set_column(3, "at", pa.array([3] * 10)))
    found = []
    for name, feed in (("out", "fed"), ("expected", "fed_plain")):
        run(tmp_path / name, tmp_path / feed, tmp_path / f"{name}_next")
        found.append(rows_of(tmp_path / f"{name}_next"))
    assert found[0] == found[1]


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize(
    ("name", "directories"),
    [
        ("local", ["2026-01-01 00%3A00%3A00", "2026-01-01 10%3A00%3A00.5"]),
        ("amount", ["1.5", "002.50"]),
        ("flag", ["true", "False"]),
        ("number", ["007", "-8"]),
    ],
)
def test_values_in_the_directories_of_a_first_master_may_be_written_otherwise(tmp_path, file_format, name, directories):
    rows = pa.table({"id": [0, 1], "shop": [1, 1], "at": [1, 1]})
    for number, one in enumerate(directories):
        put(tmp_path / "master" / f"{name}={one}" / "shop=1", file_format, rows.slice(number, 1))
    feed_rows = rows.slice(0, 1).append_column(name, pa.nulls(1, VALUES[name].type))
    feed = fed(tmp_path / "feed", file_format, feed_rows, ["U"], at=0)
    run(tmp_path / "master", feed, tmp_path / "out", partitioned_by=f"{name},shop")
    found = rows_of(tmp_path / "out")
    expected = {
        "local": [1_767_225_600_000_000, 1_767_261_600_500_000],
        "amount": [Decimal("1.50"), Decimal("2.50")],
        "flag": [True, False],
        "number": [7, -8],
    }
    assert found.column(name).to_pylist() == pa.array(expected[name], VALUES[name].type).to_pylist()
    put(tmp_path / "master" / f"{name}={directories[0]}" / "shop=2", file_format, rows.slice(0, 1))
    with pytest.raises(mutator.ConfigError, match="it has a row of shop=1"):  # the field is in the file
        run(tmp_path / "master", feed, tmp_path / "other", partitioned_by=f"{name},shop")


def days_of(path: Path, file_format: str) -> Path:
    """Write records 0 and 1 as Hive does, partitioned by days."""
    for number in (0, 1):
        rows = pa.table({"id": [number], "at": [1]})
        put(path / "master" / f"day=2026-01-0{number + 1}", file_format, rows)
    return path / "master"


def schema_of_days(path: Path) -> str:
    fields = [{"name": name, "type": "long"} for name in ("id", "at")]
    day = {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None}
    (path / "days.avsc").write_text(json.dumps({"type": "record", "name": "r", "fields": [*fields, day]}))
    return str(path / "days.avsc")


@pytest.mark.parametrize("file_format", FORMATS)
def test_the_wanted_schema_has_the_types_of_fields_in_paths(tmp_path, file_format):
    (tmp_path / "feed.csv").write_text("id,at,op,day\n0,2,U,2026-01-01\n")
    more = {"partitioned_by": "day", "output_format": file_format}
    master = days_of(tmp_path, file_format)
    run(master, tmp_path / "feed.csv", tmp_path / "out", output_schema=schema_of_days(tmp_path), **more)
    assert rows_of(tmp_path / "out").column("day").to_pylist() == DAYS


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_value_in_a_path_that_does_not_fit_the_feed_is_named(tmp_path, file_format):
    feed = fed(tmp_path / "feed", file_format, pa.table({"id": [0], "day": [7], "at": [1]}), ["U"])
    with pytest.raises(mutator.DataError) as caught:
        run(days_of(tmp_path, file_format), feed, tmp_path / "out", partitioned_by="day")
    what = f"day=2026-01-01/rows.{file_format}: its directory has the value '2026-01-01' of field day, which is not of "
    assert what + "type int64; correct the type in the feed, or set output.schema" in str(caught.value)


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("day", [None, pa.nulls(1)])
def test_deletes_without_the_partition_do_not_decide_its_type(tmp_path, file_format, day):
    if day is not None and file_format == "orc":
        pytest.skip("ORC has no type without values")
    master, rows = days_of(tmp_path, file_format), pa.table({"id": [0], "at": [1]})
    gone = fed(tmp_path / "gone", file_format, rows if day is None else rows.append_column("day", day), ["D"])
    report = run(master, gone, tmp_path / "none", partitioned_by="day")
    assert "types by the names of directories: day date32[day]; output.schema sets others" in report.notes
    run(master, gone, tmp_path / "one", partitioned_by="day", output_schema=schema_of_days(tmp_path))
    one = rows.set_column(0, "id", pa.array([1])).append_column("day", pa.array(DAYS[1:]))
    for name in ("a", "z"):  # older and newer than the other file
        (fed(tmp_path / "fed", file_format, one, ["U"]) / f"rows.{file_format}").rename(gone / f"{name}.{file_format}")
        run(master, gone, tmp_path / name, partitioned_by="day")
        (gone / f"{name}.{file_format}").unlink()
    run(tmp_path / "z", gone, tmp_path / "again")
    for name in ("none", "one", "a", "z", "again"):
        assert rows_of(tmp_path / name).column("day").to_pylist() == DAYS[1:]


@pytest.mark.parametrize("file_format", FORMATS)
def test_another_type_of_a_partition_field_names_the_feed_file(tmp_path, file_format):
    rows = pa.table({"id": [0], "day": DAYS[:1], "at": [1]})
    put(tmp_path / "master", file_format, rows)
    feed = fed(tmp_path / "feed", file_format, rows, ["U"])
    run(tmp_path / "master", feed, tmp_path / "one", partitioned_by="day")
    times = rows.set_column(1, "day", pa.array([datetime.datetime(2026, 1, 1, 5)], pa.timestamp("us")))  # noqa: DTZ001
    with pytest.raises(mutator.DataError) as caught:
        run(tmp_path / "one", fed(tmp_path / "times", file_format, times, ["U"], at=3), tmp_path / "two")
    assert f"times/rows.{file_format} and date32[day] in " in str(caught.value)
    assert "the type of a partition field stays" in str(caught.value)
    assert "adopt" not in str(caught.value)


@pytest.mark.parametrize("file_format", FORMATS)
def test_an_adopted_master_is_partitioned_anew(tmp_path, file_format):
    put(tmp_path / "master", file_format, ROWS)
    feed = fed(tmp_path / "feed", file_format, ROWS.slice(0, 1), ["U"])
    run(tmp_path / "master", feed, tmp_path / "one", partitioned_by="day,amount")
    run(tmp_path / "one", feed, tmp_path / "two", partitioned_by="amount,number", master_adopt="true")
    own = tuple(name for name in ROWS.schema.names if name not in ("amount", "number"))
    assert fields_of(tmp_path / "two") == {own}
    assert rows_of(tmp_path / "two").select(ROWS.schema.names) == rows_of(tmp_path / "one")


@pytest.mark.parametrize("name", ["text", "day", "number", "amount", "flag"])
def test_other_programs_read_a_partitioned_master_as_it_is(tmp_path, name):
    """Values are equal after a cast to the type in the manifest. pandas cannot read NULL without its type."""
    rows = ROWS.select(["id", name, "at"]).filter(ROWS.column(name).is_valid())
    put(tmp_path / "master", "parquet", rows)
    place, files = str(tmp_path / "out"), str(tmp_path / "out" / "**" / "*.parquet")
    none = fed(tmp_path / "none", "parquet", rows.slice(0, 0), [])
    run(tmp_path / "master", none, tmp_path / "out", partitioned_by=name)
    known = read_manifest(storage_for(place), place)
    assert known is not None
    assert known.spec["in path"] == [name]
    data_type = rows_of(tmp_path / "out").schema.field(name).type
    sql = f"SELECT id, {name} FROM read_parquet('{files}', hive_partitioning=true)"
    found = {
        "pandas": pa.Table.from_pandas(pandas.read_parquet(place).astype({name: str}), preserve_index=False),
        "pyarrow": pyarrow.dataset.dataset(place, format="parquet", partitioning="hive").to_table(),
        "polars": polars.read_parquet(files, hive_partitioning=True).to_arrow(),
        "duckdb": duckdb.sql(sql).to_arrow_table(),
    }
    for program, table in found.items():
        values = table.sort_by("id").column(name)
        if values.type != data_type:
            values = values.cast(pa.string()).cast(data_type)
        assert values.to_pylist() == rows.column(name).to_pylist(), program
