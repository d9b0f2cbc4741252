"""Show the progress of a run on stderr: a bar on a terminal, plain lines otherwise."""

import contextlib
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from py4j.protocol import Py4JError
from pyspark import SparkContext

from mutator.engine.stage_display import PHASES, Stage, StageDisplay

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
