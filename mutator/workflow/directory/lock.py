"""The lock of a base: a courtesy between processes. What keeps a base whole is the exclusive creation of a version.

The lock is a file that says who has it, created exclusively under the next number; the highest number holds. It is
taken over where its process has ended (on the same machine), or has not renewed it for longer than it said itself, by
the clock of the storage. A renewal is a file of its own, so that nothing is ever overwritten.

Where a storage lets two create the same file, the lock is no courtesy: it is all there is (``_alone``).
"""

from __future__ import annotations

import contextlib
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mutator.dataset.commit.process import Owner
from mutator.errors import MutatorError, error
from mutator.errors.failpoints import failpoint
from mutator.storage import Entry, blocks, entries_of
from mutator.workflow.directory.base import Base

__all__ = ["holder", "locked"]

_TRIES = 5
_UNKNOWN = 60.0  # seconds after which a lock that cannot be read is taken for dead
_NAME = re.compile(r"([0-9]{20})-([0-9]{6})\.json\Z")


@dataclass(frozen=True)
class _Held:
    number: int
    beat: int
    entry: Entry
    owner: Owner | None  # None: the file cannot be read


def holder(base: Base) -> Owner | None:
    """Return who is at work on a base now, None where nobody is."""
    held = _newest(base)
    if held is None:
        return None
    if not base.storage.exclusive(base.at("_mutator", "lock")):  # nobody renews it there
        return held.owner if held.owner is not None and not held.owner.has_ended() else None
    return held.owner if _alive(base, held) else None


@contextmanager
def locked(base: Base, run: str, timeout: float) -> Iterator[None]:
    """Hold the lock inside of the ``with`` block, and renew it. Raises StateError where somebody else has it.

    timeout: seconds without a sign of life after which others may take it.
    """
    owner = Owner.this_process(run, timeout)
    if not base.storage.exclusive(base.at("_mutator", "lock")):
        with _alone(base, owner):
            yield
        return
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


@contextmanager
def _alone(base: Base, owner: Owner) -> Iterator[None]:
    """Be the only one at work where two can create the same file: say so, and then look who else did.

    Of two that come at once each sees the other, and at least one gives way. Nobody is taken for dead by the clock:
    one that is only paused could overwrite a version when it wakes up.
    """
    mine = _path(base, int(owner.id, 16) % 10**20, 0)
    try:
        base.storage.make_directory(base.at("_mutator", "lock"))
        with base.storage.create_new(mine) as stream:
            stream.write(owner.dump())
        failpoint("lock.created")
        for entry in entries_of(base.at("_mutator", "lock")):
            if _NAME.match(entry.name) and entry.path != mine:
                other = _owner(base, entry)
                if other is None and base.storage.stat(entry.path) is None:
                    continue  # it has come to its end just now
                if other is None or not other.has_ended():
                    raise _not_alone(base, entry, other)
                base.storage.remove(entry.path)
        failpoint("lock.cleared")
        yield
    finally:
        with contextlib.suppress(MutatorError):  # whoever comes next finds that this process has ended
            base.storage.remove(mine)


def _not_alone(base: Base, entry: Entry, other: Owner | None) -> MutatorError:
    if other is None:
        other = Owner("", "something", "an unknown host", "", 0, "", "just now", 0)
    return error(
        "base.alone",
        path=base.path,
        run=other.run,
        process=other.process,
        host=other.host,
        since=other.since,
        lock=entry.path,
    )


def _owner(base: Base, entry: Entry) -> Owner | None:
    """Read who wrote a lock; None where that cannot be read, or it has gone."""
    try:
        with base.storage.open(entry.path) as stream:
            return Owner.parse(b"".join(blocks(stream)))
    except MutatorError as fault:
        if fault.kind != "storage.missing":
            raise
    return None


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
    try:
        with base.storage.open(entry.path) as stream:
            owner = Owner.parse(b"".join(blocks(stream)))
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
    entry = base.storage.stat(path)
    base.storage.remove(path)
    return entry.modified if entry is not None else 0.0


def _write(base: Base, number: int, beat: int, owner: Owner) -> None:
    base.storage.make_directory(base.at("_mutator", "lock"))
    with base.storage.create_new(_path(base, number, beat)) as stream:
        stream.write(owner.dump())


def _path(base: Base, number: int, beat: int) -> str:
    return base.at("_mutator", "lock", f"{number:020d}-{beat:06d}.json")


def _busy(base: Base, owner: Owner | None) -> MutatorError:
    if owner is None:
        return error(
            "base.busy", path=base.path, run="something", process="unknown", host="an unknown host", since="just now"
        )
    return error("base.busy", path=base.path, run=owner.run, process=owner.process, host=owner.host, since=owner.since)
