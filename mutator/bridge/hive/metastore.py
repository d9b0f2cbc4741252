"""Call the metastore through Spark's catalog, and Hadoop's file systems; py4j is used here alone.

The external catalog below the session is used, so that one call is one request to the metastore. Its entries are Scala
case classes, which are changed by copying them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from mutator.engine.spark.jvm_log import name_of_log
from mutator.errors import MutatorError, error
from mutator.errors.interrupts import check_signals
from mutator.rules import file_names
from mutator.rules.partition_paths import DEFAULT

# Statistics of Hive and Spark, which may answer queries from them.
STATISTICS = re.compile(
    r"numFiles|numRows|totalSize|rawDataSize|numFilesErasureCoded|COLUMN_STATS_ACCURATE|STATS_GENERATED.*"
    r"|spark\.sql\.statistics\..*"
)
Entry = Any  # a CatalogTable or CatalogTablePartition of Spark


class Metastore:
    """The metastore of one session, and the file systems of its tables."""

    def __init__(self, spark: SparkSession) -> None:
        if spark.conf.get("spark.sql.catalogImplementation", "in-memory") != "hive":
            raise error("hive.session")
        self.spark = spark
        self._jvm: Any = spark._jvm
        self._catalog: Any = spark._jsparkSession.sessionState().catalog().externalCatalog()
        self._storage: Any = spark._jsparkSession.sessionState().newHadoopConf()
        self._fields: dict[str, list[str]] = {}

    @contextmanager
    def faults(self, table: str) -> Iterator[None]:
        """Turn exceptions of the JVM inside the ``with`` block into MutatorError."""
        try:
            yield
        except (Py4JError, PySparkException, OSError, EOFError) as fault:
            check_signals()  # a signal during a call looks like a fault of the JVM
            raise self._error(table, fault) from None

    def _error(self, table: str, fault: Exception) -> MutatorError:
        try:
            self._jvm.java.lang.System.nanoTime()  # the cheapest call
        except (Py4JError, OSError):
            return error("spark.lost", why=type(fault).__name__, log=name_of_log())
        text = str(fault.java_exception) if isinstance(fault, Py4JJavaError) else str(fault)
        return error("hive.metastore", table=table, why=text.split("\n\tat ")[0][:2000])

    # --- tables and partitions

    def table(self, database: str, name: str) -> Entry | None:
        """Return the entry of a table, or None."""
        if not self._catalog.databaseExists(database) or not self._catalog.tableExists(database, name):
            return None
        return self._catalog.getTable(database, name)

    def create_table(self, entry: Entry) -> None:
        """Create a table."""
        self._catalog.createTable(entry, False)

    def drop_table(self, database: str, name: str) -> None:
        """Drop a table, if there is one; an external one leaves its files."""
        self._catalog.dropTable(database, name, True, False)

    def alter_table(self, entry: Entry) -> None:
        """Replace the entry of a table, in one transaction."""
        self._catalog.alterTable(entry)

    def forget_table_statistics(self, database: str, name: str) -> None:
        """Remove Spark's statistics of a table, which ``alter_table`` keeps."""
        self._catalog.alterTableStats(database, name, self.option(None))

    def partitions(self, database: str, name: str) -> list[Entry]:
        """Return the entries of all partitions of a table."""
        found = self._catalog.listPartitions(database, name, self.option(None))
        return [found.apply(index) for index in range(found.size())]

    def create_partitions(self, database: str, name: str, entries: list[Entry]) -> None:
        """Add partitions, all or none of them."""
        self._catalog.createPartitions(database, name, self.seq(entries), False)

    def alter_partitions(self, database: str, name: str, entries: list[Entry]) -> None:
        """Replace the entries of partitions, in one transaction."""
        self._catalog.alterPartitions(database, name, self.seq(entries))

    def drop_partitions(self, database: str, name: str, specs: list[Mapping[str, str | None]]) -> None:
        """Drop existing partitions, and leave their files."""
        self._catalog.dropPartitions(database, name, self.seq([self.spec(one) for one in specs]), True, False, True)

    def spec(self, values: Mapping[str, str | None]) -> Any:
        """Return the values of partition fields as a map of Spark's catalog."""
        return self.map({field: value or DEFAULT for field, value in values.items()})

    def partition(self, values: Mapping[str, str | None], storage: Any, parameters: Any) -> Entry:
        """Return an entry for a new partition."""
        made = self._jvm.org.apache.spark.sql.catalyst.catalog.CatalogTablePartition
        now = self._jvm.java.lang.System.currentTimeMillis()
        return made(self.spec(values), storage, parameters, now, -1, self.option(None))

    def external(self) -> Any:
        """Return the type of a table that does not own its files."""
        return self._jvm.org.apache.spark.sql.catalyst.catalog.CatalogTableType.EXTERNAL()

    def identifier(self, database: str, name: str) -> Any:
        """Return the name of a table as an identifier of Spark's catalog."""
        return self._jvm.org.apache.spark.sql.catalyst.TableIdentifier(name, self.option(database))

    # --- Scala

    def copy(self, entry: Entry, **changes: Any) -> Entry:
        """Return a copy of a case class with other values for some fields, by name.

        The number of fields differs between versions of Spark.
        """
        java_class = entry.getClass()
        name = java_class.getName()
        if name not in self._fields:
            modifier = self._jvm.java.lang.reflect.Modifier
            fields = [one for one in java_class.getDeclaredFields() if not modifier.isStatic(one.getModifiers())]
            # A field of the class is final, a lazy value is not.
            final = [one.getName() for one in fields if modifier.isFinal(one.getModifiers())]
            self._fields[name] = final[: entry.productArity()]
        return entry.copy(
            *(
                changes[field] if field in changes else getattr(entry, f"copy$default${position}")()
                for position, field in enumerate(self._fields[name], 1)
            )
        )

    def without_statistics(self, parameters: Any, now: Mapping[str, str] | None = None) -> Any:
        """Return parameters without statistics, except new ones."""
        kept = {key: value for key, value in self.items(parameters) if not STATISTICS.fullmatch(key)}
        return self.map({**kept, **(now or {})})

    def items(self, scala_map: Any) -> list[tuple[str, str]]:
        """Return the pairs of a Scala map."""
        pairs, found = scala_map.iterator(), []
        while pairs.hasNext():
            pair = pairs.next()
            found.append((pair._1(), pair._2()))
        return found

    def option(self, value: Any) -> Any:
        """Return a Scala option, empty for None."""
        return self._jvm.scala.Option.apply(value)

    def value(self, option: Any) -> str:
        """Return the text of a Scala option; empty if the option is empty."""
        return str(option.get()) if option.isDefined() else ""

    def seq(self, values: Iterable[Any]) -> Any:
        """Return a Scala sequence."""
        listed = self._jvm.java.util.ArrayList()
        for value in values:
            listed.add(value)
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(listed)

    def map(self, values: Mapping[str, str]) -> Any:
        """Return a Scala map."""
        filled = self._jvm.java.util.HashMap()
        for key, value in values.items():
            filled.put(key, value)
        return self._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(filled)

    # --- locations

    def location(self, entry: Entry) -> str:
        """Return the location of a table or partition; empty if it has none."""
        uri = entry.storage().locationUri()
        if not uri.isDefined():
            return ""
        return str(self._jvm.org.apache.spark.sql.catalyst.catalog.CatalogUtils.URIToString(uri.get()))

    def at(self, storage: Any, location: str) -> Any:
        """Return a copy of a storage format with another location."""
        return self.copy(storage, locationUri=self.option(self._path(location).toUri()))

    def listed(self, location: str) -> list[tuple[str, int, int, bool]]:
        """Return (path, bytes, milliseconds since 1970 when changed, whether it is a directory) of each entry."""
        path = self._path(location)
        files = path.getFileSystem(self._storage)
        if not files.exists(path):
            return []
        return [
            (found.getPath().toString(), found.getLen(), found.getModificationTime(), found.isDirectory())
            for found in files.listStatus(path)
        ]

    def make(self, location: str) -> None:
        """Make a directory and its parents."""
        path = self._path(location)
        path.getFileSystem(self._storage).mkdirs(path)

    def remove(self, location: str, recursive: bool = True) -> None:
        """Remove a file or directory; a missing one is fine."""
        path = self._path(location)
        files = path.getFileSystem(self._storage)
        if not files.delete(path, recursive) and files.exists(path):
            raise error("storage", path=location, why="it cannot be removed")

    def _path(self, location: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(location)


def is_hidden(path: str) -> bool:
    """Return whether readers skip a file because of its name.

    >>> is_hidden("file:/t/_SUCCESS"), is_hidden("file:/t/part-0")
    (True, False)
    """
    return file_names.is_hidden(file_names.base_name(path))
