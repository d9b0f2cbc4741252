"""The two steps that both engines have: read the tasks of a plan, write each group and the ledger."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from mutator.engine.ledger import write_ledger
from mutator.engine.receipts import LedgerReceipt, MergeReceipt, Receipts
from mutator.engine.runner import Element, Runner
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.plan.splits import Split

Read = Callable[[Plan, tuple[Split, ...]], Iterator[Any]]
Write = Callable[[Plan, str | None, int, int, Iterable[Element]], MergeReceipt]


def merge_groups(runner: Runner, plan: Reading, staging: str | None, read: Read, write: Write) -> Receipts:
    """Read the tasks of a plan, and write each group of buckets and the ledger; return all receipts."""
    with runner.shared(plan) as shared:
        *merges, ledger = (
            # [split, ...]
            runner.tasks(plan.tasks)
            # -> ((group, …), value), ...
            .map(partial(read_tasks, read), shared)
            # -> the same, in their group, sorted
            .grouped(plan.groups + 1)
            # -> MergeReceipt; of the last group, LedgerReceipt
            .map(partial(_write, write, staging), shared)
            .collect()
        )
    return Receipts(tuple(merges), ledger)


def read_tasks(
    read: Read, plan: Plan, number: int, attempt: int, tasks: Iterable[tuple[Split, ...]]
) -> Iterator[Element]:
    """Yield the elements that a function reads for some tasks."""
    for splits in tasks:
        yield from read(plan, splits)


def _write(
    write: Write, staging: str | None, plan: Plan, group: int, attempt: int, elements: Iterable[Element]
) -> Iterator[MergeReceipt | LedgerReceipt]:
    if group == plan.ledger:
        yield write_ledger(plan, staging, attempt, elements)
    else:
        yield write(plan, staging, group, attempt, elements)
