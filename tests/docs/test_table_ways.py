"""The page on ways into a table and out of it: each line runs, and has the effect or the rows that it promises."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest
from pyspark.sql import SparkSession

import mutator
from mutator import cli
from tests.support.no_limits import NO_LIMITS
from tests.support.spark_versions import NEEDS_SOURCES

PAGE = (Path(__file__).parents[2] / "docs" / "table_ways.md").read_text()
SCHEMA = "id long, city string, changed long, op string"
FIRST = [(1, "Bonn", 10, "I"), (2, "Rome", 10, "I"), (3, "Oslo", 10, "I")]


def lines_of(section: str) -> dict[str, str]:
    """Return the line of each way of a section."""
    text = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    found = re.findall(r"^\| ([^|]+) \| `([^`]+)` \|$", text, re.MULTILINE)
    ways: dict[str, str] = {}
    for way, line in found:
        ways[way if way not in ways else f"{way} as {len(ways)}"] = line
    return ways


def rows(number: int) -> pa.Table:
    """Return a feed that changes a city, and adds a row."""
    names = ("id", "city", "changed", "op")
    values = ((2, f"city {number}", 10 + number, "U"), (100 + number, "new", 1, "I"))
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in values])


@pytest.fixture
def spark(sc: Any) -> SparkSession:
    session = SparkSession(sc)
    session.catalog.dropTempView("customers")
    return session


@pytest.fixture
def here(tmp_path: Path) -> Path:
    types = {"id": "long", "city": "string", "changed": "long"}
    fields = [{"name": name, "type": ["null", kind]} for name, kind in types.items()]
    schema = json.dumps({"type": "record", "name": "customer", "fields": fields})
    settings = {"key": "id", "order_by": "changed", "op": "op", "header": "true", "output.schema": schema}
    table = mutator.Table.create(tmp_path / "customers", {**settings, **NO_LIMITS}, buckets=2)
    table.apply(pa.Table.from_pylist([dict(zip(("id", "city", "changed", "op"), row, strict=True)) for row in FIRST]))
    return tmp_path


def feeds(spark: SparkSession, here: Path, line: str, number: int) -> dict[str, Any]:
    """Return the rows of a feed in each form by its name in the line; write the files that the line names."""
    feed = rows(number)
    frame = spark.createDataFrame([tuple(row.values()) for row in feed.to_pylist()], SCHEMA).repartition(2)
    for day in re.findall(r"/lake/(day\d)", line):
        (here / day).mkdir()
        pyarrow.csv.write_csv(feed, here / day / "feed.csv")
    return {"arrow": feed, "polars": pl.from_arrow(feed), "feed": feed.to_pandas(), "frame": frame}


def runner(here: Path, names: dict[str, Any]) -> Callable[[str], Any]:
    def run(line: str) -> Any:
        line = line.replace("/lake/", f"{here}/")
        if line.startswith("mutator "):
            assert cli.main(line.split()[1:]) == 0
            return None
        return eval(line, names)

    return run


@pytest.mark.thorough(keep=0)
@NEEDS_SOURCES
def test_each_way_in_is_one_version(spark: SparkSession, here: Path) -> None:
    mutator.register(spark)
    table = mutator.Table(here / "customers")
    lines = lines_of("Ways in")
    assert len(lines) == 11
    for number, (way, line) in enumerate(lines.items(), 1):
        names = {"table": table, **feeds(spark, here, line, number)}
        if "stream." in line:
            (here / "new").mkdir()
            names["frame"].write.mode("append").parquet(str(here / "new"))
            names["stream"] = spark.readStream.schema(SCHEMA).parquet(str(here / "new"))
        run = runner(here, names)

        for _ in range(2 if "once" in way or "stream" in way else 1):  # once, also if the line is run again
            made = run(line)
            if "stream" in way:
                made.processAllAvailable()
                made.stop()
            assert table.refresh().version == 1 + number, way

        assert table.get(2)["city"] == f"city {number}", way
        assert table.get(100 + number)["city"] == "new", way


@pytest.mark.thorough(keep=0)
@NEEDS_SOURCES
def test_each_overwrite_leaves_its_rows(spark: SparkSession, here: Path) -> None:
    mutator.register(spark)
    table = mutator.Table(here / "customers")
    lines = lines_of("Overwrites")
    assert len(lines) == 9
    for number, (way, line) in enumerate(lines.items(), 1):
        names = {"table": table, **feeds(spark, here, line, number)}
        runner(here, names)(line)
        kind = [one.kind for one in table.refresh().log()][-1]
        assert kind == ("insert_overwrite_table" if "everything" in way else "insert_overwrite"), way
        assert sorted(row["id"] for row in table.scan().to_pylist()) == [2, 100 + number], way


@pytest.mark.thorough(keep=0)
@NEEDS_SOURCES
def test_each_way_out_has_the_rows(spark: SparkSession, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mutator.register(spark)
    table = mutator.Table(here / "customers")
    table.apply(rows(1))
    lines = lines_of("Ways out")
    run = runner(here, {"table": table, "spark": spark})
    expected = sorted([(1, "Bonn", 10), (2, "city 1", 11), (3, "Oslo", 10), (101, "new", 1)])
    changes = [("insert", 101), ("update_postimage", 2), ("update_preimage", 2)]

    def of_frame(frame: Any) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, frame.collect()))

    def of_batches(batches: Any) -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in pa.Table.from_batches(batches).to_pylist())

    def kinds(frame: Any) -> list[tuple[Any, ...]]:
        return sorted((row["_change_type"], row["id"]) for row in frame if row["_commit_version"] == 2)

    run(lines.pop("scan"))
    printed = capsys.readouterr().out.splitlines()
    assert (printed[0], sorted(printed[1:])) == ("id,city,changed", sorted(",".join(map(str, row)) for row in expected))
    assert of_batches(run(lines.pop("scan, in Python"))) == expected
    assert tuple(run(lines.pop("a record")).values()) == (2, "city 1", 11)
    run(lines.pop("a dataset"))
    assert of_batches(mutator.Dataset(here / "now").to_arrow().to_batches()) == expected
    assert of_frame(run(lines.pop("a Spark DataFrame"))) == expected
    assert of_frame(run(lines.pop("a Spark DataFrame, by `format`"))) == expected
    run(lines.pop("a view in SQL"))
    assert of_frame(spark.sql("SELECT * FROM customers WHERE id > 1")) == expected[1:]
    assert of_batches(run(lines.pop("an RDD of Arrow batches")).collect()) == expected
    assert kinds(run(lines.pop("changes")).to_pylist()) == changes
    assert kinds(run(lines.pop("changes as a Spark DataFrame")).collect()) == changes
    stream = run(lines.pop("changes as a Spark stream")).writeStream.format("parquet").option("path", str(here / "out"))
    query = stream.option("checkpointLocation", str(here / "state")).trigger(availableNow=True).start()
    query.awaitTermination()
    assert kinds(spark.read.parquet(str(here / "out")).collect()) == changes
    assert not lines


@pytest.mark.thorough(keep=0)
def test_spark_prunes_columns_and_pushes_filters_into_a_data_frame(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mutator.table.apply._INLINE_FEED", 0)
    monkeypatch.setattr("mutator.table.apply.INLINE", 0)
    table = mutator.Table.create(tmp_path / "t", {"key": "id", "order_by": "changed", "op": "op", **NO_LIMITS})
    for number in range(1, 4):
        table.apply(rows(number))
    plan = table.dataframe(spark).where("changed > 11").select("id")._jdf.queryExecution().executedPlan().toString()
    scans = [line for line in plan.splitlines() if "FileScan parquet" in line]
    assert scans
    for scan in scans:
        assert re.search(r"PushedFilters: \[.*GreaterThan\(changed,11\)", scan), scan
        assert "city" not in scan.split("ReadSchema: ")[1]
