"""Python's garbage collector: pauses, how often it runs in a process of mutator's own, and objects that it ignores.

It scans a process's objects again and again as new ones are created. The manifest of a large master has very many
objects, and all of them are needed. Without a pause, half of the time for reading it goes into the collector.
"""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_RARELY = 200_000  # new objects; Python's own default is some hundreds

_lock = threading.Lock()
_pauses = 0  # pauses under way
_was_enabled = True


def collect_rarely() -> None:
    """Let the collector run less often, in a process that runs nothing but mutator.

    The imports of a command make more than a hundred thousand objects, and nearly all of them stay.
    """
    gc.set_threshold(_RARELY, 10, 10)


def spare_modules() -> None:
    """Let the collector ignore everything that is loaded, before processes are forked from this one.

    A full collection takes 30 ms otherwise, and copies the pages of all these objects; Spark's Python workers have one
    after each task.
    """
    gc.freeze()


@contextmanager
def paused() -> Iterator[None]:
    """Pause the collector within a ``with`` block or a decorated function, until the last thread's pause ends.

    It stops for the whole process, so pause it for computations only, never while waiting for a storage or for Spark.
    """
    global _pauses, _was_enabled
    with _lock:
        if not _pauses:
            _was_enabled = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if not _pauses and _was_enabled:
                gc.enable()
