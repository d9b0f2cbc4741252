"""Work that nobody waits for, at a lower priority than work that somebody waits for."""

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

_LOWER = 5  # on one core, Linux then gives a quarter of the time to this work, and the rest to work of usual priority

_R = TypeVar("_R")


def in_background(work: Callable[..., _R], *arguments: object) -> _R:
    """Return a function's result, computed by a thread that gives way to other work of this machine.

    A thread can lower its priority, but only root could raise it again: the caller's stays as it is. Linux has a
    priority for each thread; on another system, the work has the usual one.
    """
    with ThreadPoolExecutor(1, initializer=_give_way) as pool:
        return pool.submit(work, *arguments).result()


def _give_way() -> None:
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with suppress(OSError):  # a sandbox may forbid it
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _LOWER)
