"""Renames that replace nothing, or exchange two paths: by the kernel if it can."""

import ctypes
import errno
import os

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
