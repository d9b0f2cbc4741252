"""DataFrames and streams of Spark that are written to a table with ``format("mutator")``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import mutator
from mutator.table.spark_source.sink import application_of
from tests.support.applies_here import applies_here  # noqa: F401  # the subject is not how a table is made
from tests.support.spark_versions import NEEDS_SOURCES

pytestmark = [NEEDS_SOURCES, pytest.mark.rest]


@pytest.fixture
def spark(sc: Any) -> SparkSession:
    session = SparkSession(sc)
    mutator.register(session)
    return session


@pytest.fixture
def table(tmp_path: Path) -> mutator.Table:
    found = mutator.Table.create(tmp_path / "t", key="id", order_by="at", op="op", max_delete_fraction=1, buckets=2)
    found.apply(pa.table({"id": [1, 2, 3], "at": [5, 5, 5], "name": ["a", "b", "c"], "op": ["I", "I", "I"]}))
    return found


def rows_of(table: mutator.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.refresh().scan().to_pylist())


COLUMNS = "id long, at long, name string, op string"
SECOND = [(1, 6, "aa", "U"), (2, 6, None, "D"), (3, 4, "late", "U"), (4, 6, "d", "I"), (4, 7, "dd", "U")]
AFTER = [(1, 6, "aa"), (3, 5, "c"), (4, 7, "dd")]


def test_a_data_frame_is_merged(spark: SparkSession, table: mutator.Table) -> None:
    frame = spark.createDataFrame(SECOND, COLUMNS).repartition(3)
    options = {"txnAppId": "job", "txnVersion": "7"}
    for _ in range(2):
        frame.write.format("mutator").mode("append").options(**options).save(table.path)
        assert (rows_of(table), table.version) == (AFTER, 2)
    frame.limit(0).write.format("mutator").mode("append").save(table.path)
    assert table.refresh().version == 2
    assert not list(Path(table.path).glob("_mutator/table/work/*"))


def test_options_are_settings(spark: SparkSession, table: mutator.Table) -> None:
    frame = spark.createDataFrame([(1, 9, "x", "gone")], COLUMNS)
    frame.write.format("mutator").mode("append").option("delete_codes", "gone").save(table.path)
    assert [row[0] for row in rows_of(table)] == [2, 3]


def test_the_mode_overwrite_replaces_everything(spark: SparkSession, table: mutator.Table) -> None:
    frame = spark.createDataFrame([(1, 2, "new", "I"), (9, 1, "z", "I")], COLUMNS).repartition(2)
    frame.write.format("mutator").mode("overwrite").save(table.path)
    assert rows_of(table) == [(1, 2, "new"), (9, 1, "z")]
    assert [one.kind for one in table.log()][-1] == "insert_overwrite_table"
    with pytest.raises(Exception, match="would delete every record"):
        frame.limit(0).write.format("mutator").mode("overwrite").save(table.path)
    assert table.refresh().version == 2
    frame.limit(0).write.format("mutator").mode("overwrite").option("allow_empty_feed", "true").save(table.path)
    assert rows_of(table) == []


@pytest.mark.rest
def test_a_dynamic_overwrite_replaces_the_partitions_of_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    settings = {"key": "id", "order_by": "at", "op": "op", "partitioned_by": "name", "key_scope": "partition"}
    table = mutator.Table.create(tmp_path / "t", **settings)
    table.apply(pa.table({"id": [1, 2, 3], "at": [5] * 3, "name": ["a", "b", "b"], "op": ["I"] * 3}))
    frame = spark.createDataFrame([(4, 1, "b", "I")], COLUMNS)
    for mode, option in (("overwrite", "partitionOverwriteMode"), ("append", "write.operation")):
        writer = frame.write.format("mutator").mode(mode)
        writer.option(option, "dynamic" if mode == "overwrite" else "insert_overwrite").save(table.path)
        assert rows_of(table) == [(1, 5, "a"), (4, 1, "b")]
        assert [one.kind for one in table.log()][-1] == "insert_overwrite"


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize(
    ("mode", "options", "message"),
    [
        ("overwrite", {"partitionOverwriteMode": "both"}, "partitionOverwriteMode=both"),
        ("overwrite", {"reject_policy": "quarantine"}, "a reject would be a delete"),
        ("append", {"txnAppId": "a"}, "txnAppId or txnVersion"),
        ("append", {"kye": "id"}, "kye; did you mean key"),
        ("append", {"op": "name"}, "op"),
    ],
)
def test_wrong_writes_are_named(
    spark: SparkSession, table: mutator.Table, mode: str, options: dict[str, str], message: str
) -> None:
    frame = spark.createDataFrame(SECOND, COLUMNS)
    with pytest.raises(Exception, match=message):
        frame.write.format("mutator").mode(mode).options(**options).save(table.path)
    assert table.refresh().version == 1
    assert not list(Path(table.path).glob("_mutator/table/work/*"))


@pytest.mark.rest
def test_each_batch_of_a_stream_is_merged_once(spark: SparkSession, table: mutator.Table, tmp_path: Path) -> None:
    feed = tmp_path / "feed"
    feed.mkdir()

    def put(number: int, rows: list[tuple[Any, ...]]) -> None:
        names = [part.split()[0] for part in COLUMNS.split(", ")]
        pq.write_table(
            pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows]), feed / f"{number}.parquet"
        )

    def run() -> None:
        stream = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(feed))
        writer = stream.writeStream.format("mutator").option("path", table.path)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()

    put(1, SECOND)
    put(2, [(9, 1, "z", "I")])
    run()
    assert rows_of(table) == [*AFTER, (9, 1, "z")]
    assert table.version == 3
    put(3, [(9, 2, "zz", "U")])
    run()
    run()
    assert table.refresh().version == 4


def test_a_batch_that_is_committed_again(table: mutator.Table) -> None:
    from mutator.table.spark_source.sink import StreamWriter

    batch = pa.RecordBatch.from_pylist([{"id": 7, "at": 1, "name": "x", "op": "I"}])
    for _ in range(2):  # as after a kill between the commit of the table and that of Spark
        writer = StreamWriter(table.path, {}, "stream")
        writer.commit([writer.write(iter([batch])), writer.write(iter([]))], 3)
    assert table.refresh().version == 2
    writer = StreamWriter(table.path, {}, "stream")
    writer.write(iter([batch]))
    writer.abort([], 4)
    assert not list(Path(table.path).glob("_mutator/table/work/*"))


def test_a_stream_has_the_name_that_it_is_given() -> None:
    """A checkpoint that is copied elsewhere would else have another name, and its last batch be merged again."""
    assert application_of({"txnappid": "orders", "checkpointlocation": "/a"}) == "orders"
    assert application_of({"checkpointlocation": "/a"}) == "/a"
