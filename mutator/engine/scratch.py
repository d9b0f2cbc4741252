"""Directories for temporary files, which the next run removes if their process was killed.

A process holds a lock (``flock``) on each of its directories. The system releases it with the process.
"""

import errno
import fcntl
import os
import shutil
import tempfile
from contextlib import ExitStack, suppress

from mutator.errors import MutatorError, error
from mutator.storage.stream import spill_directory

_PREFIX = "mutator-tasks-"


def scratch_directory(stack: ExitStack) -> str:
    """Make a directory for the time of an exit stack, where Spark keeps its own. Raises StorageError."""
    directory = spill_directory() or tempfile.gettempdir()
    try:
        path, handle = _locked_directory(directory)
    except OSError as fault:
        raise scratch_error(directory, fault) from None
    stack.callback(os.close, handle)
    stack.callback(shutil.rmtree, path, ignore_errors=True)
    return path


def scratch_error(path: str, fault: Exception) -> MutatorError:
    """Return the error of temporary files that cannot be written or read. path: of their directory."""
    if isinstance(fault, OSError) and fault.errno in (errno.EMFILE, errno.ENFILE):
        return error("storage.handles", path=path, why=fault.strerror or fault)
    return error("scratch", path=path, why=fault)


def _locked_directory(parent: str) -> tuple[str, int]:
    """Make a directory; return its path and its descriptor, which has the lock."""
    while True:
        path = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
        # Another process may remove the directory before it is locked.
        try:
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        if _lock(handle) is not False and os.path.exists(path):
            return path, handle
        os.close(handle)


def remove_abandoned() -> None:
    """Remove the directories that killed processes have left."""
    directory = spill_directory() or tempfile.gettempdir()
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
                _remove_unlocked(entry.path)


def _remove_unlocked(path: str) -> None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return  # it is gone, or it is another user's
    try:
        if _lock(handle):
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(handle)


def _lock(handle: int) -> bool | None:
    """Lock an open directory; return False where it is locked already, and None where locks are not supported."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
