"""The blocks engine: the same merge on Arrow blocks, a few numpy and Arrow calls for tens of thousands of rows.

    map      split -> runs of folded mutations, ((group, (), RUN, place), run); master rows only where they must move
    shuffle  repartitionAndSortWithinPartitions: by group; runs, then rows, then tombstones, each by place
    reduce   merge the runs, stream the master against the winners, put what changed in its place

Where the feed is broadcast, there is one group, and the last step is a map over the master's splits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark import SparkContext

from mutator.engine.blocks import broadcast
from mutator.engine.blocks.merge_bucket import write_group
from mutator.engine.blocks.read import read_runs
from mutator.engine.ledger import write_ledger
from mutator.engine.spark.shuffle import Receipts, attempt, on_partitions, shared_with
from mutator.plan.run_plan import Plan

__all__ = ["merge"]


def merge(sc: SparkContext, plan: Plan, staging: str | None) -> Receipts:
    """Run the merge of a plan on Spark; return the receipts of its groups and, last, of its ledger.

    staging: directory that the files go to, None for a dry run.
    """
    if plan.strategy.join == "broadcast":
        return _merge_by_broadcast(sc, plan, staging)
    with shared_with(sc, plan) as shared:
        return on_partitions(sc, shared, plan.tasks, plan.groups + 1, read_runs, partial(_write, staging))


def _write(staging: str | None, plan: Plan, partition: int, elements: Iterable[Any]) -> dict[str, Any]:
    if partition == plan.ledger:
        return write_ledger(plan, staging, attempt(), elements)
    return write_group(plan, staging, partition, attempt(), elements)


def _merge_by_broadcast(sc: SparkContext, plan: Plan, staging: str | None) -> Receipts:
    with shared_with(sc, replace(plan, groups=1)) as shared:
        fold, ledger = on_partitions(sc, shared, plan.tasks, 2, read_runs, _fold)
    with shared_with(sc, (plan, fold["folded"])) as shared:
        tasks = range(len(plan.local) - 1)
        patched = (
            # task
            sc.parallelize(tasks, max(len(tasks), 1))
            # -> receipt
            .mapPartitions(partial(_patch, shared, staging))
            .collect()
        )
        met = broadcast.met_by(patched)
        elements = [element for one in (ledger, *patched) for element in one["ledger"]]
        # None -> receipt of what met no row, receipt of the ledger. A worker that does not read its whole input ends,
        # and the next task waits for a new one; so a function of the element, and not of the partition.
        last = sc.parallelize([None], 1).flatMap(partial(_finish, shared, staging, met, elements)).collect()
    return [*patched, *last]


def _fold(plan: Plan, partition: int, elements: Iterable[Any]) -> dict[str, Any]:
    return {"ledger": list(elements)} if partition else {"folded": broadcast.fold_feed(plan, elements)}


def _patch(shared: Any, staging: str | None, tasks: Iterable[int]) -> Iterator[dict[str, Any]]:
    plan, folded = shared.value
    for task in tasks:
        yield broadcast.patch(plan, staging, folded, task, attempt())


def _finish(
    shared: Any, staging: str | None, met: broadcast.Met, ledger: list[Any], _: None
) -> Iterator[dict[str, Any]]:
    plan, folded = shared.value
    yield from broadcast.finish(plan, staging, folded, met, ledger, attempt())
