"""Arrow data of this process as DataFrames."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, types
from pyspark.sql.pandas.types import to_arrow_schema

from mutator.engine.spark.frames import FIRST_WITH_ARROW, is_older_than, with_types_of_spark

_UTC: dict[str, Any] = (
    {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
)  # Spark 3.5 has no other


def arrow_schema(form: types.StructType) -> Any:
    """Return the pa.Schema of rows with a Spark schema."""
    return to_arrow_schema(form, **_UTC)


def frame_of_arrow(spark: SparkSession, parts: Iterable[Any], form: types.StructType) -> DataFrame:
    """Return pa.Tables and pa.RecordBatches of one schema as a DataFrame."""
    tables = [part if isinstance(part, pa.Table) else pa.Table.from_batches([part]) for part in parts]
    if is_older_than(spark, FIRST_WITH_ARROW):
        rows = [row for table in tables for row in _python_rows(table)]
        return spark.createDataFrame(rows, form)
    schema = arrow_schema(form)
    whole = pa.concat_tables([schema.empty_table(), *(table.cast(schema) for table in tables)])
    return spark.createDataFrame(whole, form)


def _python_rows(table: Any) -> list[tuple[Any, ...]]:
    rows = table.cast(with_types_of_spark(table.schema), safe=False).to_pylist(maps_as_pydicts="strict")
    return [tuple(row.values()) for row in rows]
