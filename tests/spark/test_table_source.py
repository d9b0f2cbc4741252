"""``format("mutator")``: versions, changes and streams of changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import mutator
from mutator.errors import MutatorError
from mutator.table import apply
from mutator.table.spark_source import batches
from mutator.table.spark_source.source import SparkSource
from tests.support.applies_here import applies_here  # noqa: F401  # the subject is not how a table is made
from tests.support.no_limits import NO_LIMITS
from tests.support.spark_versions import NEEDS_SOURCES

pytestmark = NEEDS_SOURCES


@pytest.fixture
def spark(sc: Any) -> SparkSession:
    session = SparkSession(sc)
    mutator.register(session)
    return session


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> mutator.Table:
    monkeypatch.setattr(apply, "INLINE", 4000)  # bytes: some versions are in the log, others in files
    found = mutator.Table.create(tmp_path / "t", {"key": "id", "order_by": "at", "op": "op", **NO_LIMITS}, buckets=2)
    found.apply(rows(range(200), 1))
    found.apply(rows(range(0, 50, 7), 2))
    found.apply(rows(range(190, 205), 3, "D"))
    found.apply(rows([500], 4, price=7))
    return found


def rows(ids: Any, at: int, op: str = "U", **more: Any) -> Any:
    return pa.Table.from_pylist([{"id": one, "at": at, "op": op, "name": f"n{one}", **more} for one in ids])


def sorted_rows(frame: Any) -> list[Any]:
    return sorted((row.asDict() for row in frame.collect()), key=repr)


def read(spark: SparkSession, table: mutator.Table, **options: Any) -> Any:
    return spark.read.format("mutator").options(**options).load(table.path)


@pytest.mark.rest
def test_versions(spark: SparkSession, table: mutator.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_TASK", 1)
    for version in range(1, 5):
        expected = sorted(table.scan(version=version).to_pylist(), key=repr)
        assert sorted_rows(read(spark, table, version=version)) == expected
    times = [entry.committed for entry in table.log()]
    assert read(spark, table, asOf=times[2]).count() == 200
    found = read(spark, table, columns="name, id", where="id < 10 and at = 2")
    assert (found.columns, sorted_rows(found)) == (["name", "id"], [{"name": f"n{one}", "id": one} for one in (0, 7)])


@pytest.mark.rest
def test_a_view_of_sql(spark: SparkSession, table: mutator.Table) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW things USING mutator OPTIONS (path '{table.path}')")
    assert spark.sql("SELECT count(*), max(price) FROM things WHERE id >= 100").first() == (91, 7)


@pytest.mark.rest
def test_changes(spark: SparkSession, table: mutator.Table) -> None:
    expected = sorted(table.changes(1, 3).to_pylist(), key=repr)
    found = read(spark, table, changes="true", startingVersion=1, endingVersion=3)
    moments = found.drop("_commit_timestamp")
    assert sorted_rows(moments) == sorted(
        ({name: value for name, value in row.items() if name != "_commit_timestamp"} for row in expected), key=repr
    )
    assert read(spark, table, changes="true", startingVersion=4).count() == 0


@pytest.mark.rest
def test_a_stream_that_is_started_again(spark: SparkSession, table: mutator.Table, tmp_path: Path) -> None:
    def run() -> list[Any]:
        stream = spark.readStream.format("mutator").options(changes="true", startingVersion=1, maxVersionsPerTrigger=1)
        writer = stream.load(table.path).writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.format("parquet").option("path", str(tmp_path / "out")).start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        out = spark.read.parquet(str(tmp_path / "out")).select("_commit_version", "_change_type", "id")
        return sorted(tuple(row) for row in out.collect())

    def expected() -> list[Any]:
        names = "_commit_version", "_change_type", "id"
        return sorted(tuple(row[name] for name in names) for row in table.changes(1).to_pylist())

    assert run() == expected()
    table.apply(rows([1, 2], 9, price=1))
    table.apply(rows([900], 9, price=2))
    assert run() == expected()
    assert run() == expected()


def place(table: mutator.Table) -> int:
    """Return the version of the bookmark of a table."""
    (mark,) = table.bookmarks()
    return mark.version


def cleaned(table: mutator.Table) -> int:
    """Remove all files that no version needs; return the earliest version."""
    table.clean(keep_versions=1, grace="0s")
    earliest: int = table.snapshot.state.cleaning.earliest
    return earliest


@pytest.mark.rest
def test_a_stream_keeps_the_versions_from_its_bookmark_on(
    spark: SparkSession, table: mutator.Table, tmp_path: Path
) -> None:
    batches = list[tuple[list[int], int, int]]()  # versions, place of the bookmark, earliest version after a cleaning

    def process(batch: Any, number: int) -> None:
        versions = {row[0] for row in batch.select("_commit_version").collect()}
        if versions:  # else the batch has a cleaning
            batches.append((sorted(versions), place(table), cleaned(table)))

    table.bookmark("reader", 1)
    stream = spark.readStream.format("mutator").options(changes="true", bookmark="reader", maxVersionsPerTrigger=1)
    writer = stream.load(table.path).writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.foreachBatch(process).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert batches == [([2], 1, 1), ([3], 2, 2), ([4], 3, 3)]  # it moves once Spark has committed a batch
    assert place(table) >= 4
    table.apply(rows([7], 9, price=1))
    assert cleaned(table) == place(table)


def test_changes_that_are_gone_are_refused_before_a_task_begins(spark: SparkSession, table: mutator.Table) -> None:
    gone = f"version 1 is gone, .*; the earliest version is {cleaned(table)}"
    frame = read(spark, table, changes="true", startingVersion=1)
    with pytest.raises(Exception, match=gone) as raised:
        frame.collect()
    assert "stage" not in str(raised.value)  # as the error of a task has it
    stream = SparkSource({"path": table.path, "changes": "true"}).streamReader(frame.schema)
    with pytest.raises(MutatorError, match=gone):  # the offset of a checkpoint
        stream.partitions({"version": 1}, {"version": 4})


@pytest.mark.rest
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"versoin": "1"}, "option versoin; expected is path, asof, changes, version"),
        ({"changes": "true", "where": "id < 10"}, "option where; expected is path, asof, changes, startingversion"),
        ({"startingVersion": "1"}, "option startingversion; expected is path, asof, changes, version"),
        ({"version": "x"}, "no tag x; its tags are: none"),
        ({"version": "9"}, "version 9 does not exist"),
        ({"columns": "nam"}, r"no column .*nam.*; did you mean name"),
        ({"where": "id <"}, "cannot be read at"),
        ({"version": "1", "asOf": "2026-01-01"}, "asOf beside a version"),
    ],
)
def test_wrong_options_are_named(
    spark: SparkSession, table: mutator.Table, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        read(spark, table, **options).collect()


@pytest.mark.thorough(keep=0)
def test_a_stream_needs_changes(spark: SparkSession, table: mutator.Table) -> None:
    with pytest.raises(Exception, match="changes=true for a stream"):
        spark.readStream.format("mutator").load(table.path).writeStream.format("noop").start().awaitTermination()


def test_versions_of_records(spark: SparkSession, tmp_path: Path) -> None:
    settings = {"key": "id", "order_by": "at", "op": "op", "history": "on", **NO_LIMITS}
    table = mutator.Table.create(tmp_path / "t", settings, buckets=4)
    table.apply(rows(range(40), 1))
    table.compact(everything=True)
    table.apply(rows(range(0, 40, 3), 5, price=7))
    table.apply(rows(range(30, 40), 3, "D"))
    for how in ({}, {"valid_at": 3}, {"columns": ["id", "valid_from"], "where": "id > 20 and valid_to is null"}):
        expected = sorted(table.scan(**how).to_pylist(), key=repr)
        options = {name: ",".join(one) if isinstance(one, list) else one for name, one in how.items()}
        assert sorted_rows(read(spark, table, history="true", **options)) == expected
        found = table.rdd(spark, history=True, **how).flatMap(lambda batch: batch.to_pylist())
        assert found.getNumPartitions() > 1
        assert sorted(found.collect(), key=repr) == expected
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW customers USING mutator OPTIONS (path '{table.path}')")
    assert sorted_rows(spark.table("customers")) == sorted(table.scan(current=True).to_pylist(), key=repr)
    plain = mutator.Table.create(tmp_path / "plain", {**settings, "history": "off"})
    plain.apply(rows([1], 1))
    with pytest.raises(Exception, match="created without history"):
        read(spark, plain, valid_at=3)
    with pytest.raises(Exception, match="history=on; expected is true or false"):
        read(spark, table, history="on")
