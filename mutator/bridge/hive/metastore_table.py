"""A table of the metastore, read and written by Spark; its commit is the metastore's.

Read DataFrames as Arrow batches in tasks, and make DataFrames of Arrow batches.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from mutator.bridge.contract import Batches, BridgeFile, Partition, StagedRows, Work
from mutator.bridge.digests import changed_partitions, digests_of
from mutator.bridge.hive.staged_table import Staged, create_table
from mutator.bridge.hive.table import HiveTable
from mutator.bridge.importing import whole_copy
from mutator.bridge.text_dataset import WrittenDataset, text_ranges
from mutator.bridge.write import by_partition
from mutator.engine.runner import each_on
from mutator.engine.spark.jvm_log import spark_faults
from mutator.engine.spark.spark_runner import SparkRunner, attempt
from mutator.errors import error, suppressed
from mutator.errors.display import counted
from mutator.errors.exceptions import packed
from mutator.frames.file_rows import read_range
from mutator.rules.partition_paths import values_of


def on_batches(frame: DataFrame, schema: Any, work: Callable[[Batches, int, int], Any]) -> list[Any]:
    """Apply a function to (rows, number, attempt) of each task; return its results.

    schema: pa.Schema that the rows are cast to: Spark has instants in the session's time zone.
    """
    with spark_faults(frame.sparkSession.sparkContext):
        # rows -> the function's result, pickled, one for each task
        found = _mapped(frame, partial(_worked, schema, work), "result binary").collect()
    return [pickle.loads(row.result) for row in found]


def frame_of(spark: SparkSession, ranges: Sequence[Any], read: Callable[[Any], Batches], like: DataFrame) -> DataFrame:
    """Return the rows of all ranges, each read by a task of its own. like: a DataFrame with the schema of the rows."""
    numbered = [(pickle.dumps(file_range),) for file_range in ranges]
    # (file_range)
    rows = spark.sparkContext.parallelize(numbered, max(len(numbered), 1))
    # -> rows
    return _mapped(spark.createDataFrame(rows, "file_range binary"), partial(_read, read), like.schema)


def _mapped(frame: DataFrame, function: Callable[[Batches], Batches], schema: Any) -> DataFrame:
    try:
        return frame.mapInArrow(function, schema)
    except ImportError:
        raise error("hive.pandas", where=sys.executable) from None


def _worked(schema: Any, work: Callable[[Batches, int, int], Any], batches: Batches) -> Batches:
    context = TaskContext.get()
    number = 0 if context is None else context.partitionId()
    with packed():
        found = work(_cast(schema, batches), number, attempt())
    yield pa.RecordBatch.from_pydict({"result": [pickle.dumps(found)]}, pa.schema([("result", pa.binary())]))


def _cast(schema: Any, batches: Batches) -> Batches:
    for batch in batches:
        yield from pa.Table.from_batches([batch]).cast(schema).to_batches()


def _read(read: Callable[[Any], Batches], batches: Batches) -> Batches:
    with packed():
        for batch in batches:
            for file_range in batch.column(0).to_pylist():
                yield from read(pickle.loads(file_range))


class MetastoreTable:
    """A table of the metastore; implements ``contract.Table``."""

    def __init__(self, spark: Any, name: str) -> None:
        """Look the table up. Raises ConfigError if it cannot be replaced in one step."""
        self._spark, self._table = spark, HiveTable(spark, name)
        self.name = self.given = self._table.name
        self.format = self._table.format
        self.schema, self.partition_fields = self._table.schema, self._table.partition_fields

    def adopt(self, schema: Any) -> None:
        """Raise ConfigError if the rows have other fields; values are checked against the table's types when read."""
        if sorted(schema.names) != sorted(self.schema.names):
            what = f"has the fields {', '.join(self.schema.names)}, and the text has {', '.join(schema.names)}"
            cure = "alter the table, or leave the new fields out with output.schema"
            raise error("table.place", path=self.name, why=what, cure=cure)

    def files(self) -> tuple[BridgeFile, ...]:
        """Return the files in the locations that the metastore has."""
        return self._table.files()

    def check_replaceable(self) -> None:
        """Do nothing: tables that cannot be replaced are refused by ``__init__``."""

    def export(self, work: Work) -> list[Any]:
        """Apply a function to all rows, in tasks of Spark."""
        return on_batches(self._table.read(), self.schema, work)

    def stage(
        self,
        ranges: Sequence[Any],
        read: Callable[[Any], Batches],
        run: str,
        partitions: Sequence[Partition] | None,
    ) -> StagedRows:
        """Insert the rows into new locations."""
        fields, replaced = self.partition_fields, None
        if fields:
            if partitions is None:
                there = [tuple(value for _, value in values_of(one)) for one in self._table.partitions()]
                partitions = list(dict.fromkeys([*there, *self._all(ranges)]))
            read = partial(_of_partitions, read, fields, frozenset(partitions))
            replaced = [dict(zip(fields, one, strict=True)) for one in partitions]
        if self._table.keeps_milliseconds:
            read = partial(_in_milliseconds, read)
        frame = frame_of(self._spark, ranges, read, self._table.read())
        change = self._table.stage(frame, run, replaced)
        moved = {move.partition for move in change.moves}
        files = sorted([*(one for one in self._table.files() if one.partition not in moved), *change.files])
        record = {"files": [asdict(one) for one in files], "rows": change.rows, "staged": change.record()}
        return StagedRows(tuple(files), change.rows, record)

    def _all(self, ranges: Sequence[Any]) -> list[Partition]:
        """Return the partitions of all rows."""
        digests = digests_of(each_on(SparkRunner(self._spark.sparkContext)), ranges, self.partition_fields, {})
        return changed_partitions({}, digests)

    def commit(self, record: Mapping[str, Any]) -> None:
        """Set the locations of the table, or of its partitions, to the staged ones."""
        self._table.commit(Staged.of(record["staged"]))

    def discard(self, run: str) -> None:
        """Remove the files that a run staged, unless it committed them."""
        with suppressed("hive.live"):
            self._table.discard(run)

    def retire(self, record: Mapping[str, Any]) -> None:
        """Remove the locations that a commit replaced."""
        self._table.retire(Staged.of(record["staged"]))


