"""Renames of files and directories that replace nothing, or exchange two: the kernel's, where it has them."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os

__all__ = ["NO_LINKS", "exchange", "rename_noreplace"]

# What a file system without hard links says to one.
NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
_AT_FDCWD, _RENAME_NOREPLACE, _RENAME_EXCHANGE = -100, 1, 2
# What a file system, or a kernel, without a kind of rename says to it.
_NO_SUCH_RENAME = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def exchange(one: str, other: str) -> bool:
    """Give each of two the name of the other, in one step; False where that cannot be done, and nothing was."""
    return _renameat2(one, other, _RENAME_EXCHANGE)


def rename_noreplace(source: str, target: str) -> None:
    """Rename, but never onto something that exists (``rename`` replaces an empty directory)."""
    if _renameat2(source, target, _RENAME_NOREPLACE):
        return
    # Network file systems and other kernels. A link never replaces a file; for a directory, a race with another
    # writer's empty one is left.
    if not os.path.isdir(source):
        with contextlib.suppress(_NoLinks):
            _link_instead(source, target)
            return
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    os.rename(source, target)


class _NoLinks(Exception):
    """The file system has no hard links."""


def _link_instead(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as fault:
        if fault.errno not in NO_LINKS:
            raise
        raise _NoLinks from None
    os.unlink(source)


def _renameat2(source: str, target: str, how: int) -> bool:
    """Rename as Linux alone can; False where it, or the file system, cannot."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), how) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NO_SUCH_RENAME:
        return False
    raise OSError(code, os.strerror(code), target)
