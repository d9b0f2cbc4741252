"""A version of a table as an RDD of Arrow batches, which workers read with mutator, as a scan does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark import RDD, SparkContext
from pyspark.sql import SparkSession

from mutator.dataset.file_entry import DATA
from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.spark.frames import context_of
from mutator.engine.spark.jvm_start import use_own_python
from mutator.rules.conditions import Where
from mutator.table.scan_parts import ScanPart, parts_of

_TASK, _FEWEST = 32 << 20, 2  # bytes of the files that a task reads, and the fewest tasks


def tasks_of(snapshot: Snapshot, at_once: int = _FEWEST) -> int:
    """Return the number of tasks that read a version. at_once: how many can run at the same time."""
    size = sum(file.bytes for file in snapshot.of_role(DATA))
    return max(_FEWEST, at_once, -(-size // _TASK))


def rdd_of_batches(
    snapshot: Snapshot,
    spark: SparkSession | SparkContext,
    columns: Sequence[str] | None,
    where: Where,
    partitions: int | None,
) -> RDD[Any]:
    """Return the live rows of a version as an RDD of pa.RecordBatches, of at most so many partitions.

    columns, where: as for ``scan_of``. Raises ConfigError as a scan does, for a session that has ended, and for one of
    Spark Connect.
    """
    sc = context_of(spark, "Table.rdd()")
    use_own_python(sc)
    number = tasks_of(snapshot, sc.defaultParallelism) if partitions is None else partitions
    parts = parts_of(snapshot, columns, where, number)
    return sc.parallelize(parts, max(len(parts), 1)).flatMap(_batches)


def _batches(part: ScanPart) -> Iterator[Any]:
    return part.batches()
