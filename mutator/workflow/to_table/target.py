"""The table that a workflow applies feed files to, as functions: the workflow itself only reads the table's log.

The feed files in incr/ that versions of a table have claimed, on a storage where files are not moved.

The log of the table knows them. A note in the base spares reading the log from its beginning: it has those of the
claimed files that are still in incr/, up to a version. The note is derived; without it, the log is read.

A look at incr/ that can be repeated often: while nothing arrives, it is one listing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mutator.config import Config
from mutator.dataset import checksummed_json
from mutator.dataset.commits import Arrived, Commit, FeedFile
from mutator.dataset.versions.log import TableLog
from mutator.errors import suppressed
from mutator.storage import Entry, entries_of, read_if_exists
from mutator.workflow.directory.arrivals import Arrivals, arrivals, arrived
from mutator.workflow.directory.bad_files import settled
from mutator.workflow.directory.paths import Base

_FORMAT = "mutator claims"


@dataclass(frozen=True)
class Claims:
    """Files that were claimed by the versions up to one."""

    version: int = -1
    id: str = ""  # of that version: another table at the same path has another one
    files: frozenset[Arrived] = frozenset()


def claims(base: Base, table: str) -> Claims:
    """Return the claimed files of a base, up to the newest version of its table."""
    known = _noted(base)
    if known.version >= 0:
        with suppressed("table.log.damaged", "table.log.archive"):
            if TableLog(table).read(known.version).id == known.id:
                return following(table, known)
    return following(table, Claims())


def following(table: str, known: Claims) -> Claims:
    """Return claimed files with those of the versions that were committed since."""
    newest, files = None, set(known.files)
    for newest in TableLog(table).all_after(known.version):
        files.update(newest.claim.files if newest.claim is not None else ())
    return known if newest is None else Claims(newest.number, newest.id, frozenset(files))


def note(base: Base, known: Claims, settled: Iterable[Arrived] = ()) -> None:
    """Note the claimed files that are still in incr/. settled: more files that versions have."""
    there = {arrived(entry) for entry in entries_of(base.at("incr"))}
    files = frozenset((known.files | set(settled)) & there)
    if _noted(base) != (now := Claims(known.version, known.id, files)):
        listed = [asdict(one) for one in sorted(files, key=lambda one: (one.name, one.modified))]
        members = {"number": now.version, "id": now.id, "files": listed}
        base.storage.replace(_path(base), checksummed_json.dump(_FORMAT, 1, members))


def _noted(base: Base) -> Claims:
    data = read_if_exists(_path(base))
    try:
        if data is not None:
            members = checksummed_json.parse(data, _FORMAT, 1)
            files = frozenset(Arrived(**one) for one in members["files"])
            return Claims(members["number"], members["id"], files)
    except (KeyError, TypeError, ValueError):
        pass  # the log is read
    return Claims()


def _path(base: Base) -> str:
    return base.at("_mutator", "claims.json")


class Look:
    """The feed files of a base, as the next run will find them."""

    def __init__(self, base: Base, config: Config, target: TargetTable) -> None:
        """Read nothing yet."""
        self._base, self._config, self._target = base, config, target
        self._claims: Claims | None = None

    def seconds(self) -> float | None:
        """Return the seconds until a run would claim a feed file: 0 for now; None while there is no feed file."""
        entries = [one for one in entries_of(self._base.at("incr")) if not self._is_claimed(one)]
        if not entries:
            return None
        found = self.arrivals()
        return 0.0 if found.ready else found.seconds

    def arrivals(self) -> Arrivals:
        """Return the feed files in incr/."""
        base, table = self._base, self._target.path
        if base.storage.renames:
            return arrivals(base, self._config, frozenset())
        self._claims = claims(base, table) if self._claims is None else following(table, self._claims)
        return arrivals(base, self._config, self._claims.files | settled(base))

    def _is_claimed(self, entry: Entry) -> bool:
        return self._claims is not None and arrived(entry) in self._claims.files


@dataclass(frozen=True)
class ApplyTask:
    """What a run asks of the table."""

    run: str
    since: int  # a version that was there before the run claimed anything
    claimed: tuple[Arrived, ...]
    feed: tuple[str, ...]  # paths
    config: Config
    # To be called before the commit, with the merged files, and the names of those that earlier versions have.
    check: Callable[[Sequence[FeedFile], Sequence[str]], None]


@dataclass(frozen=True)
class AppliedFeed:
    """The result of applying a feed."""

    version: int | None  # None: earlier versions have every feed file
    skipped: tuple[str, ...]  # names of feed files that earlier versions have
    report: Any


@dataclass(frozen=True)
class Kept:
    """The result of a step of the upkeep of a table."""

    report: Any  # of a compaction; None without one
    seconds: float  # until the next step may have something to do


@dataclass(frozen=True)
class TargetTable:
    """The table of a workflow."""

    path: str
    newest: Callable[[], Commit]
    apply: Callable[[ApplyTask], AppliedFeed]
    # Makes sure that a run commits nothing any more, given a version that was there before; False if it has committed.
    give_up: Callable[[str, int], bool]
    # Compacts a few buckets, if the table is idle.
    keep: Callable[[Config], Kept]

    def version_of(self, run: str, since: int) -> Commit | None:
        """Return the version that a run committed; None without one. since: a version that was there before the run."""
        found = (one for one in self.versions(since) if one.claim is not None and one.claim.run == run)
        return next(found, None)

    def has_given_up(self, run: str, since: int) -> Commit | None:
        """Return the version that gave up a run; None without one."""
        return next((one for one in self.versions(since) if run in one.given_up), None)

    def versions(self, since: int) -> Iterator[Commit]:
        """Yield the versions after one. Raises StateError if an entry is missing: without it, nothing is certain."""
        log, newest = TableLog(self.path), self.newest().number
        yield from log.after(since, newest)
        yield from log.following(max(newest, since))
