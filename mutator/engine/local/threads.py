"""Threads of this process, which run the tasks of merges that are over before other processes would have started.

numpy and Arrow let other threads run meanwhile: on two cores, two threads take three quarters of the time of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from mutator.engine.runner import Watch, unwatched
from mutator.errors import MutatorError

_INTERVAL = 0.2  # seconds between two calls of a watch, at most


class Threads:
    """A bounded number of threads."""

    def __init__(self, count: int) -> None:
        self.count = count

    def run(self, tasks: Sequence[Callable[[], Any]], watch: Watch = unwatched) -> list[Any]:
        """Run tasks, at most as many at a time as there are threads; return their results in order.

        Raises the first error among the tasks, and errors of ``watch``, once no task runs any more.
        """
        pool = ThreadPoolExecutor(self.count)
        try:
            return gathered([pool.submit(task) for task in tasks], watch)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def gathered(futures: Sequence[Future[Any]], watch: Watch) -> list[Any]:
    """Return the results of tasks in order.

    Raises the first error among them, and errors of ``watch``; then no task begins any more, and none runs.
    """
    try:
        left: Iterable[Future[Any]] = futures
        while left:
            done, left = wait(left, _INTERVAL, FIRST_COMPLETED)
            watch(len(futures) - len(left), len(futures))
            if any(map(_has_failed, done)):
                break
    except Exception:
        _end(futures)
        raise
    _end(futures)
    return [future.result() for future in futures if not future.cancelled()]


def _has_failed(future: Future[Any]) -> bool:
    return future.exception() is not None or isinstance(future.result(), MutatorError)


def _end(futures: Sequence[Future[Any]]) -> None:
    """Let no task begin, and wait for those that run."""
    wait([future for future in futures if not future.cancel()])
