"""The number of cores that this process may use."""

import os


def usable_cores() -> int:
    """Return how many cores this process may use, at least 1."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux limits a process to some of the machine's cores
        return os.cpu_count() or 1
