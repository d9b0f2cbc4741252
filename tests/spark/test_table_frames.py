"""A version of a table as a Spark DataFrame has the rows that a scan has."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mutator import ConfigError, Table, register
from mutator.table import apply
from mutator.table.spark_source import masked_files, registration
from mutator.table.spark_source.frame import spark_schema
from tests.support.applies_here import applies_here  # noqa: F401  # the subject is not how a table is made
from tests.support.no_limits import NO_LIMITS
from tests.support.patience import wait_until

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def spark(sc: Any) -> SparkSession:
    return SparkSession(sc)


@pytest.fixture(params=["in the log", "in files"])
def settings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    if request.param == "in files":
        monkeypatch.setattr(apply, "_INLINE_FEED", 0)
        monkeypatch.setattr(apply, "INLINE", 0)
    return {"key": "id", "order_by": "at", "op": "op", **NO_LIMITS}


def rows(ids: Any, at: int, op: str = "U", **more: Any) -> Any:
    return pa.Table.from_pylist([{"id": one, "at": at, "op": op, "shop": f"a %/{one % 2}", **more} for one in ids])


def same(table: Table, spark: SparkSession, version: int | None = None) -> None:
    frame = table.dataframe(spark, version=version)
    found = [row.asDict(recursive=True) for row in frame.collect()]
    expected = table.scan(version=version)
    assert frame.columns == expected.schema.names
    assert sorted(found, key=repr) == sorted(expected.to_pylist(), key=repr)
    assert frame.count() == len(found)


@pytest.mark.thorough(keep=1)
def test_hidden_rows_are_left_out_in_each_version(spark: SparkSession, settings: Any, tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "a table 100%"), {**settings, "partitioned.by": "shop", "key.scope": "table"})
    table.apply(rows(range(40), 1))
    table.apply(rows(range(0, 20, 3), 2))
    table.apply(rows(range(30, 45), 3, "D"))
    table.apply(rows([1], 4, shop="elsewhere"))
    for version in range(1, 5):
        same(table, spark, version)
    frame = table.dataframe(spark)
    assert frame.where("id < 10").groupBy("shop").count().count() == 3


def test_patches_and_merge_functions_in_frames(spark: SparkSession, settings: Any, tmp_path: Path) -> None:
    table = Table.create(
        str(tmp_path / "t"), {**settings, "field.merge.sold": "sum", "ignore.null.updates": "name", "num.reducer": "2"}
    )
    schema = "id long, at long, op string, sold long, name string"
    table.apply(spark.createDataFrame([(1, 1, "U", 5, "one"), (2, 1, "U", 7, "two")], schema))
    table.apply(spark.createDataFrame([(1, 3, "U", 2, None), (2, 2, "D", None, None), (2, 4, "U", 1, "new")], schema))
    table.apply(spark.createDataFrame([(1, 2, "U", 4, "late"), (2, 3, "U", 8, None)], schema))
    same(table, spark)
    found = sorted((row["id"], row["at"], row["sold"], row["name"]) for row in table.scan().to_pylist())
    assert found == [(1, 3, 11, "late"), (2, 4, 9, "new")]


@pytest.mark.thorough(keep=0, rest=2)
@pytest.mark.parametrize("fault", [None, "sizes that differ from the log", "hashes that are equal"])
def test_files_of_one_size(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: str | None
) -> None:
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)
    monkeypatch.setattr(apply, "INLINE", 0)
    if fault == "sizes that differ from the log":
        monkeypatch.setattr(masked_files, "_bytes_of", lambda rows: 0)
    table = Table.create(str(tmp_path / "t"), {"key": "id", "order_by": "at", "op": "op", **NO_LIMITS})
    for first in range(100, 900, 100):
        table.apply(rows(range(first, first + 60), 1))
    sizes = [file.bytes for file in table.snapshot.of_role("data")]
    assert len(set(sizes)) < len(sizes) - 1
    table.apply(rows([number for number in range(100, 900) if number % 100 < 60 and number % 7 < 4], 2))
    table.apply(rows([104, 859], 3, "D"))
    if fault == "hashes that are equal":
        real = masked_files.xxhash.xxh64_intdigest
        colliding = type("Colliding", (), {"xxh64_intdigest": lambda uri, seed: real(uri, seed) if seed else 0})
        monkeypatch.setattr(masked_files, "xxhash", colliding)
        monkeypatch.setattr(masked_files, "_SEED", 0)
        monkeypatch.setattr(masked_files, "_BY_PATH", "0L")
    for version in (8, 9, 10):
        same(table, spark, version)


@pytest.mark.thorough(keep=0)
def test_hidden_rows_of_large_files(spark: SparkSession, settings: Any, tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), settings, buckets=2)
    table.apply(rows(range(9000), 1))
    table.apply(rows([*range(0, 9000, 67), *range(4000, 4100)], 2, "D"))
    table.apply(rows(range(6000, 8100, 3), 2))
    for version in (1, 2, 3):
        same(table, spark, version)


@pytest.mark.thorough(keep=0)
@pytest.mark.parametrize("own", [None, "5000"])
def test_spark_looks_for_many_local_files_without_a_job(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: str | None
) -> None:
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)
    monkeypatch.setattr(apply, "INLINE", 0)
    name, context = "spark.sql.sources.parallelPartitionDiscovery.threshold", spark.sparkContext
    before = spark.conf.get(name)
    if own is not None:
        spark.conf.set(name, own)
    table = Table.create(str(tmp_path / "t"), {"key": "id", "order_by": "at", "op": "op", **NO_LIMITS}, buckets=2)
    for first in range(0, 34 * 4, 4):
        table.apply(rows(range(first, first + 4), 1))
    assert len(list(table.snapshot.of_role("data"))) > 32
    context.setJobGroup("frame", "making a DataFrame")
    try:
        table.dataframe(spark)
        context.setJobGroup("later", "a job after it")
        context.parallelize([1], 1).count()
        jobs = context.statusTracker().getJobIdsForGroup
        wait_until(lambda: jobs("later"))
        assert list(jobs("frame")) == []
        assert spark.conf.get(name) == (own or before)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
        spark.conf.set(name, before)
    same(table, spark)


@pytest.mark.thorough(keep=0)
def test_a_field_that_was_added_again_is_null_in_earlier_rows(
    spark: SparkSession, settings: Any, tmp_path: Path
) -> None:
    table = Table.create(str(tmp_path / "t"), settings)
    table.apply(rows([1, 2], 1, price=1))
    table.apply(rows([3], 2), removed_fields=["price"])
    table.apply(rows([4], 3, price=4))
    same(table, spark)
    assert [row["price"] for row in table.dataframe(spark).orderBy("id").collect()] == [None, None, None, 4]


@pytest.mark.thorough(keep=0)
def test_rows_of_earlier_schemas(spark: SparkSession, settings: Any, tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), settings)
    table.apply(rows(range(8), 1, price=1))
    table.apply(rows([1, 2, 3], 2, price=Decimal("2.50"), note="x"), default={"note": "old"})
    table.apply(rows([2, 9], 3, note="y"), removed_fields=["price"])
    table.apply(rows([3], 4, note="z", price=Decimal("7.25")))
    same(table, spark)
    same(table, spark, 2)


@pytest.mark.thorough(keep=1)
def test_members_that_were_added_to_structs(spark: SparkSession, settings: Any, tmp_path: Path) -> None:
    """Also those in lists; members of another order, and NULL in their places, stay what they are."""
    table = Table.create(str(tmp_path / "t"), settings)
    table.apply(rows(range(8), 1, part={"a": 1}, parts=[{"a": 1}, None]))
    table.apply(rows([2, 9], 3, part={"b": "y", "a": 3}, parts=[{"b": "y", "a": 3}]))
    table.apply(rows([3], 4, part=None, parts=None))
    same(table, spark)
    assert [field.name for field in table.scan().schema.field("part").type] == ["a", "b"]


@pytest.mark.thorough(keep=1)
def test_types(spark: SparkSession, settings: Any, tmp_path: Path) -> None:
    values = {
        "id": pa.array([1, 2]),
        "at": pa.array([1, 1]),
        "op": pa.array(["U", "U"]),
        "moment": pa.array([NOON, None], pa.timestamp("ms", "UTC")),
        "local": pa.array([NOON.replace(tzinfo=None), None], pa.timestamp("us")),
        "day": pa.array([date(2026, 1, 31), None]),
        "price": pa.array([Decimal("1.50"), None]),
        "count": pa.array([2**32 - 1, None], pa.uint32()),
        "large": pa.array([2**64 - 1, None], pa.uint64()),
        "data": pa.array([b"\x00\xff", None]),
        "list": pa.array([[1, None], None]),
        "struct": pa.array([{"a": 1, "b": "x"}, None]),
        "nothing": pa.nulls(2),
        "map": pa.array([{"a": 1}, None], pa.map_(pa.string(), pa.int64())),
        "is_new": pa.array([True, None]),
        "ratio": pa.array([0.5, None]),
    }
    table = Table.create(str(tmp_path / "t"), settings)
    table.apply(pa.table(values))
    found = sorted(table.dataframe(spark).collect(), key=lambda row: row["id"])
    assert [row["large"] for row in found] == [Decimal(2**64 - 1), None]
    assert found[0]["struct"].asDict() == {"a": 1, "b": "x"}
    assert [(row["nothing"], row["map"]) for row in found] == [(None, {"a": 1}), (None, None)]
    assert [row["list"] for row in found] == [[1, None], None]
    plain = table.dataframe(spark).selectExpr("unix_millis(moment)", "count", "cast(local as string)", "price", "data")
    assert plain.first() == (
        int(NOON.timestamp() * 1000),
        2**32 - 1,
        "2026-01-31 12:00:00",
        Decimal("1.50"),
        b"\x00\xff",
    )


@pytest.mark.parametrize(
    "data_type", [pa.time64("us"), pa.timestamp("ns"), pa.decimal256(50, 2), pa.duration("s"), pa.list_(pa.time32("s"))]
)
def test_types_that_spark_lacks(data_type: Any) -> None:
    with pytest.raises(ConfigError, match=r"column odd is of type .*, which Spark does not have"):
        spark_schema(pa.schema([("id", pa.int64()), ("odd", data_type)]))


@pytest.mark.thorough(keep=1)
def test_times_of_pandas(spark: SparkSession, settings: Any, tmp_path: Path) -> None:
    feed = pd.DataFrame({"id": [1, 2], "at": [1, 1], "op": ["U", "U"], "seen": pd.to_datetime([NOON, NOON])})
    feed["seen"] = feed["seen"].dt.as_unit("ns")
    table = Table.create(str(tmp_path / "t"), settings)
    table.apply(feed)
    millis = [int(NOON.timestamp() * 1000)] * 2
    assert [row[0] for row in table.dataframe(spark).selectExpr("unix_millis(seen)").collect()] == millis
    chosen = Table.create(str(tmp_path / "chosen"), settings, nanos="keep")
    chosen.apply(pa.Table.from_pandas(feed))
    with pytest.raises(ConfigError, match=r"spark\.createDataFrame\(table\.scan\(\)\.to_pandas\(\)\)"):
        chosen.dataframe(spark)
    as_told = spark.createDataFrame(chosen.scan().to_pandas()).selectExpr("unix_millis(seen)")
    assert [row[0] for row in as_told.collect()] == millis
    assert sum(len(batch) for batch in chosen.rdd(spark).collect()) == 2


@pytest.mark.thorough(keep=1)
def test_a_table_without_rows(spark: SparkSession, settings: Any, tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), settings)
    with pytest.raises(ConfigError, match="no rows and no schema yet"):
        table.dataframe(spark)
    table.apply(rows([1], 1))
    table.apply(rows([1], 2, "D"))
    assert table.dataframe(spark).columns == ["id", "at", "shop"]
    assert table.dataframe(spark).count() == 0


def test_an_older_spark_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "_OLDEST", (99, 0))
    with pytest.raises(ConfigError, match=r"needs Spark 4.1 or newer, and this session has"):
        register(spark)
