"""Show the progress of a runner on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from mutator.engine.runner import Watch
from mutator.engine.stage_display import PHASES, Stage, StageDisplay


@contextmanager
def show_progress(stream: TextIO | None = None) -> Iterator[Watch]:
    """Yield a watch that shows the stages of a run. stream: stderr by default."""
    display = StageDisplay(stream or sys.stderr)
    stages: list[Stage] = []

    def watch(done: int, tasks: int) -> None:
        if not stages or stages[-1][1] == stages[-1][2]:
            stages.append((PHASES[min(len(stages), len(PHASES) - 1)], 0, tasks))
        stages[-1] = (stages[-1][0], done, tasks)
        display.show(stages)

    try:
        yield watch
    finally:
        display.close()
