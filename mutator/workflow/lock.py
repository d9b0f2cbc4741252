"""The lock of a base: a courtesy between processes. What keeps a base whole is the exclusive creation of a version.

The lock is a file that says who has it, created exclusively under the next number; the highest number holds. It is
taken over where its process has ended (on the same machine), or has not renewed it for longer than ``lock.timeout`` by
the clock of the storage. A renewal is a file of its own, so that nothing is ever overwritten.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from mutator.errors import MutatorError, error
from mutator.failpoint import failpoint
from mutator.storage import Entry, blocks, entries_of
from mutator.workflow.base import Base

__all__ = ["Owner", "holder", "locked"]

_NAME = re.compile(r"([0-9]{20})-([0-9]{6})\.json\Z")


@dataclass(frozen=True)
class Owner:
    """Who has the lock."""

    id: str
    run: str
    host: str
    process: int
    born: str  # when the process started, as the kernel counts; tells it from a later one of the same number
    since: str

    def has_ended(self) -> bool:
        """Tell whether the process is known to be gone."""
        return self.host == _host() and _born(self.process) != self.born


@dataclass(frozen=True)
class _Held:
    number: int
    beat: int
    entry: Entry
    owner: Owner | None  # None: the file cannot be read


def holder(base: Base, timeout: float) -> Owner | None:
    """Return who is at work on a base now, None where nobody is. timeout: seconds without a sign of life."""
    held = _newest(base)
    return held.owner if held is not None and _alive(base, held, timeout) else None


@contextmanager
def locked(base: Base, run: str, timeout: float) -> Iterator[None]:
    """Hold the lock inside of the ``with`` block, and renew it. Raises StateError where somebody else has it."""
    number = _acquire(base, run, timeout)
    done = threading.Event()
    thread = threading.Thread(target=_renew, args=(base, number, timeout, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        with contextlib.suppress(MutatorError):  # whoever comes next finds that this process has ended
            _release(base, number)


def _acquire(base: Base, run: str, timeout: float) -> int:
    held = _newest(base)
    if held is not None and _alive(base, held, timeout):
        raise _busy(base, held.owner)
    number = held.number + 1 if held is not None else 1
    now = datetime.now(UTC).isoformat(timespec="seconds")
    owner = Owner(uuid.uuid4().hex, run, _host(), os.getpid(), _born(os.getpid()), now)
    try:
        _write(base, number, 0, owner)
    except MutatorError:
        held = _newest(base)
        if held is not None and held.owner is not None and held.owner.id != owner.id:
            raise _busy(base, held.owner) from None
        if held is None or held.owner is None:
            raise
    failpoint("lock.created")
    # Whoever looked while the last owner left may have begun with a lower number.
    held = _newest(base)
    if held is not None and held.owner is not None and held.owner.id != owner.id:
        base.storage.remove(_path(base, number, 0))
        raise _busy(base, held.owner)
    for entry in entries_of(base.at("_mutator", "lock")):
        match = _NAME.match(entry.name)
        if match and int(match[1]) < number:
            base.storage.remove(entry.path)
    failpoint("lock.cleared")
    return number


def _renew(base: Base, number: int, timeout: float, done: threading.Event) -> None:
    beat = 0
    while not done.wait(max(timeout / 4, 0.05)):
        with contextlib.suppress(MutatorError):  # it is a courtesy: a run does not fail because of it
            held = _newest(base)
            if held is None or held.number != number or held.owner is None:
                return
            beat += 1
            _write(base, number, beat, held.owner)
            base.storage.remove(_path(base, number, beat - 1))


def _release(base: Base, number: int) -> None:
    for entry in entries_of(base.at("_mutator", "lock")):
        match = _NAME.match(entry.name)
        if match and int(match[1]) <= number:
            base.storage.remove(entry.path)


def _newest(base: Base) -> _Held | None:
    found = [
        (int(match[1]), int(match[2]), entry)
        for entry in entries_of(base.at("_mutator", "lock"))
        if (match := _NAME.match(entry.name))
    ]
    if not found:
        return None
    number, beat, entry = max(found, key=lambda one: one[:2])
    owner = None
    try:
        with base.storage.open(entry.path) as stream:
            owner = Owner(**json.loads(b"".join(blocks(stream))))
    except (ValueError, TypeError):
        pass
    except MutatorError as fault:
        if fault.kind != "storage.missing":
            raise
        return _newest(base)  # it was renewed or released just now
    return _Held(number, beat, entry, owner)


def _alive(base: Base, held: _Held, timeout: float) -> bool:
    if held.owner is not None and held.owner.has_ended():
        return False
    return _storage_time(base) - held.entry.modified <= timeout


def _storage_time(base: Base) -> float:
    """Return what time it is by the clock of the storage."""
    path = base.at("_mutator", "lock", f".clock-{uuid.uuid4().hex}")
    base.storage.make_directory(base.at("_mutator", "lock"))
    with base.storage.create_new(path):
        pass
    entry = base.storage.look(path)
    base.storage.remove(path)
    return entry.modified if entry is not None else 0.0


def _write(base: Base, number: int, beat: int, owner: Owner) -> None:
    base.storage.make_directory(base.at("_mutator", "lock"))
    with base.storage.create_new(_path(base, number, beat)) as stream:
        stream.write(json.dumps(asdict(owner)).encode("ascii"))


def _path(base: Base, number: int, beat: int) -> str:
    return base.at("_mutator", "lock", f"{number:020d}-{beat:06d}.json")


def _busy(base: Base, owner: Owner | None) -> MutatorError:
    shown = owner or Owner("", "unknown", "an unknown host", 0, "", "some time ago")
    return error("base.busy", path=base.path, run=shown.run, process=shown.process, host=shown.host, since=shown.since)


def _host() -> str:
    return socket.gethostname()


def _born(process: int) -> str:
    """Return when a process started, in ticks since the machine did; empty where it is not there, or nobody can say."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as stream:
            return stream.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
