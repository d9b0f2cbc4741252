"""Spark SQL on change files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench.contenders.contender import Contender, Ran
from bench.contenders.spark import session
from bench.layout import CHANGED_FIELDS, TYPES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["SparkDialects"]

MEMBERS = """before struct<id: string>,
    after struct<id: string, name: string, stock: long, price: string, changed: long>,
    source struct<sequence: string, lsn: long>, transaction struct<total_order: long>, op string"""


class SparkDialects(Contender):
    """``from_json``, the last change of each ID by a window, an anti-join of the master with them, plus these."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def start(self, scratch: Path) -> dict[str, str]:
        """Start Spark; in UTC, so that times without a zone are read as they are."""
        import pyspark

        self.spark = session(scratch, **{"spark.sql.session.timeZone": "UTC"})
        return {"pyspark": pyspark.__version__}

    def run(self, feed: Path, output: Path) -> Ran:
        """Merge, and write files."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        changes, order = READERS[self.kind](self.spark, feed)
        last = f.row_number().over(Window.partitionBy("id").orderBy(*(f.desc_nulls_last(name) for name in order)))
        winners = changes.withColumn("rank", last).where("rank = 1")
        master = self.spark.read.schema(_schema(CHANGED_FIELDS)).parquet(str(self.master))
        newest = winners.select(f.col("id").alias("key"), f.col("changed").alias("newest"))
        same = f.col("id") == f.col("key")
        added = winners.where("lower(op) <> 'd'")
        if "changed" in order:  # the master has the order values, too, and is newer than some changes
            late = master.join(newest, same & (f.col("newest") < f.col("changed"))).select("id")
            added = added.join(late, "id", "left_anti")
            same &= f.col("newest") >= f.col("changed")
        kept = master.join(newest, same, "left_anti")
        kept.union(added.select(*CHANGED_FIELDS)).write.parquet(str(output))
        return Ran("row_number, anti-join + union")

    def stop(self) -> None:
        """Stop Spark."""
        self.spark.stop()


def _messages(spark: SparkSession, feed: Path) -> tuple[DataFrame, list[str]]:
    from pyspark.sql import functions as f

    return _unwrapped(_lines(spark, feed, MEMBERS), f.col("after.price"))


def _messages_with_schema(spark: SparkSession, feed: Path) -> tuple[DataFrame, list[str]]:
    """Prices are base64 of big-endian numbers; all of them are positive."""
    from pyspark.sql import functions as f

    messages = _lines(spark, feed, f"payload struct<{MEMBERS}>").select("payload.*")
    return _unwrapped(messages, f.conv(f.hex(f.unbase64("after.price")), 16, 10).cast("decimal(11,0)") / 100)


def _lines(spark: SparkSession, feed: Path, schema: str) -> DataFrame:
    from pyspark.sql import functions as f

    return spark.read.text(str(feed)).select(f.from_json("value", schema).alias("message")).select("message.*")


def _unwrapped(messages: DataFrame, price: Column) -> tuple[DataFrame, list[str]]:
    from pyspark.sql import functions as f

    order = {
        "sequence": f.get_json_object("source.sequence", "$[0]").cast("long"),
        "lsn": f.col("source.lsn"),
        "total_order": f.col("transaction.total_order"),
    }
    rows = messages.where("op is not null").select(
        "op",
        f.coalesce("after.id", "before.id").alias("id"),
        "after.name",
        "after.stock",
        price.cast(TYPES["price"]).alias("price"),
        f.timestamp_micros("after.changed").cast("timestamp_ntz").alias("changed"),
        *(column.alias(name) for name, column in order.items()),
    )
    return rows, list(order)


def _rows_of_dms(spark: SparkSession, feed: Path) -> tuple[DataFrame, list[str]]:
    schema = _schema(("op", *CHANGED_FIELDS, "seq"))
    return spark.read.schema(schema).csv(str(feed), header=True, enforceSchema=True), ["seq"]


def _rows(spark: SparkSession, feed: Path) -> tuple[DataFrame, list[str]]:
    return spark.read.schema(_schema(("op", *CHANGED_FIELDS))).json(str(feed)), ["changed"]


def _schema(names: tuple[str, ...]) -> str:
    return ", ".join(f"{name} {TYPES[name]}" for name in names)


READERS = {
    "debezium-json": _messages,
    "debezium-json schema": _messages_with_schema,
    "aws-dms": _rows_of_dms,
    "json": _rows,
}
