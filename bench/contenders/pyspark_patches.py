"""Spark SQL on patches."""

from __future__ import annotations

from pathlib import Path

from bench.contenders.contender import Contender, Ran
from bench.contenders.spark import read, session
from bench.layout import PATCHED_FIELDS

__all__ = ["SparkPatches"]


class SparkPatches(Contender):
    """``last`` of each field without NULLs, by a window over the rows of master and feed."""

    def start(self, scratch: Path) -> dict[str, str]:
        """Start Spark."""
        import pyspark

        self.spark = session(scratch)
        return {"pyspark": pyspark.__version__}

    def run(self, feed: Path, output: Path) -> Ran:
        """Merge, and write files."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        rows = read(self.spark, self.master, PATCHED_FIELDS).union(read(self.spark, feed, PATCHED_FIELDS))
        by_time = Window.partitionBy("id").orderBy("time")
        whole = by_time.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
        values = [f.last(name, ignorenulls=True).over(whole).alias(name) for name in PATCHED_FIELDS[1:]]
        number = f.row_number().over(by_time).alias("number")
        rows.select("id", *values, number).where("number = 1").drop("number").write.parquet(str(output))
        return Ran("last(…, ignoreNulls), row_number")

    def stop(self) -> None:
        """Stop Spark."""
        self.spark.stop()
