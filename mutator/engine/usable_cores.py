"""The cores that this process may use, and work that is done ahead on them."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


def usable_cores() -> int:
    """Return how many cores this process may use, at least 1."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux limits a process to some of the machine's cores
        return os.cpu_count() or 1


def read_ahead(steps: Iterable[Callable[[], Any]]) -> Iterator[Any]:
    """Yield the results of functions in their order, while threads carry out the next ones: one for each core.

    >>> list(read_ahead([lambda: 1, lambda: 2]))
    [1, 2]
    """
    cores, waiting = usable_cores(), deque[Future[Any]]()
    threads = ThreadPoolExecutor(cores)
    try:
        for step in steps:
            waiting.append(threads.submit(step))
            if len(waiting) > cores:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        threads.shutdown(cancel_futures=True)  # the caller may need no more results
