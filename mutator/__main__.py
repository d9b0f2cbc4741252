"""The command ``mutator``, which is also ``python -m mutator``.

A run of large files begins to start processes before it loads its own modules, which takes as long as theirs.
"""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from mutator.engine.local.fork_server import begin_processes
from mutator.engine.usable_cores import usable_cores
from mutator.plan.runner_choice import choose_runner, configured_spark


def entry() -> NoReturn:
    """Run the command line of this process."""
    if _needs_processes(sys.argv[1:]):
        begin_processes()
    from mutator.cli import entry as carry_out

    carry_out()


def _needs_processes(words: Sequence[str]) -> bool:
    """Return whether a command line names so many bytes of this machine that the merge needs processes.

    What a file of settings says is not known yet: at worst, processes start later, or start and have no tasks.
    """
    if words[:1] != ["run"]:
        return False
    text = " ".join(words).replace("=", " ")
    wanted = next((one for one in ("spark", "local") if f"runner {one}" in text), "auto")
    size = sum(_size(word.rpartition("=")[2]) for word in words)
    choice = choose_runner(wanted, size, usable_cores(), configured_spark())
    return choice.runner == "local" and choice.processes > 1


def _size(path: str) -> int:
    """Return the bytes of a file, or of all files below a directory; 0 for what is neither."""
    try:
        if not os.path.isdir(path):
            return os.path.getsize(path)
        return sum(os.path.getsize(os.path.join(where, name)) for where, _, names in os.walk(path) for name in names)
    except (OSError, ValueError):
        return 0


if __name__ == "__main__":
    entry()
