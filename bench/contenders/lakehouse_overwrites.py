"""Delta's and Hudi's own insert overwrite on Spark: of the partitions that a feed has rows of, or of a whole table."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from bench.contenders.contender import Ran
from bench.contenders.lakehouse import Delta, Hudi
from bench.contenders.spark import Shuffled, read
from bench.layout import PARTITIONED_FEED_FIELDS, PARTITIONED_MASTER_FIELDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["DeltaOverwrite", "HudiOverwrite"]


class _Overwrite:
    """What the overwrites of both have in common; the table is found by its path."""

    def __init__(self, reach: str) -> None:
        self.whole = reach == "table"

    def reset(self) -> None:
        """Copy the table to a new path, which no cache knows."""
        shutil.rmtree(self._copy(), ignore_errors=True)
        self.number += 1
        shutil.copytree(self._pristine(), self._copy())

    def run(self, feed: Path, output: Path) -> Ran:
        """Keep the last mutation of each ID, without the deletes, and overwrite."""
        from pyspark.sql import functions as f

        shuffled = Shuffled(self.spark)
        last = f.max_by(f.struct("name", "stock", "price", "time", "op"), "time").alias("last")
        rows = read(self.spark, feed, PARTITIONED_FEED_FIELDS).groupBy("id", "store").agg(last)
        rows = rows.select("id", "store", "last.*").where("op <> 'D'").select(*PARTITIONED_MASTER_FIELDS)
        self._overwrite(rows)
        return Ran("of the table" if self.whole else "of partitions", shuffled.bytes)

    def export(self, output: Path, to: Path) -> Path:
        """Read the table back."""
        line = f"concat_ws(',', {', '.join(PARTITIONED_MASTER_FIELDS)}) AS line"
        table = self.spark.read.format(self.environment.name).load(str(self._copy()))
        table.selectExpr(line).write.text(str(to))
        return to

    def prepare(self, master: Path, state: Path) -> None:
        """Write the master as a table, with one file for each partition."""
        self.state = state
        for copy in state.glob("table-*"):  # of this contender's previous process, if it was stopped to free memory
            shutil.rmtree(copy)
        if not self._pristine().exists():
            rows = read(self.spark, master, PARTITIONED_MASTER_FIELDS).repartition("store")
            self._write(rows, self._pristine())


class DeltaOverwrite(_Overwrite, Delta):
    """``mode("overwrite")``; of partitions by ``partitionOverwriteMode=dynamic``."""

    def _write(self, rows: DataFrame, path: Path) -> None:
        rows.write.format("delta").partitionBy("store").save(str(path))

    def _overwrite(self, rows: DataFrame) -> None:
        mode = "static" if self.whole else "dynamic"
        writer = rows.write.format("delta").partitionBy("store").mode("overwrite")
        writer.option("partitionOverwriteMode", mode).save(str(self._copy()))


class HudiOverwrite(_Overwrite, Hudi):
    """The operations ``insert_overwrite`` and ``insert_overwrite_table`` of a copy-on-write table."""

    keys: ClassVar[dict[str, str]] = {
        "hoodie.table.name": "master",
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "time",
        "hoodie.datasource.write.partitionpath.field": "store",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.parquet.compression.codec": "snappy",
    }

    def _write(self, rows: DataFrame, path: Path) -> None:
        self._save(rows, path, "bulk_insert", "overwrite")

    def _overwrite(self, rows: DataFrame) -> None:
        self._save(rows, self._copy(), "insert_overwrite_table" if self.whole else "insert_overwrite", "append")

    def _save(self, rows: DataFrame, path: Path, operation: str, mode: str) -> None:
        writer = rows.write.format("hudi").options(**self.keys).mode(mode)
        writer.option("hoodie.datasource.write.operation", operation).save(str(path))
