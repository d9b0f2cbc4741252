"""Write one bucket's files, or only count them; return a receipt. Plain functions, no Spark.

Every attempt of a task writes under names of its own; only the files of the receipts that reach the driver are
committed, so a task that is retried or doubled leaves nothing but litter in the staging directory.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.side_columns import Tombstone, tombstone_table
from mutator.engine.blocks.tombstone_columns import with_kept
from mutator.engine.bucket_files import BucketFiles
from mutator.engine.changed_rows import ChangedRowFile
from mutator.engine.merging_task import MergingTask
from mutator.engine.receipts import MergeReceipt
from mutator.engine.records.read_records import Element
from mutator.engine.records.record_merge import merge_bucket
from mutator.engine.records.record_spellings import SortedSpellings
from mutator.engine.sorted_runs import sorted_elements
from mutator.engine.tally import Tally
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.rules.absences import met_order
from mutator.rules.changes import AFTER, BEFORE, DELETE, INSERT
from mutator.rules.id_spellings import have_spellings
from mutator.rules.order_columns import to_column, to_value
from mutator.rules.order_values import format_order
from mutator.rules.register import Mutation

_BATCH = 1 << 14  # rows or tombstones that are written at once
_BATCH_BYTES = 1 << 20

Row = tuple[tuple[Any, ...], tuple[Any, ...]]  # position, (row, order value, value of a side column, …)


def write_bucket(
    plan: Plan, staging: str | None, bucket: int, attempt: int, elements: Iterable[Element]
) -> MergeReceipt:
    """Merge one bucket and write its rows, their sequences and its tombstones; return the receipt.

    staging: directory that the files go to, None for a dry run. attempt: number of this task's attempt, from 0.
    """
    with MergingTask.opened(plan, staging, bucket, attempt, elements) as task:
        plan, tally, form = task.plan, task.tally, plan.block_type
        files = task.files(plan.units[bucket])
        changes = None if task.changes is None else _Changes(plan, task.changes)
        tombstones = _Tombstones(plan, files, tally)
        rows = merge_bucket(
            task.elements,
            tally,
            tombstones.append,
            None if changes is None else changes.append,
            lambda outcome, place: tally.won.add_one(outcome, place[-1]),
            partial(_reject, task),
            now=plan.now,
            register=plan.register.replacing if plan.units[bucket].replaced else plan.register,
            horizon=plan.horizon,
            expire_before=plan.expire_before,
            spellings=SortedSpellings(tally) if have_spellings(plan.rows.spec["key"]) else None,
            absences=plan.absences,
            floor=plan.floor,
            truncates=plan.truncates,
            known_floor=plan.known_floor,
            as_of=plan.as_of,
            no_sides=(None,) * len(plan.side_columns),
            stays=None if plan.scope is None else partial(_stays, plan),
        )
        for batch in _batches(rows if staging is None else sorted_elements(rows, plan.memory)):
            contents, orders, *kept = zip(*(values for _, values in batch), strict=True)
            beside = to_column(plan.rows.order_type, list(orders)) if plan.keeps_orders else None
            sides = plan.sides(len(batch), beside, kept)
            files.write(form.from_contents(contents, plan.rows.layouts["master"]), len(batch), None, sides)
        tombstones.flush()
        files.close(tally)
        if changes is not None:
            changes.flush()
        return task.receipt(files=files.files, beside=files.beside)


def _stays(plan: Plan, row: bytes) -> bool:
    return not plan.inside(plan.block_type.from_contents([row], plan.rows.layouts["master"]))[0]


def _reject(task: MergingTask, winner: Mutation, reason: str) -> None:
    if task.tally.room <= 0:
        return
    _, _, _, offset, row, *_, file = winner.place
    plan = task.plan
    form = plan.block_type
    written = form.from_contents([winner.row], plan.rows.layouts["master"])
    (shown,) = form.shown(pa.array([row + b"\n"], pa.large_binary()), written, plan.rows.spec)
    task.tally.reject(reason, [(file, offset, shown)])


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size = 0
    for one in rows:
        batch.append(one)
        size += len(one[1][0])
        if len(batch) == _BATCH or size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _Tombstones:
    """Tombstones that come one by one; those that the floor covers are counted, and go nowhere."""

    def __init__(self, plan: Plan, files: BucketFiles, tally: Tally) -> None:
        self._plan, self._files, self._tally = plan, files, tally
        self._floor = None if plan.register.full else plan.floor  # as in ``Output.kept_tombstones``
        self._batch: list[Tombstone] = []
        self._waiting: list[tuple[Any, ...]] = []  # the values beside each

    def append(self, tombstone: tuple[tuple[bytes, ...], Any, int, tuple[Any, ...]]) -> None:
        key, order, committed, waiting = tombstone
        if self._floor is not None and met_order(order, committed, self._plan.absences) <= self._floor:
            # A row that waits stays if it has a field that the floor spares.
            orders = [one["order"] for one in waiting[1] or ()] if waiting else []
            if all(to_value(self._plan.rows.order_type, one) < self._floor for one in orders):
                self._tally.counts["covered"] += 1
                return
        self._batch.append((key, format_order(self._plan.rows.order_type, order), committed))
        self._waiting.append(waiting or (None,) * len(self._plan.beside_tombstones))
        if len(self._batch) == _BATCH:
            self.flush()

    def flush(self) -> None:
        batch, self._batch, waiting, self._waiting = self._batch, [], self._waiting, []
        if batch:
            self._files.bury(with_kept(self._plan, tombstone_table(self._plan.key_width, batch), waiting))


class _Changes:
    """Changed rows that come one by one."""

    def __init__(self, plan: Reading, sink: ChangedRowFile) -> None:
        self._plan, self._sink = plan, sink
        self._kinds: list[int] = []
        self._rows: list[bytes] = []
        self._bytes = 0

    def append(self, before: bytes | None, after: bytes | None) -> None:
        """Add a row before and after a change: None before an insert, and after a delete."""
        for kind, row in ((DELETE if after is None else BEFORE, before), (INSERT if before is None else AFTER, after)):
            if row is not None:
                self._kinds.append(kind)
                self._rows.append(row)
                self._bytes += len(row)
        if len(self._rows) >= _BATCH or self._bytes > _BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand over the rows since the last time."""
        rows = self._plan.block_type.from_contents(self._rows, self._plan.rows.layouts["master"])
        self._sink.add(np.array(self._kinds, np.int8), rows)
        self._kinds, self._rows, self._bytes = [], [], 0
