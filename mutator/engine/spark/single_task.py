"""A merge that is done by one task: the same map and reduce functions, and a sort in between in place of a shuffle.

For a few megabytes a shuffle's stages, files and broadcasts cost many times as much as the merge, and many tables that
are merged at once keep the workers busy without it. The result is that of the engine that the plan names, file
by file.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from mutator.engine.local.local_merge import merge_alone
from mutator.engine.receipts import Receipts
from mutator.engine.spark.spark_runner import SparkRunner
from mutator.plan.run_plan import Plan

_SMALL = 8 << 20  # bytes that one task merges within its memory, and in the time that a shuffle would cost


def is_small(plan: Plan) -> bool:
    """Return whether one task may do the whole merge of a plan."""
    if plan.is_partitioned:
        return False  # which files of the master are read is known only later
    return plan.bytes_to_read <= min(_SMALL, plan.memory)


def merge(runner: SparkRunner, plan: Plan, staging: str | None) -> Receipts:
    """Run the merge of a plan as one task of Spark; return the receipts that the plan's own engine would return.

    staging: directory that the files go to, None for a dry run.
    """
    # None -> Receipts
    (receipts,) = runner.tasks([None]).map(partial(_merge, plan, staging)).collect()
    assert isinstance(receipts, Receipts)
    return receipts


def _merge(
    plan: Plan, staging: str | None, _: None, number: int, attempt: int, tasks: Iterable[None]
) -> list[Receipts]:
    return [merge_alone(plan, staging, attempt) for _ in tasks]
