"""A versioned table as the target of the runs of a base.

The apply of the table merges, verifies and commits: the entry of its log is the one commit point. A run that is killed
before it is given up by the table, so that it can never commit.

The log knows the files that versions have claimed. On a storage where nothing is moved, a note in the base spares
reading it from its beginning: it has those of the claimed files that are still in incr/, up to a version. The note is
derived; without it, the log is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Any

from mutator.config import Config
from mutator.dataset import checksummed_json
from mutator.dataset.commits import Arrived, Commit, FeedFile
from mutator.dataset.version_log import Log
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.errors import MutatorError, error, suppressed
from mutator.errors.display import counted
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.reports.sections import ReportSection, said
from mutator.pipeline.verify import Difference
from mutator.rules import file_names
from mutator.storage import Entry, entries_of, read_if_exists
from mutator.workflow.directory.arrivals import arrived
from mutator.workflow.directory.merged_content import IsMerged, has_content
from mutator.workflow.directory.paths import Base, open_base
from mutator.workflow.directory.results import UNSEEN, SeenTarget, note_target
from mutator.workflow.directory.run_phases import Merged, Run, Target
from mutator.workflow.directory.verification import archive_problems, archived_files

if TYPE_CHECKING:
    from mutator.workflow.directory.view import View

_FORMAT = "mutator claims"


@dataclass(frozen=True)
class ApplyTask:
    """The task of a run for its table."""

    run: str
    since: int  # a version that was there before the run claimed anything
    claimed: tuple[Arrived, ...]
    feed: tuple[str, ...]  # paths
    config: Config
    shown: Callable[[str], str]  # returns a path as the report has it
    # To be called before the commit, with the merged files, and the names of those that earlier versions have.
    check: Callable[[Sequence[FeedFile], Sequence[str]], None]


@dataclass(frozen=True)
class Kept:
    """The result of a step of the upkeep of a table."""

    report: Any  # of a compaction; None without one
    seconds: float  # until the next step may have something to do


@dataclass(frozen=True)
class WorkflowTable:
    """The table of a workflow, as functions: the workflow itself only reads the table's log."""

    path: str
    newest: Callable[[], Commit]
    apply: Callable[[ApplyTask], Merged]
    # Makes sure that a run commits nothing any more, given a version that was there before; False if it has committed.
    give_up: Callable[[str, int], bool]
    # Compacts a few buckets, if the table is idle.
    keep: Callable[[Config], Kept]


@dataclass(frozen=True)
class SeenTable(SeenTarget):
    """What can be seen of a table."""

    table: str  # path
    version: Commit | None  # the newest

    def members(self) -> dict[str, Any]:
        """Return members of the JSON."""
        names = {"version": "number", "committed": "committed", "records": "records"}
        return {"table": self.table} | {name: getattr(self.version, of, None) for name, of in names.items()}

    def section(self) -> ReportSection:
        """Return the section on the table and its version."""
        version = UNSEEN
        if (newest := self.version) is not None:
            version = f"{newest.number}, {counted(newest.records, 'record')}, {newest.committed}"
        return said(f"table    {self.table}", f"version  {version}")


def opened(path: str, table: str) -> Base:
    """Return the base at a path. table: its target. Raises ConfigError, or StateError if its target is a master."""
    base = open_base(path)
    visible = (entry for entry in entries_of(base.master) if not file_names.is_hidden(entry.name))
    if next(visible, None) is not None or Log(base.path).numbers():
        raise error("base.targets", path=base.given, table=base.shown(table))
    return base


def archive_differences(given: str, table: str) -> tuple[Difference, ...]:
    """Return how the feed files in archive/ of a base differ from those that its table merged.

    The entries of the log that are damaged say nothing of them, and other bases may feed the table as well.
    """
    base, log, merged = open_base(given), TableLog(table), list[tuple[str, FeedFile]]()
    with suppress(MutatorError):  # the verification of the table reports it
        for version in log.following(0):
            merged += [(version.claim.run, feed) for feed in version.feed if version.claim is not None]
    return tuple(Difference(base.said(text)) for text in archive_problems(base, archived_files(base, merged)))


