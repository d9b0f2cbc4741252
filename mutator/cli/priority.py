"""The priority of a command whose work can wait."""

import os
from contextlib import suppress

_LOW = 5  # of 19: on one core, Linux gives a process of usual priority three quarters of the time


def give_way() -> None:
    """Lower the priority of this process, and of those that it starts, below that of other programs.

    It stays so: only root could raise it again. A system without priorities, or one that forbids to change them, leaves
    the usual one.
    """
    with suppress(AttributeError, OSError):
        os.setpriority(os.PRIO_PROCESS, 0, max(os.getpriority(os.PRIO_PROCESS, 0), _LOW))