def import_to_table(spark: Any, source: str, name: str, file_format: str | None, run: str) -> WrittenDataset:
    """Replace all rows of a table by those of a text copy, in one step.

    file_format: a missing table is created with this format; None: the table must exist.
    """
    path, known = whole_copy(source)
    schema, ranges = text_ranges(path, known)
    if file_format is not None:
        create_table(spark, name, schema, tuple(known.spec.get("partitioned by", ())), file_format)
    table = MetastoreTable(spark, name)
    if file_format not in (None, table.format):
        raise error(
            "table.place", path=table.name, why=f"stores {table.format}", cure=f"leave out --format {file_format}"
        )
    table.adopt(schema)
    before, rows = table.files(), known.commit.records
    try:
        staged = table.stage(ranges, partial(read_range, schema=table.schema), run, None)
        if table.files() != before:
            raise error("table.changed", table=table.name, what="was replaced")
        if staged.rows != rows:
            what = f"{table.name}: wrote {counted(staged.rows, 'row')}, and the text has {rows:,}"
            raise error("sums", problems=what)
    except BaseException:
        table.discard(run)
        raise
    table.commit(staged.record)
    table.retire(staged.record)
    return WrittenDataset(len(staged.files), rows, sum(one.bytes for one in staged.files))


def _in_milliseconds(read: Callable[[Any], Batches], file_range: Any) -> Batches:
    """Read rows. Raises DataError for a timestamp that milliseconds cannot store."""
    for batch in read(file_range):
        for field, column in zip(batch.schema, batch.columns, strict=True):
            for leaf in _instants(column):
                finer = leaf.filter(pa.array(np.asarray(leaf.cast(pa.int64())) % 1000 != 0))
                if len(finer):
                    what = (
                        f"field {field.name} has {finer[0].cast(pa.string())}, and a table of Avro keeps milliseconds"
                    )
                    cure = "round the times, or use a table of ORC or Parquet files"
                    raise error("format", path=file_range.path, what=what, cure=cure)
        yield batch


def _instants(column: Any) -> Iterator[Any]:
    """Yield the non-NULL timestamps of a column, however nested."""
    data_type = column.type
    if pa.types.is_timestamp(data_type):
        yield column.drop_null()
    elif pa.types.is_map(data_type):
        yield from _instants(column.keys)
        yield from _instants(column.items)
    elif pa.types.is_list(data_type):
        yield from _instants(column.flatten())
    elif pa.types.is_struct(data_type):
        for child in column.flatten():
            yield from _instants(child)


def _of_partitions(
    read: Callable[[Any], Batches], fields: Sequence[str], wanted: frozenset[Partition], file_range: Any
) -> Batches:
    """Read only the rows of the wanted partitions."""
    for batch in read(file_range):
        rows = [numbers for partition, numbers in by_partition(batch, fields) if partition in wanted]
        if rows:
            yield batch.take(pa.array(np.sort(np.concatenate(rows))))
