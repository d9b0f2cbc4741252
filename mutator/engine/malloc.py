"""Set how the memory allocator of a worker treats freed memory, and which pages it gets.

Arrow and ``ctypes`` are loaded when they are needed: the process that workers are forked from starts before.
"""

import os
from functools import cache
from typing import Any

VARIABLE = "GLIBC_TUNABLES"

_LARGE_PAGES = "glibc.malloc.hugetlb"
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of mallopt in malloc.h
_KEPT = 64 << 20
_LARGEST = 32 << 20  # more than this is always given back: glibc allows no more


def large_pages() -> str:
    """Return GLIBC_TUNABLES with a request for large pages; a request by the user wins.

    A worker works in arrays of a few MB. Where the system gives large pages to programs that ask for them, a merge
    takes about 5 % less time, and no more memory: there are fewer pages to clear one by one, and to look up. glibc
    reads the variable when a process starts. Versions before 2.35, and other C libraries, ignore it.
    """
    given = os.environ.get(VARIABLE, "")
    return given if _LARGE_PAGES in given else ":".join(filter(None, (given, f"{_LARGE_PAGES}=1")))


@cache
def keep_freed_memory() -> bool:
    """Let glibc keep up to 64 MB of freed memory for the next allocations; return whether it does.

    Each block is processed in arrays of a few MB. By default glibc gives such memory back and asks for it again, and
    the kernel clears every page each time: about a third of the cost of merging an unchanged master. Another C
    library stays as it is.

    Arrow uses the same allocator, unless ``ARROW_DEFAULT_MEMORY_POOL`` names one: its own keeps much of what Arrow
    has freed, and numpy cannot use it.
    """
    mallopt = _glibc("mallopt")
    settings = ((_MMAP_THRESHOLD, _LARGEST), (_TRIM_THRESHOLD, _KEPT), (_TOP_PAD, _LARGEST // 2))
    if mallopt is None or not all(mallopt(option, value) for option, value in settings):
        return False
    import pyarrow as pa

    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        pa.set_memory_pool(pa.system_memory_pool())
    return True


def release_freed_memory(freed: int) -> None:
    """Return freed memory to the system, after a step that needed much more than the next one.

    freed: about how many bytes. If glibc keeps as many anyway, nothing is returned: the next step would get cleared
    pages in their place, and a search for free pages takes milliseconds.
    """
    import pyarrow as pa

    if freed < _KEPT:
        return
    trim = _glibc("malloc_trim")
    if trim is not None:
        trim(0)
    pa.default_memory_pool().release_unused()


@cache
def _glibc(name: str) -> Any:
    """Return a function of glibc; None if this process has another C library."""
    import ctypes

    try:
        return getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
