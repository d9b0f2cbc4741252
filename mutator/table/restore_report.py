"""The report of a restore, as text for people and as JSON for programs."""

from __future__ import annotations

from dataclasses import dataclass

from mutator.errors.display import counted, text_of, without_secrets
from mutator.table.printed_report import PrintedReport
from mutator.table.restore import RestoreDone


@dataclass(frozen=True)
class RestoreReport(PrintedReport):
    """What a restore did, or what a dry run would do."""

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

    def text(self) -> str:
        """Return the report as lines for a terminal."""
        if not (self.is_new or self.dry_run):
            lines = [
                f"table {self.table} is still version {self.version:,}: it has the rows of version {self.restored:,}"
            ]
            return text_of(lines)
        verb = "a restore would bring back" if self.dry_run else "restored"
        now = "is" if self.dry_run else "is now"
        lines = [f"table {self.table} {now} version {self.version:,}: {verb} version {self.restored:,}"]
        records = f"{counted(self.records, 'record')} (before: {self.records_before:,})"
        tombstones = f"{counted(self.tombstones, 'tombstone')} (before: {self.tombstones_before:,})"
        lines.append(f"  {records}, {tombstones}")
        if self.feed_forgotten:
            what = counted(self.feed_forgotten, "feed file")
            lines.append(f"  note   {what} of the versions since may be applied again")
        end = "dry run: nothing was written" if self.dry_run else "no data were written"
        return text_of([*lines, f"{end}; {self.seconds:.1f} s"])


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
