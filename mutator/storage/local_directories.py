"""Directories of a local disk: many created or made durable at once, removed while others write, locked.

Renames that replace nothing, or exchange two paths: by the kernel if it can.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

# Errors of a file system without hard links.
NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
_AT_FDCWD, _RENAME_NOREPLACE, _RENAME_EXCHANGE = -100, 1, 2
# Errors of a file system or kernel without this form of rename.
_NO_SUCH_RENAME = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def exchange(one: str, other: str) -> bool:
    """Exchange the names of two paths in one step; False if that is impossible, and nothing was changed."""
    return _renameat2(one, other, _RENAME_EXCHANGE)


def rename_noreplace(source: str, target: str) -> None:
    """Rename, but never onto something that exists (``rename`` replaces an empty directory)."""
    if _renameat2(source, target, _RENAME_NOREPLACE):
        return
    # Network file systems and other kernels. A link never replaces a file. A directory may still replace an empty one
    # that another writer creates at the same moment.
    if not os.path.isdir(source) and link_new(source, target):
        os.unlink(source)
        return
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    os.rename(source, target)


def link_new(source: str, target: str) -> bool:
    """Give a file a second path, which must not exist; False if the file system has no hard links."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as fault:
        if fault.errno not in NO_LINKS:
            raise
        return False
    return True


def _renameat2(source: str, target: str, how: int) -> bool:
    """Rename with Linux's own system call; False if the kernel or the file system lacks it."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), how) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NO_SUCH_RENAME:
        return False
    raise OSError(code, os.strerror(code), target)


_TRIES = 20


def make_many(paths: Iterable[str]) -> None:
    """Create directories and their parents with few system calls; nothing is made durable."""
    made: set[str] = set()
    for path in paths:
        missing = []
        while path not in made:
            missing.append(path)
            try:
                os.mkdir(path)
            except FileExistsError:
                break
            except FileNotFoundError:
                path = os.path.dirname(path)
                continue
            break
        for directory in reversed(missing[:-1]):
            with contextlib.suppress(FileExistsError):
                os.mkdir(directory)
        made.update(missing)


@contextmanager
def opened(path: str) -> Iterator[int]:
    """Yield a file descriptor of a directory."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield handle
    finally:
        os.close(handle)


def sync_tree(path: str) -> None:
    """Make everything below a directory durable in one system call."""
    with opened(path) as handle:
        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None or syncfs(handle) != 0:
            os.sync()


def remove_tree(path: str) -> None:
    """Remove a directory with everything in it, even while a worker of a killed run still writes to it."""
    for attempt in range(_TRIES):
        try:
            shutil.rmtree(path)
            return
        except FileNotFoundError:
            pass  # another process removes it as well
        except OSError as fault:
            # A worker of a killed run may go on writing for as long as its JVM takes to die.
            if fault.errno not in (errno.ENOTEMPTY, errno.EBUSY) or attempt == _TRIES - 1:
                raise
        if not os.path.lexists(path):
            return
        time.sleep(0.1)


class Lock:
    """An open, locked directory. The lock is released with the object."""

    def __init__(self, handle: int) -> None:
        self._handle, self._process = handle, os.getpid()

    def __del__(self) -> None:
        # A process that was forked in the meantime has the open directory, too, so that closing it does not suffice.
        if os.getpid() == self._process:
            with contextlib.suppress(OSError):
                fcntl.flock(self._handle, fcntl.LOCK_UN)
        os.close(self._handle)


def lock(path: str) -> Lock | None:
    """Lock a directory for as long as the returned object lives; None if another process has it, or it is missing.

    The kernel releases the lock when the process ends, however it ends.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    locked = Lock(handle)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The previous owner may have removed or moved the directory just now.
        there, own = os.stat(path), os.fstat(handle)
    except (BlockingIOError, FileNotFoundError):
        return None
    return locked if (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino) else None
