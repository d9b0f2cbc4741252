"""The second step of a partitioned merge: the units of a task, one after the other, and the filters of their keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.filter_packs import KeyFilter, write_filters
from mutator.engine.blocks.master import MasterBlock
from mutator.engine.blocks.merge_task import UnitTask, no_tombstones
from mutator.engine.blocks.mutations import mutations_of_table
from mutator.engine.bucket_files import BucketFiles
from mutator.engine.merging_task import MergingTask
from mutator.engine.partitions.routes import ARRIVED, FEED, ROWS, TOMBSTONES, ByUnit
from mutator.engine.receipts import MergeReceipt
from mutator.engine.tally import Tally
from mutator.engine.task_files import create, file_name
from mutator.errors.failpoints import failpoint
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.rules.bloom_filter import filter_of


def write_units(
    plan: Plan, staging: str | None, tasks: Sequence[Sequence[int]], task: int, attempt: int, elements: Iterable[Any]
) -> Iterator[MergeReceipt]:
    """Merge the units of a task and write their files; yield a receipt for each.

    tasks: numbers of the units of each task. elements: sorted, as ``routes.spread`` yields them for the task.
    staging: None for a dry run.
    """
    with MergingTask.opened(plan, staging, task, attempt, elements) as whole:
        arrived = {content: ByUnit(plan, content, whole.stack) for content in (FEED, ARRIVED, ROWS, TOMBSTONES)}
        for (_, _, content, _), value in whole.elements:
            arrived[content].append(pa.ipc.open_stream(value).read_all())
        has_filters = plan.by_table and plan.data_written
        pack = _Pack(plan, staging, task, attempt) if has_filters and staging is not None else None
        work = _write if plan.strategy.join == "shuffle" and plan.by_table else _merge
        for number in tasks[task]:
            with whole.unit() as own:
                unit = plan.units[number]
                files = _BoundedFiles(plan, staging, unit, attempt, own.stack, None if pack is None else pack.path)
                merge = UnitTask(own, unit, plan.local[number], files, hashed=pack is not None)
                receipt = merge.receipt(lambda: work(merge, files, number, arrived))  # noqa: B023  # called at once
                if pack is not None:
                    pack.add(files)
                yield receipt
        if pack is not None and (written := pack.written()) is not None:
            yield written
        yield whole.receipt()


def _write(_: UnitTask, files: _BoundedFiles, unit: int, arrived: dict[int, ByUnit]) -> None:
    """Write the rows and tombstones that the first step has merged."""
    for table in arrived[ROWS].of(unit):
        files.note_rows(table)
        rows, sides = (table.column(name).combine_chunks() for name in ("row", "sides"))
        files.write(rows, table.num_rows, table.column("hash").to_numpy(), sides)
    for table in arrived[TOMBSTONES].of(unit):
        files.note(table.column("key_0"))
        files.bury(table.drop_columns(["unit"]))
    files.close()


def _merge(merge: UnitTask, files: _BoundedFiles, unit: int, arrived: dict[int, ByUnit]) -> None:
    """Merge the mutations of a unit with its rows: those that arrived, or those of the master's files."""
    for table in arrived[FEED].of(unit):
        merge.parts.append(mutations_of_table(table.drop_columns(["unit"])))
    for table in arrived[ARRIVED].of(unit):
        for one in table.column("outcome").value_counts().to_pylist():
            merge.tally.counts["moved in"] += one["counts"] if one["values"] != "inserted" else 0
            merge.tally.counts[f"feed {one['values']}"] += (
                one["counts"] if one["values"] in ("updated", "inserted") else 0
            )
        merge.output.inserted.append(table.drop_columns(["unit", "outcome"]))
    if merge.plan.strategy.join == "shuffle":
        shuffled = list(_blocks(merge.plan, arrived[ROWS].of(unit)))
        merge.merge(lambda: files.noting(iter(shuffled)), no_tombstones)
    else:
        merge.merge(lambda: files.noting(merge.from_master()), no_tombstones)


def _blocks(plan: Reading, tables: Iterator[Any]) -> Iterator[MasterBlock]:
    base = 0
    block_type = plan.block_type
    for table in tables:
        block = block_type.load(block_type.pack(table.column("row").combine_chunks()), plan.rows.layouts["master"])
        yield MasterBlock(plan, None, base, block, table.column("sides").combine_chunks())
        base += len(block)


class _BoundedFiles(BucketFiles):
    """Files of a unit, with the lowest and the highest first ID value that they may contain."""

    _known = True
    _low: bytes | None = None
    _high: bytes | None = None

    def note(self, column: Any) -> None:
        """Extend the bounds to a column of first ID values."""
        found = pc.min_max(column)
        low, high = found["min"].as_py(), found["max"].as_py()
        if low is not None:
            self._low = low if self._low is None else min(self._low, low)
            self._high = high if self._high is None else max(self._high, high)

    def note_rows(self, table: Any) -> None:
        """Extend the bounds to rows as they are written. table: pa.Table with the column "row"."""
        plan, rows = self.plan, table.column("row").combine_chunks()
        block_type, layout = plan.block_type, plan.rows.layouts["written"]
        if rows.type == getattr(layout, "row_type", rows.type):
            self.note(block_type.load(block_type.pack(rows), layout).keys(None)[0])
        else:
            self._known = False  # keys cannot be read from rows as they are written

    def noting(self, blocks: Iterator[MasterBlock]) -> Iterator[MasterBlock]:
        """Yield blocks, and extend the bounds to their rows."""
        for block in blocks:
            self.note(block.keys(np.arange(len(block.block)))[0])
            yield block

    @property
    def bounds(self) -> tuple[bytes, bytes | None]:
        """Lowest and highest first ID value; None for an unknown highest."""
        return (self._low or b"", self._high) if self._known else (b"", None)

    def finish(self, inserted: Iterator[Any], tombstones: Iterator[Any], tally: Tally) -> None:
        """Write the last tables, and extend the bounds to their rows."""
        super().finish(self._noted(inserted), self._noted(tombstones), tally)

    def _noted(self, tables: Iterator[Any]) -> Iterator[Any]:
        for table in tables:
            self.note(table.column("key_0"))
            yield table


class _Pack:
    """The filters of all files that a task writes, in one file."""

    def __init__(self, plan: Reading, staging: str, task: int, attempt: int) -> None:
        self._plan, self._staging, self._attempt = plan, staging, attempt
        self.path = f"_mutator/filters/{file_name(plan, task, attempt)}.filters"
        self._filters: list[KeyFilter] = []

    def add(self, files: _BoundedFiles) -> None:
        """Add a filter for each file of a unit."""
        for path, hashes in files.key_hashes():
            self._filters.append(KeyFilter(path, *files.bounds, filter_of(hashes)))

    def written(self) -> MergeReceipt | None:
        """Write the pack and return its receipt; None if it would be empty."""
        if not self._filters:
            return None
        with create(self._plan, self._staging, self.path) as stream:
            write_filters(stream, self._filters)  # type: ignore[arg-type]  # as much of a stream as it needs
        failpoint("task.filters.written", self._attempt)
        return MergeReceipt(beside=(stream.entry(len(self._filters), "filters"),))
