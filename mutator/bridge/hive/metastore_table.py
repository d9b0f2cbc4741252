"""A table of the metastore, read and written by Spark; its commit is the metastore's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.bridge.contract import Batches, Partition, TableFile, Work
from mutator.bridge.digests import changed_partitions, digests_of
from mutator.bridge.hive.create import create_table
from mutator.bridge.hive.frames import frame_of, on_batches
from mutator.bridge.hive.staged_table import Staged
from mutator.bridge.hive.table import HiveTable
from mutator.bridge.importing import Imported, read_rows, whole_copy
from mutator.bridge.rows_by_partition import by_partition
from mutator.bridge.text_dataset import text_pieces
from mutator.engine.spark.shuffle import each_on
from mutator.errors import MutatorError, error
from mutator.rules.partition_paths import values_of

__all__ = ["MetastoreTable", "import_to_table"]


class MetastoreTable:
    """A table of the metastore; the contract is ``table.Table``."""

    def __init__(self, spark: Any, name: str) -> None:
        """Look the table up. Raises ConfigError where it is none that can be changed in one step."""
        self._spark, self._table = spark, HiveTable(spark, name)
        self.name = self.given = self._table.name
        self.kind = self._table.kind
        self.schema, self.partition_fields = self._table.schema, self._table.partition_fields

    def adopt(self, schema: Any) -> None:
        """Raise ConfigError where the rows have other fields; values are held against the table's types one by one."""
        if sorted(schema.names) != sorted(self.schema.names):
            what = f"has the fields {', '.join(self.schema.names)}, and the text has {', '.join(schema.names)}"
            cure = "alter the table, or leave what is new out of the feed, with output.schema"
            raise error("table.place", path=self.name, why=what, cure=cure)

    def files(self) -> tuple[TableFile, ...]:
        """Return the files as the metastore knows their places."""
        return self._table.files()

    def check_replaceable(self) -> None:
        """Do nothing: tables that cannot be replaced are refused when they are looked up."""

    def export(self, work: Work) -> list[Any]:
        """Apply a function to all rows, as Spark reads them."""
        return on_batches(self._table.read(), self.schema, work)

    def stage(
        self,
        pieces: Sequence[Any],
        read: Callable[[Any], Batches],
        run: str,
        partitions: Sequence[Partition] | None,
    ) -> Mapping[str, Any]:
        """Insert the rows into places of their own."""
        fields, replaced = self.partition_fields, None
        if fields:
            if partitions is None:
                there = [tuple(value for _, value in values_of(one)) for one in self._table.partitions()]
                partitions = list(dict.fromkeys([*there, *self._all(pieces)]))
            read = partial(_of_partitions, read, fields, frozenset(partitions))
            replaced = [dict(zip(fields, one, strict=True)) for one in partitions]
        if self._table.keeps_milliseconds:
            read = partial(_in_milliseconds, read)
        frame = frame_of(self._spark, pieces, read, self._table.read())
        staged = self._table.stage(frame, run, replaced)
        moved = {move.partition for move in staged.moves}
        files = [*(one for one in self._table.files() if one.partition not in moved), *staged.files]
        return {"files": [asdict(one) for one in sorted(files)], "rows": staged.rows, "staged": staged.record()}

    def _all(self, pieces: Sequence[Any]) -> list[Partition]:
        """Return the partitions that rows belong to."""
        digests = digests_of(each_on(self._spark.sparkContext), pieces, self.partition_fields, {})
        return changed_partitions({}, digests)

    def commit(self, record: Mapping[str, Any]) -> None:
        """Point the table, or its partitions, at the new places."""
        self._table.commit(Staged.of(record["staged"]))

    def discard(self, run: str) -> None:
        """Remove what a run has staged, unless it has committed it."""
        try:
            self._table.discard(run)
        except MutatorError as fault:
            if fault.kind != "hive.live":
                raise

    def retire(self, record: Mapping[str, Any]) -> None:
        """Remove the places that a commit has left."""
        self._table.retire(record["staged"])


def import_to_table(spark: Any, source: str, name: str, kind: str | None, run: str) -> Imported:
    """Put the rows of a text copy into the place of all rows of a table, in one step.

    kind: format of a table that is not there, and is made first; None: it must be there.
    """
    path, known = whole_copy(source)
    schema, pieces = text_pieces(path, known)
    if kind is not None:
        create_table(spark, name, schema, tuple(known.spec.get("partitioned by", ())), kind)
    table = MetastoreTable(spark, name)
    if kind not in (None, table.kind):
        raise error("table.place", path=table.name, why=f"holds {table.kind}", cure=f"leave out --format {kind}")
    table.adopt(schema)
    before, rows = table.files(), sum(part.rows for part in known.files)
    try:
        record = table.stage(pieces, read_rows(table.schema), run, None)
        if table.files() != before:
            raise error("table.changed", table=table.name, what="was replaced")
        if record["rows"] != rows:
            what = f"{table.name}: {record['rows']:,} rows were written, and the text has {rows:,}"
            raise error("sums", problems=what)
    except BaseException:
        table.discard(run)
        raise
    table.commit(record)
    table.retire(record)
    return Imported(len(record["files"]), rows, sum(int(one["bytes"]) for one in record["files"]))


def _in_milliseconds(read: Callable[[Any], Batches], piece: Any) -> Batches:
    """Read rows. Raises DataError for an instant that would be cut."""
    for batch in read(piece):
        for field, column in zip(batch.schema, batch.columns, strict=True):
            for leaf in _instants(column):
                finer = leaf.filter(pa.array(np.asarray(leaf.cast(pa.int64())) % 1000 != 0))
                if len(finer):
                    what = (
                        f"field {field.name} has {finer[0].cast(pa.string())}, and a table of Avro keeps milliseconds"
                    )
                    cure = "round the times, or use a table of ORC or Parquet files"
                    raise error("format", path=piece.path, what=what, cure=cure)
        yield batch


def _instants(column: Any) -> Iterator[Any]:
    """Yield all instants of a column, without NULLs."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        yield column.drop_null()
    elif pa.types.is_map(kind):
        yield from _instants(column.keys)
        yield from _instants(column.items)
    elif pa.types.is_list(kind):
        yield from _instants(column.flatten())
    elif pa.types.is_struct(kind):
        for child in column.flatten():
            yield from _instants(child)


def _of_partitions(
    read: Callable[[Any], Batches], fields: Sequence[str], wanted: frozenset[Partition], piece: Any
) -> Batches:
    """Read the rows of some partitions."""
    for batch in read(piece):
        rows = [numbers for partition, numbers in by_partition(batch, fields) if partition in wanted]
        if rows:
            yield batch.take(pa.array(np.sort(np.concatenate(rows))))
