"""Copies of the newest entries of a log on this machine, for a table whose storage answers slowly.

Every writer has to see the versions of the others. Where each request takes some milliseconds, the writers on one
machine pass their versions on to each other, in a directory of temporary files. Whoever uses copies must first see the
newest of them on the storage: each entry names the one before it, so the others were created, too. An apply that has
looked for the newest version when it began need not look again for versions that were committed since then, the last of
them less than a second ago.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from contextlib import suppress

from mutator.dataset.commits import Commit
from mutator.dataset.versions.log import TableLog
from mutator.errors import MutatorError
from mutator.errors.quick_dataclass import dataclass
from mutator.storage import storage_for

_KEPT = 32  # versions
_LARGEST = 1 << 18  # bytes of an entry
_MOMENT = 1_000_000_000  # ns
_ABANDONED = 86_400  # seconds after which the copies of another table are removed
_NAME = re.compile(r"[0-9a-f]{32}")


class NearbyEntries:
    """The copies of the entries of one log."""

    def __init__(self, log: TableLog) -> None:
        """Make nothing yet. A local disk needs no copies."""
        self._log = log
        storage = storage_for(log.path)
        self._path = None if storage.holds else _path(f"{storage.service(log.path)} {log.path}")

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

    def add(self, version: Commit) -> None:
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
                stream.write(b"%d\n" % time.monotonic_ns() + content)
            os.replace(f"{path}-", path)
            for name in os.listdir(directory):
                number = name.rstrip("-")
                if number.isdigit() and int(number) <= version.number - _KEPT:
                    os.unlink(os.path.join(directory, name))
            if version.number % _KEPT == 0:
                _remove_abandoned(os.path.dirname(directory))

    def remove(self, version: Commit) -> None:
        """Remove the copy of a version that turned out not to exist."""
        if self._path is not None and (found := self._copy(version.number)) is not None and found[0].id == version.id:
            with suppress(OSError):
                os.unlink(os.path.join(self._path, str(version.number)))

    def after(self, before: Commit) -> Copies:
        """Return the versions after one, as far as there are copies."""
        versions, times = list[Commit](), list[int]()
        while (found := self._copy(before.number + 1)) is not None and found[0].parent == before.id:
            before = found[0]
            versions.append(before)
            times.append(found[1])
        return Copies(tuple(versions), tuple(times))

    def _copy(self, number: int) -> tuple[Commit, int] | None:
        if self._path is None:
            return None
        with suppress(OSError, ValueError, MutatorError), open(os.path.join(self._path, str(number)), "rb") as file:
            committed, _, content = file.read().partition(b"\n")
            return self._log.parsed(number, content), int(committed)
        return None


@dataclass(frozen=True)
class Copies:
    """Successive versions that writers on this machine have committed. The storage may have lost them."""

    versions: tuple[Commit, ...]
    _committed: tuple[int, ...]  # ns by time.monotonic_ns

    def are_new(self, began: int) -> bool:
        """Return whether all were committed since a time, and the last of them a moment ago.

        began: ns by ``time.monotonic_ns``, which starts anew with the machine.
        """
        if not self.versions:
            return False
        first, last, now = self._committed[0], self._committed[-1], time.monotonic_ns()
        return began <= first <= last <= now <= last + _MOMENT


def _path(log: str) -> str | None:
    """Return the path of the directory for the copies of a log; None without a directory for temporary files.

    log: its service and path.
    """
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
