"""Copies of the newest entries of a log on this machine, for a table whose storage answers slowly.

Every writer has to see the versions of the others. Where each request takes some milliseconds, the writers on one
machine pass their versions on to each other, in a directory of temporary files. Whoever uses copies must first see the
newest of them on the storage: each entry names the one before it, so the others were created, too.
"""

from __future__ import annotations

import hashlib
import os
import re
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
_NAME = re.compile(r"[0-9a-f]{32}")


class NearbyEntries:
    """The copies of the entries of one log."""

    def __init__(self, log: TableLog) -> None:
        """Make nothing yet. A local disk needs no copies."""
        self._log = log
        self._path = None if storage_for(log.path).holds else _path(log.path)

    def directory(self) -> str | None:
        """Return the directory of the copies, which is made if it is missing; None if there can be none."""
        if self._path is None:
            return None
        own = os.path.dirname(self._path)
        with suppress(OSError):
            with suppress(FileExistsError):
                os.mkdir(own, 0o700)
            found = os.lstat(own)
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077:
                if not os.path.isdir(self._path):
                    _remove_abandoned(own)
                    os.makedirs(self._path, 0o700, exist_ok=True)
                return self._path
        return None

    def add(self, version: TableVersion) -> None:
        """Copy the entry of a version that was committed just now, and remove the copies of old ones."""
        directory = self.directory()
        if directory is None:
            return
        content = self._log.content(version)
        if len(content) > _LARGEST:
            return
        with suppress(OSError):
            path = os.path.join(directory, str(version.number))
            with open(f"{path}-", "wb") as stream:
                stream.write(content)
            os.replace(f"{path}-", path)
            for name in os.listdir(directory):
                number = name.rstrip("-")
                if number.isdigit() and int(number) <= version.number - _KEPT:
                    os.unlink(os.path.join(directory, name))
            if version.number % _KEPT == 0:
                _remove_abandoned(os.path.dirname(directory))

    def after(self, before: TableVersion) -> Iterator[TableVersion]:
        """Yield the versions after one, as far as there are copies. The storage may not have them."""
        while self._path is not None:
            found = None
            with suppress(OSError, MutatorError), open(os.path.join(self._path, str(before.number + 1)), "rb") as file:
                found = self._log.parsed(before.number + 1, file.read())
            if found is None or found.parent != before.id:
                return
            yield found
            before = found


def _path(log: str) -> str | None:
    """Return the path of the directory for the copies of a log; None without a directory for temporary files."""
    with suppress(OSError):
        own = os.path.join(tempfile.gettempdir(), f"mutator-{os.getuid()}")
        return os.path.join(own, hashlib.sha256(log.encode()).hexdigest()[:32])
    return None


def _remove_abandoned(own: str) -> None:
    for entry in list(os.scandir(own)):
        with suppress(OSError):
            age = time.time() - entry.stat(follow_symlinks=False).st_mtime
            if age > _ABANDONED and _NAME.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
