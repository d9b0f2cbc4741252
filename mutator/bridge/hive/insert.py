"""Run Spark's ``INSERT OVERWRITE`` with the settings that it needs, for the time of the statement."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from mutator.bridge.hive.staged_table import canonical
from mutator.engine.spark.faults import spark_faults
from mutator.errors import error

# With these Spark would leave out rows of files that it cannot read.
CARELESS = (
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
    "spark.files.ignoreCorruptFiles",
    "spark.files.ignoreMissingFiles",
    "spark.sql.hive.verifyPartitionPath",
)
WRITING = {
    "hive.exec.dynamic.partition": "true",
    "hive.exec.dynamic.partition.mode": "nonstrict",
    "hive.exec.max.dynamic.partitions": "1000000",
    "hive.exec.max.dynamic.partitions.pernode": "1000000",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.storeAssignmentPolicy": "STRICT",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}


def insert_overwrite(
    frame: DataFrame,
    table: str,
    fields: Mapping[str, pa.DataType],
    wanted: Sequence[Mapping[str, str | None]],
) -> bool:
    """Overwrite partitions of a table with rows; return whether the statement named its partition.

    table: quoted. fields: the partition fields. wanted: values of the partitions. A single partition whose values SQL
    can spell is named, and is then there even without a row. Else each row goes to the partition of its values.
    """
    spark, clause = frame.sparkSession, ", ".join(map(quote, fields))
    static = len(wanted) == 1 and all(_can_be_named(value, fields[field]) for field, value in wanted[0].items())
    if static:
        clause = ", ".join(f"{quote(field)}='{value}'" for field, value in wanted[0].items())
        for field, value in wanted[0].items():  # a static insert would accept rows of other partitions, too
            same = f.col(quote(field)).cast("string").eqNullSafe(f.lit(canonical(str(value), fields[field])))
            frame = frame.where(f.assert_true(same, f"a row is not of {field}={value}").isNull())
        frame = frame.drop(*fields)
    view = re.sub(r"\W+", "_", f"{table}_rows").strip("_")
    frame.createOrReplaceTempView(view)
    try:
        with _settings(spark), spark_faults(spark.sparkContext):
            partition = f"PARTITION ({clause}) " if clause else ""
            spark.sql(f"INSERT OVERWRITE TABLE {table} {partition}SELECT * FROM {quote(view)}")
    finally:
        spark.catalog.dropTempView(view)
    return static


def refuse_careless(spark: SparkSession) -> None:
    """Raise ConfigError for a session that skips unreadable files without an error."""
    for setting in CARELESS:
        if is_set(spark, setting):
            raise error("hive.setting", setting=setting)


def is_set(spark: SparkSession, setting: str) -> bool:
    """Return whether a setting is true, also by default; an unknown setting is not."""
    try:
        return str(spark.conf.get(setting)).lower() == "true"
    except (Py4JError, PySparkException):
        return False


def without_ansi(spark: SparkSession) -> SparkSession:
    """Return a session like another one, in which the cast of invalid text to a number is NULL."""
    if not is_set(spark, "spark.sql.ansi.enabled"):
        return spark
    like = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    like.conf.set("spark.sql.ansi.enabled", "false")
    return like


def quote(name: str) -> str:
    """Return a quoted SQL name.

    >>> quote("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def _can_be_named(value: str | None, data_type: pa.DataType) -> bool:
    return (
        bool(value)
        and not set(str(value)) & set("'\\")
        and (pa.types.is_string(data_type) or pa.types.is_integer(data_type))
    )


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    before = {key: spark.conf.get(key, None) for key in WRITING}
    try:
        for key, value in WRITING.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)
