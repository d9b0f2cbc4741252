"""An apply as steps: the feed is read, folded and shuffled as in every merge, and meets the live rows by their keys.

map      split -> runs of folded mutations
shuffle  by group of buckets
reduce   merge the runs; the winners meet live rows; write delta files and a version index
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.blocks.read import read_runs
from mutator.engine.ledger import write_ledger
from mutator.engine.receipts import LedgerReceipt, Receipts
from mutator.engine.runner import Runner
from mutator.engine.tasks import read_tasks
from mutator.engine.versions.apart import ApartFeed
from mutator.engine.versions.apply_task import Written, apply_group
from mutator.engine.versions.delta_files import Target
from mutator.plan.run_plan import Plan
from mutator.plan.splits import Split


def apply(runner: Runner, plan: Plan, snapshot: Snapshot, target: Target) -> tuple[Receipts, tuple[Written, ...]]:
    """Apply the feed of a plan to a snapshot; return all receipts, and what the tasks wrote."""
    with runner.shared((plan, snapshot, target)) as shared:
        *written, ledger = (
            # [split, ...]
            runner.tasks(plan.tasks)
            # -> ((group, …), value), ...
            .map(_read, shared)
            # -> the same, in their group, sorted
            .grouped(plan.groups + 1)
            # -> Written; of the last group, LedgerReceipt
            .map(_apply, shared)
            .collect()
        )
    return Receipts(tuple(one.merged for one in written), ledger), tuple(written)


_Shared = tuple[Plan, Snapshot, Target]


def _read(shared: _Shared, number: int, attempt: int, tasks: Iterable[tuple[Split, ...]]) -> Iterator[Any]:
    plan, _, _ = shared
    make = ApartFeed if plan.rows.partitioning.by_partition else None
    return read_tasks(partial(read_runs, feed=make), plan, number, attempt, tasks)


def _apply(shared: _Shared, group: int, attempt: int, elements: Iterable[Any]) -> Iterator[Written | LedgerReceipt]:
    plan, snapshot, target = shared
    if group == plan.ledger:
        yield write_ledger(plan, target.table, attempt, elements)
    else:
        yield apply_group(plan, snapshot, target, group, attempt, elements)
