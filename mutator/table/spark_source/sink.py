"""DataFrames and streams of Spark as feeds of a table: ``df.write.format("mutator")``.

Each task writes its rows to a file in the directory of the table. When all have ended, the files are merged as one feed
of rows without names, in the process that Spark starts for a commit. A batch of a stream is a transaction, so it is
merged once, also if Spark commits it again.
"""

from __future__ import annotations

import posixpath
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from mutator.dataset.versions.log import DIRECTORY
from mutator.dataset.versions.opening import open_snapshot
from mutator.errors import MutatorError, error
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.arguments import feed_of, settings_by_key
from mutator.pipeline.runners import runner_for
from mutator.rules.file_names import new_run_id
from mutator.storage import located_to_write, storage_for
from mutator.table.apply import OpenRunner
from mutator.table.create import WORK
from mutator.table.memory_feed import apply_parts
from mutator.table.recorded import config_of_apply


@dataclass
class _Written(WriterCommitMessage):
    """The file of a task; None if it had no rows."""

    path: str | None


class _Sink:
    """Writes rows to files, and merges them."""

    def __init__(self, path: str, settings: Mapping[str, str], schema: Any = None) -> None:
        """Write nothing yet.

        settings: of each apply, by their names as arguments. schema: pa.Schema of the rows, if none of them is a feed,
        too: an overwrite by no rows; None if they are nothing to merge.
        """
        self._schema = schema
        _, self._path = located_to_write(path)
        self._settings = dict(settings)
        self._work = posixpath.join(self._path, DIRECTORY, WORK, new_run_id(time.time()))

    def write(self, iterator: Iterator[Any]) -> _Written:
        """Write the rows of a task."""
        first = next((batch for batch in iterator if batch.num_rows), None)
        if first is None:
            return _Written(None)
        path = posixpath.join(self._work, f"{uuid.uuid4().hex}.feed")
        storage = storage_for(path)
        storage.make_directory(self._work, within=self._path)
        with storage.create_new(path) as stream, pq.ParquetWriter(stream, first.schema) as writer:
            writer.write_batch(first)
            for batch in iterator:
                writer.write_batch(batch)
        return _Written(path)

    def merge(self, messages: Sequence[Any], txn: tuple[str, int] | None) -> None:
        """Merge the rows of all tasks into a new version. Raises the errors of the catalogue."""
        paths = [one.path for one in messages if one is not None and one.path is not None]
        try:
            if paths or self._schema is not None:
                snapshot, given = open_snapshot(self._path), settings_by_key(self._settings)
                rows = _reader(paths) if paths else self._schema.empty_table()
                feed, config = feed_of(rows), config_of_apply(snapshot, given)
                apply_parts(snapshot, config, feed, _runner, shared=None, dry_run=False, transaction=txn)
        finally:
            self.remove()

    def remove(self) -> None:
        """Remove the files."""
        with suppress(MutatorError):
            storage_for(self._work).remove(self._work)


class SinkWriter(_Sink, DataSourceArrowWriter):
    """Merges a DataFrame."""

    def __init__(self, path: str, settings: Mapping[str, str], txn: tuple[str, int] | None, schema: Any = None) -> None:
        """Write nothing yet. txn: the name of an application, and the number of its transaction. schema: as above."""
        super().__init__(path, settings, schema)
        self._txn = txn

    def commit(self, messages: Sequence[Any]) -> None:
        """Merge the rows of all tasks."""
        self.merge(messages, self._txn)

    def abort(self, messages: Sequence[Any]) -> None:
        """Remove what tasks have written."""
        self.remove()


class StreamWriter(_Sink, DataSourceStreamArrowWriter):
    """Merges each batch of a stream once."""

    def __init__(self, path: str, settings: Mapping[str, str], application: str) -> None:
        """Write nothing yet. application: the name of the stream."""
        super().__init__(path, settings)
        self._application = application

    def commit(self, messages: Sequence[Any], batchId: int) -> None:  # noqa: N803  # Spark's name
        """Merge the rows of a batch."""
        self.merge(messages, (self._application, batchId))

    def abort(self, messages: Sequence[Any], batchId: int) -> None:  # noqa: N803
        """Remove what tasks have written."""
        self.remove()


def transaction_of(options: Mapping[str, str]) -> tuple[str, int] | None:
    """Return the transaction of a batch. Raises ConfigError if it is not whole."""
    application, number = options.get("txnappid"), options.get("txnversion")
    if application is None and number is None:
        return None
    if not application or number is None or not number.isdecimal():
        raise error("table.frame.option", option="txnAppId or txnVersion", known="a name, and a whole number, or none")
    return application, int(number)


def application_of(options: Mapping[str, str]) -> str:
    """Return the name of a stream: as it is given, else the path of its checkpoint. Raises ConfigError without both."""
    found = options.get("txnappid") or options.get("checkpointlocation")
    if not found:
        raise error("table.frame.option", option="checkpointLocation, which is missing", known="it, or txnAppId")
    return found


def _runner(_: str) -> OpenRunner:
    """Return the function that opens a runner of this process, where Spark has no session."""
    return partial(runner_for, "local", _no_spark)


def _no_spark() -> Any:
    raise AssertionError  # a local runner was asked for


def _reader(paths: Sequence[str]) -> Any:
    """Return the rows of Parquet files with one schema, as a pa.RecordBatchReader."""
    with storage_for(paths[0]).open(paths[0]) as stream:
        schema = pq.read_schema(stream)

    def batches() -> Iterator[Any]:
        for path in paths:
            with storage_for(path).open(path) as stream:
                yield from pq.ParquetFile(stream).iter_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())
