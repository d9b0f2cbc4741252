"""The time after which a test gives up: far longer than a loaded machine needs, because it only bounds a hang."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE = 600  # seconds


def wait_until(reached: Callable[[], T], step: float = 0.02, otherwise: Callable[[], str] = str) -> T:
    """Call a function until its result is true, and return that. Raises TimeoutError. otherwise: text of the error."""
    deadline = time.monotonic() + PATIENCE
    while not (result := reached()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not reached within {PATIENCE} s: {otherwise()}")
        time.sleep(step)
    return result


@contextmanager
def met_at(barrier: Any) -> Iterator[Callable[[], object]]:
    """Yield a function that waits for the others at a barrier; if the block fails, nobody waits for it any more."""
    try:
        yield lambda: barrier.wait(PATIENCE)
    except BaseException:
        barrier.abort()
        raise
