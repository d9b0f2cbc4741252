"""An apply as steps: the feed is read, folded and shuffled as in every merge, and meets the live rows by their keys.

map      split -> runs of folded mutations
shuffle  by group of buckets
reduce   merge the runs; the winners meet live rows; write delta files and a version index

An insert overwrite of partitions first finds those of its winners: what becomes of the records and tombstones of
a group depends on the winners of all groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pyarrow as pa

from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.blocks.merge_bucket import Sections
from mutator.engine.blocks.read_blocks import read_runs
from mutator.engine.carried import with_carried, with_note
from mutator.engine.ledger import with_rejects, write_ledger
from mutator.engine.partitions.locate import own_partitions
from mutator.engine.receipts import LedgerReceipt, Receipts
from mutator.engine.runner import Elements, Runner, Shared
from mutator.engine.split_content import with_floor
from mutator.engine.tasks import read_tasks
from mutator.engine.versions.apart import ApartFeed
from mutator.engine.versions.apply_task import WrittenRows, apply_group
from mutator.engine.versions.delta_files import ApplyTarget
from mutator.engine.versions.live_keys import held_in_snapshot
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.plan.splits import Split


def apply(
    runner: Runner, plan: Plan, snapshot: Snapshot, target: ApplyTarget
) -> tuple[Receipts, tuple[WrittenRows, ...]]:
    """Apply the feed of a plan to a snapshot; return all receipts, and what the tasks wrote."""
    plan, note = with_carried(runner, plan, partial(held_in_snapshot, snapshot))
    with runner.shared(plan) as shared:
        receipts, written = _met(runner, _grouped(runner, plan, shared), (plan, snapshot, target))
    return with_note(receipts, note), written


def overwrite(
    runner: Runner, plan: Plan, whole: bool, replace: Callable[[frozenset[str] | None], tuple[Snapshot, ApplyTarget]]
) -> tuple[Receipts, tuple[WrittenRows, ...]]:
    """Overwrite everything in a table, or the partitions of the winners; return as ``apply`` does.

    replace: called with the directories of the partitions, None for everything; returns the live rows that the winners
    can meet, and where to write.
    """
    with runner.shared(plan) as shared:
        mutations = _grouped(runner, plan, shared)
        if whole or not plan.is_partitioned:
            return _met(runner, mutations, (plan, *replace(None)))
        # -> frozenset of directories; of the last group, an empty one
        names = frozenset[str]().union(*mutations.map(_partitions, shared).collect())
        return _met(runner, mutations, (plan, *replace(names)))


_Shared = tuple[Plan, Snapshot, ApplyTarget]


def _grouped(runner: Runner, plan: Reading, shared: Shared) -> Elements:
    """Return the folded mutations of a feed, in their groups."""
    return (
        # [split, ...]
        runner.tasks(plan.tasks)
        # -> ((group, …), value), ...
        .map(_read, shared)
        # -> the same, in their group, sorted
        .grouped(plan.groups + 1)
    )


def _met(runner: Runner, mutations: Elements, value: _Shared) -> tuple[Receipts, tuple[WrittenRows, ...]]:
    """Let mutations meet live rows."""
    with runner.shared(value) as shared:
        # -> Written; of the last group, LedgerReceipt
        *written, ledger = mutations.map(_apply, shared).collect()
    plan, _, target = value
    receipts = Receipts(tuple(one.merged for one in written), ledger)
    return with_rejects(plan, target.table, receipts), tuple(written)


def _read(plan: Plan, number: int, attempt: int, tasks: Iterable[tuple[Split, ...]]) -> Iterator[Any]:
    make = ApartFeed if plan.rows.partitioning.by_partition else None
    return read_tasks(partial(read_runs, feed=make), plan, number, attempt, tasks)


def _partitions(plan: Plan, group: int, attempt: int, elements: Iterable[Any]) -> Iterator[frozenset[str]]:
    """Yield the directories of the partitions that the winners of a group belong to."""
    if group == plan.ledger:
        yield frozenset()
    elif plan.by_table:
        yield frozenset(own_partitions(*with_floor(plan, elements)))
    else:  # the mutations of a partition have winners in it
        plan, elements = with_floor(plan, elements)
        with ExitStack() as stack:
            mutations = Sections(plan, elements, stack).mutations()
            yield frozenset().union(*(found.directories.cast(pa.string()).unique().to_pylist() for found in mutations))


def _apply(shared: _Shared, group: int, attempt: int, elements: Iterable[Any]) -> Iterator[WrittenRows | LedgerReceipt]:
    plan, snapshot, target = shared
    if group == plan.ledger:
        yield write_ledger(plan, target.table, attempt, elements)
    else:
        yield apply_group(plan, snapshot, target, group, attempt, elements)
