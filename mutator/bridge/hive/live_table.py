"""A Hive table as it is: schema, format and files, and whether it can be replaced by changing its locations.

Convert Spark types to Arrow types without the session, whose time zone must not change timestamps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, types
from pyspark.sql import functions as f

from mutator.bridge.contract import BridgeFile
from mutator.bridge.hive.metastore import Entry, Metastore, is_hidden
from mutator.bridge.hive.staged_table import is_set, partition_values, quote, refuse_careless, without_ansi
from mutator.errors import MutatorError, error
from mutator.rules.partition_paths import DEFAULT, directory_of

PLAIN = {
    types.BooleanType: pa.bool_(),
    types.ByteType: pa.int8(),
    types.ShortType: pa.int16(),
    types.IntegerType: pa.int32(),
    types.LongType: pa.int64(),
    types.FloatType: pa.float32(),
    types.DoubleType: pa.float64(),
    types.StringType: pa.string(),
    types.CharType: pa.string(),
    types.VarcharType: pa.string(),
    types.BinaryType: pa.binary(),
    types.DateType: pa.date32(),
    types.TimestampType: pa.timestamp("us", "UTC"),
    types.TimestampNTZType: pa.timestamp("us"),
}


def arrow_schema(schema: types.StructType) -> pa.Schema:
    """Return the pa.Schema of a Spark schema; raises TypeError that names a field whose type files cannot store."""
    return pa.schema([_field(field.name, field.dataType, field.nullable) for field in schema])


def _field(name: str, data_type: types.DataType, nullable: bool) -> pa.Field:
    try:
        return pa.field(name, _type(data_type), nullable)
    except KeyError:
        raise TypeError(f"field {name} is {data_type.simpleString()}") from None


def _type(data_type: types.DataType) -> pa.DataType:
    if isinstance(data_type, types.DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, types.ArrayType):
        return pa.list_(pa.field("element", _type(data_type.elementType), data_type.containsNull))
    if isinstance(data_type, types.MapType):
        value = pa.field("value", _type(data_type.valueType), data_type.valueContainsNull)
        return pa.map_(pa.field("key", _type(data_type.keyType), False), value)
    if isinstance(data_type, types.StructType):
        return pa.struct([_field(field.name, field.dataType, field.nullable) for field in data_type])
    return PLAIN[type(data_type)]


CHAR = "__CHAR_VARCHAR_TYPE_STRING"
NAME = re.compile(r"(?:(\w+)\.)?(\w+)", re.ASCII)
FORMATS = {
    "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat": "orc",
    "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat": "parquet",
    "org.apache.hadoop.hive.ql.io.avro.AvroContainerInputFormat": "avro",
}


class LiveTable:
    """A table of ORC, Parquet or Avro files in the metastore of a Spark session."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark, self._metastore = spark, Metastore(spark)
        parts = NAME.fullmatch(name)
        if parts is None:
            raise error("hive.missing", table=name)
        with self._metastore.faults(name):
            self._database = (parts[1] or spark.catalog.currentDatabase()).lower()
            self._table = parts[2].lower()
            self.name = f"{self._database}.{self._table}"
            entry = self._entry()
            self.partition_fields = tuple(entry.partitionColumnNames().mkString("\n").split())
            self.format = self._format(entry)
            self._is_serde = self._provider(entry) == "hive"
            purge = ("external.table.purge", "true") in self._metastore.items(entry.properties())
            self.managed: bool = purge or entry.tableType().name() == "MANAGED"
            spark.catalog.refreshTable(self._quoted(self._table))
            schema = spark.table(self._quoted(self._table)).schema
            try:
                self.schema: pa.Schema = arrow_schema(schema)
            except TypeError as fault:
                raise self._unfit(str(fault), "leave that field out of the table") from None
            # Spark reads CHAR as a string, and keeps the declared type in the metadata.
            self._padded = {one.name for one in schema if str(one.metadata.get(CHAR, "")).startswith("char(")}
            for name in self.partition_fields:
                data_type = self.schema.field(name).type
                if pa.types.is_floating(data_type) or pa.types.is_timestamp(data_type):
                    cure = "partition it by a text, an integer, a decimal, a date or a boolean"
                    raise self._unfit(
                        f"is partitioned by {name}, which is {data_type}, a type whose values have several spellings",
                        cure,
                    )

    def files(self) -> tuple[BridgeFile, ...]:
        """Return every live data file: the state of the table."""
        with self._metastore.faults(self.name):
            return self._files({location: name for name, location in self._locations().items()})

    @property
    def keeps_milliseconds(self) -> bool:
        """Return whether written timestamps are cut to milliseconds, as in Hive's own Avro."""
        return self.format == "avro" and self._is_serde

    def partitions(self) -> tuple[str, ...]:
        """Return the names of all partitions, as their directories have them."""
        with self._metastore.faults(self.name):
            return tuple(sorted(self._locations())) if self.partition_fields else ()

    def read(self) -> DataFrame:
        """Return the rows."""
        refuse_careless(self._spark)
        with self._metastore.faults(self.name):
            self._spark.catalog.refreshTable(self._quoted(self._table))
            unread = self._fields_with_null()
            spark = self._spark
            if any(not pa.types.is_string(self.schema.field(name).type) for name in unread):
                spark = without_ansi(spark)
            rows = spark.table(self._quoted(self._table))
            return rows.select(*(self._column(name, name in unread) for name in self.schema.names))

    def _column(self, name: str, unread: bool) -> Column:
        column = f.col(quote(name))
        if unread and pa.types.is_string(self.schema.field(name).type):
            return f.nullif(column, f.lit(DEFAULT)).alias(name)
        # CHAR values are padded with blanks.
        return f.rtrim(column).alias(name) if name in self._padded else column

    def _fields_with_null(self) -> set[str]:
        """Return the partition fields whose NULL Spark does not read as NULL.

        Through Hive's own classes Spark reads Hive's name for NULL: as text, or as an invalid number.
        """
        native = is_set(self._spark, f"spark.sql.hive.convertMetastore{self.format.title()}")
        if native or not self.partition_fields or not self._is_serde:
            return set()
        names = self._locations()
        return {field for field in self.partition_fields for name in names if partition_values(name)[field] is None}

    def _locations(self) -> dict[str, str]:
        """Return the location of each partition by name; of the table, by the empty name, if it has no partitions."""
        if not self.partition_fields:
            return {"": self._metastore.location(self._entry())}
        return self._locations_of(self._table)

    def _locations_of(self, table: str) -> dict[str, str]:
        found = self._metastore.partitions(self._database, table)
        return {self._name(one): self._metastore.location(one) for one in found}

    def _name(self, partition: Entry) -> str:
        spec = partition.spec()
        return directory_of(self.partition_fields, [spec.apply(field) for field in self.partition_fields])

    def _files(self, locations: Mapping[str, str]) -> tuple[BridgeFile, ...]:
        """Return the files of locations (location -> partition name)."""
        found = []
        for location, name in locations.items():
            for path, size, modified, is_directory in self._metastore.listed(location):
                if is_hidden(path):
                    continue
                if is_directory:
                    raise error("hive.nested", table=self.name, path=path)
                found.append(BridgeFile(name, path, size, modified))
        return tuple(sorted(found))

    def _quoted(self, table: str) -> str:
        return f"{quote(self._database)}.{quote(table)}"

    def _entry(self) -> Entry:
        found = self._metastore.table(self._database, self._table)
        if found is None:
            raise error("hive.missing", table=self.name)
        return found

    def _format(self, entry: Entry) -> str:
        """Return the file format. Raises ConfigError for a table that cannot be replaced by changing its locations."""
        if entry.tableType().name() not in ("MANAGED", "EXTERNAL"):
            raise self._unfit(f"is a {entry.tableType().name().lower()}", "name the table that has the rows")
        provider = self._provider(entry)
        if provider == "hive":
            reader = self._metastore.value(entry.storage().inputFormat())
            file_format = FORMATS.get(reader, reader.rpartition(".")[2])
        else:
            file_format = provider
        if file_format not in FORMATS.values():
            raise self._unfit(f"stores {file_format}", "only tables of ORC, Parquet and Avro files can be merged into")
        if ("transactional", "true") in [(k, v.lower()) for k, v in self._metastore.items(entry.properties())]:
            raise self._unfit("is transactional, and its files belong to Hive", "merge into it with Hive's MERGE")
        if entry.bucketSpec().isDefined() or not entry.unsupportedFeatures().isEmpty():
            what = entry.unsupportedFeatures().mkString(", ") or "bucketing"
            raise self._unfit(f"has features that Spark cannot write ({what})", "copy its rows to a table without them")
        if self.partition_fields and not entry.tracksPartitionsInCatalog():
            raise self._unfit("has partitions that are not in the metastore", "run MSCK REPAIR TABLE")
        return file_format

    def _provider(self, entry: Entry) -> str:
        return (self._metastore.value(entry.provider()) or "hive").lower()

    def _unfit(self, what: str, cure: str) -> MutatorError:
        return error("hive.kind", table=self.name, what=what, cure=cure)