class TableTarget(Target):
    """A table that the feed files of a base go into."""

    directories = ("incr", "working", "archive")

    def __init__(self, base: Base, config: Config, table: WorkflowTable) -> None:
        """Read nothing yet."""
        super().__init__(base, config)
        self.workflow_table, self.path, self.table = table, table.path, base.shown(table.path)
        self._known_claims: Claims | None = None

    def newest(self) -> Commit:
        """Return the newest version."""
        return self.workflow_table.newest()

    def version_of(self, run: str, since: int) -> Commit | None:
        """Return the version that a run committed; None without one."""
        found = (one for one in self._versions(since) if one.claim is not None and one.claim.run == run)
        return next(found, None)

    def _versions(self, since: int) -> Iterator[Commit]:
        """Yield the versions after one. Raises StateError if an entry is missing: without it, nothing is certain."""
        log, newest = TableLog(self.path), self.newest().number
        since = self._known(since, newest)
        yield from log.after(since, newest)
        yield from log.following(newest)

    def same_until(self, since: int) -> int | None:
        """Return the newest version, unless one since was a restore: other writers may add versions all the time."""
        for one in self._versions(since):
            if one.restored is not None:
                return None
            since = one.number
        return since

    def claimed(self) -> Collection[Arrived]:
        """Return the feed files that versions have claimed."""
        return self._claims().files

    def _claims(self) -> Claims:
        known = self._known_claims
        self._known_claims = claims(self.base, self.path) if known is None else following(self.path, known)
        return self._known_claims

    def is_known(self, entry: Entry) -> bool:
        """Return whether a version is known to have claimed a file in incr/."""
        return self._known_claims is not None and arrived(entry) in self._known_claims.files

    def merged_after(self, version: int) -> Iterable[str]:
        """Return the names of the feed files that the versions after one merged."""
        return merged_after_of(self.path, version)

    def merged_content(self, run: str, since: int) -> IsMerged:
        """Return a function that reads a claimed file, and returns whether a version has its content."""
        version = cache(lambda: self.version_of(run, since))
        known = cache(lambda: open_snapshot(self.path).state.feed)

        def is_merged(entry: Entry) -> bool:
            made = version()
            own = {part.checksum for part in made.feed if part.name == entry.name} if made is not None else set()
            # A file that the run did not merge was merged by an earlier version.
            return has_content(entry, own or {part.checksum for part in known() if part.name == entry.name})

        return is_merged

    def state(self, view: View, *, recovered: bool) -> SeenTable:
        """Return what can be seen of the table."""
        return SeenTable(self.base.shown(self.path), view.see(self.newest))

    # --- the phases of a run

    def prepare(self, run: Run) -> None:
        """Do nothing: a version is ready once it is committed."""

    def merge(self, run: Run) -> Merged:
        """Apply the claimed files of a run to the table."""
        feed = run.feed

        def check(merged: Sequence[FeedFile], skipped: Sequence[str]) -> None:
            feed.check(merged, skipped)
            failpoint("verify.done")
            note_target(self.base, self.path)  # not before: a feed that does not fit may be for another table
            feed.note_bad()
            run.committing = True

        return self.workflow_table.apply(
            ApplyTask(run.id, run.before.number, feed.arrived, feed.paths, self.config, feed.shown, check)
        )

    def verify(self, run: Run) -> None:
        """Do nothing: the merge has verified."""

    def commit(self, run: Run) -> int:
        """Return the version that the merge has committed."""
        assert run.merged is not None
        assert run.merged.version is not None
        return run.merged.version

    def publish(self, run: Run) -> None:
        """Do nothing: readers see the version once it is committed."""

    def tidy(self, run: Run) -> None:
        """Note the claimed files where nothing is moved: each is in a version, of this run or of an earlier one."""
        if not self.base.storage.renames:
            note(self.base, self._claims(), run.feed.arrived)

    # --- runs that do not end like this

    def give_up(self, run: str, since: int) -> bool:
        """Make sure that a run commits nothing from now on; return False if it has committed."""
        return self.workflow_table.give_up(run, self._known(since, self.newest().number))

    def _known(self, since: int, newest: int) -> int:
        """Return a version that was there before a run; 0 if its journal is damaged, or the table new."""
        return since if 0 <= since <= newest else 0

    def remove(self, run: str) -> None:
        """Do nothing: a cleaning of the table removes what no version names."""

    def keep(self, run: str) -> None:
        """Do nothing: all that a version has is in the table."""

    def why_lost(self, run: Run) -> MutatorError | None:
        """Return the error of a run that a version has given up; None for another run."""
        with suppress(MutatorError):  # else the fault says enough
            given_up = (one for one in self._versions(run.before.number) if run.id in one.given_up)
            if (version := next(given_up, None)) is not None:
                path = self.table
                return error("table.given_up", path=path, run=run.id, version=version.number)
        return None


def merged_after_of(table: str, version: int) -> list[str]:
    """Return the names of the feed files that the versions of a table after one merged."""
    with suppress(MutatorError):  # a log that cannot be read is one of the problems of a status
        return [part.name for one in TableLog(table).all_after(version) for part in one.feed]
    return []


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
