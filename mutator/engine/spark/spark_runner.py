"""The runner on Spark: elements are those of an RDD, a shuffle is ``repartitionAndSortWithinPartitions``.

Show the progress of a run on stderr: a bar on a terminal, plain lines otherwise.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TextIO

from py4j.protocol import Py4JError
from pyspark import RDD, SparkContext, StorageLevel, TaskContext

from mutator.engine.runner import Shared, Work
from mutator.engine.spark.jvm_log import spark_faults
from mutator.engine.stage_display import PHASES, Stage, StageDisplay
from mutator.errors.exceptions import packed

_JOB_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
_INTERVAL = 0.5  # seconds between two queries


@contextmanager
def show_progress(sc: SparkContext, stream: TextIO | None = None) -> Iterator[None]:
    """Show the stages of the Spark jobs that run inside of the ``with`` block."""
    stop = threading.Event()
    group = f"mutator-{uuid.uuid4()}"
    before = {name: sc.getLocalProperty(name) for name in _JOB_PROPERTIES}
    sc.setJobGroup(group, "mutator")
    watcher = threading.Thread(target=_watch, args=(sc, group, stop, stream or sys.stderr), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join(timeout=5)
        with contextlib.suppress(Py4JError, OSError):  # the JVM may be gone
            for name, value in before.items():  # a borrowed session has jobs of its own
                sc.setLocalProperty(name, value)  # type: ignore[arg-type]  # None unsets it


def _watch(sc: SparkContext, group: str, stop: threading.Event, stream: TextIO) -> None:
    display = StageDisplay(stream)
    stopped = False
    while not stopped:
        stopped = stop.wait(_INTERVAL)  # query once more at the end, or the last phase is never shown
        try:
            display.show(list(_stages(sc, group)))
        except (Py4JError, OSError):
            break  # the JVM has gone; the caller that waits for it reports that
    display.close()


def _stages(sc: SparkContext, group: str) -> Iterator[Stage]:
    """Yield the stages of a group of jobs, in order."""
    tracker = sc.statusTracker()
    stages = []
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        stages += sorted(info.stageIds) if info else []
    for number, stage in enumerate(stages):
        found = tracker.getStageInfo(stage)
        if found is not None:
            yield PHASES[min(number, len(PHASES) - 1)], found.numCompletedTasks, found.numTasks


@dataclass(frozen=True)
class SparkElements:
    """Elements of an RDD."""

    rdd: RDD[Any]

    def map(self, work: Work, shared: Shared | None = None) -> SparkElements:
        """Return the elements that a function makes of those of each task."""
        return SparkElements(self.rdd.mapPartitionsWithIndex(partial(_mapped, work, shared)))

    def grouped(self, count: int) -> SparkElements:
        """Return ``((group, …), value)`` with a task for each group, sorted by the first part."""
        return SparkElements(self.rdd.repartitionAndSortWithinPartitions(count, _group_of))

    @contextmanager
    def kept(self) -> Iterator[SparkElements]:
        """Keep the elements on disk for the time of the ``with`` block, so that they are computed once.

        In memory, before Spark checks for free memory, it puts so many large elements into its heap that it overflows.
        """
        kept = self.rdd.persist(StorageLevel.DISK_ONLY)
        try:
            yield SparkElements(kept)
        finally:
            with contextlib.suppress(Py4JError, OSError):  # the JVM may be gone
                kept.unpersist()

    def reading(self, bytes_: int | None) -> SparkElements:
        """Return the same elements: Spark has started."""
        return self

    def collect(self) -> list[Any]:
        """Compute the elements; return them in the order of their tasks."""
        with spark_faults(self.rdd.context):
            return self.rdd.collect()


@dataclass(frozen=True)
class SparkRunner:
    """Carries out steps on Spark."""

    sc: SparkContext

    @property
    def parallelism(self) -> int:
        """How many tasks run at the same time, at least 1."""
        return self.sc.defaultParallelism

    def tasks(self, tasks: Sequence[Any]) -> SparkElements:
        """Return elements with a task for each, which has it as its only element."""
        return SparkElements(self.sc.parallelize(list(tasks), max(len(tasks), 1)))

    @contextmanager
    def shared(self, value: Any) -> Iterator[Shared]:
        """Broadcast a value for the time of the ``with`` block."""
        with spark_faults(self.sc):
            shared = self.sc.broadcast(value)
        try:
            yield shared
        finally:
            with contextlib.suppress(Py4JError, OSError):  # the JVM may be gone
                shared.unpersist()


def _mapped(work: Work, shared: Shared | None, number: int, elements: Iterator[Any]) -> Iterable[Any]:
    with packed():
        yield from work(None if shared is None else shared.value, number, attempt(), elements)
    # A worker that does not read its whole input ends, and the next task waits for a new one.
    for _ in elements:
        pass


def _group_of(sort_key: tuple[Any, ...]) -> int:
    group: int = sort_key[0]
    return group


def attempt() -> int:
    """Return 0 for the first attempt of a task, and a number that no other attempt has for every further one."""
    context = TaskContext.get()
    return 0 if context is None or context.attemptNumber() == 0 else context.taskAttemptId()
