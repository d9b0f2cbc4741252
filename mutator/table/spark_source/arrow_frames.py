"""Arrow data of this process as DataFrames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, types
from pyspark.sql.pandas.types import to_arrow_schema

from mutator.engine.spark.frames import FIRST_WITH_ARROW, is_older_than
from mutator.engine.spark.worker_python import use_own_python

_BATCH = 1 << 16  # rows that are sent together
_UTC: dict[str, Any] = (
    {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
)  # Spark 3.5 has no other


def arrow_schema(form: types.StructType) -> Any:
    """Return the pa.Schema of rows with a Spark schema."""
    return to_arrow_schema(form, **_UTC)


def frame_of_arrow(spark: SparkSession, parts: Iterable[Any], form: types.StructType) -> DataFrame:
    """Return pa.Tables and pa.RecordBatches of one schema as a DataFrame."""
    tables = [part if isinstance(part, pa.Table) else pa.Table.from_batches([part]) for part in parts]
    schema = arrow_schema(form)
    whole = pa.concat_tables([schema.empty_table(), *(table.cast(schema) for table in tables)])
    if is_older_than(spark, FIRST_WITH_ARROW):
        return _decoded_by_workers(spark, whole, form)
    return spark.createDataFrame(whole, form)


def _decoded_by_workers(spark: SparkSession, table: Any, form: types.StructType) -> DataFrame:
    """Return a pa.Table as a DataFrame: its bytes are the rows of one, which workers decode."""

    # The function is sent as it is, so workers need no mutator.
    def decoded(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow

        for batch in batches:
            for one in batch.column(0):
                yield from pyarrow.ipc.open_stream(one.as_buffer())

    use_own_python(spark.sparkContext)
    sent = []
    for batch in table.to_batches(_BATCH):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        sent.append((bytearray(sink.getvalue()),))
    packed = spark.createDataFrame(sent, types.StructType([types.StructField("arrow", types.BinaryType())]))
    return packed.mapInArrow(decoded, form)
