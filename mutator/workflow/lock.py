"""The lock of a base: a courtesy between processes. What keeps a base whole is the exclusive creation of a version.

The lock is a file that says who has it, created exclusively under the next number; the highest number holds. It is
taken over where its process has ended (on the same machine), or has not renewed it for longer than it said itself, by
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

_TRIES = 5
_UNKNOWN = 60.0  # seconds after which a lock that cannot be read is taken for dead
_NAME = re.compile(r"([0-9]{20})-([0-9]{6})\.json\Z")


@dataclass(frozen=True)
class Owner:
    """Who has the lock."""

    id: str
    run: str  # what it does: run, restore, look
    host: str
    system: str  # boot and process namespace: where a process number means something
    process: int
    born: str  # when the process started, as the kernel counts; tells it from a later one of the same number
    since: str
    timeout: float  # seconds without a sign of life after which it is taken for dead

    def has_ended(self) -> bool:
        """Tell whether the process is known to be gone; False where that cannot be seen from here."""
        if (self.host, self.system) != (socket.gethostname(), _system()):
            return False
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return _born(self.process) not in ("", self.born)


@dataclass(frozen=True)
class _Held:
    number: int
    beat: int
    entry: Entry
    owner: Owner | None  # None: the file cannot be read


def holder(base: Base) -> Owner | None:
    """Return who is at work on a base now, None where nobody is."""
    held = _newest(base)
    return held.owner if held is not None and _alive(base, held) else None


@contextmanager
def locked(base: Base, run: str, timeout: float) -> Iterator[None]:
    """Hold the lock inside of the ``with`` block, and renew it. Raises StateError where somebody else has it.

    timeout: seconds without a sign of life after which others may take it.
    """
    owner = Owner(
        id=uuid.uuid4().hex,
        run=run,
        host=socket.gethostname(),
        system=_system(),
        process=os.getpid(),
        born=_born(os.getpid()),
        since=datetime.now(UTC).isoformat(timespec="seconds"),
        timeout=timeout,
    )
    number = _acquire(base, owner)
    done = threading.Event()
    thread = threading.Thread(target=_renew, args=(base, number, owner, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        with contextlib.suppress(MutatorError):  # whoever comes next finds that this process has ended
            _release(base, owner)


def _acquire(base: Base, owner: Owner) -> int:
    for _ in range(_TRIES):
        held = _newest(base)
        if held is not None and _alive(base, held):
            raise _busy(base, held.owner)
        number = held.number + 1 if held is not None else 1
        try:
            _write(base, number, 0, owner)
        except MutatorError as fault:
            held = _newest(base)
            if held is None or held.owner is None or held.owner.id != owner.id:
                if held is None and fault.kind != "storage.exists":
                    raise
                continue  # somebody else was faster, and may have gone again
        failpoint("lock.created")
        # Whoever looked while the last owner left may have begun with a lower number.
        held = _newest(base)
        if held is None or held.owner is None or held.owner.id != owner.id:
            base.storage.remove(_path(base, number, 0))
            raise _busy(base, held.owner if held is not None else None)
        for entry in entries_of(base.at("_mutator", "lock")):
            match = _NAME.match(entry.name)
            if match and int(match[1]) < number:
                base.storage.remove(entry.path)
        failpoint("lock.cleared")
        return number
    raise _busy(base, None)


def _renew(base: Base, number: int, owner: Owner, done: threading.Event) -> None:
    beat = 0
    while not done.wait(max(owner.timeout / 4, 0.05)):
        with contextlib.suppress(MutatorError):  # it is a courtesy: a run does not fail because of it
            held = _newest(base)
            if held is None or held.owner is None or held.owner.id != owner.id:
                return
            beat += 1
            _write(base, number, beat, owner)
            base.storage.remove(_path(base, number, beat - 1))


def _release(base: Base, owner: Owner) -> None:
    held = _newest(base)
    if held is not None and held.owner is not None and held.owner.id == owner.id:
        base.storage.remove(held.entry.path)


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


def _alive(base: Base, held: _Held) -> bool:
    if held.owner is not None and held.owner.has_ended():
        return False
    return _storage_time(base) - held.entry.modified <= (held.owner.timeout if held.owner is not None else _UNKNOWN)


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
    if owner is None:
        return error(
            "base.busy", path=base.path, run="something", process="unknown", host="an unknown host", since="just now"
        )
    return error("base.busy", path=base.path, run=owner.run, process=owner.process, host=owner.host, since=owner.since)


def _system() -> str:
    """Return the boot of this machine and the namespace of its process numbers; empty where nobody can say."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            return f"{stream.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _born(process: int) -> str:
    """Return when a process started, in ticks since the machine did; empty where it is not there, or nobody can say."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as stream:
            return stream.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
