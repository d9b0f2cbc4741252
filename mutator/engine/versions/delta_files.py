"""The files that an apply adds to a table: rows or tombstones, each file with its key index.

Rows are sorted by partition, bucket and key. An extent with many rows is a file of its own, in its partition; the
others share one packed file, so that a version that touches a thousand partitions does not make a thousand files.
"""

from __future__ import annotations

import io
import posixpath
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.checksum import whole
from mutator.dataset.commit.staging import StagedFile
from mutator.dataset.file_entry import (
    CLOSED,
    DATA,
    EVENTS,
    INDEX,
    KEYS,
    TOMBSTONES,
    WITH_ROWS,
    Extent,
    FileEntry,
    stored_here,
)
from mutator.dataset.side_columns import TombstoneWriter, write_sides
from mutator.dataset.state import BucketCounts
from mutator.dataset.versions.key_index import index_bytes
from mutator.dataset.versions.log import DIRECTORY
from mutator.engine.task_files import create
from mutator.engine.versions.replaced import Replaced
from mutator.errors import error
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.files.parquet import table_writer
from mutator.plan.reading import Reading
from mutator.rules.byte_columns import Ints
from mutator.rules.key_hash import Hashes
from mutator.rules.order_columns import to_texts
from mutator.rules.register import with_values
from mutator.rules.row_hash import RowHashes, row_hashes
from mutator.rules.sort_order import key_order, then_by
from mutator.storage import progress, storage_for

_OWN = 1 << 16  # rows of an extent that is a file of its own


@dataclass(frozen=True)
class ApplyTarget:
    """Where an apply writes."""

    table: str | None  # path; None: nowhere, because it is a dry run
    version: int  # the number that it expects to get
    schema: int  # version whose specification describes the rows
    buckets: BucketCounts
    inline: bool = False  # files go into the log entry
    replaced: Replaced | None = None  # of an insert overwrite

    def index_path(self, path: str) -> str:
        """Return the path of the key index of a file."""
        return f"{DIRECTORY}/keys/{path.removeprefix(f'{DIRECTORY}/')}{KEYS}"

    def sides_path(self, path: str) -> str:
        """Return the path of the side file of a data file."""
        return f"{DIRECTORY}/sides/{path.removeprefix(f'{DIRECTORY}/')}.sides"

    def store(self, plan: Reading, path: str, content: bytes | bytearray, checksum: str) -> FileEntry:
        """Return a file without rows: with its bytes, for the log entry, or written to its path."""
        if self.inline:
            return stored_here(path, content, checksum)
        with created(plan, str(self.table), path) as stream:
            stream.write(content)
        return FileEntry(path=path, role=INDEX, bytes=len(content), checksum=checksum)


def rows_directory(partition: str | None, version: int) -> str:
    """Return the directory of files that have the rows of one partition. version: that a writer expects to get.

    Programs that read directories ignore names with an underscore, so none of them takes these files for a dataset.

    >>> rows_directory("store_id=7", 5), rows_directory(None, 5)
    ('_mutator/table/rows/store_id=7/version_id=5', '_mutator/table/rows/version_id=5')
    """
    return "/".join(part for part in (DIRECTORY, "rows", partition, f"version_id={version}") if part)


@dataclass(frozen=True)
class Delta:
    """Rows or tombstones to write, sorted by partition, bucket and key."""

    partitions: Sequence[str | None]  # directories, by code
    codes: Ints  # of each row's partition
    rows: Any  # pa.StructArray of written rows, or pa.Table of tombstones
    hashes: Hashes
    keys: Any  # encoded
    orders: Any  # order values
    row_hashes: RowHashes | None = None  # None: to be made of the rows, or of tombstones
    sides: Any = None  # side columns, a pa.StructArray; None without any

    def slice(self, begin: int, end: int) -> Delta:
        """Return some rows, without a copy."""
        count, part = end - begin, slice(begin, end)
        rows, keys, orders = (column.slice(begin, count) for column in (self.rows, self.keys, self.orders))
        row_hashes = None if self.row_hashes is None else self.row_hashes[part]
        sides = None if self.sides is None else self.sides.slice(begin, count)
        return Delta(self.partitions, self.codes[part], rows, self.hashes[part], keys, orders, row_hashes, sides)

    def take(self, chosen: Ints) -> Delta:
        """Return some rows."""
        index = pa.array(chosen)
        rows, keys, orders = (column.take(index) for column in (self.rows, self.keys, self.orders))
        row_hashes = None if self.row_hashes is None else self.row_hashes[chosen]
        sides = None if self.sides is None else self.sides.take(index)
        return Delta(self.partitions, self.codes[chosen], rows, self.hashes[chosen], keys, orders, row_hashes, sides)


