"""Set how a worker's memory allocator treats freed memory."""

import ctypes
from functools import cache

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of mallopt in malloc.h
_KEPT = 64 << 20
_LARGEST = 32 << 20  # more than this is always given back: glibc allows no more


@cache
def keep_freed_memory() -> bool:
    """Let glibc keep up to 64 MB of freed memory for the next allocations; return whether it does.

    Each block is processed in arrays of a few MB. By default glibc gives such memory back and asks for it again, and
    the kernel clears every page each time: about a third of the cost of merging an unchanged master. Another C
    library stays as it is.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((_MMAP_THRESHOLD, _LARGEST), (_TRIM_THRESHOLD, _KEPT), (_TOP_PAD, _LARGEST // 2))
    return all(mallopt(option, value) for option, value in settings)
