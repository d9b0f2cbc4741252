"""The blocks engine: the same merge on Arrow blocks, a few numpy and Arrow calls for tens of thousands of rows.

map      split -> runs of folded mutations, ((group, (), RUN, place), run); master rows only where they must move
shuffle  repartitionAndSortWithinPartitions: by group; runs, then rows, then tombstones, each by place
reduce   merge the runs, stream the master against the winners, put what changed in its place
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from pyspark import SparkContext

from mutator.engine.blockread import read_runs
from mutator.engine.blockwrite import write_group
from mutator.engine.spark import Receipts, attempt, on_partitions, shared_with
from mutator.engine.write import write_ledger
from mutator.plan import Plan

__all__ = ["merge"]


def merge(sc: SparkContext, plan: Plan, staging: str | None) -> Receipts:
    """Run the merge of a plan on Spark; return the receipts of its groups and, last, of its ledger.

    staging: directory that the files go to, None for a dry run.
    """
    with shared_with(sc, plan) as shared:
        return on_partitions(sc, shared, plan.tasks, plan.groups + 1, read_runs, partial(_write, staging))


def _write(staging: str | None, plan: Plan, partition: int, elements: Iterable[Any]) -> dict[str, Any]:
    if partition == plan.ledger:
        return write_ledger(plan, staging, attempt(), elements)
    return write_group(plan, staging, partition, attempt(), elements)
