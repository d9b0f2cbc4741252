"""The workers of a runner on this machine: threads of this process, or other processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from mutator.engine.runner import Watch
from mutator.engine.usable_cores import usable_cores
from mutator.plan.runner_choice import processes_for, threads_for


class Workers(Protocol):
    """Run tasks, a bounded number at the same time."""

    @property
    def count(self) -> int:
        """How many tasks run at the same time."""

    def run(self, tasks: Sequence[Callable[[], Any]], watch: Watch) -> list[Any]:
        """Run tasks; return their results in order. Raises the first error among them, and those of ``watch``."""


def workers_for(bytes_: int, processes: Workers) -> Workers | None:
    """Return the workers of a stage that reads some bytes; None for the thread that asks.

    processes: of the whole merge, which nobody else uses. They run the stage if it reads more than threads would soon
    be done with.
    """
    if processes_for(bytes_, processes.count) > 1:
        return processes
    threads = threads_for(bytes_, usable_cores())
    if threads == 1:
        return None
    from mutator.engine.local.threads import Threads

    return Threads(threads)


@contextmanager
def workers_of(processes: int, threads: int = 1) -> Iterator[Workers | None]:
    """Yield a number of processes, which start when they are needed; for one, threads of this process.

    None where both are one.
    """
    # Each module loads a part of the standard library that the other cases need not.
    if processes > 1:
        from mutator.engine.local.processes import Processes

        with Processes(processes) as pool:
            yield pool
    elif threads > 1:
        from mutator.engine.local.threads import Threads

        yield Threads(threads)
    else:
        yield None
