"""Results of functions in their order, while threads carry out the next ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from mutator.engine.usable_cores import usable_cores
from mutator.errors import MutatorError

MOST = 4  # functions that are carried out ahead: each result is in memory


def read_ahead(steps: Iterable[Callable[[], Any]]) -> Iterator[Any]:
    """Yield the results of functions in their order, while threads carry out the next ones.

    The first result comes before any other function begins, because a caller may need no more; then one more each time,
    up to the number of cores. An error is raised after the results before it.

    >>> list(read_ahead([lambda: 1, lambda: 2]))
    [1, 2]
    """
    waiting, ahead, most = deque[Future[Any]](), 0, min(usable_cores(), MOST)
    threads = ThreadPoolExecutor(most)
    try:
        for step in _with_fault(steps):
            waiting.append(threads.submit(step))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
                ahead = min(ahead + 1, most)
        while waiting:
            yield waiting.popleft().result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _with_fault(steps: Iterable[Callable[[], Any]]) -> Iterator[Callable[[], Any]]:
    """Yield functions; in place of one that cannot be made, a function that raises the error."""
    try:
        yield from steps
    except MutatorError as fault:
        yield partial(_raise, fault)


def _raise(fault: MutatorError) -> None:
    raise fault
