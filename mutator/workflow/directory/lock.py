"""The lock of a base, which keeps processes from wasted work. The exclusive creation of a version keeps the base whole.

The lock is a file that names its owner, created exclusively under the next number; the file with the highest number
counts. Another process takes the lock over if the owner's process has ended on this machine, or if the owner has not
renewed it for as long as its timeout, by the clock of the storage. A renewal is a new file, so nothing is overwritten.

On a storage where two processes can both create one file, no version is created exclusively. There the lock is the
only protection (``_alone``).

Beside it is the journal: the files that a run has claimed and not yet released, so that another process can put
them back.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from mutator.dataset import checksummed_json
from mutator.dataset.commit.process import Owner
from mutator.dataset.commits import Arrived
from mutator.dataset.numbered_log import ExclusiveFiles
from mutator.errors import MutatorError, error
from mutator.errors.exceptions import BUSY
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass
from mutator.storage import Entry, read_if_exists
from mutator.storage.contract import CERTAIN
from mutator.workflow.directory.bad_files import BadFile, parsed
from mutator.workflow.directory.paths import Base

_FORMAT = "mutator journal"
_VERSION = 3  # 1 had no owner, 2 no bad files


@dataclass(frozen=True)
class Journal:
    """A run that has begun."""

    run: str
    action: str  # run | restore; in JSON its name is "kind"
    since: int  # version that the run started from: where it is one of the base, the run can only become the next one
    started: str
    claimed: tuple[Arrived, ...] = ()
    owner: Owner | None = None  # the process; None in journals of format version 1
    bad: tuple[BadFile, ...] = ()  # of the claimed files, those that are set aside if the run commits


def begin(base: Base, journal: Journal) -> None:
    """Note which files a run is about to claim."""
    _entries(base).create(f"{journal.run}.json", _content(journal))


def rewrite(base: Base, journal: Journal) -> None:
    """Note more about a run: before its commit, which files it sets aside."""
    base.storage.replace(base.at("_mutator", "runs", f"{journal.run}.json"), _content(journal))


def end(base: Base, run: str) -> None:
    """Forget a run: every file that it claimed is where it belongs."""
    _entries(base).remove(f"{run}.json")


def journals(base: Base) -> list[Journal]:
    """Return the runs that have not ended, by ID. A run with a damaged journal claimed the files in working/<run>."""
    contents = ((match[1], read_if_exists(entry.path)) for match, entry in _entries(base).entries())
    return [_journal(run, data) for run, data in contents if data is not None]  # None: it has just ended


def _content(journal: Journal) -> bytes:
    return checksummed_json.dump_record(_FORMAT, _VERSION, journal)


def _journal(run: str, data: bytes) -> Journal:
    try:
        found = {"owner": None, "bad": (), **checksummed_json.parse(data, _FORMAT, _VERSION)}
        members = checksummed_json.attributes(Journal, found)
        owner = members["owner"] and Owner(**members["owner"])
        claimed, bad = tuple(Arrived(**file) for file in members["claimed"]), parsed(members["bad"])
        return Journal(**members | {"claimed": claimed, "owner": owner, "bad": bad})
    except (TypeError, ValueError):
        return Journal(run, "run", -1, "")


def _entries(base: Base) -> ExclusiveFiles:
    return ExclusiveFiles(base.at("_mutator", "runs"), r"([^.].*)\.json")


_TRIES = 5
_LOOKS = 30  # tries for a lock that another process holds only to look
_UNKNOWN = 60.0  # seconds after which the owner of an unreadable lock counts as dead


@dataclass(frozen=True)
class _Lock:
    number: int
    entry: Entry
    owner: Owner | None  # None: the file cannot be read

    def is_of(self, owner: Owner) -> bool:
        return self.owner is not None and self.owner.id == owner.id


def holder(base: Base) -> Owner | None:
    """Return the process that is at work on a base now; None if the base is idle."""
    lock = _newest(base)
    if lock is None:
        return None
    if not base.storage.exclusive(base.at("_mutator", "lock")):  # where no lock is ever renewed
        return lock.owner if lock.owner is not None and not lock.owner.has_ended() else None
    return lock.owner if _is_alive(base, lock) else None


@contextmanager
def locked(base: Base, run: str, timeout: float) -> Iterator[None]:
    """Hold the lock within the ``with`` block, and renew it. Raises StateError if another process has it.

    timeout: seconds without a renewal after which another process may take the lock.
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
        with contextlib.suppress(MutatorError):  # the next process sees that this one has ended
            _release(base, owner)


@contextmanager
def patient(
    base: Base, take: Callable[[], AbstractContextManager[None]], sleep: Callable[[float], None]
) -> Iterator[None]:
    """Hold the lock; wait for a process that only looks. take: takes the lock."""
    for left in reversed(range(_LOOKS)):
        try:
            with take():
                yield
                return
        except MutatorError as fault:
            if fault.kind not in BUSY or not left:
                raise
            owner = holder(base)
            if owner is not None and owner.run != "look":
                raise
        sleep(0.1)


