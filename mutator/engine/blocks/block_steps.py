"""The blocks engine as steps: a merge of Arrow blocks, a few numpy and Arrow calls for tens of thousands of rows.

    map      split -> runs of folded mutations, ((group, (), RUN, position), run); master rows only where they must move
    shuffle  by group; runs, then rows, then tombstones, each by position
    reduce   merge the runs, stream the master against the winners, replace the changed rows

Where the feed is broadcast, there is one group, and the last step is a map over the master's splits.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from mutator.engine.blocks import broadcast
from mutator.engine.blocks.merge_bucket import write_group
from mutator.engine.blocks.read_blocks import read_runs
from mutator.engine.receipts import Receipts
from mutator.engine.runner import Runner
from mutator.engine.tasks import merge_groups, read_tasks
from mutator.plan.run_plan import Plan


def merge(runner: Runner, plan: Plan, staging: str | None) -> Receipts:
    """Run the merge of a plan; return all receipts.

    staging: directory that the files go to, None for a dry run.
    """
    if plan.strategy.join == "broadcast":
        return _merge_by_broadcast(runner, plan, staging)
    return merge_groups(runner, plan, staging, read_runs, write_group)


def _merge_by_broadcast(runner: Runner, plan: Plan, staging: str | None) -> Receipts:
    with runner.shared(replace(plan, groups=1)) as shared:
        (folded, floor), ledger = (
            # [split, ...]
            runner.tasks(plan.tasks)
            # -> ((group, …), value), ...
            .map(partial(read_tasks, read_runs), shared)
            # -> the same, in their group, sorted
            .grouped(2)
            # -> the winners, as Arrow IPC, and the highest truncate; the elements of the ledger
            .map(_fold, shared)
            .collect()
        )
    plan = plan.truncated(floor)
    with runner.shared((plan, folded)) as shared:
        # task -> Patch
        patches = runner.tasks(range(len(plan.local) - 1)).map(partial(_patch, staging), shared).collect()
        met = broadcast.met_by(patches)
        elements = [*ledger, *(element for patch in patches for element in patch.ledger)]
        # None -> MergeReceipt of the winners that met no row, LedgerReceipt
        last, written = runner.tasks([None]).map(partial(_finish, staging, met, elements), shared).collect()
    return broadcast.receipts_of(patches, last, written)


def _fold(plan: Plan, group: int, attempt: int, elements: Iterable[Any]) -> Iterator[tuple[bytes, Any] | list[Any]]:
    yield list(elements) if group == plan.ledger else broadcast.fold_feed(plan, elements)


def _patch(staging: str | None, shared: Any, number: int, attempt: int, tasks: Iterable[int]) -> list[broadcast.Patch]:
    plan, folded = shared
    return [broadcast.patch(plan, staging, folded, task, attempt) for task in tasks]


def _finish(
    staging: str | None,
    met: broadcast.MetWinners,
    ledger: list[Any],
    shared: Any,
    number: int,
    attempt: int,
    _: Iterable[None],
) -> tuple[Any, ...]:
    plan, folded = shared
    return broadcast.finish(plan, staging, folded, met, ledger, attempt)
