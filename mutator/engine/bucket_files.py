"""The files that either engine writes for a group of buckets: data, sequences of rows, tombstones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.commit.staging import StagedFile
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.side_columns import TombstoneWriter, write_sides
from mutator.engine.tally import Tally
from mutator.engine.task_files import create, file_name
from mutator.errors.failpoints import failpoint
from mutator.formats.blocks.block_type import Hashes
from mutator.formats.content import Writer
from mutator.plan.merge_unit import MergeUnit
from mutator.plan.run_plan import Plan
from mutator.rules.byte_columns import Ints
from mutator.rules.order_columns import SEQUENCE
from mutator.rules.register import with_values
from mutator.storage import progress


class BucketFiles:
    """One data file and one file of tombstones for each bucket of a unit; an empty bucket has none."""

    def __init__(
        self,
        plan: Plan,
        staging: str | None,
        unit: MergeUnit,
        attempt: int,
        stack: ExitStack,
        filter_pack: str | None = None,
    ) -> None:
        """Create no file yet.

        staging: directory of the files, None for a dry run. filter_pack: path of the pack with the filters of their
        keys, if they get filters.
        """
        self.plan, self.unit, self.attempt, self.filter_pack = plan, unit, attempt, filter_pack
        self.staging = staging if plan.data_written else None
        self._data = [_DataFile(self, number, stack) for number in unit.numbers]
        self._tombstones = [_TombstoneFile(self, number, stack) for number in unit.numbers]

    def write(self, rows: Any, count: int, hashes: Hashes | None, sides: Any) -> None:
        """Write rows to the files of their buckets.

        rows: an array of the block type; where it is split by bucket, one element for each row. count: number of rows.
        hashes: of their keys, one per row; needed for several buckets, and for filters. sides: as ``Reading.sides``
        returns them; needed where there are side files.
        """
        if len(self._data) == 1:
            self._data[0].write(rows, count, hashes, sides)
            return
        assert hashes is not None
        for file, chosen in self._by_bucket(self._data, hashes):
            index = pa.array(chosen)
            own = None if sides is None else sides.take(index)
            file.write(rows.take(index), len(chosen), hashes[chosen], own)

    def insert(self, table: Any) -> None:
        """Write inserted rows. table: pa.Table with the columns "row", "hash" and "sides"."""
        rows, sides = (table.column(name).combine_chunks() for name in ("row", "sides"))
        self.write(rows, table.num_rows, table.column("hash").to_numpy(), sides)

    def bury(self, table: Any) -> None:
        """Write tombstones, sorted by key. table: pa.Table, with the column "hash" if there are several buckets."""
        if len(self._tombstones) == 1:
            self._tombstones[0].write(table)
            return
        for file, chosen in self._by_bucket(self._tombstones, table.column("hash").to_numpy()):
            file.write(table.take(pa.array(chosen)))

    def _by_bucket(self, files: Sequence[_Bucket], hashes: Hashes) -> Iterator[tuple[_Bucket, Ints]]:
        for file in files:
            chosen = np.flatnonzero(hashes % np.uint64(self.unit.buckets or 1) == np.uint64(file.number))
            if len(chosen):
                yield file, chosen

    def finish(self, inserted: Iterator[Any], tombstones: Iterator[Any], tally: Tally) -> None:
        """Write the last tables, of inserted rows and of tombstones; close all files and count their rows."""
        for table in inserted:
            self.insert(table)
        for table in tombstones:
            self.bury(table)
        self.close(tally)

    def close(self, tally: Tally | None = None) -> None:
        """Flush all files and make them visible; count their rows in the tally."""
        for file in (*self._data, *self._tombstones):
            file.close()
        if tally is not None:
            tally.counts["output rows"] += self.rows
            tally.counts["tombstones out"] += sum(file.rows for file in self._tombstones)

    @property
    def rows(self) -> int:
        """Number of rows that the writers counted."""
        return sum(file.rows for file in self._data)

    def key_hashes(self) -> Iterator[tuple[str, Hashes]]:
        """Yield (path, key hashes) of each closed data file and file of tombstones."""
        for file in (*self._data, *self._tombstones):
            if file.path is not None:
                yield file.path, np.concatenate([*file.hashes, np.zeros(0, np.uint64)])

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """The data files, once they are closed."""
        return tuple(data for file in self._data for data in file.files)

    @property
    def beside(self) -> tuple[FileEntry, ...]:
        """The side files and the files of tombstones, once they are closed."""
        return tuple(side for file in (*self._data, *self._tombstones) for side in file.beside)


class _BucketFile:
    """One file of a bucket, created with its first row."""

    close: Callable[[], None]

    def __init__(self, bucket_files: BucketFiles, number: int, stack: ExitStack) -> None:
        plan, unit = bucket_files.plan, bucket_files.unit
        self.number = number
        self.files, self.beside = list[FileEntry](), list[FileEntry]()
        self.path: str | None = None
        self.hashes: list[Hashes] = []
        self.rows = 0
        self._plan, self._staging, self._attempt = plan, bucket_files.staging, bucket_files.attempt
        bucket = None if unit.buckets is None else number
        self._members: dict[str, Any] = {"bucket": bucket, **unit.described()}
        self._filter = bucket_files.filter_pack
        self._name = unit.prefix + file_name(plan, number, self._attempt)
        self._stack = stack.enter_context(ExitStack())
        self._stream: StagedFile | None = None


_Bucket = TypeVar("_Bucket", bound=_BucketFile)


class _DataFile(_BucketFile):
    """One data file, and its side file."""

    _writer: Writer | None = None

    def write(self, rows: Any, count: int, hashes: Hashes | None, sides: Any) -> None:
        if not count:
            return
        progress.count(written=count)
        if hashes is not None:
            self.hashes.append(hashes)
        if self._staging is None:
            self.rows += count
            return
        if self._writer is None:
            self._writer = self._create(self._staging)
        self._writer.write(rows)
        if self._plan.has_sides:
            assert sides is not None
            self._sides.append(sides)

    def _create(self, staging: str) -> Writer:
        plan, block_type = self._plan, self._plan.block_type
        self._suffix = block_type.suffix(plan.rows.output)
        self._sides: list[Any] = []
        final = self._final_path if plan.by_file_name else None
        self._stream = self._stack.enter_context(create(plan, staging, self._name + self._suffix, final))
        failpoint("task.data.opened", self._attempt)
        stream: Any = self._stream
        writer = block_type.writer(stream, plan.rows.output, plan.chunks.written if plan.has_sides else None)
        self._stack.callback(writer.close)
        return writer

    def _final_path(self) -> str:
        newest = max(pc.max(part.field(SEQUENCE)).as_py() for part in self._sides)
        return f"{self._name}_{newest}{self._suffix}" if newest >= 0 else self._name + self._suffix

    def close(self) -> None:
        if self._writer is None or self._stream is None or self._staging is None:
            return
        self._stack.close()
        self.rows, self.path = self._writer.rows, self._stream.path
        failpoint("task.data.written", self._attempt)
        order = None
        if self._plan.keeps_orders or any(with_values(self._plan.kept(one)).any() for one in self._sides):
            columns = pa.Table.from_struct_array(pa.chunked_array(self._sides))
            columns = columns if self._plan.by_file_name else columns.drop_columns([SEQUENCE])
            columns = self._plan.register.settled(columns)
            order = f"_mutator/order/{self.path}.order"
            with create(self._plan, self._staging, order) as side:
                write_sides(side, columns, self._writer.rows_by_chunk)  # type: ignore[arg-type]
            self.beside.append(side.entry(self.rows, "order", **self._members))
            failpoint("task.order.written", self._attempt)
        self.files.append(self._stream.entry(self.rows, order=order, filter=self._filter, **self._members))


class _TombstoneFile(_BucketFile):
    """One file of tombstones."""

    _writer: TombstoneWriter | None = None

    def write(self, table: Any) -> None:
        self.rows += table.num_rows
        if "hash" in table.column_names:
            self.hashes.append(table.column("hash").to_numpy())
        if self._staging is None or not table.num_rows:
            return
        if self._writer is None:
            path = f"_mutator/tombstones/{self._name}.tombstones"
            self._stream = self._stack.enter_context(create(self._plan, self._staging, path))
            self._writer = TombstoneWriter(self._stream, self._plan.key_width, self._plan.beside_tombstones)  # type: ignore[arg-type]
            self._stack.callback(self._writer.close)
        self._writer.write(table)

    def close(self) -> None:
        if self._writer is None or self._stream is None:
            return
        self._stack.close()
        self.path = self._stream.path
        failpoint("task.tombstones.written", self._attempt)
        self.beside.append(self._stream.entry(self.rows, "tombstones", filter=self._filter, **self._members))