class DeltaWriter:
    """Writes the files of one task."""

    def __init__(self, plan: Reading, target: ApplyTarget, group: int, attempt: int, meaning: str = "") -> None:
        """Create no file yet. meaning: of closed rows."""
        self._plan, self._target, self._group, self._attempt = plan, target, group, attempt
        self._meaning = meaning
        self._count = 0
        self.files: list[FileEntry] = []
        self.rows = dict.fromkeys(WITH_ROWS, 0)

    @property
    def buckets(self) -> BucketCounts:
        """The numbers of buckets of the table."""
        return self._target.buckets

    def write(self, role: str, delta: Delta) -> None:
        """Write a delta. role: one of those with rows."""
        self.rows[role] += len(delta.hashes)
        progress.count(written=len(delta.hashes))
        if self._target.table is None or not len(delta.hashes):
            return
        buckets = self._target.buckets.of_rows(delta.partitions, delta.codes, delta.hashes)
        unit = delta.codes * self._target.buckets.most + buckets
        begins = np.flatnonzero(np.diff(unit, prepend=unit[0] - 1))
        ends = np.append(begins[1:], len(unit))
        small = []
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            if end - begin < _OWN:
                small.append((begin, end))
            else:
                self._write(role, delta, [(begin, end)], buckets)
        if small:
            self._write(role, delta, small, buckets)

    def _write(self, role: str, delta: Delta, extents: Sequence[tuple[int, int]], buckets: Ints) -> None:
        """Write one file. extents: first row, and the one after the last."""
        described = tuple(
            Extent(
                partition=delta.partitions[int(delta.codes[begin])],
                bucket=int(buckets[begin]),
                buckets=self._target.buckets.of(delta.partitions[int(delta.codes[begin])]),
                rows=end - begin,
                high=self._high(delta.orders.slice(begin, end - begin)),
            )
            for begin, end in extents
        )
        delta = _of_extents(delta, extents)
        path = self._path(role, described)
        file = self._written(path, self._writing(role, delta.rows))
        if role == DATA:
            failpoint("apply.data.written", self._attempt)
        elif role == EVENTS:
            failpoint("apply.events.written", self._attempt)
        elif role == CLOSED:
            failpoint("compact.closed.written", self._attempt)
        else:
            failpoint("apply.tombstones.written", self._attempt)
        index = self._index(role, path, delta, np.array([end - begin for begin, end in extents]))
        failpoint("apply.keys.written", self._attempt)
        sides = None if delta.sides is None else write_side_file(self._plan, self._target, path, delta.sides)
        rows, form = len(delta.hashes), self._target.schema
        self.files.append(replace(file, role=role, rows=rows, form=form, extents=described, index=index, sides=sides))

    def _index(self, role: str, path: str, delta: Delta, counts: Ints) -> FileEntry:
        numbers = delta.row_hashes
        if numbers is None:
            numbers = np.zeros(len(delta.hashes), np.uint32) if role == TOMBSTONES else row_hashes(delta.rows)
        orders = self._plan.rows.order_type, delta.orders
        return write_key_index(self._plan, self._target, path, delta.hashes, delta.keys, numbers, counts, *orders)

    def _writing(self, role: str, rows: Any) -> Callable[[BinaryIO], None]:
        if role == TOMBSTONES:
            return lambda stream: write_tombstones(stream, rows, self._plan)
        output = self._plan.rows.output
        schema = output.schema if role == DATA else nullable(output.schema)
        return lambda stream: write_rows(stream, rows, schema, output.dialect.codec)

    def _written(self, path: str, write: Callable[[BinaryIO], None]) -> FileEntry:
        if self._target.inline:
            sink = io.BytesIO()
            write(sink)
            content = sink.getvalue()
            return stored_here(path, content, whole(content))
        with created(self._plan, str(self._target.table), path) as stream:
            write(stream)  # type: ignore[arg-type]  # as much of a stream as it needs
        return stream.entry(0)

    def _path(self, role: str, extents: Sequence[Extent]) -> str:
        """Return the path of a file, below its partition if it has only rows of one."""
        number, self._count = self._count, self._count + 1
        attempt = f"-{self._attempt}" if self._attempt else ""
        name = f"part-{self._group:05d}-{self._plan.run}{f'-{number}' if number else ''}{attempt}"
        if role == TOMBSTONES:
            return f"{DIRECTORY}/tombstones/{name}.tombstones"
        if role == EVENTS:
            return f"{DIRECTORY}/events/{name}.events"
        if role == CLOSED:
            return f"{DIRECTORY}/closed/{self._meaning}/{name}.events"
        partitions = {one.partition for one in extents}
        if len(partitions) > 1:
            return f"{DIRECTORY}/packed/{name}.rows"
        (partition,) = partitions
        return f"{rows_directory(partition, self._target.version)}/{name}.rows"

    def _high(self, orders: Any) -> str | None:
        texts = to_texts(self._plan.rows.order_type, pa.array([pc.max(orders)], orders.type))
        return text_of_order(texts[0].as_py())


