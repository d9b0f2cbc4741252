"""The first step of a partitioned merge: where each mutation belongs, and each row of a master without partitions.

Where a record ID is unique within its partition alone, rows go to their partitions as they are read. Where it is unique
in the whole table, the feed is folded by ID first: its winners are looked for in the partitions (``locate``), or meet
the rows of a master that has no partitions yet, whose survivors are then placed.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from mutator.dataset.manifest import DataFile, SideFile
from mutator.engine.blocks.merge_bucket import Sections, merge_group
from mutator.engine.blocks.merge_task import UnitTask
from mutator.engine.blocks.mutations import Mutations, fold, joined_mutations
from mutator.engine.blocks.read import Feed, batches, rejected
from mutator.engine.blocks.spool import scratch_directory
from mutator.engine.malloc import keep_freed_memory
from mutator.engine.partitions.routes import LEDGER, ROWS, TOMBSTONES, Route, routed, routed_mutations, rows_table
from mutator.engine.receipts import NOTHING_READ
from mutator.engine.split_content import TALLY, RowSequences, read_splits, receipt_of
from mutator.engine.tally import Tally
from mutator.errors.failpoints import failpoint
from mutator.formats.blocks.contract import Hashes
from mutator.plan.merge_unit import MergeUnit
from mutator.plan.run_plan import Plan
from mutator.plan.splits import Input, Split
from mutator.rules.byte_columns import Ints
from mutator.rules.key_hash import murmur64a

__all__ = ["merged_and_placed", "placed_as_read"]


def placed_as_read(plan: Plan, splits: Iterable[Split]) -> Iterator[Route]:
    """Read the splits of one task; every row goes to the partition that it says."""
    keep_freed_memory()
    feed = _PlacedFeed(plan)

    def read(split: Split, one: Input) -> Iterator[Any]:
        return feed.read(split, one) if one.side == "feed" else _master_rows(plan, split, one)

    for found in read_splits(plan, splits, read):
        yield found if len(found) == 3 else (LEDGER, {}, found)
    yield from feed.runs()


class _PlacedFeed(Feed):
    """The mutations of a task, by partition; each is folded with those of its ID and partition."""

    def runs(self) -> Iterator[Route]:
        plan = self.plan
        for parts in self.held.values():
            found = joined_mutations(parts)
            placed = plan.block_type.partitions(found.written, plan.rows.layouts["written"])
            folded, codes = _folded_apart(plan, found, placed.codes, placed.names)
            yield routed_mutations(folded, codes, placed.names)
        self.forget()


def _folded_apart(plan: Plan, found: Mutations, codes: Ints, names: list[str]) -> tuple[Mutations, Ints]:
    """Fold the mutations of each partition; return them and the partition of each."""
    salts = np.array([murmur64a(name.encode("utf-8", "surrogateescape")) for name in names], np.uint64)
    salted = {"hashes": found.hashes ^ salts[codes], "keys": (pa.array(codes), *found.keys)}
    folded = fold(plan, Mutations(**{**vars(found), **salted}))
    codes = folded.keys[0].to_numpy()
    return Mutations(**{**vars(folded), "hashes": folded.hashes ^ salts[codes], "keys": folded.keys[1:]}), codes


def _master_rows(plan: Plan, split: Split, file: Input) -> Iterator[Any]:
    block_type, layout = plan.block_type, plan.rows.layouts["written"]
    sequences = RowSequences(plan, split, file)
    receipt = NOTHING_READ
    for batch, receipt in batches(plan, split, file, trusted=False):
        yield from rejected(plan, split, file, batch, receipt)
        block, own = batch.block, sequences.of(batch)
        if len(block):
            placed = block_type.partitions(block.written(), layout)
            inputs = np.full(len(block), split.input, np.int64)
            table = rows_table(block.rows, inputs, block.offsets, block.hashes(), own)
            yield routed(ROWS, table, placed.codes, placed.names)
    sequences.end()
    yield receipt_of(plan, split, receipt)


def merged_and_placed(plan: Plan, group: int, elements: Iterable[Any], attempt: int) -> Iterator[Route]:
    """Merge a group of a master that has no partitions yet, and place what is left of it."""
    failpoint("task.started", attempt)
    keep_freed_memory()
    with ExitStack() as stack:
        files = _Placed(plan, group, stack)
        task = UnitTask(plan, MergeUnit(group, plan.groups, plan.groups), (), files, stack, exact=True)
        receipt = task.done(lambda: merge_group(task, Sections(plan, elements, stack)))
        yield from files.routes()
    yield LEDGER, {}, ((plan.ledger, (), TALLY, (group, 0)), receipt)


class _Placed:
    """Takes what a merge leaves, as files would, and sends each row to its partition; tombstones say none."""

    def __init__(self, plan: Plan, group: int, stack: ExitStack) -> None:
        self._plan, self._group, self._stack = plan, group, stack
        self._held: list[Route] = []
        self._bytes = 0
        self._file: BinaryIO | None = None
        self.rows = self.tombstones = 0
        self.files, self.beside = tuple[DataFile, ...](), tuple[SideFile, ...]()

    def write(self, rows: Any, count: int, hashes: Hashes | None, sequences: Ints | None) -> None:
        if not count:
            return
        assert hashes is not None
        places = np.arange(self.rows, self.rows + count)
        self.rows += count
        own = np.zeros(count, np.int64) if sequences is None else sequences
        table = rows_table(rows, np.full(count, self._group, np.int64), places, hashes, own)
        placed = self._plan.block_type.partitions(rows, self._plan.rows.layouts["written"])
        self._take(routed(ROWS, table, placed.codes, placed.names))

    def finish(self, inserted: Iterator[Any], tombstones: Iterator[Any], tally: Tally) -> None:
        for table in inserted:
            sequences = table.column("order").to_numpy() if self._plan.by_file_name else None
            rows = table.column("row").combine_chunks()
            self.write(rows, table.num_rows, table.column("hash").to_numpy(), sequences)
        for table in tombstones:
            self.tombstones += table.num_rows
            self._take(routed(TOMBSTONES, table, np.zeros(table.num_rows, np.int64), [""]))
        tally.counts["output rows"] += self.rows
        tally.counts["tombstones out"] += self.tombstones

    def _take(self, route: Route) -> None:
        """Hold a route, on disk where there are many."""
        self._held.append(route)
        self._bytes += len(route[2])
        if self._bytes > self._plan.memory:
            if self._file is None:
                path = os.path.join(scratch_directory(self._stack), "routes")
                self._file = self._stack.enter_context(open(path, "w+b"))  # noqa: SIM115  # closed by the stack
            for one in self._held:
                pickle.dump(one, self._file)
            self._held, self._bytes = [], 0

    def routes(self) -> Iterator[Route]:
        """Yield all routes, once."""
        if self._file is not None:
            end = self._file.tell()
            self._file.seek(0)
            while self._file.tell() < end:
                yield pickle.load(self._file)
        yield from self._held
