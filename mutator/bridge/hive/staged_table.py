"""The record of a change of a Hive table, logged before the table's locations are changed.

The rows are written by Spark's ``INSERT OVERWRITE``, with the settings that it needs for the time of the statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from decimal import Decimal
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from mutator.bridge.contract import BridgeFile, files_of
from mutator.bridge.hive.metastore import Metastore
from mutator.engine.spark.jvm_log import spark_faults
from mutator.errors import error
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.partition_paths import DEFAULT, values_of

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


@dataclass(frozen=True)
class Move:
    """A new location of a partition, or of the table if the name is empty."""

    partition: str
    old: str | None  # None: the partition is new
    new: str
    emptied: bool = False  # it has no rows, and is dropped after the commit


@dataclass(frozen=True)
class Staged:
    """The change that a run will make to a table."""

    table: str
    run: str
    root: str  # directory of everything that the run wrote
    moves: tuple[Move, ...]
    files: tuple[BridgeFile, ...]  # those of the new locations
    rows: int = 0  # number of rows written
    left: tuple[BridgeFile, ...] = ()  # those of the old locations; other files there were written by other programs

    @property
    def retired(self) -> tuple[str, ...]:
        """Return the locations that the commit replaces."""
        return tuple(move.old for move in self.moves if move.old is not None)

    def record(self) -> dict[str, Any]:
        """Return the change as JSON values."""
        return asdict(self)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Staged:
        """Return the change that a record describes.

        >>> staged = Staged("db.t", "r", "file:/t.mutator-r", (Move("", "file:/t", "file:/t.mutator-r"),), ())
        >>> Staged.of(staged.record()) == staged
        True
        """
        moves = tuple(Move(**move) for move in record["moves"])
        files, left = files_of(record["files"]), files_of(record["left"])
        return cls(record["table"], record["run"], record["root"], moves, files, record["rows"], left)


def partition_values(name: str) -> dict[str, str | None]:
    """Return the values of a partition's name.

    >>> partition_values("dt=2026%2F01/store=__HIVE_DEFAULT_PARTITION__")
    {'dt': '2026/01', 'store': None}
    """
    return dict(values_of(name))


def matched(
    wanted: Sequence[Mapping[str, str | None]],
    written: Mapping[str, str],
    there: Mapping[str, str],
    data_types: Mapping[str, pa.DataType],
    empty: str,
) -> list[Move]:
    """Return the moves of partitions, matched by value: the metastore may spell a number in several ways.

    wanted: values of the partitions to replace. written, there: locations of the new rows, and of the table, by
    partition name. data_types: of the partition fields. empty: directory for locations without rows.

    >>> data_types = {"n": pa.int32()}
    >>> matched([{"n": "7"}, {"n": "8"}], {"n=7": "new/n=7"}, {"n=07": "a", "n=8": "b"}, data_types, "empty")
    [Move(partition='n=07', old='a', new='new/n=7', emptied=False), \
Move(partition='n=8', old='b', new='empty/n=8', emptied=True)]
    """

    def key(values: Mapping[str, str | None]) -> tuple[str, ...]:
        return tuple(canonical(values[field] or DEFAULT, data_type) for field, data_type in data_types.items())

    spellings: dict[tuple[str, ...], list[str]] = {}
    for name in there:
        spellings.setdefault(key(partition_values(name)), []).append(name)
    new = {key(partition_values(name)): (name, location) for name, location in written.items()}
    moves: list[Move] = []
    for one in dict.fromkeys(map(key, wanted)):
        names = spellings.get(one, [])
        if one in new:
            name, location = new.pop(one)
            target = names[0] if names else name
            moves.append(Move(target, there.get(target), location))
            names = names[1:]
        moves += [Move(name, there[name], f"{empty}/{name}", emptied=True) for name in names]
    if new:
        raise error("bug", what=f"there are rows of {next(iter(new.values()))[0]}, which is not to be replaced")
    return sorted(moves, key=lambda move: move.partition)


def canonical(value: str, data_type: pa.DataType) -> str:
    """Return the canonical spelling of a partition value.

    >>> canonical("007", pa.int32()), canonical("007", pa.string()), canonical("2.5", pa.decimal128(5, 2))
    ('7', '007', '2.50')
    """
    if pa.types.is_integer(data_type) and re.fullmatch(r"[+-]?\d+", value, re.ASCII):
        return str(int(value))
    if pa.types.is_decimal(data_type) and re.fullmatch(r"[+-]?\d+(\.\d+)?", value, re.ASCII):
        return f"{Decimal(value):.{data_type.scale}f}"
    return value.lower() if pa.types.is_boolean(data_type) else value


def is_in(location: str, root: str) -> bool:
    """Return whether a location is another one, or is inside it.

    >>> is_in("file:/t/dt=1", "file:/t"), is_in("file:/t2", "file:/t")
    (True, False)
    """
    return f"{location}/".startswith(f"{root.rstrip('/')}/")


def is_any_in(locations: Iterable[str], root: str) -> bool:
    """Return whether any of the locations is another one, or is inside it."""
    return any(is_in(location, root) for location in locations)
