"""Spark SQL finds versions anew."""

from __future__ import annotations

from pathlib import Path

from bench.contenders.contender import Contender, Ran
from bench.contenders.spark import session
from bench.layout import PATCHED_FIELDS

__all__ = ["SparkVersions"]


class SparkVersions(Contender):
    """``lead`` by a window over all events and the feed."""

    def start(self, scratch: Path) -> dict[str, str]:
        """Start Spark."""
        import pyspark

        self.spark = session(scratch)
        return {"pyspark": pyspark.__version__}

    def run(self, feed: Path, output: Path) -> Ran:
        """Find the versions, and write files."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        rows = self.spark.read.parquet(*map(str, sorted(self.master.iterdir())), str(feed))
        until = f.lead("time").over(Window.partitionBy("id").orderBy("time"))
        rows.select(*PATCHED_FIELDS, until.alias("valid_to")).write.parquet(str(output))
        return Ran("lead")

    def stop(self) -> None:
        """Stop Spark."""
        self.spark.stop()
