"""A version of a table as a Spark DataFrame, whose files Spark reads itself, with column pruning and statistics.

Hidden rows are removed by their positions: ``_metadata.row_index``, which Spark has for Parquet. The rows of files that
are in the log, which are few, are sent as Arrow data. Spark verifies no checksums.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from inspect import signature
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions, types
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema

from mutator.dataset.versions.snapshot import Snapshot
from mutator.dataset.versions.version import DATA, TableFile
from mutator.engine.spark.frames import address
from mutator.engine.versions.earlier_forms import Forms
from mutator.errors import error
from mutator.table.scan import batches_of_files, schema_of

_UNSIGNED: dict[Any, types.DataType] = {
    pa.uint8(): types.ShortType(),
    pa.uint16(): types.IntegerType(),
    pa.uint32(): types.LongType(),
}
_UNSIGNED[pa.uint64()] = types.DecimalType(20, 0)
_FILE, _ROW = "mutator file", "mutator row"
_MOST_DIGITS = 38  # of a decimal
_BATCH = 1 << 16  # rows that are sent together
UTC: dict[str, Any] = (
    {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
)  # Spark 3.5 has no other


def data_frame(snapshot: Snapshot, spark: SparkSession) -> DataFrame:
    """Return the rows of a version as a DataFrame. Raises ConfigError if the version has no columns yet, StateError."""
    schema, forms = schema_of(snapshot), Forms(snapshot.state, snapshot.table)
    if not len(schema):
        raise error("table.frame.empty", path=snapshot.table, version=snapshot.version.number)
    wanted = spark_schema(schema)
    files = [file for file in snapshot.of_role(DATA) if len(snapshot.masks.hidden(file.path)) < file.rows]
    apart = sorted((file for file in files if file.data.is_apart), key=lambda file: file.schema)
    parts = []
    for number, some in groupby(apart, lambda file: file.schema):
        parts += [_evolved(part, forms, number, schema) for part in _frames(snapshot, spark, list(some))]
    inline = [file for file in files if not file.data.is_apart]
    if inline or not parts:
        parts.append(_sent(snapshot, spark, inline, wanted))
    return reduce(DataFrame.unionByName, parts)


def spark_schema(schema: pa.Schema) -> types.StructType:
    """Return the Spark schema of the rows of a table. Raises ConfigError for a type that Spark lacks."""
    fields = []
    for field in schema:
        try:
            if _is_lacking(field.type):
                raise TypeError(field.type)
            data_type = _UNSIGNED.get(field.type) or from_arrow_type(field.type, prefer_timestamp_ntz=True)
        except Exception as fault:  # its class differs from one version of Spark to another
            raise error("table.frame.type", column=field.name, type=field.type) from fault
        fields.append(types.StructField(field.name, data_type))
    return types.StructType(fields)


def _is_lacking(data_type: Any) -> bool:
    """Return whether Spark cannot read a type from Parquet, although it may have such a type."""
    if any(_is_lacking(data_type.field(number).type) for number in range(data_type.num_fields)):
        return True
    if pa.types.is_decimal(data_type):
        return bool(data_type.precision > _MOST_DIGITS)
    is_nano = pa.types.is_timestamp(data_type) and data_type.unit == "ns"
    return bool(is_nano or pa.types.is_time(data_type) or pa.types.is_duration(data_type))


def _frames(snapshot: Snapshot, spark: SparkSession, files: Sequence[TableFile]) -> Iterator[DataFrame]:
    """Yield the rows of files of one form: those of files without hidden rows, and of the others."""
    hidden = [(file, snapshot.masks.hidden(file.path)) for file in files]
    whole = [file for file, rows in hidden if not len(rows)]
    masked = [(file, rows) for file, rows in hidden if len(rows)]
    if whole:
        yield _read(snapshot, spark, whole)
    if masked:
        yield _without(snapshot, spark, masked)


def _read(snapshot: Snapshot, spark: SparkSession, files: Iterable[TableFile]) -> DataFrame:
    paths = [_path(snapshot, file) for file in files]
    # Else Spark would take directories such as version_id=1 for columns.
    return spark.read.option("recursiveFileLookup", "true").parquet(*paths)


def _path(snapshot: Snapshot, file: TableFile) -> str:
    return address(posixpath.join(snapshot.table, file.path))


def _without(snapshot: Snapshot, spark: SparkSession, masked: Sequence[tuple[TableFile, Any]]) -> DataFrame:
    """Return the rows of files but for those at some positions."""
    names = [np.repeat(_uri(spark, _path(snapshot, file)), len(rows)) for file, rows in masked]
    positions = np.concatenate([rows for _, rows in masked])
    gone = pa.table({_FILE: pa.array(np.concatenate(names)).cast(pa.string()), _ROW: pa.array(positions, pa.int64())})
    form = types.StructType([types.StructField(_FILE, types.StringType()), types.StructField(_ROW, types.LongType())])
    rows = _read(snapshot, spark, [file for file, _ in masked])
    place = {_FILE: functions.col("_metadata.file_path"), _ROW: functions.col("_metadata.row_index")}
    found = rows.withColumns(place).join(
        functions.broadcast(_of_arrow(spark, [gone], form)), [_FILE, _ROW], "left_anti"
    )
    return found.drop(_FILE, _ROW)


def _uri(spark: SparkSession, path: str) -> str:
    """Return a path as ``_metadata.file_path`` has it."""
    jvm: Any = spark.sparkContext._jvm
    plain = jvm.org.apache.hadoop.fs.Path(path)
    files = plain.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    return str(jvm.org.apache.hadoop.fs.Path(files.makeQualified(plain).toString()).toUri().toString())


def _evolved(rows: DataFrame, forms: Forms, number: int, schema: pa.Schema) -> DataFrame:
    """Return rows of a form with the present columns and types."""
    columns = []
    for field, target in zip(schema, spark_schema(schema), strict=True):
        if pa.types.is_null(field.type):
            column = functions.lit(None)
        elif forms.has(number, field.name):
            column = functions.col("`" + field.name.replace("`", "``") + "`")
        else:
            value = forms.value(number, field)
            column = functions.lit(None if value is None else value[0].as_py())
        columns.append(column.cast(target.dataType).alias(field.name))
    return rows.select(*columns)


def _sent(snapshot: Snapshot, spark: SparkSession, files: Sequence[TableFile], form: types.StructType) -> DataFrame:
    """Return the rows of files that are in the log."""
    return _of_arrow(spark, batches_of_files(snapshot, files), form)


def _of_arrow(spark: SparkSession, parts: Iterable[Any], form: types.StructType) -> DataFrame:
    """Return Arrow data as a DataFrame: its bytes are the rows of one, which workers decode. parts: with one schema."""

    # The function is sent as it is, so workers need no mutator.
    def decoded(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow

        for batch in batches:
            for one in batch.column(0):
                yield from pyarrow.ipc.open_stream(one.as_buffer())

    schema, sent = to_arrow_schema(form, **UTC), []
    for part in parts:
        table = part if isinstance(part, pa.Table) else pa.Table.from_batches([part])
        for batch in table.cast(schema).to_batches(_BATCH):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            sent.append((bytearray(sink.getvalue()),))
    packed = spark.createDataFrame(sent, types.StructType([types.StructField("arrow", types.BinaryType())]))
    return packed.mapInArrow(decoded, form)
