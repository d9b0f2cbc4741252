"""The engine of most tests: the runner on this machine, in this process.

Partitioning, order and task boundaries are as in Spark (at least two map and two reduce tasks where the data allows),
so thousands of random runs take seconds.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from mutator.config import Config
from mutator.engine import steps
from mutator.engine.local.local_runner import LocalElements, LocalRunner, local_runner
from mutator.engine.receipts import Receipts
from mutator.pipeline import merge as pipeline
from mutator.pipeline import verify as verification
from mutator.pipeline.report import Report
from mutator.pipeline.verify import Verification
from mutator.plan.run_plan import Plan


class _Shuffled(LocalRunner):
    """Runs the tasks of a stage in a random order, as a cluster would."""

    def __init__(self, runner: LocalRunner, seed: int) -> None:
        vars(self).update(vars(runner))
        self._random = random.Random(seed)

    def run(self, stage: LocalElements, end: Any) -> list[Any]:
        tasks = list(enumerate(self.tasks_of(stage, end)))
        self._random.shuffle(tasks)
        results = sorted(((number, task()) for number, task in tasks), key=lambda pair: pair[0])
        return pickle.loads(pickle.dumps([result for _, result in results]))


@contextmanager
def runner(seed: int = 0, tasks: int = 2) -> Iterator[LocalRunner]:
    """Yield a runner. tasks: the smallest number of tasks that merge the partitions of a partitioned master."""
    with local_runner(parallelism=tasks) as whole:
        yield _Shuffled(whole, seed)


def merge(plan: Plan, staging: str | None, seed: int = 0, tasks: int = 2) -> Receipts:
    """Run a plan in this process; ``seed`` shuffles the tasks."""
    plan = pickle.loads(pickle.dumps(plan))  # in the form that the executors get
    with runner(seed, tasks) as shuffled:
        return steps.merge(shuffled, plan, staging)


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


def verify(path: str) -> Verification:
    """Verify a dataset without Spark."""
    with runner() as own:
        return verification.verify(own, path)
