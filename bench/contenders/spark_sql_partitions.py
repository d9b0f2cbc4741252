"""Spark SQL on a master in Hive-style directories, which it changes in place: ``partitionOverwriteMode=dynamic``.

Spark replaces the directories for which a plan has rows. The user chooses the reach of a plan:

- ``whole`` reads and writes all partitions;
- ``touched`` reads all partitions, and writes those that a semi-join with the feed leaves;
- ``named`` collects the partitions of the feed, and names them in the query;
- ``catalogue`` names them to a catalogue that has their paths, so that Spark need not list all directories. The
  catalogue is in the driver's memory; no metastore is used.

Shuffled rows are grouped by partition. Otherwise each task would write a file to each partition.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bench.contenders.contender import Contender, Ran
from bench.contenders.spark import Shuffled, session
from bench.layout import PARTITIONED_FEED_FIELDS, PARTITIONED_MASTER_FIELDS, TYPES, is_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SparkSqlPartitions"]

KEY = ["store", "id"]
TABLE = "master"  # in the catalogue
# Rows of text stay whole lines, from which only key, time and op code are extracted.
LINE = ["line"]
COLUMNS = ["name", "stock", "price"]


class SparkSqlPartitions(Contender):
    """One of the plans, with one of the reaches."""

    def __init__(self, plan: str, reach: str) -> None:
        self.plan = PLANS[plan]
        self.reach = reach

    def start(self, scratch: Path) -> dict[str, str]:
        """Start the same session as mutator's; it overwrites only partitions for which a plan has rows."""
        import pyspark

        self.spark = session(scratch, **{"spark.sql.sources.partitionOverwriteMode": "dynamic"})
        return {"pyspark": pyspark.__version__}

    def prepare(self, master: Path, state: Path) -> None:
        """Make the table of hard links: Spark does not change existing files."""
        self.master, self.table, self.text = master, state / "table", is_text(master)
        self.reset()
        if self.reach == "catalogue":
            fields = "value string, store int" if self.text else _schema(PARTITIONED_MASTER_FIELDS)
            form = "text" if self.text else "parquet"
            self.spark.sql(f"drop table if exists {TABLE}")
            self.spark.sql(
                f"create table {TABLE} ({fields}) using {form} partitioned by (store) location '{self.table}'"
            )
            self.spark.sql(f"msck repair table {TABLE}")

    def reset(self) -> None:
        """Restore the table."""
        shutil.rmtree(self.table, ignore_errors=True)
        shutil.copytree(self.master, self.table, copy_function=os.link)

    def run(self, feed: Path, output: Path) -> Ran:
        """Merge the feed into the table."""
        shuffled = Shuffled(self.spark)
        master, mutations = self._rows_of_master(), self._rows_of_feed(feed)
        how = "all partitions"
        if self.reach == "touched":
            from pyspark.sql import functions as f

            master = master.join(f.broadcast(mutations.select("store").distinct()), "store", "left_semi")
            how = "partitions of a semi-join"
        elif self.reach in ("named", "catalogue"):
            names = [row.store for row in mutations.select("store").distinct().collect()]
            master = master.where(master.store.isin(names))
            how = f"{len(names)} partitions by name"
        self._write(self.plan(master, mutations, LINE if self.text else COLUMNS))
        return Ran(how, shuffled.bytes)

    def export(self, output: Path, to: Path) -> Path:
        """Return the table."""
        return self.table

    def stop(self) -> None:
        """Stop Spark."""
        self.spark.stop()

    def _rows_of_master(self) -> DataFrame:
        """Read key, time and the rest."""
        from pyspark.sql import functions as f

        if self.reach == "catalogue":
            rows = self.spark.table(TABLE)
        elif self.text:
            rows = self.spark.read.text(str(self.table))
        else:
            rows = self.spark.read.schema(_schema(PARTITIONED_MASTER_FIELDS)).parquet(str(self.table))
        if not self.text:
            return rows.select(*KEY, "time", *COLUMNS)
        value = f.col("value")
        return rows.select(
            "store",
            f.substring_index(value, ",", 1).alias("id"),
            f.substring_index(value, ",", -1).cast("long").alias("time"),
            value.alias("line"),
        )

    def _rows_of_feed(self, feed: Path) -> DataFrame:
        """Read key, time, the rest and the op code."""
        from pyspark.sql import functions as f

        if not self.text:
            rows = self.spark.read.schema(_schema(PARTITIONED_FEED_FIELDS)).parquet(str(feed))
            return rows.select(*KEY, "time", *COLUMNS, "op")
        value = f.col("value")
        return self.spark.read.text(str(feed)).select(
            f.substring_index(f.substring_index(value, ",", 2), ",", -1).cast("int").alias("store"),
            f.substring_index(value, ",", 1).alias("id"),
            f.substring_index(f.substring_index(value, ",", -2), ",", 1).cast("long").alias("time"),
            f.substring_index(value, ",", len(PARTITIONED_MASTER_FIELDS)).alias("line"),
            f.substring_index(value, ",", -1).alias("op"),
        )

    def _write(self, rows: DataFrame) -> None:
        rows = rows.select("line", "store") if self.text else rows.select("id", *COLUMNS, "time", "store")
        if self.reach == "catalogue":
            rows.write.insertInto(TABLE, overwrite=True)
            return
        writer = rows.write.mode("overwrite").partitionBy("store")
        (writer.text if self.text else writer.parquet)(str(self.table))


def _window(master: DataFrame, mutations: DataFrame, rest: list[str]) -> DataFrame:
    """Number the rows of each key, the last one first."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    rows = master.withColumn("op", f.lit("U")).unionByName(mutations).repartition("store")
    last = f.row_number().over(Window.partitionBy(*KEY).orderBy(f.desc("time")))
    return rows.withColumn("rank", last).where("rank = 1 and op <> 'D'")


def _left_join(master: DataFrame, mutations: DataFrame, rest: list[str]) -> DataFrame:
    """Keep the master rows that the feed does not supersede; add the winners that are not late."""
    from pyspark.sql import functions as f

    last = f.max_by(f.struct("time", *rest, "op"), "time").alias("last")
    winners = mutations.groupBy(*KEY).agg(last).select(*KEY, "last.*")
    rows = master.join(f.broadcast(winners.select(*KEY, f.col("time").alias("newest"))), KEY, "left")
    late = f.broadcast(rows.where("newest < time").select(*KEY))
    added = winners.where("op <> 'D'").join(late, KEY, "left_anti").drop("op")
    return rows.where("newest is null or newest < time").drop("newest").unionByName(added)


def _schema(fields: tuple[str, ...]) -> str:
    return ", ".join(f"{name} {TYPES[name]}" for name in fields)


PLANS: dict[str, Callable[[DataFrame, DataFrame, list[str]], DataFrame]] = {"window": _window, "left join": _left_join}
