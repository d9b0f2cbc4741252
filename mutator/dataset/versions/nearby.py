"""Copies of the newest entries of a log on this machine, for a table whose storage answers slowly.

Every writer has to see the versions of the others. Where each request takes some milliseconds, the writers on one
machine pass their versions on to each other, in a directory of temporary files. Nothing depends on these copies. They
count only if the storage has the newest of them, or if they were made since their reader has looked for the newest
version on the storage.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress

from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.version import TableVersion
from mutator.errors import MutatorError
from mutator.storage import storage_for

_KEPT = 32  # versions
_LARGEST = 1 << 18  # bytes of an entry
_ABANDONED = 86_400  # seconds after which the copies of another table are removed


class NearbyEntries:
    """The copies of the entries of one log."""

    def __init__(self, log: TableLog) -> None:
        """Copy nothing yet. A local disk needs no copies."""
        self._log = log
        self.directory = None if storage_for(log.path).holds else _directory(log.path)

    def add(self, version: TableVersion) -> None:
        """Copy the entry of a version that was committed just now, and remove the copies of old ones."""
        if self.directory is None:
            return
        content = self._log.content(version)
        if len(content) > _LARGEST:
            return
        with suppress(OSError):
            path = os.path.join(self.directory, str(version.number))
            with open(f"{path}-", "wb") as stream:
                stream.write(content)
            os.utime(f"{path}-", ns=(now := time.time_ns(), now))  # the file system's own clock is coarse
            os.replace(f"{path}-", path)
            for name in os.listdir(self.directory):
                if name.isdigit() and int(name) <= version.number - _KEPT:
                    os.unlink(os.path.join(self.directory, name))

    def after(self, before: TableVersion, began: float = 0) -> Iterator[TableVersion]:
        """Yield the versions after one, as far as there are copies. began: the time since which they were made."""
        while (found := self._next(before, began)) is not None:
            yield found
            before = found

    def _next(self, before: TableVersion, began: float) -> TableVersion | None:
        if self.directory is None:
            return None
        with suppress(OSError, MutatorError), open(os.path.join(self.directory, str(before.number + 1)), "rb") as file:
            if os.fstat(file.fileno()).st_mtime >= began:
                found = self._log.parsed(before.number + 1, file.read())
                return found if found.parent == before.id else None
        return None


def _directory(log: str) -> str | None:
    """Return the directory for the copies of a log, which only this user can read; None if there cannot be one."""
    own = os.path.join(tempfile.gettempdir(), f"mutator-{os.getuid()}")
    path = os.path.join(own, hashlib.sha256(log.encode()).hexdigest()[:32])
    with suppress(OSError):
        if not os.path.isdir(path):
            os.makedirs(own, mode=0o700, exist_ok=True)
            _remove_abandoned(own)
            os.makedirs(path, mode=0o700, exist_ok=True)
        found = os.lstat(own)
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077:
            return path
    return None


def _remove_abandoned(own: str) -> None:
    for entry in list(os.scandir(own)):
        with suppress(OSError):
            if time.time() - entry.stat(follow_symlinks=False).st_mtime > _ABANDONED:
                shutil.rmtree(entry.path, ignore_errors=True)
