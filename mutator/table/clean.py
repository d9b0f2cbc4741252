"""Clean a table: a version names the files that no version needs any more, and later they are removed.

    plan       the versions that stay, the files that none of them needs, the runs that count as dead
    commit     a version of the kind ``clean`` says it all, and moves the earliest version
    look       at the bookmarks that were written meanwhile: those versions become available again
    archive    the log entries of the versions that are gone
    remove     the files, when the grace is over

Every step can be done again, by another process and after a kill. A version that asks for a file was committed before
the cleaning, or knows of it, because whoever commits reads the versions in between: a run that was given up ends.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime

from mutator.dataset.checksum import whole
from mutator.dataset.commits import ACTIONS, CLEAN, Cleaned, Commit, Left, next_time, time_text
from mutator.dataset.file_entry import INDEX, FileEntry
from mutator.dataset.versions.bookmarks import bookmarks_of
from mutator.dataset.versions.log import DIRECTORY, TableLog
from mutator.dataset.versions.opening import refreshed, snapshot_of
from mutator.dataset.versions.packs import packed, stays_from
from mutator.dataset.versions.snapshot import Snapshot
from mutator.dataset.versions.table_codec import STRAY, written_list
from mutator.errors import MutatorError, error
from mutator.errors.display import counted, without_secrets
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.reports.printed import PrintedReport
from mutator.pipeline.reports.sections import ReportSection, aligned, ended, noted, said
from mutator.rules.file_names import new_run_id, run_of
from mutator.storage import storage_for
from mutator.table.clean_plan import CleanPlan, Retention, plan_of
from mutator.table.clean_removal import (
    Removed,
    has_begun,
    is_taken_back,
    is_there,
    named_files,
    remove_named,
    take_back,
)
from mutator.table.commit import StartOver, commit_next, new_files
from mutator.table.outlived import newest_or_none
from mutator.table.version_times import time_of

GRACE, DEAD = "1h", "1d"  # durations
_TRIES = 20


def tagged(snapshot: Snapshot, left: Left, earliest: int) -> tuple[int, ...]:
    """Return the versions before one that have tags and are left."""
    numbers = set(snapshot.state.tags.values())
    return tuple(sorted(number for number in numbers if number < earliest and left.has(number)))


def bookmarked(table: str, now: float) -> list[int]:
    """Return the versions at which readers have bookmarks that have not expired. now: seconds since 1970.

    Raises StateError if a bookmark is damaged: it may name any version.
    """
    time = datetime.fromtimestamp(now, UTC)
    return [one.version for one in bookmarks_of(table) if not one.is_expired(time)]


def taken_back(snapshot: Snapshot, bookmarks: list[int]) -> tuple[Left, tuple[int, ...]]:
    """Return which versions are left without the cleanings that took a bookmark's version away, and these cleanings.

    A reader may write its bookmark while a cleaning is being committed. As long as nothing was removed, the next
    cleaning names its files anew, without those that the bookmark needs. It also does so where a cleaning has taken a
    list back, and ended before it could commit.
    """
    cleaning = snapshot.state.cleaning
    for number, waiting in sorted(cleaning.waiting.items()):
        is_needed = any(waiting.before.earliest <= version < waiting.earliest for version in bookmarks)
        if is_taken_back(snapshot.table, waiting) or (is_needed and not has_begun(snapshot.table, waiting)):
            return waiting.before, tuple(later for later in sorted(cleaning.waiting) if later >= number)
    return cleaning.left, ()


@dataclass(frozen=True)
class Cleanup:
    """The limits of a cleaning."""

    retention: Retention
    grace: float  # seconds from naming files to their removal
    dead: float  # seconds since its last file was written, after which a run without a version counts as dead


@dataclass(frozen=True)
class CleaningDone:
    """The result of a cleaning, or of a dry run."""

    snapshot: Snapshot  # after it
    version: Commit | None  # None: there is no new one
    plan: CleanPlan
    removed: Removed
    waiting: int  # files that are named, and not removed yet
    seconds: float


def clean_table(
    snapshot: Snapshot, cleanup: Cleanup, *, dry_run: bool = False, clock: Callable[[], float] = time.time
) -> CleaningDone:
    """Name the files of a table that no version needs any more, and remove those that were named a grace ago.

    snapshot: the newest one. clock: returns seconds since 1970. Raises the errors of the catalogue; what was done by
    then is sound, and the next cleaning goes on.
    """
    started, versions = time.monotonic(), list[Commit]()
    for _ in range(_TRIES):
        now = clock()
        begin = _beginning(snapshot, now)
        try:
            plan = _planned(snapshot, begin, cleanup, now)
            # At version 0, another process may be creating the table from a dataset.
            if dry_run or not (plan.is_due or begin.again) or snapshot.version.number == 0:
                break
            snapshot, version = _committed(snapshot, plan, begin.again)
        except StartOver:
            snapshot = refreshed(snapshot)
            continue
        except MutatorError as fault:
            newest = _outdated_by(snapshot, begin, now, fault)
            if newest is None:
                raise
            snapshot = newest
            continue
        versions.append(version)
        failpoint("clean.committed")
        if not taken_back(snapshot, bookmarked(snapshot.table, clock()))[1]:
            break
    else:
        raise error("table.outrun.commit", path=snapshot.table)
    removed = Removed() if dry_run else remove_named(snapshot, cleanup.grace, clock())
    waiting = snapshot.state.cleaning.waiting.values()  # of lists that are removed as well, until the next cleaning
    left = sum(one.files for one in waiting if is_there(snapshot.table, one))
    last = versions[-1] if versions else None
    return CleaningDone(snapshot, last, plan, removed, left, time.monotonic() - started)


@dataclass(frozen=True)
class _Beginning:
    """The state that a cleaning begins with."""

    bookmarks: tuple[int, ...]  # versions
    left: Left  # without the cleanings that are taken back
    again: tuple[int, ...]  # these: their files are named again


def _beginning(snapshot: Snapshot, now: float) -> _Beginning:
    bookmarks = bookmarked(snapshot.table, now)
    return _Beginning(tuple(bookmarks), *taken_back(snapshot, bookmarks))


def _planned(snapshot: Snapshot, begin: _Beginning, cleanup: Cleanup, now: float) -> CleanPlan:
    """Return what to clean."""
    table, before, newest = snapshot.table, begin.left, snapshot.version
    earliest = cleanup.retention.earliest(TableLog(table), newest, before.earliest, now)
    earliest = min([earliest, *(version for version in begin.bookmarks if before.earliest <= version)])
    waiting = [one for number, one in snapshot.state.cleaning.waiting.items() if number not in begin.again]
    return plan_of(snapshot, before, waiting, earliest, tagged(snapshot, before, earliest), now - cleanup.dead)


def _outdated_by(snapshot: Snapshot, begin: _Beginning, now: float, fault: MutatorError) -> Snapshot | None:
    """Return the newest version if another cleaning may have removed the file that a fault is about; else None."""
    newest = newest_or_none(snapshot.table) if fault.kind.startswith("table.") else None
    return None if newest is None or _beginning(newest, now) == begin else newest


def _committed(snapshot: Snapshot, plan: CleanPlan, again: Sequence[int]) -> tuple[Snapshot, Commit]:
    """Commit what a plan says; return the snapshot after it, and the version. Raises StartOver."""
    table, began, run = snapshot.table, time.monotonic_ns(), new_run_id(time.time())
    if not all(take_back(table, snapshot.state.cleaning.waiting[number]) for number in again):
        raise StartOver  # another cleaning has begun to remove their files
    with new_files(table) as new:
        left = Left(plan.earliest, _bases(table, plan, run), plan.kept)
        named = _written(table, plan, run, new)
        done = [number for number, one in snapshot.state.cleaning.waiting.items() if named_files(table, one) is None]
        cleaned = Cleaned(left, plan.before, named, len(plan.files), plan.bytes, tuple(sorted({*done, *again})))
        cleaning = _Cleaning(plan, cleaned, run, time.monotonic())
        after = commit_next(snapshot, began, cleaning.next_version)
        return after, cleaning.version


class _Cleaning:
    """A cleaning, as it follows the versions of other writers."""

    version: Commit

    def __init__(self, plan: CleanPlan, cleaned: Cleaned, run: str, started: float) -> None:
        self._plan, self._cleaned, self._run, self._started = plan, cleaned, run, started

    def next_version(self, head: Snapshot, winners: Sequence[Commit]) -> Commit:
        """Return the version that follows a snapshot. winners: its versions that were not there in the last call.

        Raises StartOver if one of them may need a file that the plan names.
        """
        for one in winners:
            runs = {one.run, *(run_of(stored.path) for stored in one.stored() if stored.is_apart)}
            if not ACTIONS[one.action].before_cleaning or not runs.isdisjoint(self._plan.runs):
                raise StartOver
        committed = time_text(next_time(time.time(), head.version))
        seconds = round(time.monotonic() - self._started, 3)
        members = {"given_up": self._plan.runs, "cleaned": self._cleaned, "seconds": seconds}
        self.version = head.version.next(CLEAN, run=self._run, committed=committed, **members)
        return self.version


def _bases(table: str, plan: CleanPlan, run: str) -> dict[int, str]:
    """Write the checkpoints that the log begins with, where there is none yet; return their names by version.

    If the cleaning is not committed, a later one names them.
    """
    found, log = dict[int, str](), TableLog(table)
    for number in (*plan.tagged, *([plan.earliest] if plan.earliest else [])):
        if number in plan.before.bases:
            found[number] = plan.before.bases[number]
            continue
        snapshot = snapshot_of(table, number).folded()
        files, masks = packed(log, number, snapshot.files, stays_from(number)), snapshot.mask_rows()
        found[number] = log.write_base(files, snapshot.state, masks, run)
        failpoint("clean.base.written")
    return found


def _written(table: str, plan: CleanPlan, run: str, new: list[str]) -> FileEntry:
    """Write the list of the files that a plan names. new: to which its path is added."""
    path, content = f"{DIRECTORY}/cleaned/named-{run}.list", written_list(plan.files)
    new.append(path)
    storage, full = storage_for(table), posixpath.join(table, path)
    storage.make_directory(posixpath.dirname(full))
    with storage.create_new(full) as stream:
        stream.write(content)
    failpoint("clean.list.written")
    return FileEntry(path=path, role=INDEX, bytes=len(content), checksum=whole(content))


@dataclass(frozen=True)
class NamedFile:
    """A file that no version needs any more."""

    path: str  # relative to the table
    bytes: int
    reason: str  # replaced | version gone | checkpoint | no version
    last_version: int | None  # the last one that needed it; None: it is of a run without a version


@dataclass(frozen=True)
class CleaningReport(PrintedReport):
    """The result of a cleaning, or of a dry run."""

    table: str
    version: int
    is_new: bool  # the cleaning made this version
    dry_run: bool
    earliest_before: int
    earliest_version: int  # after it
    tagged: tuple[int, ...]  # earlier versions that stay, because they have tags
    versions_gone: int  # whose rows no version that is left has
    files: int  # that it named
    bytes: int  # of these
    runs_given_up: tuple[str, ...]  # that wrote files without a version, and count as dead
    removed_files: int
    removed_bytes: int
    archived_entries: int  # of the log
    waiting_files: int  # that are named, and are not removed yet
    removed_from: str | None  # from when on a cleaning removes the files that this one named, ISO 8601
    named: tuple[NamedFile, ...] | None  # of a dry run
    seconds: float

    def sections(self) -> Iterable[ReportSection]:
        """Return what was done, notes, the files that a dry run names, and what waits and was removed."""
        files = f"{counted(self.files, 'file')} ({counted(self.bytes, 'byte')})"
        done, what = "is still", "nothing to clean"
        if self.is_new or self.versions_gone or self.runs_given_up or self.named:
            done, what = ("is", f"a cleaning would name {files}") if self.dry_run else ("is now", f"named {files}")
        earliest = f"the earliest version is {self.earliest_version:,}"
        removed = f"{counted(self.removed_files, 'file')} ({counted(self.removed_bytes, 'byte')})"
        return (
            said(f"table {self.table} {done} version {self.version:,}: {what}; {earliest}"),
            noted(self._notes()),
            said(*_lines_of(self.named or ())),
            said(*(() if self.dry_run else self._rest())),
            ended(f"removed {removed}", self.seconds, dry_run=self.dry_run),
        )

    def _notes(self) -> Iterator[str]:
        if self.tagged:
            yield f"kept earlier versions with tags: {', '.join(f'{one:,}' for one in self.tagged)}"
        if self.runs_given_up:
            what = counted(len(self.runs_given_up), "run")
            yield f"{what} without a version {'would count' if self.dry_run else 'now count'} as dead"

    def _rest(self) -> Iterator[str]:
        if self.waiting_files:
            until = "" if self.removed_from is None else f" from {self.removed_from}"
            yield f"{counted(self.waiting_files, 'file')} will be removed by a cleaning{until}"
        if self.archived_entries:
            entries = "log entry" if self.archived_entries == 1 else "log entries"
            yield f"moved {self.archived_entries:,} {entries} to the archive"


def report_of_cleaning(done: CleaningDone, grace: float, *, dry_run: bool) -> CleaningReport:
    """Return the report of a cleaning. grace: seconds from naming files to their removal."""
    version, plan, snapshot = done.version, done.plan, done.snapshot
    names = plan.is_due if dry_run else version is not None
    due: str | None = None
    if version is not None and version.number not in done.removed.cleanings:
        moment = time_of(version.committed).timestamp() + grace
        due = datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
    return CleaningReport(
        table=without_secrets(snapshot.table),
        version=snapshot.version.number,
        is_new=version is not None,
        dry_run=dry_run,
        earliest_before=plan.before.earliest,
        earliest_version=plan.earliest if names and dry_run else snapshot.state.cleaning.earliest,
        tagged=plan.tagged,
        versions_gone=plan.versions if names else 0,
        files=len(plan.files) if names else 0,
        bytes=plan.bytes if names else 0,
        runs_given_up=plan.runs if names else (),
        removed_files=done.removed.files,
        removed_bytes=done.removed.bytes,
        archived_entries=done.removed.entries,
        waiting_files=done.waiting,
        removed_from=due,
        named=tuple(NamedFile(*row.values()) for row in plan.files.to_pylist() if names) if dry_run else None,
        seconds=round(done.seconds, 3),
    )


def _lines_of(files: Sequence[NamedFile]) -> list[str]:
    """Return a line for each file."""
    rows = [("file", "bytes", "reason", "last needed by")]
    for one in files:
        reason = "of a run without a version" if one.reason == STRAY else one.reason
        last = "" if one.last_version is None else f"version {one.last_version:,}"
        rows.append((one.path, f"{one.bytes:,}", reason, last))
    return [f"  {line}" for line in aligned(rows, right={1})] if files else []