@contextmanager
def _alone(base: Base, owner: Owner) -> Iterator[None]:
    """Be the only process at work where two can create the same file: announce this one, then look for others.

    Of two that come at the same time each sees the other, and at least one gives way. The clock never makes a process
    count as dead here, because one that was only paused could overwrite a version when it goes on.
    """
    files = _files(base)
    own = _name(int(owner.id, 16) % 10**20, 0)
    try:
        files.create(own, owner.dump())
        failpoint("lock.created")
        for _, entry in files.entries():
            if entry.name == own:
                continue
            content = read_if_exists(entry.path)
            other = None if content is None else Owner.parse(content)
            if other is None and base.storage.stat(entry.path) is None:
                continue  # that process has just ended
            if other is None or not other.has_ended():
                raise _refusal("base.alone", base, other, lock=entry.path)
            base.storage.remove(entry.path)
        failpoint("lock.cleared")
        yield
    finally:
        with contextlib.suppress(MutatorError):  # the next process sees that this one has ended
            files.remove(own)


def _acquire(base: Base, owner: Owner) -> int:
    files = _files(base)
    for _ in range(_TRIES):
        lock = _newest(base)
        if lock is not None and _is_alive(base, lock):
            raise _refusal("base.busy", base, lock.owner)
        number = lock.number + 1 if lock is not None else 1
        try:
            files.create(_name(number, 0), owner.dump())
        except MutatorError as fault:
            lock = _newest(base)
            if fault.kind in CERTAIN or (lock is None and fault.kind != "storage.exists"):
                raise
            if lock is None or not lock.is_of(owner):
                continue  # another process was faster, and may have ended since
        failpoint("lock.created")
        # A process that looked while the previous owner left may have begun with a lower number.
        lock = _newest(base)
        if lock is None or not lock.is_of(owner):
            files.remove(_name(number, 0))
            raise _refusal("base.busy", base, lock.owner if lock is not None else None)
        for match, entry in files.entries():
            if int(match[1]) < number:
                base.storage.remove(entry.path)
        failpoint("lock.cleared")
        return number
    raise _refusal("base.busy", base, None)


def _renew(base: Base, number: int, owner: Owner, done: threading.Event) -> None:
    files, renewal = _files(base), 0
    while not done.wait(max(owner.timeout / 4, 0.05)):
        with contextlib.suppress(MutatorError):  # a run does not fail because of its lock
            lock = _newest(base)
            if lock is None or not lock.is_of(owner):
                return
            renewal += 1
            files.create(_name(number, renewal), owner.dump())
            _release(base, owner, before=_name(number, renewal))


def _release(base: Base, owner: Owner, before: str | None = None) -> None:
    """Remove the lock files of a process, or those before one: a renewal that failed half-way leaves more than one."""
    for _, entry in _files(base).entries():
        content = read_if_exists(entry.path) if before is None or entry.name < before else None
        known = None if content is None else Owner.parse(content)
        if known is not None and known.id == owner.id:  # after a pause, another process may have the same number
            base.storage.remove(entry.path)


def _newest(base: Base) -> _Lock | None:
    entries = _files(base).entries()
    if not entries:
        return None
    match, entry = entries[-1]  # sorted by number and renewal, which have a fixed width
    content = read_if_exists(entry.path)
    if content is None:
        return _newest(base)  # it was renewed or released just now
    return _Lock(int(match[1]), entry, Owner.parse(content))


def _is_alive(base: Base, lock: _Lock) -> bool:
    if lock.owner is not None and lock.owner.has_ended():
        return False
    return storage_time(base) - lock.entry.modified <= (lock.owner.timeout if lock.owner is not None else _UNKNOWN)


def storage_time(base: Base) -> float:
    """Return the seconds since 1970 by the clock of the storage: the time of a file created now."""
    files, name = _files(base), f".clock-{uuid.uuid4().hex}"
    files.create(name, b"")
    entry = base.storage.stat(files.path(name))
    files.remove(name)
    return entry.modified if entry is not None else 0.0


def _files(base: Base) -> ExclusiveFiles:
    return ExclusiveFiles(base.at("_mutator", "lock"), r"([0-9]{20})-([0-9]{6})\.json")


def _name(number: int, renewal: int) -> str:
    return f"{number:020d}-{renewal:06d}.json"


def _refusal(kind: str, base: Base, owner: Owner | None, **more: str) -> MutatorError:
    """Return the error that names the process at work."""
    if owner is None:
        owner = Owner("", "something", "an unknown host", "", 0, "", "just now", 0)
    process = owner.process or "unknown"
    return error(kind, path=base.path, run=owner.run, process=process, host=owner.host, since=owner.since, **more)
