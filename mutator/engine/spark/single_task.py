"""A merge that is done by one task: the same map and reduce functions, and a sort in between in place of a shuffle.

For a few megabytes a shuffle's stages, files and broadcasts cost many times as much as the merge, and many tables that
are merged at once keep the workers busy without it. The result is that of the engine that the plan names, file
by file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from mutator.engine.blocks import broadcast
from mutator.engine.blocks.merge_bucket import write_group
from mutator.engine.blocks.read import read_runs
from mutator.engine.ledger import write_ledger
from mutator.engine.receipts import Receipts
from mutator.engine.records.read import read_task
from mutator.engine.records.write import Row, write_bucket
from mutator.engine.spark.shuffle import attempt
from mutator.plan.run_plan import Plan
from mutator.plan.splits import INFLATED

if TYPE_CHECKING:
    from pyspark import SparkContext

_SMALL = 8 << 20  # bytes that one task merges within its memory, and in the time that a shuffle would cost


def is_small(plan: Plan) -> bool:
    """Return whether one task may do the whole merge of a plan."""
    if plan.is_partitioned:
        return False  # which files of the master are read is known only later
    read = {split.input for split in plan.splits}
    sources = (plan.inputs[number].source for number in read)
    packed = (one.bytes * (INFLATED if one.is_packed else 1) for one in sources)
    return sum(packed) <= min(_SMALL, plan.memory)


def merge(sc: SparkContext, plan: Plan, staging: str | None) -> Receipts:
    """Run the merge of a plan as one task of Spark; return the receipts that the plan's own engine would return.

    staging: directory that the files go to, None for a dry run.
    """
    # None -> Receipts
    (receipts,) = sc.parallelize([None], 1).map(partial(_merge, plan, staging)).collect()
    return receipts


def _merge(plan: Plan, staging: str | None, _: None) -> Receipts:
    return merge_here(plan, staging, attempt())


def merge_here(plan: Plan, staging: str | None, attempt: int) -> Receipts:
    """Merge in this process; return all receipts."""
    if plan.strategy.join == "broadcast":
        return _by_broadcast(plan, staging, attempt)
    blocks = plan.strategy.engine == "blocks"
    *groups, ledger = _partitions(plan, read_runs if blocks else read_task)
    write: Any = write_group if blocks else partial(write_bucket, sort=_by_position)
    merges = tuple(write(plan, staging, number, attempt, elements) for number, elements in enumerate(groups))
    return Receipts(merges, write_ledger(plan, staging, attempt, ledger))


def _by_broadcast(plan: Plan, staging: str | None, attempt: int) -> Receipts:
    alone = replace(plan, groups=1)
    winners, read = _partitions(alone, read_runs)
    folded = broadcast.fold_feed(alone, winners)
    patches = [broadcast.patch(plan, staging, folded, task, attempt) for task in range(len(plan.local) - 1)]
    elements = [*read, *(element for patch in patches for element in patch.ledger)]
    last = broadcast.finish(plan, staging, folded, broadcast.met_by(patches), elements, attempt)
    return broadcast.receipts_of(patches, *last)


def _partitions(plan: Plan, read: Any) -> list[list[Any]]:
    """Return the elements that are read, in the partitions and in the order that a shuffle would give them."""
    partitions: list[list[Any]] = [[] for _ in range(plan.groups + 1)]
    for splits in plan.tasks:
        for element in read(plan, splits):
            partitions[element[0][0]].append(element)
    for elements in partitions:
        elements.sort(key=itemgetter(0))
    return partitions


def _by_position(rows: Iterable[Row]) -> Iterator[Row]:
    return iter(sorted(rows, key=itemgetter(0)))
