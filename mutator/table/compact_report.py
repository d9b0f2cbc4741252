"""The report of a compaction, as text for people and as JSON for programs."""

from __future__ import annotations

from dataclasses import dataclass

from mutator.errors.display import counted, text_of, without_secrets
from mutator.table.compact import CompactionDone
from mutator.table.printed_report import PrintedReport


@dataclass(frozen=True)
class CompactionReport(PrintedReport):
    """What a compaction did, or what a dry run would do."""

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

    def text(self) -> str:
        """Return the report as lines for a terminal."""
        what = f"{counted(self.buckets - self.given_up, 'bucket')} with {counted(self.rows, 'row')}"
        what += f" and {counted(self.tombstones, 'tombstone')}" if self.tombstones else ""
        if self.dry_run:
            lines = [f"table {self.table} is version {self.version}: a compaction would write {what}"]
            return text_of([*lines, f"dry run: nothing was written; {self.seconds:.1f} s"])
        if not self.is_new:
            lines = [f"table {self.table} is still version {self.version}: nothing to compact"]
        else:
            files = f"{counted(self.files_before, 'file')} became {self.files_after:,}"
            lines = [f"table {self.table} is now version {self.version}: compacted {what}; {files}"]
        if self.split and not self.dry_run:
            what = counted(self.split, "bucket")
            were = "was" if self.split == 1 else "were"
            lines.append(f"  note   {what} outgrew bucket.bytes, and {were} split")
        if self.given_up:
            what = counted(self.given_up, "bucket")
            lines.append(f"  note   left {what} as they are: another compaction has written some of them meanwhile")
        if self.expired:
            lines.append(f"  note   forgot {counted(self.expired, 'expired tombstone')}")
        return text_of([*lines, f"added {counted(self.bytes, 'byte')}; {self.seconds:.1f} s"])


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
