"""The reports of what keeps a table small and right: compactions, cleanings and restores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from mutator.dataset.versions.table_codec import STRAY
from mutator.errors.display import counted, without_secrets
from mutator.pipeline.reports.printed import PrintedReport
from mutator.pipeline.reports.sections import ReportSection, aligned, ended, noted, said
from mutator.table.clean import CleaningDone
from mutator.table.compact import CompactionDone
from mutator.table.restore import RestoreDone
from mutator.table.version_times import time_of


@dataclass(frozen=True)
class CompactionReport(PrintedReport):
    """The result of a compaction, or of a dry run."""

    table: str
    version: int
    is_new: bool  # the compaction made this version
    dry_run: bool
    buckets: int  # that needed it
    split: int  # of these: they outgrew bucket.bytes, and become several
    given_up: int  # of these: another compaction wrote them, or others of their task, meanwhile
    rows: int  # that were written into base files
    tombstones: int  # that were written
    expired: int  # tombstones that were forgotten
    files_before: int  # live data and tombstone files
    files_after: int
    bytes: int  # of the files that the version added
    seconds: float

    def sections(self) -> Iterable[ReportSection]:
        """Return what was done, notes on it, and the bytes."""
        what = f"{counted(self.buckets - self.given_up, 'bucket')} with {counted(self.rows, 'row')}"
        what += f" and {counted(self.tombstones, 'tombstone')}" if self.tombstones else ""
        if self.dry_run:
            title = f"table {self.table} is version {self.version}: a compaction would write {what}"
        elif self.is_new:
            files = f"{counted(self.files_before, 'file')} became {self.files_after:,}"
            title = f"table {self.table} is now version {self.version}: compacted {what}; {files}"
        else:
            title = f"table {self.table} is still version {self.version}: nothing to compact"
        done = f"added {counted(self.bytes, 'byte')}"
        return (
            said(title),
            noted(() if self.dry_run else self._notes()),
            ended(done, self.seconds, dry_run=self.dry_run),
        )

    def _notes(self) -> Iterator[str]:
        if self.split:
            were = "was" if self.split == 1 else "were"
            yield f"{counted(self.split, 'bucket')} outgrew bucket.bytes, and {were} split"
        if self.given_up:
            what = counted(self.given_up, "bucket")
            yield f"left {what} as they are: another compaction has written some of them meanwhile"
        if self.expired:
            yield f"forgot {counted(self.expired, 'expired tombstone')}"


def report_of_compaction(done: CompactionDone, *, dry_run: bool) -> CompactionReport:
    """Return the report of a compaction."""
    version = done.version
    return CompactionReport(
        table=without_secrets(done.snapshot.table),
        version=done.snapshot.version.number,
        is_new=version is not None,
        dry_run=dry_run,
        buckets=done.buckets,
        split=done.split,
        given_up=done.given_up,
        rows=done.moves.rows,
        tombstones=done.moves.tombstones,
        expired=done.moves.expired,
        files_before=done.files[0],
        files_after=done.files[1],
        bytes=0 if version is None else sum(one.bytes for one in version.stored()),
        seconds=round(done.seconds, 3),
    )


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
        if self.is_new or self.dry_run:
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
        earliest_version=plan.earliest if dry_run else snapshot.state.cleaning.earliest,
        tagged=plan.tagged,
        versions_gone=plan.versions if dry_run or version is not None else 0,
        files=len(plan.files) if dry_run or version is not None else 0,
        bytes=plan.bytes if dry_run or version is not None else 0,
        runs_given_up=plan.runs if dry_run or version is not None else (),
        removed_files=done.removed.files,
        removed_bytes=done.removed.bytes,
        archived_entries=done.removed.entries,
        waiting_files=done.waiting,
        removed_from=due,
        named=tuple(NamedFile(*row.values()) for row in plan.files.to_pylist()) if dry_run else None,
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


@dataclass(frozen=True)
class RestoreReport(PrintedReport):
    """The result of a restore, or of a dry run."""

    table: str
    version: int
    is_new: bool  # the restore made this version
    dry_run: bool
    restored: int  # the earlier version
    records: int  # after it
    records_before: int
    tombstones: int
    tombstones_before: int
    files_added: int  # data and tombstone files that became live again
    files_removed: int
    feed_forgotten: int  # feed files that no longer count as merged
    seconds: float

    def sections(self) -> Iterable[ReportSection]:
        """Return what was done, the sizes before and after, and notes."""
        if not (self.is_new or self.dry_run):
            still = f"table {self.table} is still version {self.version:,}"
            return (said(f"{still}: it has the rows of version {self.restored:,}"),)
        verb = "a restore would bring back" if self.dry_run else "restored"
        now = "is" if self.dry_run else "is now"
        records = f"{counted(self.records, 'record')} (before: {self.records_before:,})"
        tombstones = f"{counted(self.tombstones, 'tombstone')} (before: {self.tombstones_before:,})"
        again = f"{counted(self.feed_forgotten, 'feed file')} of the versions since may be applied again"
        return (
            said(f"table {self.table} {now} version {self.version:,}: {verb} version {self.restored:,}"),
            said(f"  {records}, {tombstones}"),
            noted([again] if self.feed_forgotten else ()),
            ended("no data were written", self.seconds, dry_run=self.dry_run),
        )


def report_of_restore(done: RestoreDone, *, dry_run: bool) -> RestoreReport:
    """Return the report of a restore."""
    before, after, version = done.before, done.snapshot, done.version
    present = before if dry_run else after
    kept = {(file.name, file.bytes, file.checksum) for file in after.state.feed}
    forgotten = [file for file in before.state.feed if (file.name, file.bytes, file.checksum) not in kept]
    return RestoreReport(
        table=without_secrets(after.table),
        version=present.version.number,
        is_new=version is not None and not dry_run,
        dry_run=dry_run,
        restored=done.restored,
        records=after.version.records,
        records_before=before.version.records,
        tombstones=after.version.tombstones,
        tombstones_before=before.version.tombstones,
        files_added=0 if version is None else len(version.files),
        files_removed=0 if version is None else len(version.removed),
        feed_forgotten=len(forgotten),
        seconds=round(done.seconds, 3),
    )
