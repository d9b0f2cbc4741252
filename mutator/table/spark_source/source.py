"""``format("mutator")``: a version of a table, or its changes, by Spark's data source API for Python.

Workers read the files as a scan does, and verify them. The API prunes no columns, so an option names the wanted ones.
Offsets of a stream are numbers of versions, so each change is delivered once if Spark's checkpoint is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from mutator.dataset.commits import OVERWRITE, OVERWRITE_TABLE
from mutator.dataset.versions.opening import open_snapshot
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors import error
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.version_names import is_name
from mutator.table.changed_rows import changes_schema
from mutator.table.changes import changes_of
from mutator.table.history import History, HistoryPart
from mutator.table.history_settings import check_has_history
from mutator.table.outlived import check_changes
from mutator.table.reader_place import bookmarked, renewed
from mutator.table.scan import schema_of
from mutator.table.scan_parts import ScanPart
from mutator.table.spark_source.arrow_frames import arrow_schema
from mutator.table.spark_source.batches import read_parts, tasks_of
from mutator.table.spark_source.frame import spark_schema
from mutator.table.spark_source.sink import SinkWriter, StreamWriter, application_of, transaction_of
from mutator.table.tags import number_of
from mutator.table.version_times import version_as_of

Options = dict[str, str]  # names in lower case
_OF_ROWS = ("path", "asof", "changes", "version", "columns", "where", "history", "validat")  # options
_OF_CHANGES = ("path", "asof", "changes", "startingversion", "endingversion", "maxversionspertrigger", "bookmark")
_DYNAMIC = "partitionoverwritemode"
_NO_SETTINGS = ("path", "txnappid", "txnversion", "checkpointlocation", _DYNAMIC)  # options of a write
_OVERWRITES = {"static": OVERWRITE_TABLE, "dynamic": OVERWRITE}


class SparkSource(DataSource):
    """Spark's view of a table."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Read nothing yet."""
        found = {name.lower(): value for name, value in options.items()}
        self._options = {{"valid_at": "validat"}.get(name, name): value for name, value in found.items()}
        if "path" not in self._options:
            raise error("table.frame.option", option="path, which is missing", known="the directory of the table")

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "mutator"

    def schema(self) -> StructType:
        """Return the columns."""
        known = _OF_CHANGES if _has_changes(self._options) else _OF_ROWS
        for name in self._options:
            if name not in known:
                raise error("table.frame.option", option=name, known=", ".join(known))
        return spark_schema(_schema(self._options, _snapshot(self._options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads a version, or changes."""
        return _Reader(self._options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> SinkWriter:
        """Return what merges a DataFrame, or overwrites everything by it, or the partitions that it has rows of."""
        settings, schema_of_none = self._settings(), None
        if overwrite:
            settings.setdefault("write_operation", self._overwrite())
            schema_of_none = arrow_schema(schema)
        return SinkWriter(self._options["path"], settings, transaction_of(self._options), schema_of_none)

    def _overwrite(self) -> str:
        """Return the operation of the mode ``overwrite``. Raises ConfigError for an unknown option."""
        how = self._options.get(_DYNAMIC, "static").lower()
        if how not in _OVERWRITES:
            raise error("table.frame.option", option=f"partitionOverwriteMode={how}", known="static or dynamic")
        return _OVERWRITES[how]

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802  # Spark's name
        """Return what merges the batches of a stream."""
        if overwrite:
            raise error("table.frame.option", option="output mode complete", known="output mode append or update")
        return StreamWriter(self._options["path"], self._settings(), application_of(self._options))

    def _settings(self) -> dict[str, str]:
        """Return the settings of an apply: all other options."""
        return {name.replace(".", "_"): value for name, value in self._options.items() if name not in _NO_SETTINGS}

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """Return what reads changes as they come."""
        if not _has_changes(self._options):
            raise error("table.frame.option", option="changes, which is missing", known="changes=true for a stream")
        return _Stream(self._options, schema)


@dataclass(init=False)
class _Rows(InputPartition):
    """Some rows of a version."""

    part: ScanPart | HistoryPart

    def __init__(self, part: ScanPart | HistoryPart) -> None:
        self.part = part

    def rows(self, options: Options) -> Iterator[Any]:
        """Yield the rows, as pa.RecordBatches with the wanted columns."""
        yield from self.part.batches()


@dataclass(init=False)
class _Nothing(InputPartition):
    """No rows: Spark expects at least one part."""

    def __init__(self) -> None:
        pass

    def rows(self, options: Options) -> Iterator[Any]:
        """Yield nothing."""
        yield from ()


@dataclass(init=False)
class _Version(InputPartition):
    """The changes of one version."""

    number: int

    def __init__(self, number: int) -> None:
        self.number = number

    def rows(self, options: Options) -> Iterator[Any]:
        """Yield the changes, as pa.RecordBatches."""
        yield from changes_of(options["path"], self.number - 1, open_snapshot(options["path"], self.number), net=False)


class _Reader(DataSourceReader):
    """Reads a version, or the changes of some versions, once."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options, self._schema = options, schema

    def partitions(self) -> Sequence[InputPartition]:
        """Return a part of the rows for each task."""
        snapshot = _snapshot(self._options)
        if not _has_changes(self._options):
            return _parts(snapshot, self._options)
        if "bookmark" in self._options:
            cure = "startingVersion, because Spark does not say when a query that is not a stream is done"
            raise error("table.frame.option", option="bookmark, which is for streams", known=cure)
        start, end = _version(self._options, "startingversion") or 0, snapshot.version.number
        if start > end:
            raise error("table.changes.order", path=snapshot.table, start=start, end=end)
        return _versions(snapshot.table, start, end) or [_Nothing()]

    def read(self, partition: Any) -> Iterator[Any]:
        """Yield the rows of a part."""
        return _as_spark(partition.rows(self._options), self._schema)


class _Stream(DataSourceStreamReader):
    """Reads the changes of versions as they are committed."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options, self._schema = options, schema
        self._most = _number(options, "maxversionspertrigger")
        self._bookmark = options.get("bookmark")
        if self._bookmark is not None and "startingversion" in options:
            raise error("table.frame.option", option="startingVersion beside bookmark", known="one of both")

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  # Spark's names
        """Return the version after which the first changes are read."""
        if self._bookmark is None:
            return {"version": _version(self._options, "startingversion") or 0}
        snapshot = open_snapshot(self._options["path"])
        return {"version": renewed(snapshot, self._bookmark).version}

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Return the limit of a batch; Spark has no limit in versions, so it is called one of files."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

        return ReadAllAvailable() if self._most is None else ReadMaxFiles(self._most)

    def latestOffset(self, start: dict[str, int] | None = None, limit: Any = None) -> dict[str, int]:  # noqa: N802
        """Return the last version of a batch. Before Spark 4.2 there are no limits."""
        snapshot = open_snapshot(self._options["path"])
        if self._bookmark is not None:
            renewed(snapshot, self._bookmark)
        newest = snapshot.version.number
        most = getattr(limit, "max_files", None)
        return {"version": newest if start is None or most is None else min(newest, start["version"] + most)}

    def commit(self, end: dict[str, int]) -> None:
        """Move the bookmark: Spark has processed the changes up to a version."""
        if self._bookmark is not None:
            bookmarked(open_snapshot(self._options["path"]), self._bookmark, end["version"])

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return a part of the changes for each task."""
        return _versions(self._options["path"], start["version"], end["version"])

    def read(self, partition: Any) -> Iterator[Any]:
        """Yield the changes of a part."""
        return _as_spark(partition.rows(self._options), self._schema)


def _versions(table: str, start: int, end: int) -> list[InputPartition]:
    """Return a part for each version after one. Raises ConfigError, before any task begins, if one of them is gone."""
    check_changes(open_snapshot(table), start, end)
    return [_Version(number) for number in range(start + 1, end + 1)]


def _parts(snapshot: Snapshot, options: Options) -> list[InputPartition]:
    """Return the rows of a version in parts for tasks."""
    columns, where, valid_at = _columns(options), options.get("where"), options.get("validat")
    parts = read_parts(snapshot, columns, where, tasks_of, history=_has_history(options), valid_at=valid_at)
    return [_Rows(part) for part in parts] or [_Nothing()]


def _as_spark(batches: Iterator[Any], schema: StructType) -> Iterator[Any]:
    """Yield batches with the fields and types of a Spark schema; fields that they lack are NULL."""
    wanted = arrow_schema(schema)
    for batch in batches:
        names = batch.schema.names
        columns = [
            batch.column(field.name).cast(field.type) if field.name in names else pa.nulls(batch.num_rows, field.type)
            for field in wanted
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=wanted)


def _snapshot(options: Options) -> Snapshot:
    """Return the wanted version. Raises ConfigError."""
    path, name = options["path"], "endingversion" if _has_changes(options) else "version"
    number, as_of = _version(options, name), options.get("asof")
    if as_of is None:
        return open_snapshot(path, number)
    if number is not None:
        raise error("table.frame.option", option="asOf beside a version", known="one of both")
    snapshot = open_snapshot(path)
    return open_snapshot(path, version_as_of(snapshot, as_of))


def _schema(options: Options, snapshot: Snapshot) -> pa.Schema:
    """Return the pa.Schema of the wanted columns."""
    if _has_changes(options):
        return changes_schema(snapshot)
    if _has_history(options):
        check_has_history(snapshot)
        return History(snapshot).schema_of(_columns(options))
    return schema_of(snapshot, _columns(options))


def _columns(options: Options) -> list[str] | None:
    names = options.get("columns")
    return None if names is None else [name.strip() for name in names.split(",")]


def _has_changes(options: Options) -> bool:
    return _flag(options, "changes")


def _flag(options: Options, name: str) -> bool:
    """Return whether an option is on. Raises ConfigError for another value than true and false."""
    text = options.get(name, "false").lower()
    if text not in ("true", "false"):
        raise error("table.frame.option", option=f"{name}={options[name]}", known="true or false")
    return text == "true"


def _has_history(options: Options) -> bool:
    """Return whether versions of records are wanted."""
    return _flag(options, "history") or "validat" in options


def _version(options: Options, name: str) -> int | None:
    """Return the number of the version that an option names, perhaps by a tag."""
    text = options.get(name)
    if text is None or text.isdecimal():
        return None if text is None else int(text)
    if not is_name(text):
        raise error("table.frame.option", option=f"{name}={text}", known="the number of a version, or a tag")
    return number_of(open_snapshot(options["path"]), text)


def _number(options: Options, name: str) -> int | None:
    text = options.get(name)
    if text is not None and not text.isdecimal():
        raise error("table.frame.option", option=f"{name}={text}", known="a whole number")
    return None if text is None else int(text)
