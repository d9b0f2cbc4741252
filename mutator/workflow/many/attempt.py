"""One table under way: its Spark jobs have a pool and a group of their own, and can be stopped until it is published.

Spark keeps pool and group for each thread of the driver (``PYSPARK_PIN_THREAD``, which is on by default), so a table
stays in one thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mutator.engine.receipts import Receipts
from mutator.engine.spark import single_task
from mutator.engine.spark.shuffle import spark_faults
from mutator.errors import MutatorError, error
from mutator.pipeline.merge import engine_of
from mutator.plan.run_plan import Plan
from mutator.workflow.many.summary import DEADLINE, STOPPED
from mutator.workflow.many.tables_file import Table

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["Attempt", "Stopped"]


class Stopped(Exception):
    """The table was stopped from outside before anything of it was published."""


class Attempt:
    """One table under way.

    run: the run id that its Spark jobs go by. pool: name of its pool in a fair scheduler. latest: the moment, by
    ``time.monotonic``, at which every table is stopped, None for none. context: returns Spark when it is needed.
    """

    def __init__(
        self, table: Table, run: str, pool: str, latest: float | None, context: Callable[[], SparkContext]
    ) -> None:
        self.table, self.run = table, run
        self._began = time.monotonic()
        self._latest, self._pool, self._context = latest, pool, context
        self._why: str | None = None
        self._stop = threading.Event()
        self._sc: Any = None  # while a job may be running

    @property
    def seconds(self) -> float:
        """How long it has been under way."""
        return time.monotonic() - self._began

    @property
    def until(self) -> float | None:
        """The moment at which it is stopped, None for none."""
        own = None if self.table.deadline is None else self._began + self.table.deadline
        return min((moment for moment in (own, self._latest) if moment is not None), default=None)

    def forgive(self, seconds: float) -> None:
        """Leave out of its time what it has waited for Spark to start."""
        self._began = min(self._began + seconds, time.monotonic())

    @property
    def is_told_to_stop(self) -> bool:
        """Tell whether it was told to stop."""
        return self._stop.is_set()

    def stop(self, why: str) -> None:
        """Tell it to stop, unless it is being published. why: STOPPED or DEADLINE.

        Whoever calls this does so again until the table has ended: a job that begins just then is not cancelled.
        """
        self._why = self._why or why
        self._stop.set()
        sc = self._sc
        if sc is not None:
            with suppress(MutatorError), spark_faults(sc):  # without its JVM nothing runs any more
                sc.cancelJobGroup(self._group)

    def check(self) -> None:
        """Raise what ends it, where it was told to stop."""
        if self._why == DEADLINE:
            raise error("many.deadline", table=self.table.name, seconds=f"{self.seconds:.1f}")
        if self._why == STOPPED:
            raise Stopped

    def sleep(self, seconds: float) -> None:
        """Wait, unless it is told to stop."""
        self._stop.wait(seconds)
        self.check()

    def merge_on(self, plan: Plan, staging: str | None) -> Receipts:
        """Do the merge of a plan on Spark: the engine of this table."""
        self.check()
        sc = self._context()
        merge = single_task.merge if single_task.is_small(plan) else engine_of(plan)
        try:
            with spark_faults(sc):
                sc.setLocalProperty("spark.scheduler.pool", self._pool)
                sc.setJobGroup(self._group, f"mutator {self.table.name}", interruptOnCancel=True)
                self._sc = sc
                self.check()
                receipts = merge(sc, plan, staging)
        except MutatorError:
            self.check()  # a job that was cancelled looks like a fault
            raise
        finally:
            self._sc = None
        self.check()  # the last look: what is published now is published whole
        return receipts

    @property
    def _group(self) -> str:
        return f"mutator-{self.run}"
