"""The engine of a run without Spark: the same map and reduce functions, and a sort in between.

Partitioning, order and task boundaries are as in Spark (at least two map and two reduce tasks where the data allows),
so thousands of random runs take seconds.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mutator import pipeline
from mutator.config import Config
from mutator.engine import broadcast
from mutator.engine.blockread import read_runs
from mutator.engine.blockwrite import write_group
from mutator.engine.ledger import write_ledger
from mutator.engine.read import read_task
from mutator.engine.write import write_bucket
from mutator.plan import Plan
from mutator.report import Report

Row = tuple[tuple[Any, ...], bytes, Any]


def sort_by_place(rows: Iterable[Row]) -> Iterator[Row]:
    return iter(sorted(rows, key=lambda row: row[0]))


def merge(plan: Plan, staging: str | None, seed: int = 0) -> list[dict[str, Any]]:
    """Run a plan in this process; ``seed`` shuffles what arrives, as a cluster would."""
    plan = pickle.loads(pickle.dumps(plan))  # as the executors get it
    blocks = plan.engine == "blocks"
    if plan.join == "broadcast":
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
        return [*(write_group(plan, staging, group, 0, part) for group, part in enumerate(partitions)), ledger]
    return [*(write_bucket(plan, staging, n, 0, part, sort_by_place) for n, part in enumerate(partitions)), ledger]


def merge_by_broadcast(plan: Plan, staging: str | None, seed: int) -> list[dict[str, Any]]:
    fold_plan = replace(plan, groups=1)
    elements = [element for task in plan.tasks for element in read_runs(fold_plan, task)]
    random.Random(seed).shuffle(elements)
    elements.sort(key=lambda element: element[0])
    folded = broadcast.fold_feed(fold_plan, [element for element in elements if element[0][0] == 0])
    tasks = list(range(len(plan.local) - 1))
    patched = [broadcast.patch(plan, staging, folded, task, 0) for task in tasks]
    ledger = [element for element in elements if element[0][0] == fold_plan.ledger]
    ledger += [element for one in patched for element in one["ledger"]]
    return [*patched, *broadcast.finish(plan, staging, folded, broadcast.met_by(patched), ledger, 0)]


def mutate(
    config: Config | Mapping[str, Any],
    *,
    master: str,
    feed: Sequence[str],
    output: str,
    dry_run: bool = False,
    seed: int = 0,
    engine: str = "auto",
) -> Report:
    """Do what ``mutator.mutate`` does, without Spark."""
    return pipeline.run(
        lambda plan, staging: merge(plan, staging, seed),
        config,
        master=master,
        feed=feed,
        output=output,
        dry_run=dry_run,
        engine=engine,
    )
