"""A version of a table as a Spark DataFrame, whose files Spark reads itself, with column pruning and statistics.

The rows of files that are in the log, which are few, are sent as Arrow data. Spark verifies no checksums.
"""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial, reduce
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, functions, types

from mutator.dataset.file_entry import DATA, FileEntry
from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.spark.frames import context_of, data_type_of
from mutator.engine.versions.earlier_forms import EarlierForms
from mutator.errors import error
from mutator.errors.parts import setting
from mutator.formats.values.nested import missing_member
from mutator.frames.recognize import is_connect
from mutator.storage import hadoop_address, storage_for
from mutator.table.scan import batches_of_files, schema_of
from mutator.table.spark_source.arrow_frames import frame_of_arrow
from mutator.table.spark_source.masked_files import MaskedFile, live_rows

_UNSIGNED: dict[Any, types.DataType] = {
    pa.uint8(): types.ShortType(),
    pa.uint16(): types.IntegerType(),
    pa.uint32(): types.LongType(),
}
_UNSIGNED[pa.uint64()] = types.DecimalType(20, 0)
_MOST_DIGITS = 38  # of a decimal
_LISTS, _LISTED = "spark.sql.sources.parallelPartitionDiscovery.threshold", 1000  # files on a local disk
_DEFAULT = "32"  # of Spark; another number is a decision of the user
_LISTING = threading.Lock()  # the setting is that of the session
_FEW = 8  # files without hidden rows are read with the others, unless others have fewer than so many times their rows


def data_frame(snapshot: Snapshot, spark: SparkSession) -> DataFrame:
    """Return the rows of a version as a DataFrame. Raises ConfigError if the version has no columns yet, StateError."""
    if is_connect(spark):
        raise error("spark.connect.rows")
    context_of(spark, "Table.dataframe()")
    schema, forms = schema_of(snapshot), EarlierForms(snapshot.state, snapshot.table)
    if not len(schema):
        raise error("table.frame.empty", path=snapshot.table, version=snapshot.version.number)
    wanted = spark_schema(schema)
    files = [file for file in snapshot.of_role(DATA) if len(snapshot.masks.hidden(file.path)) < file.rows]
    apart = sorted((file for file in files if file.is_apart), key=lambda file: file.form)
    parts = []
    for number, some in groupby(apart, lambda file: file.form):
        own = spark_schema(pa.schema([field for field in forms.schema(number) if not pa.types.is_null(field.type)]))
        parts += [_evolved(part, forms, number, schema) for part in _frames(snapshot, spark, list(some), own)]
    inline = [file for file in files if not file.is_apart]
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
            data_type = _UNSIGNED.get(field.type) or data_type_of(field.type)
        except Exception as fault:  # its class differs from one version of Spark to another
            raise error("table.frame.type", column=field.name, type=field.type, cure=_cure(field.type)) from fault
        fields.append(types.StructField(field.name, data_type))
    return types.StructType(fields)


def _cure(data_type: Any) -> str:
    """Return how Spark gets times without their nanoseconds; nothing for another type."""
    if not _is_nano(data_type):
        return ""
    return (
        "; spark.createDataFrame(table.scan().to_pandas()) has them in microseconds, and so has a new table whose "
        f"{setting('output.schema')} says timestamp-micros"
    )


def _is_nano(data_type: Any) -> bool:
    return bool(pa.types.is_timestamp(data_type)) and data_type.unit == "ns"


def _is_lacking(data_type: Any) -> bool:
    """Return whether Spark cannot read a type from Parquet, although it may have such a type."""
    if any(_is_lacking(data_type.field(number).type) for number in range(data_type.num_fields)):
        return True
    if pa.types.is_decimal(data_type):
        return bool(data_type.precision > _MOST_DIGITS)
    return bool(_is_nano(data_type) or pa.types.is_time(data_type) or pa.types.is_duration(data_type))


def _frames(
    snapshot: Snapshot, spark: SparkSession, files: Sequence[FileEntry], form: types.StructType
) -> Iterator[DataFrame]:
    """Yield the rows of files of one form: those of files without hidden rows, and of the others."""
    masked, whole = list[MaskedFile](), list[MaskedFile]()
    rows_of_masked = rows_of_whole = 0
    for file in files:
        hidden = snapshot.masks.hidden(file.path)
        path = hadoop_address(posixpath.join(snapshot.table, file.path))
        (masked if len(hidden) else whole).append(MaskedFile(path, file.bytes, hidden))
        rows_of_masked += file.rows if len(hidden) else 0
        rows_of_whole += 0 if len(hidden) else file.rows
    read = partial(_read, spark, form, storage_for(snapshot.table).holds)
    if rows_of_whole * _FEW > rows_of_masked:
        yield read([file.path for file in whole])
        whole = []
    if masked:
        yield from live_rows(spark, [*masked, *whole], read)


def _read(spark: SparkSession, form: types.StructType, is_local: bool, paths: Sequence[str]) -> DataFrame:
    # With a schema Spark reads no footer beforehand. Else it would take directories such as version_id=1 for columns.
    with _listed_here(spark) if is_local else nullcontext():
        return spark.read.schema(form).option("recursiveFileLookup", "true").parquet(*paths)


@contextmanager
def _listed_here(spark: SparkSession) -> Iterator[None]:
    """Let this process list up to ``_LISTED`` files. Spark would run a job for them, which takes longer."""
    with _LISTING:
        before = str(spark.conf.get(_LISTS))
        try:
            if before == _DEFAULT:
                spark.conf.set(_LISTS, str(_LISTED))
            yield
        finally:
            spark.conf.set(_LISTS, before)


def _evolved(rows: DataFrame, forms: EarlierForms, number: int, schema: pa.Schema) -> DataFrame:
    """Return rows of a form with the present columns and types."""
    wanted = spark_schema(schema)
    if rows.schema == wanted and all(forms.has(number, name) for name in schema.names):
        return rows
    columns = []
    for field, target in zip(schema, wanted, strict=True):
        if pa.types.is_null(field.type):
            column = functions.lit(None)
        elif forms.has(number, field.name):
            column = functions.col("`" + field.name.replace("`", "``") + "`")
            column = _with_members(column, forms.schema(number).field(field.name).type, field.type)
        else:
            value = forms.value(number, field)
            column = functions.lit(None if value is None else value[0].as_py())
        columns.append(column.cast(target.dataType).alias(field.name))
    return rows.select(*columns)


def _with_members(column: Column, own: Any, wanted: Any) -> Column:
    """Return a column with the members of structs that a later type has, in its order; Spark casts by position.

    own, wanted: the pa.DataType of the column, and of the result.
    """
    if own == wanted or not pa.types.is_nested(own):
        return column
    if pa.types.is_list(wanted):
        return functions.transform(column, lambda one: _with_members(one, own.value_type, wanted.value_type))
    if pa.types.is_map(wanted):
        return functions.transform_values(column, lambda _, one: _with_members(one, own.item_type, wanted.item_type))
    known = {field.name: field.type for field in own}
    members = []
    for field in wanted:
        if field.name in known:
            member = _with_members(column.getField(field.name), known[field.name], field.type)
        else:
            member = functions.lit(missing_member(field, 1)[0].as_py())
        members.append(member.cast(data_type_of(field.type)).alias(field.name))
    return functions.when(column.isNotNull(), functions.struct(*members))


def _sent(snapshot: Snapshot, spark: SparkSession, files: Sequence[FileEntry], form: types.StructType) -> DataFrame:
    """Return the rows of files that are in the log."""
    return frame_of_arrow(spark, batches_of_files(snapshot, files), form)
