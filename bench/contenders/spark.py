"""The Spark session that all contenders on Spark have alike, and the feed as Spark SQL reads it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Shuffled", "fold", "session"]

HEAP = "4g"
FEED_SCHEMA = "id string, name string, stock string, price string, time long, op string"


def session(scratch: Path, **settings: str) -> SparkSession:
    """Start Spark on all cores: defaults everywhere, but for the heap and for where files go."""
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master("local[*]")
        .appName("bench")
        .config("spark.driver.memory", HEAP)
        .config("spark.local.dir", str(scratch / "spark"))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.ui.enabled", "false")
        # as the session that mutator starts has it; nobody else here has Python workers
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.python.daemon.module", "mutator.engine.daemon")
        .config("spark.ui.showConsoleProgress", "false")
    )
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class Shuffled:
    """Count the bytes that tasks wrote to shuffles, as Spark's own status store has them."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext._jsc.sc()
        self._before = self._total()

    def bytes(self) -> int:
        """Return the bytes since this was made."""
        return self._total() - self._before

    def _total(self) -> int:
        self._context.listenerBus().waitUntilEmpty()
        executors = self._context.statusStore().executorList(False)
        return sum(executors.apply(number).totalShuffleWrite() for number in range(executors.size()))


def fold(spark: SparkSession, feed: Path) -> DataFrame:
    """Read the feed and keep the last mutation of each ID: what a ``MERGE`` may be given."""
    from pyspark.sql import functions as f

    rows = spark.read.schema(FEED_SCHEMA).csv(str(feed))
    last = f.max_by(f.struct("name", "stock", "price", "time", "op"), "time").alias("last")
    return rows.groupBy("id").agg(last).select("id", "last.*")
