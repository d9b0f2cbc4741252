"""Python's garbage collector, which looks at all objects of a process again each time some thousands are new.

The manifest of a large master is that many objects, all of them needed: without a pause, half of the time that goes
into reading it is the collector's.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["paused"]


@contextmanager
def paused() -> Iterator[None]:
    """Let the collector rest; also a decorator. Where several threads do, it rests until the first of them is done."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
