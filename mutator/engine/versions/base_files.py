"""The base files that a compaction adds to a table: rows of whole buckets, each file with its key index.

A partition with many rows has files of its own; the rows of the others share packed files. An extent of a file is a
bucket of a partition, sorted by key.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.commit.staging import StagedFile
from mutator.dataset.file_entry import DATA, TOMBSTONES, Extent, FileEntry
from mutator.dataset.versions.key_index import encoded_keys
from mutator.dataset.versions.log import DIRECTORY
from mutator.engine.task_files import file_name
from mutator.engine.versions.delta_files import (
    ApplyTarget,
    created,
    rows_directory,
    text_of_order,
    write_key_index,
    write_side_file,
    write_tombstones,
)
from mutator.engine.versions.indexed_rows import IndexedRows
from mutator.errors import MutatorError
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.files.parquet import table_writer
from mutator.plan.merge_unit import MergeUnit
from mutator.plan.reading import Reading
from mutator.rules.order_columns import from_texts, to_texts
from mutator.storage import storage_for

OWN = 1 << 12  # rows of a partition that has files of its own
MOST = 1 << 22  # rows of a file
MOST_SPLITS = 4  # buckets that one becomes at most, all of whose files are written at once
_FULL = 1 << 16  # rows of a file with several buckets
_Bucket = tuple[str | None, int, int]  # partition, number of the bucket, and of buckets


@dataclass(frozen=True)
class Buried:
    """The tombstones of a bucket."""

    partition: str | None
    bucket: int
    buckets: int
    rows: Any  # a pa.Table with the column "hash"


class BaseWriter:
    """Writes the base files of one task."""

    def __init__(self, plan: Reading, target: ApplyTarget, task: int, attempt: int) -> None:
        """Create no file yet."""
        self._plan, self._target, self._task, self._attempt = plan, target, task, attempt
        # By directory, and by bucket where a unit has several.
        self._open: dict[tuple[str, int | None], _BaseFile] = {}
        self._count = 0
        self._made: list[str] = []  # paths of all files
        self.files: list[FileEntry] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: Any) -> None:
        """End the files; after an error, remove them."""
        try:
            if fault[0] is None:
                for file in list(self._open.values()):
                    self._close(file)
                return
        except BaseException:
            self._discard(*sys.exc_info())
            raise
        self._discard(*fault)

    def _discard(self, *fault: Any) -> None:
        """Remove all files, because of an error."""
        for file in self._open.values():
            file.abandon(*fault)
        for path in self._made:
            with suppress(MutatorError):
                storage_for(str(self._target.table)).remove(f"{self._target.table}/{path}")

    def write(self, unit: MergeUnit, rows: IndexedRows, size: int, *, packed: bool) -> None:
        """Write the next rows of a unit into the files of its buckets.

        size: about the number of rows of the unit. packed: whether a file may have rows of other partitions.
        """
        buckets = unit.buckets or 1
        directory = f"{DIRECTORY}/packed" if packed else rows_directory(unit.partition, self._target.version)
        if len(unit.numbers) == 1:
            self._write((directory, None), (unit.partition, unit.group, buckets), rows, size, MOST)
            return
        of_row = rows.hashes % np.uint64(buckets)
        for number in unit.numbers:
            own, most = rows.taken(np.flatnonzero(of_row == number)), MOST // len(unit.numbers)
            self._write((directory, number), (unit.partition, number, buckets), own, size, most)

    def _write(self, name: tuple[str, int | None], bucket: _Bucket, rows: IndexedRows, size: int, most: int) -> None:
        """Write the next rows of a bucket. name: of the open file. most: rows of a file."""
        while len(rows):
            file = self._open.get(name)
            if file is not None and file.is_full(bucket, size, most):
                self._close(file)
                file = None
            if file is None:
                file = self._open[name] = _BaseFile(self._plan, str(self._target.table), self._path(name[0]))
            count = min(len(rows), most - file.rows)
            file.write(bucket, rows.slice(0, count))
            rows = rows.slice(count, len(rows))

    def end_unit(self) -> None:
        """Close the files of the buckets of a unit that has several."""
        for (_, number), file in list(self._open.items()):
            if number is not None:
                self._close(file)

    def end_partition(self) -> None:
        """Close the files that only the present partition has rows of."""
        for (directory, _), file in list(self._open.items()):
            if directory != f"{DIRECTORY}/packed":
                self._close(file)

    def bury(self, buckets: Sequence[Buried]) -> None:
        """Write the tombstones of some buckets."""
        path, plan = self._path(f"{DIRECTORY}/tombstones", ".tombstones"), self._plan
        whole = pa.concat_tables([one.rows for one in buckets]).combine_chunks()
        keys = [whole.column(f"key_{number}").cast(pa.large_binary()) for number in range(plan.key_width)]
        orders = from_texts(plan.rows.order_type, whole.column("order").combine_chunks())
        described, start = [], 0
        for one in buckets:
            count = one.rows.num_rows
            high = _high(plan, orders.slice(start, count))
            described.append(_extent((one.partition, one.bucket, one.buckets), count, high))
            start += count
        with created(plan, str(self._target.table), path) as stream:
            write_tombstones(stream, whole, plan)  # type: ignore[arg-type]  # as much of a stream as it needs
        failpoint("compact.tombstones.written", self._attempt)
        columns = whole.column("hash").to_numpy(), encoded_keys([key.combine_chunks() for key in keys])
        self._add(TOMBSTONES, stream, tuple(described), *columns, np.zeros(start, np.uint32), orders)

    def _path(self, directory: str, suffix: str = ".rows") -> str:
        number, self._count = self._count, self._count + 1
        name = file_name(self._plan, self._task, self._attempt)
        path = f"{directory}/{name}{f'.{number}' if number else ''}{suffix}"
        self._made += (path, self._target.index_path(path), self._target.sides_path(path))
        return path

    def _close(self, file: _BaseFile) -> None:
        stream = file.close()
        self._open = {name: one for name, one in self._open.items() if one is not file}
        failpoint("compact.data.written", self._attempt)
        columns = [np.concatenate(column) for column in (file.hashes, file.row_hashes)]
        keys, orders = pa.concat_arrays(file.keys), pa.concat_arrays(file.orders)
        extents, start = [], 0
        for bucket, rows in file.extents:
            extents.append(_extent(bucket, rows, _high(self._plan, orders.slice(start, rows))))
            start += rows
        sides = pa.concat_arrays(file.sides) if self._plan.side_columns else None
        self._add(DATA, stream, tuple(extents), columns[0], keys, columns[1], orders, sides)

    def _add(
        self,
        role: str,
        stream: StagedFile,
        extents: tuple[Extent, ...],
        hashes: Any,
        keys: Any,
        row_hashes: Any,
        orders: Any,
        sides: Any = None,
    ) -> None:
        """Write the key index of a file, and the side file if it has side columns; describe all."""
        counts = np.array([one.rows for one in extents])
        order_type = self._plan.rows.order_type
        columns = hashes, keys, row_hashes, counts, order_type, orders
        index = write_key_index(self._plan, self._target, stream.path, *columns)
        failpoint("compact.keys.written", self._attempt)
        beside = None if sides is None else write_side_file(self._plan, self._target, stream.path, sides)
        rows, form = int(counts.sum()), self._target.schema
        self.files.append(stream.entry(rows, role, form=form, extents=extents, index=index, sides=beside))


class _BaseFile:
    """A data file that is being written, and the columns of its key index so far."""

    def __init__(self, plan: Reading, table: str, path: str) -> None:
        self._schema, self._stack = plan.rows.output.schema, ExitStack()
        self._stream = self._stack.enter_context(created(plan, table, path))
        codec = plan.rows.output.dialect.codec
        self._write = self._stack.enter_context(table_writer(self._stream, self._schema, codec))  # type: ignore[arg-type]
        self.extents: list[tuple[_Bucket, int]] = []  # and the number of its rows
        self.hashes: list[Any] = []
        self.row_hashes: list[Any] = []
        self.keys: list[Any] = []
        self.orders: list[Any] = []
        self.sides: list[Any] = []
        self.rows = 0

    def is_full(self, bucket: _Bucket, size: int, most: int) -> bool:
        """Return whether the next rows of a bucket belong into another file.

        size: rows of the bucket. most: rows of a file.

        Several buckets share a file only if they are small, because a task that needs some of them reads them at once.
        """
        is_same = self.extents[-1][0] == bucket
        return self.rows >= most if is_same else self.rows + size > min(_FULL, most)

    def write(self, bucket: _Bucket, rows: IndexedRows) -> None:
        """Write the next rows of a bucket."""
        self._write(pa.RecordBatch.from_arrays(rows.rows.flatten(), schema=self._schema))
        self.hashes.append(rows.hashes)
        self.row_hashes.append(rows.row_hashes)
        self.keys.append(rows.encoded())
        self.orders.append(rows.orders)
        self.sides.append(rows.sides)
        self.rows += len(rows)
        if self.extents and self.extents[-1][0] == bucket:
            self.extents[-1] = (bucket, self.extents[-1][1] + len(rows))
        else:
            self.extents.append((bucket, len(rows)))

    def close(self) -> StagedFile:
        """End the file; return its description."""
        self._stack.close()
        return self._stream

    def abandon(self, *fault: Any) -> None:
        """Leave no file, because of an error."""
        self._stack.__exit__(*fault)


def _extent(bucket: _Bucket, rows: int, high: str | None) -> Extent:
    partition, number, buckets = bucket
    return Extent(partition=partition, bucket=number, buckets=buckets, rows=rows, high=high)


def _high(plan: Reading, orders: Any) -> str | None:
    texts = to_texts(plan.rows.order_type, pa.array([pc.max(orders)], orders.type))
    return text_of_order(texts[0].as_py())
