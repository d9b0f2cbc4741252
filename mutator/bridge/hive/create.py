"""Create a table of the metastore for rows of an Arrow schema."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from mutator.bridge.hive.insert import quote
from mutator.bridge.hive.metastore import Metastore
from mutator.errors import error

_SCALARS = (
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_int8, "TINYINT"),
    (lambda data_type: pa.types.is_int16(data_type) or pa.types.is_uint8(data_type), "SMALLINT"),
    (lambda data_type: pa.types.is_int32(data_type) or pa.types.is_uint16(data_type), "INT"),
    (lambda data_type: pa.types.is_int64(data_type) or pa.types.is_uint32(data_type), "BIGINT"),
    (pa.types.is_uint64, "DECIMAL(20,0)"),
    (lambda data_type: pa.types.is_float16(data_type) or pa.types.is_float32(data_type), "FLOAT"),
    (pa.types.is_float64, "DOUBLE"),
    (pa.types.is_string, "STRING"),
    (lambda data_type: pa.types.is_binary(data_type) or pa.types.is_fixed_size_binary(data_type), "BINARY"),
    (pa.types.is_date, "DATE"),
    (lambda data_type: pa.types.is_timestamp(data_type) and data_type.tz is not None, "TIMESTAMP"),
    (pa.types.is_timestamp, "TIMESTAMP_NTZ"),
)


def create_table(
    spark: SparkSession, name: str, schema: Any, partition_fields: Sequence[str], file_format: str
) -> None:
    """Create a managed table without rows, unless one of this name exists.

    Raises ConfigError for a field that no table can store.
    """
    fields = [f"{quote(one.name)} {_type(one.type, name, one.name)}" for one in schema]
    text = ", ".join(fields)
    partitions = f" PARTITIONED BY ({', '.join(map(quote, partition_fields))})" if partition_fields else ""
    # Hive has no timestamp without a zone: such a table is one of Spark's own.
    storage = f"USING {file_format}{partitions}" if "TIMESTAMP_NTZ" in text else ""
    if not storage:
        inner = ", ".join(one for one, part in zip(fields, schema, strict=True) if part.name not in partition_fields)
        outer = ", ".join(one for one, part in zip(fields, schema, strict=True) if part.name in partition_fields)
        text, storage = inner, f"{f'PARTITIONED BY ({outer}) ' if outer else ''}STORED AS {file_format}"
    with Metastore(spark).faults(name):
        quoted = ".".join(map(quote, name.split(".")))
        spark.sql(f"CREATE TABLE IF NOT EXISTS {quoted} ({text}) {storage}")


def _type(data_type: Any, table: str, field: str) -> str:
    """Return the SQL name of an Arrow type."""
    types = pa.types
    if types.is_decimal(data_type) and 0 <= data_type.scale <= data_type.precision:
        return f"DECIMAL({data_type.precision},{data_type.scale})"
    if types.is_map(data_type):
        return f"MAP<{_type(data_type.key_type, table, field)}, {_type(data_type.item_type, table, field)}>"
    if types.is_list(data_type):
        return f"ARRAY<{_type(data_type.value_type, table, field)}>"
    if types.is_struct(data_type):
        inner = ", ".join(f"{quote(one.name)}: {_type(one.type, table, field)}" for one in data_type)
        return f"STRUCT<{inner}>"
    found = next((name for matches, name in _SCALARS if matches(data_type)), None)
    if found is None:
        cure = "import it to a directory of Parquet files"
        raise error(
            "table.place", path=table, why=f"field {field} is {data_type}, which Hive tables cannot store", cure=cure
        )
    return found
