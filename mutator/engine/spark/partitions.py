"""The merge of a partitioned master: two steps in one Spark application, and one commit for all partitions.

    place    split -> routes: each row of the feed, and of a master without partitions, with its partition
    touch    the directories of the routes; only they show which files of the master must be read
    merge    route -> units, sorted by unit; a task merges one unit after the other (``partitions.merge``)
    carry    the files of all other partitions become files of the output; only those due for a check are read

Where a record ID is unique in the whole table, rows are first brought together by ID (``partitions.place``,
``partitions.locate``).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark import SparkContext, StorageLevel

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
from mutator.engine.receipts import Receipts
from mutator.engine.spark.shuffle import attempt, each_on, partition_of, read_tasks, shared_with
from mutator.errors.failpoints import failpoint
from mutator.plan.partition_plan import packed_units, with_units
from mutator.plan.run_plan import Plan


def merge(sc: SparkContext, plan: Plan, staging: str | None) -> Receipts:
    """Run the merge of a plan on Spark; return all receipts.

    staging: directory that the files go to, None for a dry run.
    """
    known = plan.master if plan.by_table else None  # locating records needs the files
    known = known and replace(known, parts=())
    with ExitStack() as stack, shared_with(sc, replace(plan, master=known)) as shared:
        # While it waits for Spark, this process checks thousands of partitions, and links their files.
        beside = stack.enter_context(ThreadPoolExecutor(1))
        checking = beside.submit(check_master, plan)
        # [split, ...]
        tasks = sc.parallelize(plan.tasks, max(len(plan.tasks), 1))
        if plan.by_table:
            routes = (
                # -> ((group, …), value), ...
                tasks.mapPartitions(partial(read_tasks, shared, read_runs))
                # -> the same, in their group, sorted
                .repartitionAndSortWithinPartitions(plan.groups + 1, partition_of)
                # -> (section, sizes, table), ...
                .mapPartitionsWithIndex(partial(_place, shared))
            )
        else:
            routes = tasks.mapPartitions(partial(read_tasks, shared, placed_as_read))
        # On disk: all rows of a table without partitions pass here, and before Spark checks for free memory, it puts so
        # many of these large elements into its heap that the heap overflows.
        routes = routes.persist(StorageLevel.DISK_ONLY)
        try:
            # -> Counter of the bytes of each directory
            arrived = sum(routes.mapPartitions(_sizes).collect(), Counter[str]())
            checking.result()
            whole = with_units(plan, arrived)
            shares = packed_units(whole, arrived, sc.defaultParallelism)
            checks = due_checks(whole, arrived) if staging is not None else []
            shares += ((),) * (sc.defaultParallelism - len(shares) if checks else 0)  # tasks that only check
            failpoint("merge.touched")
            if staging is not None:
                make_directories(whole, staging)
            carrying = beside.submit(carry_partitions, whole, staging, arrived)
            with shared_with(sc, (replace(whole, master=None), shares, checks)) as second:
                receipts = (
                    # -> ((task, (), section, position), table with units), ...
                    routes.mapPartitionsWithIndex(partial(_spread, second))
                    # -> the same, in their task, sorted
                    .repartitionAndSortWithinPartitions(len(shares) + 1, partition_of)
                    # -> MergeReceipt, ...; of the last partition, LedgerReceipt
                    .mapPartitionsWithIndex(partial(_write, second, staging))
                    .collect()
                )
        finally:
            routes.unpersist()
    *merges, ledger = receipts
    each_on(sc)(carrying.result(), copied)
    return Receipts(tuple(merges), ledger, dict(arrived), join_packs(whole, staging, arrived))


def _place(shared: Any, group: int, elements: Iterable[Any]) -> Iterator[Route]:
    plan: Plan = shared.value
    if group == plan.ledger:
        return ((LEDGER, {}, element) for element in elements)
    place = located if plan.master is not None else merged_and_placed
    return place(plan, group, elements, attempt())


def _sizes(routes: Iterable[Route]) -> Iterator[Counter[str]]:
    found: Counter[str] = Counter()
    for _, sizes, _ in routes:
        found.update(sizes)
    yield found


def _spread(shared: Any, number: int, routes: Iterable[Route]) -> Iterator[Any]:
    plan, shares, _ = shared.value
    return spread(plan, shares, number, routes)


def _write(shared: Any, staging: str | None, task: int, elements: Iterable[Any]) -> Iterator[Any]:
    plan, shares, checks = shared.value
    if task == len(shares):
        yield write_ledger(plan, staging, attempt(), elements)
    else:
        yield from write_units(plan, staging, shares, task, attempt(), elements)
        yield check_carried(checks[task :: len(shares)])
