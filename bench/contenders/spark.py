"""The Spark session of all contenders on Spark, and the columns of master and feed for Spark SQL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.layout import FEED_FIELDS, TYPES, is_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Shuffled", "fold", "read", "session"]

HEAP = "4g"


def session(scratch: Path, **settings: str) -> SparkSession:
    """Start Spark on all cores: defaults except for the heap and the directories."""
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master("local[*]")
        .appName("bench")
        .config("spark.driver.memory", HEAP)
        .config("spark.local.dir", str(scratch / "spark"))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.ui.enabled", "false")
        # as in the session that mutator starts; no other contender has Python workers
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.python.daemon.module", "mutator.engine.spark.daemon")
        .config("spark.executorEnv.GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
        .config("spark.ui.showConsoleProgress", "false")
    )
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class Shuffled:
    """Count the bytes that tasks wrote to shuffles, from Spark's own status store."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext._jsc.sc()
        self._before = self._total()

    def bytes(self) -> int:
        """Return the bytes since this object was created."""
        return self._total() - self._before

    def _total(self) -> int:
        self._context.listenerBus().waitUntilEmpty()
        executors = self._context.statusStore().executorList(False)
        return sum(executors.apply(number).totalShuffleWrite() for number in range(executors.size()))


def read(spark: SparkSession, directory: Path, fields: Sequence[str]) -> DataFrame:
    """Read Parquet with its own types; text as strings, and the time as a number."""
    if is_text(directory):
        schema = ", ".join(f"{name} {'long' if name == 'time' else 'string'}" for name in fields)
        return spark.read.schema(schema).csv(str(directory))
    return spark.read.schema(", ".join(f"{name} {TYPES[name]}" for name in fields)).parquet(str(directory))


def fold(spark: SparkSession, feed: Path) -> DataFrame:
    """Read the feed and keep the last mutation of each ID: the input that ``MERGE`` needs."""
    from pyspark.sql import functions as f

    last = f.max_by(f.struct("name", "stock", "price", "time", "op"), "time").alias("last")
    return read(spark, feed, FEED_FIELDS).groupBy("id").agg(last).select("id", "last.*")