def _of_extents(delta: Delta, extents: Sequence[tuple[int, int]]) -> Delta:
    """Return the rows of some extents. extents: ascending, each with its first row, and the one after the last."""
    begin, end = extents[0][0], extents[-1][1]
    if end - begin == sum(last - first for first, last in extents):
        return delta.slice(begin, end)
    return delta.take(np.concatenate([np.arange(first, last) for first, last in extents]))


def write_key_index(plan: Reading, target: ApplyTarget, path: str, *columns: Any) -> FileEntry:
    """Write the key index of a file, given its path; return the index.

    columns: the arguments of ``index_bytes``. Raises StateError if the keys have too many bytes.
    """
    try:
        content, checksum = index_bytes(*columns)
    except ValueError as fault:
        raise error("table.keys", path=path, why=fault) from None
    return target.store(plan, target.index_path(path), content, checksum)


def write_side_file(plan: Reading, target: ApplyTarget, path: str, sides: Any) -> FileEntry | None:
    """Write the side columns of a data file, given its path; return the side file. sides: pa.StructArray.

    Columns without a value get no file, so that an apply which meets the rows reads none.
    """
    if not with_values(sides).any():
        return None
    sink = io.BytesIO()
    write_sides(sink, pa.Table.from_arrays(sides.flatten(), schema=pa.schema(sides.type)), ())
    content = sink.getvalue()
    return target.store(plan, target.sides_path(path), content, whole(content))


def unit_order(partitions: Sequence[str | None], codes: Ints, buckets: Ints, keys: Sequence[Any]) -> Ints:
    """Return the order of rows by partition, bucket and key.

    partitions: directories, by code. codes, buckets: of each row. keys: a pa.Array for each ID field.
    """
    ranks = np.argsort(np.argsort(np.array([name or "" for name in partitions], object), kind="stable"))
    return then_by(then_by(key_order(keys), buckets), ranks[codes])


def created(plan: Reading, table: str, path: str) -> AbstractContextManager[StagedFile]:
    """Create a file of a table, and its directory. path: relative to the table."""
    storage_for(table).make_directory(posixpath.dirname(f"{table}/{path}"), within=table)
    return create(plan, table, path)


def text_of_order(value: bytes | None) -> str | None:
    """Return an order value as the text that JSON can have."""
    return None if value is None else value.decode("utf-8", "surrogateescape")


def order_bytes(text: str | None) -> bytes | None:
    """Undo ``text_of_order``."""
    return None if text is None else text.encode("utf-8", "surrogateescape")


def nullable(schema: Any) -> Any:
    """Return a schema of rows any of whose fields may be NULL: a delete may have the key alone."""
    return pa.schema([one.with_nullable(True) for one in schema])


def write_rows(stream: BinaryIO, rows: Any, schema: Any, codec: str | None) -> None:
    """Write a pa.StructArray of rows as Parquet."""
    with table_writer(stream, schema, codec) as write:
        write(pa.RecordBatch.from_arrays(rows.flatten(), schema=schema))


def write_tombstones(stream: BinaryIO, table: Any, plan: Reading) -> None:
    """Write a pa.Table of tombstones."""
    is_beside = any(one.name in table.column_names for one in plan.beside_tombstones)
    writer = TombstoneWriter(stream, plan.key_width, plan.beside_tombstones if is_beside else ())
    writer.write(table)
    writer.close()
