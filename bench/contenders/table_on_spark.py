"""A version of a versioned table, read by Spark in two ways, and the same rows as plain Parquet files."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from bench.contenders.contender import Contender, Ran
from bench.contenders.mutator_table import local_runner, new_table
from bench.contenders.spark import session
from bench.contenders.table_reads import FEW, SMALL, apply_feeds
from bench.digest import data_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["TableOnSpark"]

PLAIN, FRAME, FORMAT = "plain Parquet", "Table.dataframe", 'format("mutator")'
ROUNDS = 5  # of all ways in turn, of which the median counts


class TableOnSpark(Contender):
    """A table with ten versions of 0.1 %, and an export of the last one. Each way makes its DataFrame anew."""

    def start(self, scratch: Path) -> dict[str, str]:
        """Start Spark."""
        import mutator

        self.spark = session(scratch)
        mutator.register(self.spark)
        return {"Spark": self.spark.version}

    def prepare(self, master: Path, state: Path) -> None:
        """Create the table, apply its feeds, and export its rows."""
        self.table, self.plain = state / "table", state / "plain"
        if not state.exists():
            state.mkdir(parents=True)
            table = new_table(self.table, master)
            rows = sum(pq.read_metadata(path).num_rows for path in data_files(master))
            apply_feeds(table, rows, rows // SMALL, FEW)
            table.export(str(self.plain), open_runner=local_runner)

    def run(self, feed: Path, output: Path) -> Ran:
        """Count, and sum by group, in each way in turn; all must find the same."""
        seconds: dict[str, list[float]] = {}
        found: dict[str, Any] = {}
        works = {"count": (_count, ()), "group-by": (_grouped, ("stock", "price", "time"))}
        for number in range(ROUNDS):
            ways = (PLAIN, FRAME, FORMAT)
            for way in ways[number % 3 :] + ways[: number % 3]:
                for work, (read, columns) in works.items():
                    started = time.monotonic()
                    result = read(self._rows(way, columns))
                    seconds.setdefault(f"{work}, {way}", []).append(time.monotonic() - started)
                    if found.setdefault(work, result) != result:
                        raise ValueError(f"{work}: {way} finds other rows")
        return Ran(
            f"medians of {ROUNDS} rounds", steps={name: median(times) for name, times in sorted(seconds.items())}
        )

    def export(self, output: Path, to: Path) -> None:
        """Return None: there is no result."""

    def stop(self) -> None:
        """Stop Spark."""
        self.spark.stop()

    def _rows(self, way: str, columns: tuple[str, ...]) -> DataFrame:
        from mutator.table.table import Table

        if way == PLAIN:
            return self.spark.read.parquet(str(self.plain))
        if way == FRAME:
            return Table(str(self.table)).dataframe(self.spark)
        reader = self.spark.read.format("mutator").option("columns", ",".join(columns or ("id",)))
        return reader.load(str(self.table))


def _count(rows: DataFrame) -> int:
    return rows.count()


def _grouped(rows: DataFrame) -> list[tuple[Any, ...]]:
    """Return the count, the sum of prices and the newest time of each of a thousand groups."""
    from pyspark.sql import functions as f

    groups = rows.groupBy((f.col("stock") % 1000).alias("group")).agg(f.count("*"), f.sum("price"), f.max("time"))
    return sorted(map(tuple, groups.collect()))
