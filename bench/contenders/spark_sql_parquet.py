"""Spark SQL on Parquet, in the same five plans: columns instead of lines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench.contenders.spark import fold, read
from bench.contenders.spark_sql import SparkSql, hint_for
from bench.layout import FEED_FIELDS, MASTER_FIELDS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["SparkSqlParquet"]


class SparkSqlParquet(SparkSql):
    """One of the plans."""

    def _write(self, rows: DataFrame, output: Path) -> None:
        rows.select(*MASTER_FIELDS).write.parquet(str(output))

    def _window(self, feed: Path) -> tuple[str, DataFrame]:
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        last = f.row_number().over(Window.partitionBy("id").orderBy(f.desc("time")))
        return "row_number of all rows", self._all(feed).withColumn("rank", last).where("rank = 1 and op <> 'D'")

    def _max_by(self, feed: Path) -> tuple[str, DataFrame]:
        from pyspark.sql import functions as f

        last = f.max_by(f.struct("name", "stock", "price", "time", "op"), "time").alias("last")
        rows = self._all(feed).groupBy("id").agg(last)
        return "max_by of all rows", rows.select("id", "last.*").where("op <> 'D'")

    def _anti_join(self, feed: Path) -> tuple[str, DataFrame]:
        """Keep the master rows that the feed does not supersede; add the winners that are not late."""
        from pyspark.sql import functions as f

        hint, how = hint_for(feed)
        master, winners = self._master(), fold(self.spark, feed)
        newest = hint(winners.select(f.col("id").alias("key"), f.col("time").alias("newest")))
        same = f.col("id") == f.col("key")
        kept = master.join(newest, same & (f.col("newest") >= f.col("time")), "left_anti")
        late = master.join(newest, same & (f.col("newest") < f.col("time"))).select("id")
        added = winners.where("op <> 'D'").join(hint(late), "id", "left_anti")
        return f"anti-join + union, {how}", kept.union(added.select(*MASTER_FIELDS))

    def _left_join(self, feed: Path) -> tuple[str, DataFrame]:
        """Decide for each row of the master; add the winners with new keys."""
        hint, how = hint_for(feed)
        master, winners = self._master(), fold(self.spark, feed)
        rows = master.alias("master").join(hint(winners.alias("feed")), "id", "left").where(KEPT)
        known = master.select("id").join(hint(winners.select("id")), "id")
        added = winners.where("op <> 'D'").join(hint(known), "id", "left_anti")
        return f"left join + union, {how}", rows.select("id", *_decided()).union(added.select(*MASTER_FIELDS))

    def _full_join(self, feed: Path) -> tuple[str, DataFrame]:
        """Fold the feed, join it with the master (full outer join), decide row by row."""
        rows = self._master().alias("master").join(fold(self.spark, feed).alias("feed"), "id", "full").where(KEPT)
        return "full outer join", rows.select("id", *_decided())

    def _all(self, feed: Path) -> DataFrame:
        from pyspark.sql import functions as f

        return self._master().withColumn("op", f.lit("U")).union(read(self.spark, feed, FEED_FIELDS))

    def _master(self) -> DataFrame:
        return read(self.spark, self.master, MASTER_FIELDS)


# Of a joined row; a missing side has only nulls.
OLD = "feed.time is null or master.time > feed.time"
KEPT = f"{OLD} or feed.op <> 'D'"


def _decided() -> list[Column]:
    from pyspark.sql import functions as f

    fields = MASTER_FIELDS[1:]
    return [f.expr(f"case when {OLD} then master.{name} else feed.{name} end as {name}") for name in fields]
