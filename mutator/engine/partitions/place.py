"""The first step of a partitioned merge: route mutations, and rows of an unpartitioned master, to their partitions.

If a record ID is unique only within its partition, rows are routed as they are read. If it is unique in the whole
table, the feed is folded by ID first; its winners are then located in the partitions (``locate``), or meet the rows of
a master that has no partitions yet, and the surviving rows are routed.
"""

import os
import pickle
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np

from mutator.dataset.file_entry import FileEntry
from mutator.engine.blocks.fold import fold
from mutator.engine.blocks.merge_bucket import merge_group
from mutator.engine.blocks.merge_task import UnitTask
from mutator.engine.blocks.mutations import Mutations, directories_of, directory_column, joined_mutations
from mutator.engine.blocks.read_blocks import Feed, batches, rejected
from mutator.engine.malloc import keep_freed_memory
from mutator.engine.merging_task import MergingTask
from mutator.engine.partitions.routes import LEDGER, ROWS, TOMBSTONES, Route, routed, routed_mutations, rows_table
from mutator.engine.receipts import NOTHING_READ
from mutator.engine.scratch import scratch_directory
from mutator.engine.split_content import FLOOR, TALLY, RowSides, read_splits, receipt_of
from mutator.engine.tally import Tally
from mutator.formats.blocks.block_type import Hashes
from mutator.plan.merge_unit import MergeUnit
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.plan.splits import Input, Split
from mutator.rules.key_hash import murmur64a


def placed_as_read(plan: Plan, splits: Iterable[Split]) -> Iterator[Route]:
    """Read the splits of one task; route every row to the partition of its fields."""
    keep_freed_memory()
    feed = _PlacedFeed(plan)

    def read(split: Split, one: Input) -> Iterator[Any]:
        return feed.read(split, one) if one.side == "feed" else _master_rows(plan, split, one)

    for found in read_splits(plan, splits, read):
        if len(found) == 3:
            yield found
        elif found[0][2] != FLOOR:  # truncates go to all partitions, by way of the receipts
            yield LEDGER, {}, found
    yield from feed.runs()


class _PlacedFeed(Feed):
    """The mutations of a task, folded by partition and ID."""

    def runs(self) -> Iterator[Route]:
        plan = self.plan
        for parts in self.waiting.values():
            yield routed_mutations(_folded_apart(plan, joined_mutations(parts)))
        self.forget()


def _folded_apart(plan: Plan, found: Mutations) -> Mutations:
    """Fold the mutations of each partition."""
    names = found.directories.dictionary.to_pylist()
    salts = np.array([murmur64a(name.encode("utf-8", "surrogateescape")) for name in names], np.uint64)
    codes = found.directories.indices
    folded = fold(plan, replace(found, hashes=found.hashes ^ salts[codes.to_numpy()], keys=(codes, *found.keys)))
    return replace(folded, hashes=folded.hashes ^ salts[folded.keys[0].to_numpy()], keys=folded.keys[1:])


def _master_rows(plan: Reading, split: Split, file: Input) -> Iterator[Any]:
    sides = RowSides(plan, split, file)
    receipt = NOTHING_READ
    for batch, receipt in batches(plan, split, file, trusted=False):
        yield from rejected(plan, split, file, batch, receipt)
        block, own = batch.block, sides.of(batch)
        if len(block):
            inputs = np.full(len(block), split.input, np.int64)
            table = rows_table(block.rows, inputs, block.offsets, block.hashes(), own)
            yield routed(ROWS, table, directories_of(plan, block))
    sides.end()
    yield receipt_of(plan, split, receipt)


def merged_and_placed(
    plan: Plan, staging: str | None, group: int, elements: Iterable[Any], attempt: int
) -> Iterator[Route]:
    """Merge a group of a master that has no partitions yet, and route the surviving rows; write the changed ones."""
    with MergingTask.opened(plan, staging, group, attempt, elements) as task:
        files = _RouteSink(plan, group, task.stack)
        unit = MergeUnit(group, plan.groups, plan.groups, replaced=plan.replaces(None))
        merge = UnitTask(task, unit, (), files, exact=True, hashed=True)
        receipt = merge.receipt(lambda: merge_group(merge))
        yield from files.routes()
    yield LEDGER, {}, ((plan.ledger, (), TALLY, (group, 0)), receipt)


class _RouteSink:
    """Receives the rows that a merge leaves, and routes each to its partition; tombstones have none."""

    def __init__(self, plan: Reading, group: int, stack: ExitStack) -> None:
        self._plan, self._group, self._stack = plan, group, stack
        self._routes: list[Route] = []
        self._bytes = 0
        self._file: BinaryIO | None = None
        self.rows = self.tombstones = 0
        self.files, self.beside = tuple[FileEntry, ...](), tuple[FileEntry, ...]()

    def write(self, rows: Any, count: int, hashes: Hashes | None, sides: Any) -> None:
        if not count:
            return
        assert hashes is not None
        positions = np.arange(self.rows, self.rows + count)
        self.rows += count
        table = rows_table(rows, np.full(count, self._group, np.int64), positions, hashes, sides)
        placed = self._plan.block_type.partitions(rows, self._plan.rows.layouts["written"])
        self._append(routed(ROWS, table, directory_column(placed.codes, placed.names)))

    def finish(self, inserted: Iterator[Any], tombstones: Iterator[Any], tally: Tally) -> None:
        for table in inserted:
            rows, sides = (table.column(name).combine_chunks() for name in ("row", "sides"))
            self.write(rows, table.num_rows, table.column("hash").to_numpy(), sides)
        for table in tombstones:
            self.tombstones += table.num_rows
            self._append(routed(TOMBSTONES, table, directory_column(np.zeros(table.num_rows, np.int64), [""])))
        tally.counts["output rows"] += self.rows
        tally.counts["tombstones out"] += self.tombstones

    def _append(self, route: Route) -> None:
        """Keep a route, on disk if there are many."""
        self._routes.append(route)
        self._bytes += len(route[2])
        if self._bytes > self._plan.memory:
            if self._file is None:
                path = os.path.join(scratch_directory(self._stack), "routes")
                self._file = self._stack.enter_context(open(path, "w+b"))  # noqa: SIM115  # closed by the stack
            for one in self._routes:
                pickle.dump(one, self._file)
            self._routes, self._bytes = [], 0

    def routes(self) -> Iterator[Route]:
        """Yield all routes, once."""
        if self._file is not None:
            end = self._file.tell()
            self._file.seek(0)
            while self._file.tell() < end:
                yield pickle.load(self._file)
        yield from self._routes
