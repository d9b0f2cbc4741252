"""The command ``mutator``, which is also ``python -m mutator``.

A run of large files starts the process of its workers first, and loads its own modules meanwhile: both take as long.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import NoReturn

from mutator.engine.local.fork_server import begin_processes
from mutator.engine.numpy_variables import numpy_variables
from mutator.engine.usable_cores import usable_cores
from mutator.plan.runner_choice import choose_runner, configured_spark

_MOST_FILES = 10_000  # whose sizes are added here
_PROGRESS = ("auto", "off")  # as ``cli.progress_line.CHOICES``, which may come before the command


def entry() -> NoReturn:
    """Run the command line of this process."""
    os.environ.update(numpy_variables())
    if _needs_processes(sys.argv[1:]):
        with suppress(OSError):  # then they start later, or that start says what is wrong
            begin_processes()
    from mutator.cli import entry as carry_out

    carry_out()


def _needs_processes(words: Sequence[str]) -> bool:
    """Return whether a command line names so many bytes of this machine that the merge needs processes.

    Files of settings, patterns and packed files are looked at later. At worst, processes start when the inputs are
    known, or start and have no tasks.
    """
    # Options of all commands may come first.
    command = next((word for word in words if not word.startswith("-") and word not in _PROGRESS), None)
    if command != "run":
        return False
    given = [*_options(words[words.index(command) + 1 :])]
    wanted = next((value for name, value in reversed(given) if name == "--runner"), "auto")
    size = sum(_size(value) for name, value in given if name in ("--master", "--feed"))
    choice = choose_runner(wanted, size, usable_cores(), configured_spark())
    return choice.runner == "local" and choice.processes > 1


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each value of an option with its name."""
    name = ""
    for word in words:
        if word.startswith("--"):
            name, is_given, value = word.partition("=")
            if is_given:
                yield name, value
        else:
            yield name, word


def _size(path: str) -> int:
    """Return the bytes of a file, or of the files below a directory; 0 for anything else.

    ``runners.bytes_at`` knows remote, packed and listed files, too, but loads the storages for it.
    """
    files = (os.path.join(where, name) for where, _, names in os.walk(path) for name in names)
    size = 0
    for file in islice(files, _MOST_FILES) if os.path.isdir(path) else (path,):
        with suppress(OSError, ValueError):
            size += os.path.getsize(file)
    return size


if __name__ == "__main__":
    entry()
