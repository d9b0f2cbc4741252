"""Directories for temporary files, which the next run removes if their process was killed.

A process holds a lock (``flock``) on each of its directories. The system releases it with the process.
"""

import fcntl
import os
import shutil
import tempfile
from contextlib import ExitStack, suppress

from mutator.storage.stream import spill_directory

_PREFIX = "mutator-tasks-"


def scratch_directory(stack: ExitStack) -> str:
    """Make a directory for the time of an exit stack, where Spark keeps its own."""
    while True:
        path = tempfile.mkdtemp(prefix=_PREFIX, dir=spill_directory())
        handle = _locked(path)
        if handle is None or os.path.exists(path):  # another process may have removed it before it was locked
            break
        os.close(handle)
    if handle is not None:
        stack.callback(os.close, handle)
    stack.callback(shutil.rmtree, path, ignore_errors=True)
    return path


def remove_abandoned() -> None:
    """Remove the directories that killed processes have left."""
    directory = spill_directory() or tempfile.gettempdir()
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
                handle = _locked(entry.path)
                if handle is not None:
                    shutil.rmtree(entry.path, ignore_errors=True)
                    os.close(handle)


def _locked(path: str) -> int | None:
    """Lock a directory; return its descriptor, or None where it is locked, gone, or cannot be locked."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle
