"""Show the stages of a run on a stream: a bar on a terminal, plain lines otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from mutator.errors.display import counted

if TYPE_CHECKING:
    from tqdm import tqdm

PHASES = ("read", "merge")  # of the first stage, and of the others
Stage = tuple[str, int, int]  # phase, completed tasks, tasks


class StageDisplay:
    """Shows how many tasks of a run are complete."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bar: tqdm[Any] | None = None
        self._shown: set[str] = set()  # phases whose lines have been written

    def show(self, stages: Sequence[Stage]) -> None:
        """Show the stages that have begun, in order."""
        if self._stream.isatty():
            self._move_bar(stages)
            return
        for phase, complete, tasks in stages:
            if tasks and complete == tasks and phase not in self._shown:
                self._shown.add(phase)
                self._stream.write(f"mutator: {phase}: {counted(tasks, 'task')} done\n")
                self._stream.flush()

    def _move_bar(self, stages: Sequence[Stage]) -> None:
        total = sum(tasks for _, _, tasks in stages)
        if not total:
            return
        if self._bar is None:
            from tqdm import tqdm  # only a terminal needs it

            self._bar = tqdm(total=0, unit="task", file=self._stream, leave=False)
        self._bar.total, self._bar.n = total, sum(complete for _, complete, _ in stages)
        now = next((phase for phase, complete, tasks in stages if complete < tasks), "")
        self._bar.set_description(now)  # shows it all

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
