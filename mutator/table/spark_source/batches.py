"""A version of a table as an RDD of Arrow batches, which workers read with mutator, as a scan does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pyspark import RDD, SparkContext
from pyspark.sql import SparkSession

from mutator.dataset.file_entry import DATA, OF_HISTORY, FileEntry
from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.spark.frames import context_of
from mutator.engine.spark.jvm_start import use_own_python
from mutator.rules.conditions import Where
from mutator.table.history import History, HistoryPart
from mutator.table.history_settings import check_has_history
from mutator.table.scan_parts import ScanPart, parts_of

_TASK, _FEWEST = 32 << 20, 2  # bytes of the files that a task reads, and the fewest tasks


def tasks_of(files: Iterable[FileEntry], at_once: int = _FEWEST) -> int:
    """Return the number of tasks that read some files. at_once: how many can run at the same time."""
    size = sum(file.bytes for file in files)
    return max(_FEWEST, at_once, -(-size // _TASK))


def read_parts(
    snapshot: Snapshot,
    columns: Sequence[str] | None,
    where: Where,
    number: Callable[[Iterable[FileEntry]], int],
    *,
    history: bool,
    valid_at: object,
) -> Sequence[ScanPart | HistoryPart]:
    """Return the rows of a version in parts, or the versions of its records.

    number: returns how many parts there may be of some files. columns, where, valid_at: as for ``Table.scan``. Raises
    ConfigError as a scan does.
    """
    if not history and valid_at is None:
        return parts_of(snapshot, columns, where, number(snapshot.of_role(DATA)))
    check_has_history(snapshot)
    files = (file for role in OF_HISTORY for file in snapshot.of_role(role))
    return History(snapshot).parts(columns, where, valid_at, number(files))


def rdd_of_batches(
    snapshot: Snapshot,
    spark: SparkSession | SparkContext,
    columns: Sequence[str] | None,
    where: Where,
    partitions: int | None,
    *,
    history: bool = False,
    valid_at: object = None,
) -> RDD[Any]:
    """Return the rows of a version, as ``read_parts`` does, an RDD of pa.RecordBatches in so many partitions at most.

    Raises ConfigError as a scan does, for a session that has ended, and for one of Spark Connect.
    """
    sc = context_of(spark, "Table.rdd()")
    use_own_python(sc)

    def number(files: Iterable[FileEntry]) -> int:
        return tasks_of(files, sc.defaultParallelism) if partitions is None else partitions

    parts = read_parts(snapshot, columns, where, number, history=history, valid_at=valid_at)
    return sc.parallelize(parts, max(len(parts), 1)).flatMap(_batches)


def _batches(part: ScanPart | HistoryPart) -> Iterator[Any]:
    return part.batches()
