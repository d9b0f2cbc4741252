"""Python's garbage collector, which looks at a process's objects again and again as new ones are made.

The manifest of a large master is very many objects, all of them needed: without a pause, half of the time that goes
into reading it is the collector's.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["paused"]

_lock = threading.Lock()
_resting = 0  # pauses under way
_was_enabled = True


@contextmanager
def paused() -> Iterator[None]:
    """Let the collector rest; also a decorator. Of several threads' pauses it rests until the last one is over.

    It is the whole process's, so a pause is for what computes, never for what waits for a storage or for Spark.
    """
    _begin()
    try:
        yield
    finally:
        _end()


def _begin() -> None:
    global _resting, _was_enabled
    with _lock:
        if not _resting:
            _was_enabled = gc.isenabled()
            gc.disable()
        _resting += 1


def _end() -> None:
    global _resting
    with _lock:
        _resting -= 1
        if not _resting and _was_enabled:
            gc.enable()
