"""Feed files of many tables in one directory: every base that shares it gets each of them.

    claim     move the files that have arrived whole to DIRECTORY/_mutator/working/<run>
    give      give each file a path in incr/ of every base: a hard link, else a copy
    remove    remove the files from working/<run>, once every base has them

Each base merges, archives and remembers its files as if they had been delivered to it, so one that fails keeps the
others from nothing. A run that is killed in between leaves the files in working/<run>, and the next one goes on. A base
that was given a file before, and has merged it, skips it by its content.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from posixpath import join

from mutator.dataset import checksum
from mutator.errors import MutatorError, error, suppressed
from mutator.errors.exceptions import rebuilt
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.file_names import new_run_id
from mutator.storage import Entry, entries_of, link_or_copy, located_to_write
from mutator.workflow.directory.arrivals import Arrivals, arrivals, note
from mutator.workflow.directory.claim import (
    WorkingFile,
    are_incomplete,
    claim,
    give_back,
    in_order,
    is_half_claimed,
    leave,
)
from mutator.workflow.directory.claimed_feed import PATIENCE
from mutator.workflow.directory.paths import Base, open_base
from mutator.workflow.many_tables.tables_file import ListedTable, sharing

_WORKING, _OWN = "working", "_mutator"


@dataclass(frozen=True)
class SharedFeed:
    """A directory of feed files that bases share, after its files were given to them."""

    directory: str
    tables: tuple[str, ...]
    given: tuple[str, ...]  # names of files
    waiting: tuple[tuple[str, str], ...]  # name, and why it waits


def shared_feeds(tables: Sequence[ListedTable]) -> list[list[ListedTable]]:
    """Return the tables that share each directory, however each of them spells its path."""
    return [*sharing([table for table in tables if table.base is not None]).values()]


def give_all(tables: Sequence[ListedTable], sleep: Callable[[float], None] = time.sleep) -> tuple[SharedFeed, ...]:
    """Give the files that have arrived in shared directories to the bases of all tables that share them.

    Raises ConfigError, StorageError, or StateError if another process is doing this.
    """
    return tuple(_give_all(own[0].feed[0], own, sleep) for own in shared_feeds(tables))


class _Landing(Base):
    """A shared directory as the base that its files are claimed from: it is its own incr/."""

    def at(self, *parts: str) -> str:
        """Return the path of an entry."""
        first, *rest = parts
        if first == "incr":
            return join(self.path, *rest)
        return join(self.path, _OWN, *(rest if first == _OWN else parts))


def _give_all(given: str, tables: Sequence[ListedTable], sleep: Callable[[float], None]) -> SharedFeed:
    storage, path = located_to_write(given)
    entry = storage.stat(path)
    if entry is None or entry.type != "directory":
        raise error("path.missing", path=given, what="directory" if entry is None else f"directory, but a {entry.type}")
    landing, bases = _Landing(path, given), _open_all([str(table.base) for table in tables])
    for base in bases:
        base.make(("incr",))
    with _alone(landing):
        names, kept = list[str](), list[tuple[str, str]]()
        for left in entries_of(landing.at(_WORKING)):
            if is_half_claimed(landing, left.name):
                give_back(landing, left.name)  # no base has any of them yet
            else:  # of a run that was killed later, or whose names were taken
                names += _give(landing, left.name, bases, kept)
        config = tables[0].config  # the same for all, as far as it says what has arrived
        found = arrivals(landing, config, ())
        if not found.ready and found.seconds is not None and found.seconds <= PATIENCE:
            sleep(found.seconds + 0.01)
            found = arrivals(landing, config, ())
        note(landing, found.ahead, time.time())
        found, taken = _with_free_names(found, bases)
        if found.ready:
            run = new_run_id(time.time())
            _, stuck = claim(landing, run, found)
            failpoint("many.claimed")
            names += _give(landing, run, bases, kept)
            kept += [(name, str(why)) for name, why in stuck.items()]
    waiting = [one for one in found.waiting if one[0] != _OWN]
    return SharedFeed(given, tuple(table.name for table in tables), tuple(names), (*kept, *taken, *waiting))


def _open_all(places: Sequence[str]) -> list[Base]:
    """Return the bases. Raises ConfigError with all that are missing: of a new tables file, none may be there yet."""
    bases, faults = list[Base](), list[MutatorError]()
    for place in places:
        try:
            bases.append(open_base(place))
        except MutatorError as fault:
            faults.append(fault)
    if faults:
        raise rebuilt(faults[0].kind, "\n".join(one.message for one in faults), faults[0].fields)
    return bases


@contextmanager
def _alone(landing: Base) -> Iterator[None]:
    """Keep other processes from giving the files of a directory meanwhile, where the storage can."""
    lock = landing.storage.hold(landing.path) if landing.storage.holds else True
    if lock is None:
        raise error("many.feed", path=landing.given)
    yield
    del lock


def _with_free_names(found: Arrivals, bases: Sequence[Base]) -> tuple[Arrivals, list[tuple[str, str]]]:
    """Return arrivals without the files whose names are taken in a base, and why these wait."""
    there = {(base.given, entry.name) for base in bases for entry in entries_of(base.at("incr"))}
    waiting = dict[str, str]()
    for ready in found.ready:
        own = [ready.feed.name, *(one.name for one in (ready.control,) if one is not None)]
        taken = next((base.given for base in bases for name in own if (base.given, name) in there), None)
        if taken is not None:
            waiting[ready.feed.name] = _taken(taken)
    kept = tuple(ready for ready in found.ready if ready.feed.name not in waiting)
    return replace(found, ready=kept), [*waiting.items()]


def _taken(base: str) -> str:
    return f"waits until {base} has merged another file of its name"


def _give(landing: Base, run: str, bases: Sequence[Base], kept: list[tuple[str, str]]) -> list[str]:
    """Give the files of working/<run> to bases, then remove them; return the names of the feed files.

    kept: gets those that cannot be given now, and why.
    """
    files, given = in_order(landing, run), are_incomplete(landing, run)  # given: before a kill, and removed in part
    stays = dict[str, str]()
    for file in files:
        for base in bases if file.feed not in given else ():
            if file.feed not in stays and not _has(base, file.entry, file.name) and not _put(base, file):
                stays[file.feed] = _taken(base.given)
            failpoint("many.given")
    for base in bases:
        base.storage.sync(base.at("incr"))  # before the last other path of the files goes
    failpoint("many.synced")
    done = sorted((file for file in files if file.feed not in stays), key=lambda file: file.name == file.feed)
    for file in done:  # feed files last: one without its control file shows that all bases have it
        landing.storage.remove(file.entry.path)
        failpoint("many.removed")
    leave(landing, run)
    kept += stays.items()
    return [file.name for file in done if file.name == file.feed]


def _has(base: Base, entry: Entry, name: str) -> bool:
    """Return whether a base has a file in incr/ already, from a run that was killed."""
    there = base.storage.stat(base.at("incr", name))
    if there is None or there.bytes != entry.bytes:
        return False
    with suppressed("storage.missing"):  # else its base has just claimed it
        return checksum.of_file(there.path, None) == checksum.of_file(entry.path, None)
    return False


def _put(base: Base, file: WorkingFile) -> bool:
    """Give a file a path in incr/ of a base; return whether the path was free."""
    with suppressed("storage.exists"):
        link_or_copy(file.entry.path, base.at("incr", file.name))
        return True
    return False
