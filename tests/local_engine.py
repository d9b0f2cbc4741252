"""The engine of a run without Spark: the same map and reduce functions, and a sort in between.

Partitioning, order and task boundaries are as in Spark (at least two map and two reduce tasks where the data allows),
so thousands of random runs take seconds.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mutator import pipeline
from mutator.config import Config
from mutator.engine.read import read_task
from mutator.engine.write import write_bucket, write_ledger
from mutator.plan import Plan
from mutator.report import Report

Row = tuple[tuple[Any, ...], bytes, Any]


def sort_by_place(rows: Iterable[Row]) -> Iterator[Row]:
    return iter(sorted(rows, key=lambda row: row[0]))


def merge(plan: Plan, staging: str | None, seed: int = 0) -> list[dict[str, Any]]:
    """Run a plan in this process; ``seed`` shuffles what arrives, as a cluster would."""
    plan = pickle.loads(pickle.dumps(plan))  # as the executors get it
    elements = [element for task in plan.tasks for element in read_task(plan, task)]
    random.Random(seed).shuffle(elements)
    partitions: list[list[Any]] = [[] for _ in range(plan.buckets + 1)]
    for element in elements:
        partitions[element[0][0]].append(element)
    for partition in partitions:
        partition.sort(key=lambda element: element[0])
    receipts = [
        write_bucket(plan, staging, bucket, 0, partitions[bucket], sort_by_place) for bucket in range(plan.buckets)
    ]
    return [*receipts, write_ledger(plan, staging, 0, partitions[plan.ledger])]


def mutate(
    config: Config | Mapping[str, Any],
    *,
    master: str,
    feed: Sequence[str],
    output: str,
    dry_run: bool = False,
    seed: int = 0,
) -> Report:
    """Do what ``mutator.mutate`` does, without Spark."""
    return pipeline.run(
        lambda plan, staging: merge(plan, staging, seed),
        config,
        master=master,
        feed=feed,
        output=output,
        dry_run=dry_run,
    )
