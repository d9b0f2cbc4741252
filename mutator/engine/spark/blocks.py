"""The blocks engine: the same merge on Arrow blocks, a few numpy and Arrow calls for tens of thousands of rows.

    map      split -> runs of folded mutations, ((group, (), RUN, position), run); master rows only where they must move
    shuffle  repartitionAndSortWithinPartitions: by group; runs, then rows, then tombstones, each by position
    reduce   merge the runs, stream the master against the winners, replace the changed rows

Where the feed is broadcast, there is one group, and the last step is a map over the master's splits.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark import SparkContext

from mutator.engine.blocks import broadcast
from mutator.engine.blocks.merge_bucket import write_group
from mutator.engine.blocks.read import read_runs
from mutator.engine.receipts import Receipts
from mutator.engine.spark.shuffle import attempt, merge_groups, on_partitions, shared_with
from mutator.plan.run_plan import Plan


def merge(sc: SparkContext, plan: Plan, staging: str | None) -> Receipts:
    """Run the merge of a plan on Spark; return all receipts.

    staging: directory that the files go to, None for a dry run.
    """
    if plan.strategy.join == "broadcast":
        return _merge_by_broadcast(sc, plan, staging)
    return merge_groups(sc, plan, staging, read_runs, write_group)


def _merge_by_broadcast(sc: SparkContext, plan: Plan, staging: str | None) -> Receipts:
    with shared_with(sc, replace(plan, groups=1)) as shared:
        folded, ledger = on_partitions(sc, shared, plan.tasks, 2, read_runs, _fold)
    with shared_with(sc, (plan, folded)) as shared:
        tasks = range(len(plan.local) - 1)
        patches = (
            # task
            sc.parallelize(tasks, max(len(tasks), 1))
            # -> Patch
            .mapPartitions(partial(_patch, shared, staging))
            .collect()
        )
        met = broadcast.met_by(patches)
        elements = [*ledger, *(element for patch in patches for element in patch.ledger)]
        # None -> MergeReceipt of the winners that met no row, LedgerReceipt. A worker that does not read its whole
        # input ends, and the next task waits for a new one; so this maps the element, not the partition.
        last, ledger = sc.parallelize([None], 1).flatMap(partial(_finish, shared, staging, met, elements)).collect()
    return broadcast.receipts_of(patches, last, ledger)


def _fold(plan: Plan, partition: int, elements: Iterable[Any]) -> bytes | list[Any]:
    return list(elements) if partition else broadcast.fold_feed(plan, elements)


def _patch(shared: Any, staging: str | None, tasks: Iterable[int]) -> Iterator[broadcast.Patch]:
    plan, folded = shared.value
    for task in tasks:
        yield broadcast.patch(plan, staging, folded, task, attempt())


def _finish(shared: Any, staging: str | None, met: broadcast.MetWinners, ledger: list[Any], _: None) -> Iterator[Any]:
    plan, folded = shared.value
    yield from broadcast.finish(plan, staging, folded, met, ledger, attempt())
