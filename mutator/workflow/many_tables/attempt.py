"""One table being merged, on this machine or on Spark; it can be stopped until it is published.

Its Spark jobs have their own pool and group. Spark keeps them for each thread of the driver (``PYSPARK_PIN_THREAD``,
which is on by default), so a table stays in one thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from mutator.engine import steps
from mutator.engine.local.local_merge import merge_alone
from mutator.engine.local.local_runner import local_runner
from mutator.engine.receipts import Receipts
from mutator.errors import MutatorError, error
from mutator.pipeline.runners import choice_for
from mutator.plan.run_plan import Plan
from mutator.workflow.many_tables.summary import TableState
from mutator.workflow.many_tables.tables_file import ListedTable

if TYPE_CHECKING:
    from pyspark import SparkContext

    from mutator.engine.local.processes import Processes


class Stopped(Exception):
    """The table was stopped from outside before anything of it was published."""


class Attempt:
    """One table being merged.

    run: run ID, also in the name of its Spark job group. pool: name of its pool in a fair scheduler. latest: the time,
    by ``time.monotonic``, at which every table is stopped; None for none. context: returns the Spark context. workers:
    processes for merges on this machine; None for this process.
    """

    def __init__(
        self,
        table: ListedTable,
        run: str,
        pool: str,
        latest: float | None,
        context: Callable[[], SparkContext],
        workers: Processes | None = None,
    ) -> None:
        self.table, self.run = table, run
        self._began = time.monotonic()
        self._latest, self._pool, self._context, self._workers = latest, pool, context, workers
        self._why: TableState | None = None
        self._stop = threading.Event()
        self._sc: Any = None  # while a job may be running

    @property
    def seconds(self) -> float:
        """The seconds since it began."""
        return time.monotonic() - self._began

    @property
    def until(self) -> float | None:
        """The time, by ``time.monotonic``, at which it is stopped; None for none."""
        own = None if self.table.deadline is None else self._began + self.table.deadline
        return min((moment for moment in (own, self._latest) if moment is not None), default=None)

    def forgive(self, seconds: float) -> None:
        """Leave the seconds that it waited for Spark to start out of its time."""
        self._began = min(self._began + seconds, time.monotonic())

    @property
    def is_stopping(self) -> bool:
        """Whether ``stop`` was called."""
        return self._stop.is_set()

    def stop(self, why: TableState) -> None:
        """Stop it, unless it is being published. why: State.STOPPED or State.DEADLINE.

        Call this again until the table has ended, because a job that begins at this moment is not cancelled.
        """
        self._why = self._why or why
        self._stop.set()
        sc = self._sc
        if sc is not None:
            from mutator.engine.spark.jvm_log import spark_faults

            with suppress(MutatorError), spark_faults(sc):  # without its JVM no job runs
                sc.cancelJobGroup(self._group)

    def check(self) -> None:
        """Raise Stopped or StateError if ``stop`` was called."""
        if self._why == TableState.DEADLINE:
            raise error("many.deadline", table=self.table.name, seconds=f"{self.seconds:.1f}")
        if self._why == TableState.STOPPED:
            raise Stopped

    def sleep(self, seconds: float) -> None:
        """Wait, but only until ``stop`` is called."""
        self._stop.wait(seconds)
        self.check()

    def merge_on(self, plan: Plan, staging: str | None) -> Receipts:
        """Merge a plan: the engine of this table."""
        self.check()
        choice = choice_for(self.table.config.effort.runner, plan.bytes_to_read, plan.stored_bytes_to_read)
        merge = self._on_spark if choice.runner == "spark" else self._on_this_machine
        receipts = merge(plan, staging)
        self.check()  # the last check: from here on the table is published whole
        return replace(receipts, runner=choice)

    def _on_this_machine(self, plan: Plan, staging: str | None) -> Receipts:
        if self._workers is None:
            return merge_alone(plan, staging, watch=self._watch)
        try:
            return self._in_processes(self._workers, plan, staging, 0)
        except MutatorError as fault:
            if fault.kind != "worker.killed":  # perhaps while it merged another table, which breaks the pool
                raise
        return self._in_processes(self._workers, plan, staging, 1)

    def _in_processes(self, workers: Processes, plan: Plan, staging: str | None, attempt: int) -> Receipts:
        if plan.bytes_to_read <= plan.memory:  # a task of its own for each step would only cost time
            (receipts,) = workers.run([partial(merge_alone, plan, staging, attempt)], self._watch)
            assert isinstance(receipts, Receipts)
            return receipts
        with local_runner(workers, attempt=attempt, watch=self._watch) as runner:
            return steps.merge(runner, plan, staging)

    def _watch(self, done: int, tasks: int) -> None:
        self.check()

    def _on_spark(self, plan: Plan, staging: str | None) -> Receipts:
        # Most tables are merged without Spark, which takes half a second to import.
        from mutator.engine.spark import single_task
        from mutator.engine.spark.jvm_log import spark_faults
        from mutator.engine.spark.spark_runner import opened

        sc = self._context()
        is_small = single_task.is_small(plan)
        try:
            with spark_faults(sc):
                sc.setLocalProperty("spark.scheduler.pool", self._pool)
                sc.setJobGroup(self._group, f"mutator {self.table.name}", interruptOnCancel=True)
                self._sc = sc
                self.check()
                with opened(sc) as runner:
                    return single_task.merge(runner, plan, staging) if is_small else steps.merge(runner, plan, staging)
        except MutatorError:
            self.check()  # a cancelled job looks like a fault
            raise
        finally:
            self._sc = None

    @property
    def _group(self) -> str:
        return f"mutator-{self.run}"
