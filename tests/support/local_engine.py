"""The engine of a run without Spark: the same map and reduce functions, and a sort in between.

Partitioning, order and task boundaries are as in Spark (at least two map and two reduce tasks where the data allows),
so thousands of random runs take seconds.
"""

from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from mutator.config import Config
from mutator.engine.blocks import broadcast
from mutator.engine.blocks.carry import (
    carry_partitions,
    check_carried,
    check_master,
    copied,
    due_checks,
    join_packs,
    make_directories,
)
from mutator.engine.blocks.merge_bucket import write_group
from mutator.engine.blocks.read import read_runs
from mutator.engine.ledger import write_ledger
from mutator.engine.partitions.locate import located
from mutator.engine.partitions.merge import write_units
from mutator.engine.partitions.place import merged_and_placed, placed_as_read
from mutator.engine.partitions.routes import LEDGER, spread
from mutator.engine.receipts import Receipts
from mutator.engine.records.read import read_task
from mutator.engine.records.write import write_bucket
from mutator.errors.failpoints import failpoint
from mutator.pipeline import merge as pipeline
from mutator.pipeline.report import Report
from mutator.plan.partition_plan import packed_units, with_units
from mutator.plan.run_plan import Plan

Row = tuple[tuple[Any, ...], bytes, Any]


def sort_by_position(rows: Iterable[Row]) -> Iterator[Row]:
    return iter(sorted(rows, key=lambda row: row[0]))


def merge(plan: Plan, staging: str | None, seed: int = 0, tasks: int = 2) -> Receipts:
    """Run a plan in this process; ``seed`` shuffles the elements before they are sorted, as a cluster would.

    tasks: the smallest number of tasks that merge the partitions of a partitioned master.
    """
    plan = pickle.loads(pickle.dumps(plan))  # in the form that the executors get
    blocks = plan.strategy.engine == "blocks"
    if plan.is_partitioned:
        return merge_partitions(plan, staging, seed, tasks)
    if plan.strategy.join == "broadcast":
        return merge_by_broadcast(plan, staging, seed)
    elements = [element for task in plan.tasks for element in (read_runs if blocks else read_task)(plan, task)]
    random.Random(seed).shuffle(elements)
    partitions: list[list[Any]] = [[] for _ in range(plan.groups + 1)]
    for element in elements:
        partitions[element[0][0]].append(element)
    for partition in partitions:
        partition.sort(key=lambda element: element[0])
    ledger = write_ledger(plan, staging, 0, partitions.pop())
    if blocks:
        merges = [write_group(plan, staging, group, 0, part) for group, part in enumerate(partitions)]
    else:
        merges = [write_bucket(plan, staging, n, 0, part, sort_by_position) for n, part in enumerate(partitions)]
    return Receipts(tuple(merges), ledger)


def merge_by_broadcast(plan: Plan, staging: str | None, seed: int) -> Receipts:
    fold_plan = replace(plan, groups=1)
    elements = [element for task in plan.tasks for element in read_runs(fold_plan, task)]
    random.Random(seed).shuffle(elements)
    elements.sort(key=lambda element: element[0])
    folded = broadcast.fold_feed(fold_plan, [element for element in elements if element[0][0] == 0])
    tasks = list(range(len(plan.local) - 1))
    patches = [broadcast.patch(plan, staging, folded, task, 0) for task in tasks]
    ledger = [element for element in elements if element[0][0] == fold_plan.ledger]
    ledger += [element for patch in patches for element in patch.ledger]
    last = broadcast.finish(plan, staging, folded, broadcast.met_by(patches), ledger, 0)
    return broadcast.receipts_of(patches, *last)


def merge_partitions(plan: Plan, staging: str | None, seed: int, tasks: int = 2) -> Receipts:
    by_table = plan.by_table
    check_master(plan)
    read = [element for task in plan.tasks for element in (read_runs if by_table else placed_as_read)(plan, task)]
    routes = read
    if by_table:
        random.Random(seed).shuffle(read)
        *groups, ledger = parted(read, plan.groups + 1)
        place = located if plan.master is not None else merged_and_placed
        routes = [route for number, group in enumerate(groups) for route in place(plan, number, group, 0)]
        routes += [(LEDGER, {}, element) for element in ledger]
    routes = pickle.loads(pickle.dumps(routes))
    arrived = sum((Counter(sizes) for _, sizes, _ in routes), Counter())
    whole = with_units(plan, arrived)
    shares = packed_units(whole, arrived, tasks)
    checks = due_checks(whole, arrived) if staging is not None else []
    shares += ((),) * (tasks - len(shares) if checks else 0)
    failpoint("merge.touched")
    if staging is not None:
        make_directories(whole, staging)
    elements = [
        element
        for number, half in enumerate((routes[::2], routes[1::2]))
        for element in spread(replace(whole, master=None), shares, number, half)
    ]
    random.Random(seed).shuffle(elements)
    *units, last = parted(elements, len(shares) + 1)
    merges = [
        receipt for task, found in enumerate(units) for receipt in write_units(whole, staging, shares, task, 0, found)
    ]
    merges += [check_carried(checks[task :: len(shares)]) for task in range(len(shares))]
    ledger = write_ledger(whole, staging, 0, last)
    for number, part in enumerate(carry_partitions(whole, staging, arrived)):
        copied(part, number, 0)
    return Receipts(tuple(merges), ledger, dict(arrived), join_packs(whole, staging, arrived))


def parted(elements, count):
    partitions: list[list[Any]] = [[] for _ in range(count)]
    for element in elements:
        partitions[element[0][0]].append(element)
    for partition in partitions:
        partition.sort(key=lambda element: element[0])
    return partitions


def mutate(
    config: Config | Mapping[str, Any],
    *,
    master: str,
    feed: Sequence[str],
    output: str,
    dry_run: bool = False,
    seed: int = 0,
    tasks: int = 2,
    engine: str = "auto",
) -> Report:
    """Do the same as ``mutator.mutate`` without Spark."""
    return pipeline.run(
        lambda plan, staging: merge(plan, staging, seed, tasks),
        config,
        master=master,
        feed=feed,
        output=output,
        dry_run=dry_run,
        engine=engine,
    )


@contextmanager
def shared_with(_, value):
    yield SimpleNamespace(value=pickle.loads(pickle.dumps(value)))


def on_partitions(_, shared, tasks, count, read, reduce):
    """Read and reduce the tasks of a plan in a loop, in place of Spark."""
    plan = shared.value
    partitions = [[] for _ in range(count)]
    for task in tasks:
        for element in read(plan, task):
            partitions[element[0][0]].append(element)
    for partition in partitions:
        partition.sort(key=lambda element: element[0])
    return [reduce(plan, number, iter(partition)) for number, partition in enumerate(partitions)]
