"""Read DataFrames as Arrow batches in tasks, and make DataFrames of Arrow batches."""

import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from mutator.engine.spark.faults import spark_faults
from mutator.engine.spark.spark_runner import attempt
from mutator.errors import error

Batches = Iterator[Any]  # of pa.RecordBatch


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
    found = work(_cast(schema, batches), number, attempt())
    yield pa.RecordBatch.from_pydict({"result": [pickle.dumps(found)]}, pa.schema([("result", pa.binary())]))


def _cast(schema: Any, batches: Batches) -> Batches:
    for batch in batches:
        yield from pa.Table.from_batches([batch]).cast(schema).to_batches()


def _read(read: Callable[[Any], Batches], batches: Batches) -> Batches:
    for batch in batches:
        for file_range in batch.column(0).to_pylist():
            yield from read(pickle.loads(file_range))
