"""Spark SQL on the same text, in five plans that a user could write.

Rows stay whole lines, from which only ID and time are extracted. In experiments with 2 M rows, 5 % and 50 %, reading
columns with the CSV reader took 1.2 to 1.7 times as long (window, max_by, anti-join), caching the folded feed
1.4 to 3 times (anti-join, left join).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bench.contenders.contender import Contender, Ran
from bench.contenders.spark import Shuffled, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SparkSql", "hint_for"]

# A user would not broadcast a feed larger than this on disk: it must fit into the heap several times.
BROADCAST_BYTES = 64 << 20


class SparkSql(Contender):
    """One of the plans."""

    def __init__(self, plan: str) -> None:
        self.plan = plan

    def start(self, scratch: Path) -> dict[str, str]:
        """Start the same session as mutator's."""
        import pyspark

        self.spark = session(scratch)
        return {"pyspark": pyspark.__version__}

    def run(self, feed: Path, output: Path) -> Ran:
        """Run the plan and write its rows."""
        shuffled = Shuffled(self.spark)
        return Ran(self.merge(feed, output), shuffled.bytes)

    def merge(self, feed: Path, output: Path) -> str:
        """Run the plan; return its name."""
        how, rows = getattr(self, f"_{self.plan}")(feed)
        self._write(rows, output)
        return how

    def stop(self) -> None:
        """Stop Spark."""
        self.spark.stop()

    def _write(self, rows: DataFrame, output: Path) -> None:
        rows.select("line").write.text(str(output))

    def _window(self, feed: Path) -> tuple[str, DataFrame]:
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        rows = self._master().withColumn("op", f.lit("U")).unionByName(self._feed(feed))
        last = f.row_number().over(Window.partitionBy("id").orderBy(f.desc("time")))
        return "row_number of all rows", rows.withColumn("rank", last).where("rank = 1 and op <> 'D'")

    def _max_by(self, feed: Path) -> tuple[str, DataFrame]:
        from pyspark.sql import functions as f

        rows = self._master().withColumn("op", f.lit("U")).unionByName(self._feed(feed))
        last = rows.groupBy("id").agg(f.max_by(f.struct("line", "op"), "time").alias("last"))
        return "max_by of all rows", last.where("last.op <> 'D'").select("last.line")

    def _anti_join(self, feed: Path) -> tuple[str, DataFrame]:
        """Keep the master rows that the feed does not supersede; add the winners that are not late."""
        from pyspark.sql import functions as f

        hint, how = hint_for(feed)
        master, winners = self._master(), self._winners(feed)
        newest = hint(winners.select(f.col("id").alias("key"), f.col("time").alias("newest")))
        same = f.col("id") == f.col("key")
        kept = master.join(newest, same & (f.col("newest") >= f.col("time")), "left_anti").select("line")
        late = master.join(newest, same & (f.col("newest") < f.col("time"))).select("id")
        added = winners.where("op <> 'D'").join(hint(late), "id", "left_anti").select("line")
        return f"anti-join + union, {how}", kept.union(added)

    def _left_join(self, feed: Path) -> tuple[str, DataFrame]:
        """Decide for each row of the master; add the winners with new keys."""
        from pyspark.sql import functions as f

        hint, how = hint_for(feed)
        master = self._master()
        last = f.max_by(f.struct("time", "line", "op"), "time").alias("last")
        winners = self._feed(feed).groupBy("id").agg(last)
        rows = master.join(hint(winners), "id", "left").where("last is null or time > last.time or last.op <> 'D'")
        decided = rows.select(f.expr("case when last is null or time > last.time then line else last.line end as line"))
        known = master.select("id").join(hint(winners.select("id")), "id")
        added = winners.where("last.op <> 'D'").join(hint(known), "id", "left_anti").select("last.line")
        return f"left join + union, {how}", decided.union(added)

    def _full_join(self, feed: Path) -> tuple[str, DataFrame]:
        """Fold the feed, join it with the master (full outer join), decide row by row."""
        from pyspark.sql import functions as f

        last = f.max_by(f.struct("time", "line", "op"), "time").alias("last")
        winners = self._feed(feed).groupBy("id").agg(last)
        rows = self._master().join(winners, "id", "full").where("last is null or time > last.time or last.op <> 'D'")
        return "full outer join", rows.select(
            f.expr("case when last is null or time > last.time then line else last.line end as line")
        )

    def _winners(self, feed: Path) -> DataFrame:
        from pyspark.sql import functions as f

        last = f.max_by(f.struct("time", "line", "op"), "time").alias("last")
        return self._feed(feed).groupBy("id").agg(last).select("id", "last.*")

    def _master(self) -> DataFrame:
        from pyspark.sql import functions as f

        value = f.col("value")
        return self.spark.read.text(str(self.master)).select(
            f.substring_index(value, ",", 1).alias("id"),
            f.substring_index(value, ",", -1).cast("long").alias("time"),
            value.alias("line"),
        )

    def _feed(self, feed: Path) -> DataFrame:
        from pyspark.sql import functions as f

        value = f.col("value")
        return self.spark.read.text(str(feed)).select(
            f.substring_index(value, ",", 1).alias("id"),
            f.substring_index(f.substring_index(value, ",", -2), ",", 1).cast("long").alias("time"),
            f.substring_index(value, ",", 5).alias("line"),
            f.substring_index(value, ",", -1).alias("op"),
        )


def hint_for(feed: Path) -> tuple[Callable[[DataFrame], DataFrame], str]:
    """Return the hint that a user would give for a feed of this size, and its name."""
    from pyspark.sql import functions as f

    if sum(path.stat().st_size for path in feed.iterdir()) <= BROADCAST_BYTES:
        return f.broadcast, "broadcast"
    return lambda rows: rows, "join chosen by Spark"
