"""The second step of a partitioned merge: the units of a task, one after the other, and the filters of their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.filter_packs import KeyFilter, write_filters
from mutator.engine.blocks.master import MasterBlock
from mutator.engine.blocks.merge_task import UnitTask
from mutator.engine.blocks.mutations import mutations_of_table
from mutator.engine.bucket_files import Files
from mutator.engine.malloc import keep_freed_memory
from mutator.engine.partitions.routes import FEED, ROWS, TOMBSTONES, ByUnit
from mutator.engine.task_files import create, file_name
from mutator.errors.failpoints import failpoint
from mutator.plan.run_plan import Plan
from mutator.rules.bloom_filter import filter_of

__all__ = ["write_units"]


def write_units(
    plan: Plan, staging: str | None, tasks: Sequence[Sequence[int]], task: int, attempt: int, elements: Iterable[Any]
) -> Iterator[dict[str, Any]]:
    """Merge the units of a task and write their files; yield a receipt for each.

    elements: what ``routes.spread`` made for the task, sorted. staging: None for a dry run.
    """
    failpoint("task.started", attempt)
    keep_freed_memory()
    with ExitStack() as stack:
        arrived = {kind: ByUnit(plan, kind, stack) for kind in (FEED, ROWS, TOMBSTONES)}
        for (_, _, kind, _), value in elements:
            arrived[kind].append(pa.ipc.open_stream(value).read_all())
        pack = _Pack(plan, staging, task, attempt) if plan.by_table and staging is not None else None
        for number in tasks[task]:
            with ExitStack() as own:
                unit = plan.units[number]
                files = Files(plan, staging, unit, attempt, own)
                bounds = _Bounds(files)
                merge = UnitTask(plan, unit, plan.local[number], bounds, own, hashed=pack is not None)
                receipt = merge.done(_work(plan, number, merge, bounds, arrived))
                receipt |= {"partition": unit.partition, "rows": files.rows}
                if pack is not None:
                    pack.take(receipt, bounds)
                yield receipt
        if pack is not None:
            yield from pack.written()


def _work(plan: Plan, number: int, merge: UnitTask, bounds: _Bounds, arrived: dict[int, ByUnit]) -> Callable[[], None]:
    """Return what is to be done: a merge, or, where all was merged in the first step, just to write."""

    def write() -> None:
        for table in arrived[ROWS].of(number):
            bounds.note_rows(plan, table)
            hashes, sequences = table.column("hash").to_numpy(), table.column("sequence").to_numpy()
            bounds.files.write(table.column("row").combine_chunks(), table.num_rows, hashes, sequences)
        for table in arrived[TOMBSTONES].of(number):
            bounds.note(table.column("key_0"))
            bounds.files.bury(table.drop_columns(["unit"]))
        bounds.files.close()

    def meet() -> None:
        for table in arrived[FEED].of(number):
            merge.parts.append(mutations_of_table(table.drop_columns(["unit"])))
        if plan.strategy.join == "shuffle":
            held = list(_blocks(plan, arrived[ROWS].of(number)))
            merge.merge(lambda: bounds.noting(iter(held)), lambda: iter(()))
        else:
            merge.merge(lambda: bounds.noting(merge.from_master()), lambda: iter(()))

    return write if plan.strategy.join == "shuffle" and plan.by_table else meet


def _blocks(plan: Plan, tables: Iterator[Any]) -> Iterator[MasterBlock]:
    base = 0
    form = plan.block_type
    for table in tables:
        block = form.load([form.pack(table.column("row").combine_chunks())], plan.rows.layouts["master"])
        yield MasterBlock(plan, None, base, block, table.column("sequence").to_numpy())
        base += len(block)


class _Bounds:
    """Files of a unit, and the lowest and highest first ID value of what came into them, or could have."""

    def __init__(self, files: Files) -> None:
        self.files, self.known = files, True
        self.low: bytes | None = None
        self.high: bytes | None = None

    def note(self, column: Any) -> None:
        """Take notice of a column of first ID values."""
        found = pc.min_max(column)
        low, high = found["min"].as_py(), found["max"].as_py()
        if low is not None:
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)

    def note_rows(self, plan: Plan, table: Any) -> None:
        """Take notice of rows as they are written."""
        form, rows = plan.block_type, table.column("row").combine_chunks()
        layout = plan.rows.layouts["written"]
        if rows.type == getattr(layout, "row_type", rows.type):
            self.note(form.load([form.pack(rows)], layout).keys(None)[0])
        else:
            self.known = False  # rows that are written do not say their keys again

    def noting(self, blocks: Iterator[MasterBlock]) -> Iterator[MasterBlock]:
        """Take notice of the rows of blocks."""
        for one in blocks:
            self.note(one.keys(np.arange(len(one.block)))[0])
            yield one

    def bounds(self) -> tuple[bytes, bytes | None]:
        """Return the lowest and the highest value, as far as they are known."""
        return (self.low or b"", self.high) if self.known else (b"", None)

    def write(self, *kept: Any) -> None:
        self.files.write(*kept)

    def finish(self, inserted: Iterator[Any], tombstones: Iterator[Any], tally: Any) -> None:
        self.files.finish(self._noted(inserted), self._noted(tombstones), tally)

    def _noted(self, tables: Iterator[Any]) -> Iterator[Any]:
        for table in tables:
            self.note(table.column("key_0"))
            yield table

    def receipts(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        return self.files.receipts()


class _Pack:
    """The filters of all files that a task writes, in one file."""

    def __init__(self, plan: Plan, staging: str | None, task: int, attempt: int) -> None:
        self._plan, self._staging, self._attempt = plan, staging, attempt
        self._path = f"_mutator/filters/{file_name(plan, task, attempt)}.parquet"
        self._filters: list[KeyFilter] = []

    def take(self, receipt: dict[str, Any], bounds: _Bounds) -> None:
        """Take the filters of a unit's files, and note in its receipt where they will be."""
        hashes = bounds.files.hashes()
        for part in (*receipt["files"], *(part for part in receipt["beside"] if part["role"] == "tombstones")):
            part["filter"] = self._path
            words = filter_of(hashes[part["path"]])
            self._filters.append(KeyFilter(part["path"], *bounds.bounds(), words))

    def written(self) -> Iterator[dict[str, Any]]:
        """Write the pack, if there is anything to write; yield the receipt."""
        if not self._filters or self._staging is None:
            return
        with create(self._plan, self._staging, self._path) as stream:
            write_filters(stream, self._filters)  # type: ignore[arg-type]
        failpoint("task.filters.written", self._attempt)
        side = stream.side_file("filters", len(self._filters))
        yield {"counts": {}, "samples": {}, "expired": None, "highest": None, "files": [], "beside": [asdict(side)]}
