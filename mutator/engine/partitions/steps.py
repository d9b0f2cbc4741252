"""The merge of a partitioned master as steps: two shuffles, and one commit for all partitions.

    place    split -> routes: each row of the feed, and of a master without partitions, with its partition
    touch    the directories of the routes; only they show which files of the master must be read
    merge    route -> units, sorted by unit; a task merges one unit after the other (``partitions.merge``)
    carry    the files of all other partitions become files of the output; only those due for a check are read

Where a record ID is unique in the whole table, rows are first brought together by ID (``partitions.place``,
``partitions.locate``).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from mutator.engine.blocks.carry import (
    carry_partitions,
    check_carried,
    check_master,
    copied,
    due_checks,
    join_packs,
    make_directories,
)
from mutator.engine.blocks.read import read_runs
from mutator.engine.ledger import write_ledger
from mutator.engine.partitions.locate import located
from mutator.engine.partitions.merge import write_units
from mutator.engine.partitions.place import merged_and_placed, placed_as_read
from mutator.engine.partitions.routes import LEDGER, Route, spread
from mutator.engine.receipts import LedgerReceipt, MergeReceipt, Receipts
from mutator.engine.runner import Runner, each_on
from mutator.engine.tasks import read_tasks
from mutator.errors.failpoints import failpoint
from mutator.plan.partition_plan import packed_units, with_units
from mutator.plan.run_plan import Plan


def merge(runner: Runner, plan: Plan, staging: str | None) -> Receipts:
    """Run the merge of a plan; return all receipts.

    staging: directory that the files go to, None for a dry run.
    """
    known = plan.master if plan.by_table else None  # locating records needs the files
    known = known and replace(known, parts=())
    with ExitStack() as stack, runner.shared(replace(plan, master=known)) as shared:
        # While it waits for the tasks, this process checks thousands of partitions, and links their files.
        beside = stack.enter_context(ThreadPoolExecutor(1))
        checking = beside.submit(check_master, plan)
        # [split, ...]
        tasks = runner.tasks(plan.tasks)
        if plan.by_table:
            routes = (
                # -> ((group, …), value), ...
                tasks.map(partial(read_tasks, read_runs), shared)
                # -> the same, in their group, sorted
                .grouped(plan.groups + 1)
                # -> (section, sizes, table), ...
                .map(_place, shared)
            )
        else:
            routes = tasks.map(partial(read_tasks, placed_as_read), shared)
        with routes.kept() as kept:
            # -> Counter of the bytes of each directory
            arrived = sum(kept.map(_sizes).collect(), Counter[str]())
            checking.result()
            whole = with_units(plan, arrived)
            shares = packed_units(whole, arrived, runner.parallelism)
            checks = due_checks(whole, arrived) if staging is not None else []
            shares += ((),) * (runner.parallelism - len(shares) if checks else 0)  # tasks that only check
            failpoint("merge.touched")
            if staging is not None:
                make_directories(whole, staging)
            carrying = beside.submit(carry_partitions, whole, staging, arrived)
            with runner.shared((replace(whole, master=None), shares, checks)) as second:
                *merges, ledger = (
                    # -> ((task, (), section, position), table with units), ...
                    kept.map(_spread, second)
                    # -> the same, in their task, sorted
                    .grouped(len(shares) + 1)
                    # -> MergeReceipt, ...; of the last task, LedgerReceipt
                    .map(partial(_write, staging), second)
                    .collect()
                )
    each_on(runner)(carrying.result(), copied)
    return Receipts(tuple(merges), ledger, dict(arrived), join_packs(whole, staging, arrived))


def _place(plan: Plan, group: int, attempt: int, elements: Iterable[Any]) -> Iterable[Route]:
    if group == plan.ledger:
        return ((LEDGER, {}, element) for element in elements)
    place = located if plan.master is not None else merged_and_placed
    return place(plan, group, elements, attempt)


def _sizes(_: None, number: int, attempt: int, routes: Iterable[Route]) -> Iterator[Counter[str]]:
    found: Counter[str] = Counter()
    for route in routes:
        found.update(route[1])
    yield found


Spread = tuple[Plan, Sequence[Sequence[int]], Sequence[Any]]  # plan, units of each task, checks


def _spread(shared: Spread, number: int, attempt: int, routes: Iterable[Route]) -> Iterator[Any]:
    plan, shares, _ = shared
    return spread(plan, shares, number, routes)


def _write(
    staging: str | None, shared: Spread, task: int, attempt: int, elements: Iterable[Any]
) -> Iterator[MergeReceipt | LedgerReceipt]:
    plan, shares, checks = shared
    if task == len(shares):
        yield write_ledger(plan, staging, attempt, elements)
    else:
        yield from write_units(plan, staging, shares, task, attempt, elements)
        yield check_carried(checks[task :: len(shares)])
