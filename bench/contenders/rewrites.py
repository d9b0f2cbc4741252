"""A table after ten versions of 5 %, whose rows are written into few files without hidden rows: a compaction."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq

from bench.contenders.contender import Contender, Ran
from bench.contenders.lakehouse import DeltaVectors, IcebergOnRead
from bench.contenders.mutator_table import local_runner, new_table, write_rows
from bench.contenders.spark import read
from bench.contenders.spark_sql_parquet import SparkSqlParquet
from bench.contenders.table_reads import FEW, LARGE, apply_feeds, write_feeds
from bench.digest import data_files
from bench.layout import MASTER_FIELDS

__all__ = ["DeltaOptimize", "IcebergRewrite", "MutatorCompact", "SparkRewrite"]


def _rows(master: Path) -> int:
    return sum(pq.read_metadata(path).num_rows for path in data_files(master))


class MutatorCompact(Contender):
    """``Table.compact`` of all buckets: the clock includes opening the table."""

    def start(self, scratch: Path) -> dict[str, str]:
        """Start nothing."""
        return {"pyarrow": importlib.metadata.version("pyarrow")}

    def prepare(self, master: Path, state: Path) -> None:
        """Create the table and apply its feeds."""
        self.pristine, self.path = state / "pristine", state / "table"
        if not self.pristine.exists():
            state.mkdir(parents=True, exist_ok=True)
            rows = _rows(master)
            apply_feeds(new_table(self.pristine, master), rows, rows // LARGE, FEW)

    def reset(self) -> None:
        """Make a new table of hard links: a compaction changes no file."""
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.copytree(self.pristine, self.path, copy_function=os.link)

    def run(self, feed: Path, output: Path) -> Ran:
        """Open the table and compact it."""
        from mutator.table.table import Table

        self.table = Table(str(self.path))
        report = self.table.compact(everything=True, open_runner=local_runner)
        return Ran(f"{report.files_before} files became {report.files_after}")

    def export(self, output: Path, to: Path) -> Path:
        """Scan the table."""
        to.mkdir(parents=True)
        write_rows(self.table, to / "part.parquet")
        return to


class SparkRewrite(SparkSqlParquet):
    """Spark SQL.

    ``rows`` reads plain Parquet files of the live rows, and writes them again: the least that a rewrite can do.
    ``window`` reads the master and all feeds, as a table that merges when it is read, and keeps the last row of an ID.
    """

    def prepare(self, master: Path, state: Path) -> None:
        """Write the feeds, and export the rows of mutator's table."""
        self.master, self.plain, self.feeds = master, state / "plain", state / "feeds"
        if state.exists():
            return
        state.mkdir(parents=True)
        rows = _rows(master)
        write_feeds(self.feeds, rows, rows // LARGE, FEW)
        if self.plan == "rows":
            table = new_table(state / "table", master)
            apply_feeds(table, rows, rows // LARGE, FEW)
            table.export(str(self.plain), open_runner=local_runner)

    def merge(self, feed: Path, output: Path) -> str:
        """Run the plan; return its name."""
        return super().merge(self.feeds, output)

    def _rows(self, feed: Path):
        return "read and write the live rows", self.spark.read.parquet(str(self.plain))

    def _all(self, feed: Path):
        from functools import reduce

        from pyspark.sql import functions as f

        parts = [read(self.spark, one, (*MASTER_FIELDS, "op")) for one in sorted(feed.iterdir())]
        return reduce(lambda one, other: one.union(other), parts, self._master().withColumn("op", f.lit("U")))


class _Merged:
    """A table to which feeds have been merged."""

    def _merge_feeds(self, master: Path, state: Path) -> None:
        rows, feeds = _rows(master), state / "feeds"
        if not feeds.exists():
            write_feeds(feeds, rows, rows // LARGE, FEW)
        for feed in sorted(feeds.iterdir()):
            super().run(feed, state)  # type: ignore[misc]  # of the lakehouse


class DeltaOptimize(_Merged, DeltaVectors):
    """``REORG … APPLY (PURGE)``, which rewrites files with deletion vectors, then ``OPTIMIZE``."""

    def prepare(self, master: Path, state: Path) -> None:
        """Write the table and merge the feeds."""
        if (state / "merged").exists():
            super().prepare(master, state)
            return
        super().prepare(master, state)
        self.spark.sql("DROP TABLE IF EXISTS master")  # of the warm-up
        self.spark.sql(f"CREATE TABLE master USING delta LOCATION '{self._pristine()}'")
        self._merge_feeds(master, state)
        self.spark.sql("DROP TABLE master")
        (state / "merged").touch()

    def run(self, feed: Path, output: Path) -> Ran:
        """Rewrite the table."""
        self.spark.sql(f"REORG TABLE {self._table()} APPLY (PURGE)")
        self.spark.sql(f"OPTIMIZE {self._table()}")
        return Ran("reorg with purge, then optimize")


class IcebergRewrite(_Merged, IcebergOnRead):
    """``rewrite_data_files`` of all files."""

    def prepare(self, master: Path, state: Path) -> None:
        """Write the table, merge the feeds, and remember its snapshot."""
        super().prepare(master, state)
        self._merge_feeds(master, state)
        (self.snapshot,) = self.spark.sql(
            f"SELECT snapshot_id FROM {self._table()}.snapshots ORDER BY committed_at DESC LIMIT 1"
        ).first()

    def run(self, feed: Path, output: Path) -> Ran:
        """Rewrite the table."""
        self.spark.sql(
            "CALL lake.system.rewrite_data_files(table => 'bench.master', options => map('rewrite-all', 'true'))"
        )
        return Ran("rewrite_data_files")
