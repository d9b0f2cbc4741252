"""Spark DataFrames as files that a merge reads, and rows as Spark DataFrames."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from mutator.engine.spark.jvm_log import spark_faults
from mutator.errors import error
from mutator.rules import file_names
from mutator.storage import hadoop_address, storage_for

# Times as they are, instead of Spark's older form, which has no time zone.
_WRITING = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}
_NOT_STORED = ("interval", "variant")  # in the names of types
_UNSIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20),
}
FIRST_WITH_ARROW = 4  # the first Spark that makes DataFrames of Arrow tables


def context_of(session: Any, call: str) -> SparkContext:
    """Return the context of a SparkSession or SparkContext. call: for messages.

    Raises ConfigError for a session that has ended, and for one of Spark Connect.
    """
    try:
        sc: SparkContext = session if isinstance(session, SparkContext) else session.sparkContext
    except (AttributeError, PySparkException):
        raise error("spark.connect") from None
    if getattr(sc, "_jsc", None) is None or sc._jsc.sc().isStopped():
        raise error("session.stopped", call=call)
    return sc


def _is_connect(session: Any) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect")


def active_context() -> SparkContext | None:
    """Return the context of this process, None without one."""
    return SparkContext._active_spark_context


def runs_elsewhere(sc: SparkContext) -> bool:
    """Return whether the workers of a session run on other machines."""
    return not (sc.master or "").startswith("local")


def frame_of_rdd(rdd: Any) -> DataFrame | None:
    """Return the rows of an RDD of Rows, dicts or pa.RecordBatches as a DataFrame; None if it has none of these.

    The types of the fields are those of the first rows that have values in them.
    """
    session, first = SparkSession(rdd.context), rdd.take(1)
    if first and isinstance(first[0], pa.RecordBatch):
        return session.createDataFrame(rdd.flatMap(_rows_of_batch), from_arrow_schema(first[0].schema))
    if not first or not (isinstance(first[0], dict) or hasattr(first[0], "__fields__")):
        return None
    try:
        return session.createDataFrame(rdd)
    except (PySparkException, TypeError, ValueError):
        return None


def _rows_of_batch(batch: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in batch.to_pylist(maps_as_pydicts="strict")]


def collected(frame: Any, label: str) -> Any:
    """Return the rows of a DataFrame of Spark Connect as a pa.Table. label: of the DataFrame, for messages.

    Raises ConfigError where Spark does not send them, because they are too many for example.
    """
    try:
        return frame.toArrow()
    except PySparkException as fault:
        why, cure = str(fault).strip().partition("\n")[0], ""
        if "spark.driver.maxResultSize" in why:
            cure = "; write them where this process reads them, frame.write.parquet(path), and give the path"
        raise error("spark.collect", table=label, why=why, cure=cure) from None


def write_frame(frame: DataFrame, directory: str, label: str) -> None:
    """Write the rows of a DataFrame to a new directory, as Parquet. label: of the DataFrame, for messages."""
    session, target = frame.sparkSession, hadoop_address(directory)
    context_of(session, label)
    not_stored = (*_NOT_STORED, *(("void",) if is_older_than(session, 4) else ()))
    for field in frame.schema:  # Parquet would have the number of an interval, and the parts of a variant
        type_name = field.dataType.simpleString()
        if any(re.search(rf"\b{word}\b(?!:)", type_name) for word in not_stored):
            cure = "cast it to a type that Parquet has, or leave it out"
            raise error("table.column", table=label, column=field.name, what=f"has the type {type_name}", cure=cure)
    check_names(frame.schema, label, session.conf.get("spark.sql.caseSensitive", "false") == "true")
    with _settings(session, _WRITING), spark_faults(session.sparkContext):
        frame.write.parquet(target)
    storage = storage_for(directory)
    for entry in storage.entries(directory):
        if file_names.is_hidden(entry.name):  # checksums and marks of Hadoop, which the report would list
            storage.remove(entry.path)


def check_names(schema: StructType, label: str, case_sensitive: bool, path: str = "") -> None:
    """Raise DataError for two columns of one name, as a join leaves them, or two members of a struct.

    path: of the struct, with a full stop at its end.
    """
    known: dict[str, str] = {}
    for number, field in enumerate(schema):
        other = known.setdefault(field.name if case_sensitive else field.name.lower(), field.name)
        if len(known) == number:
            what = "is there twice" if other == field.name else f"differs from {path}{other} in case alone"
            cure = "rename or drop one of them; a join on names, as in join(other, on='id'), keeps one column"
            raise error("table.column", table=label, column=f"{path}{field.name}", what=what, cure=cure)
    for field in schema:
        for struct in _structs_in(field.dataType):
            check_names(struct, label, case_sensitive, f"{path}{field.name}.")


def _structs_in(given: DataType) -> Iterator[StructType]:
    """Yield the structs of a type that are in no other struct."""
    if isinstance(given, StructType):
        yield given
    elif isinstance(given, ArrayType):
        yield from _structs_in(given.elementType)
    elif isinstance(given, MapType):
        yield from _structs_in(given.keyType)
        yield from _structs_in(given.valueType)


def frame_of_files(
    session: SparkSession,
    paths: Sequence[str],
    file_format: str,
    table: Callable[[], Any],
    base: str | None = None,
    schema: Any = None,
) -> DataFrame:
    """Return the rows of Parquet or ORC files as Spark itself reads them. table: returns them as a pa.Table.

    base, schema: the dataset and its pa.Schema, if some fields are in the names of directories alone.
    """
    if not paths or _is_connect(session):  # its Spark may not see the files
        return frame_of_table(session, table())
    with spark_faults(context_of(session, "to_spark()")):
        reader, addresses = session.read.format(file_format), [hadoop_address(path) for path in paths]
        if base is None:
            return reader.load(addresses)
        types = StructType([StructField(field.name, data_type_of(field.type)) for field in schema])
        return (
            reader.schema(types)
            .option("basePath", hadoop_address(base))
            .load(addresses)
            .select(*map(_quoted, schema.names))
        )


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def frame_of_table(session: SparkSession, table: Any) -> DataFrame:
    """Return the rows of a pa.Table, which this process sends to Spark; times have microseconds there.

    Raises ConfigError for a column whose type Spark has not.
    """
    faults = nullcontext() if _is_connect(session) else spark_faults(context_of(session, "to_spark()"))
    table = table.cast(with_types_of_spark(table.schema), safe=False)
    fields = []
    for field in table.schema:
        try:
            fields.append(_struct_field(field))
        except TypeError:
            what, cure = f"has the type {field.type}, which Spark has not", "cast it with to_arrow(), or leave it out"
            raise error("table.column", table="to_spark()", column=field.name, what=what, cure=cure) from None
    schema = StructType(fields)
    with faults:
        if is_older_than(session, FIRST_WITH_ARROW):
            rows = table.to_pylist(maps_as_pydicts="strict")
            return session.createDataFrame([tuple(row.values()) for row in rows], schema)
        return session.createDataFrame(table, schema)


def is_older_than(session: SparkSession, major: int) -> bool:
    """Return whether the Spark of a session is older than a major version."""
    return int(session.version.partition(".")[0]) < major


def _struct_field(field: Any) -> StructField:
    return StructField(field.name, data_type_of(field.type), field.nullable)


def data_type_of(given: Any) -> DataType:
    """Return the Spark type of a pa.DataType: a time without a zone is one without a zone in every Spark.

    Raises TypeError for a type that Spark has not.
    """
    from pyspark.sql.pandas.types import from_arrow_type

    if pa.types.is_struct(given):
        return StructType([_struct_field(given.field(number)) for number in range(given.num_fields)])
    if pa.types.is_list(given) or pa.types.is_large_list(given):
        return ArrayType(data_type_of(given.value_type))
    if pa.types.is_map(given):
        return MapType(data_type_of(given.key_type), data_type_of(given.item_type))
    return from_arrow_type(given, True)


def with_types_of_spark(schema: Any) -> Any:
    """Return a schema with the types that Spark has. schema: pa.Schema.

    >>> with_types_of_spark(pa.schema([("at", pa.timestamp("ns")), ("size", pa.uint8())])).types
    [TimestampType(timestamp[us]), DataType(int16)]
    """
    return pa.schema([_of_spark(field) for field in schema])


def _of_spark(field: Any) -> Any:
    return field.with_type(_type_of_spark(field.type))


def _type_of_spark(given: Any) -> Any:
    if pa.types.is_timestamp(given):
        return pa.timestamp("us", given.tz)
    if given in _UNSIGNED:
        return _UNSIGNED[given]
    if pa.types.is_struct(given):
        return pa.struct([_of_spark(given.field(number)) for number in range(given.num_fields)])
    if pa.types.is_list(given):
        return pa.list_(_of_spark(given.value_field))
    if pa.types.is_large_list(given):
        return pa.large_list(_of_spark(given.value_field))
    if pa.types.is_map(given):
        return pa.map_(_type_of_spark(given.key_type), _of_spark(given.item_field))
    return given


@contextmanager
def _settings(session: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """Set settings of a session for the time of the ``with`` block."""
    before = {key: session.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            try:
                session.conf.unset(key) if old is None else session.conf.set(key, old)
            except Py4JError:  # its JVM may be gone
                return
