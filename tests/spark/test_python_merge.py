"""``mutator.merge`` with Spark: DataFrames as inputs and results, sessions of the user, and a notebook's process."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import mutator
from tests.support.cluster import ROOT
from tests.support.notebook import printed_by

BASE = {"key": "id", "order_by": "ts", "max_delete_fraction": 1}
ROW = "struct<x:int,y:array<string>>"
SCHEMA = f"id long, name string, ts timestamp, local timestamp_ntz, price decimal(9,2), day date, more {ROW}"
NOON = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)


def row(number, name, hour=0):
    return (
        number,
        name,
        NOON + dt.timedelta(hours=hour),
        NOON.replace(tzinfo=None),
        Decimal("1.50"),
        NOON.date(),
        (1, ["a"]),
    )


@pytest.fixture(scope="module")
def spark(sc):
    return SparkSession(sc)


def frame(spark, rows, partitions=2):
    return spark.createDataFrame(rows, SCHEMA).repartition(partitions)


def rows(report):
    return sorted(report.result.to_arrow().to_pylist(), key=lambda one: one["id"])


def test_spark_dataframes_are_merged_and_come_back(spark):
    master = frame(spark, [row(1, "a"), row(2, "b")])
    feed = frame(spark, [row(2, "B", 1), row(3, None)], 3)

    report = mutator.merge(master=master, feed=feed, **BASE)

    assert report.runner.startswith("spark: a Spark session is running")
    assert report.feed == ("feed (Spark DataFrame)",)
    assert [(one["id"], one["name"]) for one in rows(report)] == [(1, "a"), (2, "B"), (3, None)]
    assert report.result.schema.field("ts").type == pa.timestamp("us", "UTC")
    assert report.result.schema.field("local").type == pa.timestamp("us")
    back = report.result.to_spark(spark)
    assert back.schema.simpleString() == master.schema.simpleString()
    assert sorted(back.collect()) == sorted(
        frame(spark, [row(1, "a"), row(2, "B", 1), row(3, None)]).collect(), key=str
    )


@pytest.mark.rest
def test_the_partitions_of_a_dataframe_decide_nothing(spark):
    tied = [row(9, name) for name in "xyzuvw"]
    merged = []
    for order, partitions in ((tied, 1), (tied[::-1], 3), (tied[3:] + tied[:3], 2)):
        report = mutator.merge(master=frame(spark, [row(1, "a")]), feed=frame(spark, order, partitions), **BASE)
        merged.append((rows(report), dict(report.counts)))

    assert merged[0] == merged[1] == merged[2]
    assert merged[0][0][-1]["name"] == "z"


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("as_context", [False, True])
def test_a_session_is_used_for_any_tables(spark, tmp_path, as_context):
    session = spark.sparkContext if as_context else spark
    master, feed = pa.table({"id": [1, 2], "ts": [1, 1]}), pd.DataFrame({"id": [2, 3], "ts": [2, 2]})

    report = mutator.merge(master=master, feed=[feed, master], output=tmp_path / "out", session=session, **BASE)

    assert report.runner == "spark: it was asked for"
    read = report.result.to_spark(spark)
    assert sorted(map(tuple, read.collect())) == [(1, 1), (2, 2), (3, 2)]
    assert read.inputFiles()  # Spark reads the files itself
    assert mutator.merge(master=master, feed=feed, runner="local", **BASE).runner.startswith("local")


@pytest.mark.rest
@pytest.mark.parametrize("output", [None, "out"])
@pytest.mark.parametrize("way", ["arrow", "rows"])  # Spark 3.5 makes DataFrames of rows alone
def test_types_that_spark_has_not(spark, tmp_path, monkeypatch, output, way):
    if way == "rows":
        monkeypatch.setattr("mutator.engine.spark.frames.FIRST_WITH_ARROW", 9)

    def table(number, day):
        at = pa.array([f"2026-01-0{day}T10:00:00.123456789"]).cast(pa.timestamp("ns"))
        columns = {"id": pa.array([number], pa.uint64()), "ts": [day], "at": at, "size": pa.array([7], pa.uint8())}
        return pa.table({**columns, "parts": pa.array([[{"at": at[0].value}]], pa.list_(pa.struct([("at", at.type)])))})

    target = None if output is None else tmp_path / output
    report = mutator.merge(master=table(1, 1), feed=table(2, 2), output=target, **BASE)

    assert report.result.schema.field("at").type == pa.timestamp("ns")
    found = sorted(report.result.to_spark(spark).collect())
    days = [dt.datetime.fromisoformat(f"2026-01-0{day}T10:00:00.123456") for day in (1, 2)]
    assert [(int(one.id), one.size, one.at, one.parts[0].at) for one in found] == [
        (number, 7, day, day) for number, day in enumerate(days, 1)
    ]


@pytest.mark.rest
@pytest.mark.parametrize("way", ["arrow", "rows"])
def test_nested_types_and_times_without_a_zone(spark, monkeypatch, way):
    if way == "rows":
        monkeypatch.setattr("mutator.engine.spark.frames.FIRST_WITH_ARROW", 9)
    local, prices = NOON.replace(tzinfo=None), pa.map_(pa.string(), pa.int64())
    columns = {
        "id": [1, 2],
        "ts": [1, 1],
        "at": pa.array([local, None], pa.timestamp("us")),
        "zoned": pa.array([NOON, None], pa.timestamp("us", "UTC")),
        "seen": pa.array([[local], None], pa.list_(pa.timestamp("us"))),
        "prices": pa.array([[("a", 7)], None], prices),
        "part": pa.array([{"at": local, "n": 1}, None], pa.struct([("at", pa.timestamp("us")), ("n", pa.int8())])),
        "empty": pa.nulls(2),
    }
    table = pa.table(columns)

    found = mutator.merge(master=table, feed=table, **BASE).result.to_spark(spark)

    assert found.schema.simpleString() == (
        "struct<id:bigint,ts:bigint,at:timestamp_ntz,zoned:timestamp,seen:array<timestamp_ntz>,prices:map<string,"
        "bigint>,part:struct<at:timestamp_ntz,n:tinyint>,empty:void>"
    )
    first = found.where("id = 1").collect()[0]
    assert (first.at, first.seen, first.prices, first.part.at, first.part.n) == (local, [local], {"a": 7}, local, 1)
    assert first.zoned.timestamp() == NOON.timestamp()


@pytest.mark.rest
def test_rejects_are_a_dataframe_too(spark):
    feed = frame(spark, [row(None, "x"), row(2, "B", 1)])
    report = mutator.merge(master=frame(spark, [row(2, "b")]), feed=feed, reject_policy="quarantine", **BASE)

    found = report.rejects.to_spark(spark).collect()

    assert [(one.file, one.reason) for one in found] == [("feed (Spark DataFrame)", "field id is NULL")]


@pytest.mark.rest
def test_a_column_without_values_fits_every_type(spark):
    master = pa.table({"id": [1, 2], "ts": [1, 1], "v": pa.array([7, 8])})

    for data_type in ("string", "double", "void", "date", "array<string>"):
        feed = spark.sql(f"select id, 2L ts, cast(null as {data_type}) v from range(2, 4) as t(id)").repartition(2)
        if data_type == "array<string>":
            message = r"field v is list<element: string> in feed \(Spark DataFrame\) and int64 in master \("
            with pytest.raises(mutator.DataError, match=message):
                mutator.merge(master=master, feed=feed, **BASE)
            continue
        report = mutator.merge(master=master, feed=feed, **BASE)
        assert [(one["id"], one["v"]) for one in rows(report)] == [(1, 7), (2, None), (3, None)]
        assert report.result.schema.field("v").type == pa.int64()
    some = spark.sql("select id, 2L ts, if(id = 3, 'x', null) v from range(2, 4) as t(id)").repartition(2)
    with pytest.raises(mutator.DataError, match=r"field v is string in feed \(Spark DataFrame\) and int64 in"):
        mutator.merge(master=master, feed=some, **BASE)


def test_columns_that_parquet_lacks_are_named(spark):
    feed = spark.sql("select 1L id, 1L ts, interval 1 day span")

    with pytest.raises(mutator.DataError, match=r"\(Spark DataFrame\): column span has the type interval day") as fault:
        mutator.merge(master=feed, feed=feed, **BASE)
    assert "cast it" in str(fault.value)


def test_wrong_sessions_are_named(spark):
    table = pa.table({"id": [1], "ts": [1]})
    with pytest.raises(mutator.ConfigError, match="session is given, and the runner is local; leave out one of them"):
        mutator.merge(master=table, feed=table, session=spark, runner="local", **BASE)

    class Stopped(type(spark)):
        __module__ = "pyspark.sql.session"

        def __init__(self):
            self._jsc = None

        @property
        def sparkContext(self):  # noqa: N802  # Spark's name
            return self

    with pytest.raises(mutator.ConfigError, match="the Spark session has been stopped; start a new one"):
        mutator.merge(master=table, feed=table, session=Stopped(), **BASE)


def test_a_cluster_needs_a_directory_that_its_workers_share(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(spark.sparkContext, "master", "spark://elsewhere:7077")
    table, some = pa.table({"id": [1], "ts": [1]}), spark.createDataFrame([(1, 2)], "id long, ts long")

    # What this process has is merged here, where no worker of the cluster would find it.
    assert mutator.merge(master=table, feed=table, **BASE).runner.startswith("local")
    for given in ({"feed": some}, {"feed": table, "runner": "spark"}, {"feed": table, "session": spark}):
        with pytest.raises(mutator.ConfigError, match=r"workers .* on other machines, .*; set scratch to"):
            mutator.merge(master=table, **given, **BASE)
    report = mutator.merge(master=table, feed=some, scratch=tmp_path, **BASE)
    assert report.result.to_arrow().to_pylist() == [{"id": 1, "ts": 2}]
    assert report.result.path.startswith(str(tmp_path))
    del report
    assert list(tmp_path.iterdir()) == []


NOTEBOOK = """
import os, sys
sys.path.insert(0, {root!r})  # as an installation in the kernel's environment
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
import mutator, pandas as pd
master = spark.sql("select * from values (1L, 'a', 1L), (2L, 'b', 1L) as t(id, name, ts)")
feed = pd.DataFrame({{"id": [2, 3], "name": ["B", "c"], "ts": [2, 2]}})
report = mutator.merge(master=master, feed=feed, session=spark, key="id", order_by="ts")
print(report.runner)
print(sorted(map(tuple, report.result.to_spark(spark).collect())))
print(report._repr_html_()[:5])
"""


@pytest.mark.thorough(keep=0)
@pytest.mark.processes
def test_a_notebook_whose_environment_is_not_activated(sc, tmp_path):
    """An own session, a kernel started by its path in another directory, and another Python first on the path."""
    lines = printed_by(NOTEBOOK.format(root=str(ROOT)), tmp_path)

    assert lines[-3:] == [
        "spark: it was asked for",
        "[(1, 'a', 1), (2, 'B', 2), (3, 'c', 2)]",
        "<div ",
    ]
