"""The merge of a partitioned master as steps: two shuffles, and one commit for all partitions.

    replace  an insert overwrite replaces the partitions of the winners: in a step before, where records may move
    place    split -> routes: each row of the feed, and of a master without partitions, with its partition
    touch    the directories of the routes; only they show which files of the master must be read
    merge    route -> units, sorted by unit; a task merges one unit after the other (``partitions.merge``)
    carry    the files of all other partitions become files of the output; only those due for a check are read

Where a record ID is unique in the whole table, rows are first brought together by ID (``partitions.place``,
``partitions.locate``).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial, reduce
from itertools import chain
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
from mutator.engine.blocks.read_blocks import read_runs
from mutator.engine.ledger import write_ledger
from mutator.engine.lost_files import lost_files, without_files
from mutator.engine.partitions.locate import located, own_partitions
from mutator.engine.partitions.partition_merge import write_units
from mutator.engine.partitions.place import merged_and_placed, placed_as_read
from mutator.engine.partitions.routes import FEED, LEDGER, Route, spread
from mutator.engine.receipts import LedgerReceipt, MergeReceipt, Receipts, SplitReceipt
from mutator.engine.runner import Elements, Runner, each_on
from mutator.engine.split_content import RECEIPT, highest, with_floor
from mutator.engine.tasks import read_tasks
from mutator.errors.failpoints import failpoint
from mutator.plan.partition_plan import packed_units, with_units
from mutator.plan.run_plan import Plan


def merge(runner: Runner, plan: Plan, staging: str | None) -> Receipts:
    """Run the merge of a plan; return all receipts.

    staging: directory that the files go to, None for a dry run.
    """
    with ExitStack() as stack:
        # While it waits for the tasks, this process checks thousands of partitions, and links their files.
        beside = stack.enter_context(ThreadPoolExecutor(1))
        checking = None if plan.replace_damaged else beside.submit(check_master, plan)
        plan, routes = (_routes_by_table if plan.by_table else _routes_by_partition)(runner, plan, staging, stack)
        with routes.kept() as kept:
            # -> Counter of the bytes of each directory, directories of the feed, the highest truncate
            sizes = kept.map(_sizes).collect()
            arrived = sum((found for found, *_ in sizes), Counter[str]())
            plan = plan.truncated(reduce(highest, (floor for *_, floor in sizes), None))
            if not plan.by_table:
                plan = _replacing(runner, plan, (fed for _, fed, _ in sizes))
            arrived.update(dict.fromkeys(plan.replaced, 0))
            if checking is None:
                check_master(plan)
            else:
                checking.result()
            whole = with_units(plan, arrived)
            shares = packed_units(whole, arrived, runner.parallelism)
            output = staging if plan.data_written else None
            checks = due_checks(whole, arrived) if output is not None else []
            shares += ((),) * (runner.parallelism - len(shares) if checks else 0)  # tasks that only check
            failpoint("merge.touched")
            if output is not None:
                make_directories(whole, output)
            carrying = beside.submit(carry_partitions, whole, output, arrived)
            with runner.shared((replace(whole, master=None), shares, checks)) as second:
                *merges, ledger = (
                    # -> ((task, (), section, position), table with units), ...
                    kept.reading(whole.bytes_to_merge)
                    .map(_spread, second)
                    # -> the same, in their task, sorted
                    .grouped(len(shares) + 1)
                    # -> MergeReceipt, ...; of the last task, LedgerReceipt
                    .map(partial(_write, staging), second)
                    .collect()
                )
    each_on(runner)(carrying.result(), copied)
    replaced = {unit.partition or "" for unit in whole.units if unit.replaced} - {""}
    joined = join_packs(whole, output, arrived)
    return Receipts(tuple(merges), ledger, dict(arrived), frozenset(replaced), plan.lost, joined)


def _routes_by_partition(runner: Runner, plan: Plan, _: str | None, stack: ExitStack) -> tuple[Plan, Elements]:
    """Return the plan, and the routes of all rows, where an ID is unique only within its partition."""
    shared = stack.enter_context(runner.shared(replace(plan, master=None)))
    # [split, ...] -> (section, sizes, table), ...
    return plan, runner.tasks(plan.tasks).reading(plan.bytes_to_place).map(partial(read_tasks, placed_as_read), shared)


def _routes_by_table(runner: Runner, plan: Plan, staging: str | None, stack: ExitStack) -> tuple[Plan, Elements]:
    """Return the plan, and the routes of all rows, where an ID is unique in the whole table.

    The plan gets the partitions that are replaced, because a record of one of them may move even if it is newer.
    """
    known = plan.master and replace(plan.master, parts=())  # locating records needs the files
    shared = stack.enter_context(runner.shared(replace(plan, master=known)))
    found = (
        # [split, ...]
        runner.tasks(plan.tasks)
        .reading(plan.bytes_to_place)
        # -> ((group, …), value), ...
        .map(partial(read_tasks, read_runs), shared)
        # -> the same, in their group, sorted
        .grouped(plan.groups + 1)
    )
    if plan.operation != "apply":
        # -> set of the directories of the winners
        named = found.map(_own_partitions, shared).collect() if plan.operation == "insert_overwrite" else ()
        plan = _replacing(runner, plan, named)
        known = plan.master and replace(plan.master, parts=())
        shared = stack.enter_context(runner.shared(replace(plan, master=known)))
    if plan.master is not None:
        found = found.reading(_bytes_to_search(plan))
    # -> (section, sizes, table), ...
    return plan, found.map(partial(_place, staging), shared)


def _bytes_to_search(plan: Plan) -> int | None:
    """Return about how many bytes the search for winners reads; None for perhaps all of the master.

    Only the tasks learn which files may contain winners. Nearly all keys of an insert overwrite are new, or those of
    the partitions that it replaces. Where many are elsewhere, threads of this process
    read their files, which takes longer.
    """
    assert plan.master is not None
    if plan.operation != "insert_overwrite":
        return None
    files = (part for one in plan.replaced & plan.master.partitions.keys() for part in plan.master.partitions[one].data)
    return plan.bytes_to_place + sum(part.bytes for part in files)


def _replacing(runner: Runner, plan: Plan, directories: Iterable[Collection[str]]) -> Plan:
    """Return the plan with the partitions that are replaced, which have these directories, without damaged files."""
    if plan.operation == "insert_overwrite":
        plan = replace(plan, replaced=frozenset(chain.from_iterable(directories)))
    return without_files(plan, lost_files(runner, plan)) if plan.replace_damaged else plan


def _own_partitions(plan: Plan, group: int, attempt: int, elements: Iterable[Any]) -> Iterator[set[str]]:
    if group != plan.ledger:
        yield own_partitions(*with_floor(plan, elements))


def _place(staging: str | None, plan: Plan, group: int, attempt: int, elements: Iterable[Any]) -> Iterable[Route]:
    if group == plan.ledger:
        return ((LEDGER, {}, element) for element in elements)
    plan, elements = with_floor(plan, elements)
    if plan.master is not None:
        return located(plan, group, elements, attempt)
    return merged_and_placed(plan, staging, group, elements, attempt)


def _sizes(_: None, number: int, attempt: int, routes: Iterable[Route]) -> Iterator[tuple[Counter[str], set[str], Any]]:
    found, fed, floor = Counter[str](), set[str](), None
    for section, sizes, value in routes:
        found.update(sizes)
        fed.update(sizes if section == FEED else ())
        if section == LEDGER and value[0][2] == RECEIPT:
            floor = highest(floor, SplitReceipt(*value[1]).floor)
    yield found, fed, floor


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
