"""Make a table of the metastore for rows of an Arrow schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from mutator.bridge.hive.insert import quote
from mutator.bridge.hive.metastore import Metastore
from mutator.errors import error

__all__ = ["create_table"]

_SCALARS = (
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_int8, "TINYINT"),
    (lambda kind: pa.types.is_int16(kind) or pa.types.is_uint8(kind), "SMALLINT"),
    (lambda kind: pa.types.is_int32(kind) or pa.types.is_uint16(kind), "INT"),
    (lambda kind: pa.types.is_int64(kind) or pa.types.is_uint32(kind), "BIGINT"),
    (pa.types.is_uint64, "DECIMAL(20,0)"),
    (lambda kind: pa.types.is_float16(kind) or pa.types.is_float32(kind), "FLOAT"),
    (pa.types.is_float64, "DOUBLE"),
    (pa.types.is_string, "STRING"),
    (lambda kind: pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind), "BINARY"),
    (pa.types.is_date, "DATE"),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None, "TIMESTAMP"),
    (pa.types.is_timestamp, "TIMESTAMP_NTZ"),
)


def create_table(spark: SparkSession, name: str, schema: Any, partition_fields: Sequence[str], kind: str) -> None:
    """Make a managed table without rows, unless there is one of this name.

    Raises ConfigError for a field that no such table can hold.
    """
    fields = [f"{quote(one.name)} {_type(one.type, name, one.name)}" for one in schema]
    text = ", ".join(fields)
    partitions = f" PARTITIONED BY ({', '.join(map(quote, partition_fields))})" if partition_fields else ""
    # Hive has no time without a zone, so that the table is one of Spark's own then.
    how = f"USING {kind}{partitions}" if "TIMESTAMP_NTZ" in text else ""
    if not how:
        inner = ", ".join(one for one, part in zip(fields, schema, strict=True) if part.name not in partition_fields)
        outer = ", ".join(one for one, part in zip(fields, schema, strict=True) if part.name in partition_fields)
        text, how = inner, f"{f'PARTITIONED BY ({outer}) ' if outer else ''}STORED AS {kind}"
    with Metastore(spark).faults(name):
        quoted = ".".join(map(quote, name.split(".")))
        spark.sql(f"CREATE TABLE IF NOT EXISTS {quoted} ({text}) {how}")


def _type(kind: Any, table: str, field: str) -> str:
    """Return the name of a type in SQL."""
    types = pa.types
    if types.is_decimal(kind) and 0 <= kind.scale <= kind.precision:
        return f"DECIMAL({kind.precision},{kind.scale})"
    if types.is_map(kind):
        return f"MAP<{_type(kind.key_type, table, field)}, {_type(kind.item_type, table, field)}>"
    if types.is_list(kind):
        return f"ARRAY<{_type(kind.value_type, table, field)}>"
    if types.is_struct(kind):
        inner = ", ".join(f"{quote(one.name)}: {_type(one.type, table, field)}" for one in kind)
        return f"STRUCT<{inner}>"
    found = next((name for is_such, name in _SCALARS if is_such(kind)), None)
    if found is None:
        cure = "import it to a directory of Parquet files"
        raise error("table.place", path=table, why=f"field {field} is {kind}, which no table of Hive has", cure=cure)
    return found
