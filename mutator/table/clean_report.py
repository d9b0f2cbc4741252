"""The report of a cleaning, as text for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from mutator.dataset.versions.table_codec import STRAY
from mutator.errors.display import counted, printable, text_of, without_secrets
from mutator.pipeline.text_tables import aligned
from mutator.table.clean import CleaningDone
from mutator.table.printed_report import PrintedReport
from mutator.table.version_times import time_of


@dataclass(frozen=True)
class NamedFile:
    """A file that no version needs any more."""

    path: str  # relative to the table
    bytes: int
    reason: str  # replaced | version gone | checkpoint | no version
    last_version: int | None  # the last one that needed it; None: it is of a run without a version


@dataclass(frozen=True)
class CleaningReport(PrintedReport):
    """What a cleaning did, or what a dry run would do."""

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

    def text(self) -> str:
        """Return the report as lines for a terminal."""
        files = f"{counted(self.files, 'file')} ({counted(self.bytes, 'byte')})"
        earliest = f"the earliest version is {self.earliest_version:,}"
        lines = [f"table {self.table} is version {self.version:,}: a cleaning would name {files}; {earliest}"]
        if not self.dry_run:
            lines = [f"table {self.table} is still version {self.version:,}: nothing to clean; {earliest}"]
        if self.is_new:
            lines = [f"table {self.table} is now version {self.version:,}: named {files}; {earliest}"]
        if self.tagged:
            lines.append(f"  note   kept earlier versions with tags: {', '.join(f'{one:,}' for one in self.tagged)}")
        if self.runs_given_up:
            what = counted(len(self.runs_given_up), "run")
            lines.append(f"  note   {what} without a version {'would count' if self.dry_run else 'now count'} as dead")
        lines += map(printable, _table_of(self.named or ()))
        if self.dry_run:
            return text_of([*lines, f"dry run: nothing was written; {self.seconds:.1f} s"])
        if self.waiting_files:
            until = "" if self.removed_from is None else f" from {self.removed_from}"
            lines.append(f"{counted(self.waiting_files, 'file')} will be removed by a cleaning{until}")
        if self.archived_entries:
            entries = "log entry" if self.archived_entries == 1 else "log entries"
            lines.append(f"moved {self.archived_entries:,} {entries} to the archive")
        removed = f"{counted(self.removed_files, 'file')} ({counted(self.removed_bytes, 'byte')})"
        return text_of([*lines, f"removed {removed}; {self.seconds:.1f} s"])


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


def _table_of(files: Sequence[NamedFile]) -> list[str]:
    """Return a line for each file."""
    rows = [("file", "bytes", "reason", "last needed by")]
    for one in files:
        reason = "of a run without a version" if one.reason == STRAY else one.reason
        last = "" if one.last_version is None else f"version {one.last_version:,}"
        rows.append((one.path, f"{one.bytes:,}", reason, last))
    return [f"  {line}" for line in aligned(rows, right={1})] if files else []
