"""Restore an earlier version of a table: a new version with its rows, tombstones, horizon, floor and merged feeds.

No data are written. The new version removes the files that the earlier one did not have, adds those again that it had,
and says of all files which rows are hidden and touched, as they were then. What it says is complete, so it does not
depend on the earlier version, which may be cleaned later. Contents that were in log entries are in the new entry, too.

Back go together: rows, tombstones, horizon, floor, the highest value of the last full snapshot, key, schema and
settings of rows, the dialect of feeds and what says which fields they leave unset, the feed files and the transactions
that count as merged. So a feed that was merged later may be merged again, and one that was merged earlier is not. Tags
stay, because they are names of versions. Runs that were given up stay so, because a writer that counts as dead must not
come back to life.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.checksum import whole
from mutator.dataset.commits import RESTORE, Commit, Restored, next_time, time_text
from mutator.dataset.file_entry import FileEntry, stored_here
from mutator.dataset.versions.checkpoint import files_of, written_masks
from mutator.dataset.versions.log import DIRECTORY, TableLog
from mutator.dataset.versions.opening import check_version, open_snapshot
from mutator.dataset.versions.packs import damaged, inline_of
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors.display import counted, without_secrets
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.reports.printed import PrintedReport
from mutator.pipeline.reports.sections import ReportSection, ended, noted, said
from mutator.rules.envelopes import OF_APPLIES
from mutator.rules.file_names import new_run_id
from mutator.table.commit import INLINE, change, commit_next, new_files, remove_files
from mutator.table.next_version import placed_file
from mutator.table.outlived import reading


@dataclass(frozen=True)
class RestoreDone:
    """The result of a restore, or of a dry run."""

    before: Snapshot
    snapshot: Snapshot  # after it
    version: Commit | None  # None: the table has the rows of the earlier version already
    restored: int  # the earlier version
    seconds: float


class _Done(Exception):
    """The table is as it was at the version."""


def restore_table(snapshot: Snapshot, number: int, *, dry_run: bool = False) -> RestoreDone:
    """Restore a version of a table. snapshot: the newest one.

    Raises ConfigError if there is no such version, StateError if a version index or an entry is damaged; then there is
    no new version.
    """
    started = time.monotonic()
    return change(snapshot, lambda newest: _restored(newest, number, dry_run, started))


def _restored(snapshot: Snapshot, number: int, dry_run: bool, started: float) -> RestoreDone:
    """Restore a version, once. Raises StartOver, and the errors of the catalogue."""
    began = time.monotonic_ns()
    check_version(snapshot, number)
    restore = _Restore(snapshot, number, started)
    with new_files(snapshot.table) as new:
        try:
            if dry_run:
                after = snapshot.after(restore.next_version(snapshot, ()))
            else:
                restore.place_masks(new)
                after = commit_next(snapshot, began, restore.next_version)
        except _Done:
            after = restore.head
            remove_files(snapshot.table, new)  # masks of a try that another restore outran
    return RestoreDone(restore.head, after, restore.version, number, time.monotonic() - started)


class _Restore:
    """A restore, as it follows the versions of other writers."""

    def __init__(self, snapshot: Snapshot, number: int, started: float) -> None:
        """Read the earlier version. snapshot: the newest one."""
        self.head = snapshot
        self.version: Commit | None = None
        self._number, self._started = number, started
        self._target = snapshot if number == snapshot.version.number else open_snapshot(snapshot.table, number)
        self._run = new_run_id(time.time())
        with reading(self._target):
            self._masks = self._masks_here()
        self._read: dict[str, FileEntry] = {}  # files whose contents were in log entries, with these

    def _masks_here(self) -> FileEntry | None:
        rows = self._target.mask_rows()
        if not rows:
            return None
        content = written_masks(rows)
        return stored_here(f"{DIRECTORY}/hidden/{self._run}.masks", content, whole(content))

    def place_masks(self, new: list[str]) -> None:
        """Write the masks into a file if they are too large for the log entry. new: gets the path of the file."""
        if self._masks is not None and self._masks.bytes > INLINE:
            self._masks = placed_file(self._target.table, self._masks, new)

    def next_version(self, head: Snapshot, _: Sequence[Commit]) -> Commit:
        """Return the version that follows a snapshot. Raises _Done if that has the rows already."""
        self.head, self.version = head, None
        if self._is_there(head):
            raise _Done
        check_version(head, self._number)
        target, files = self._target, self._files(head)
        now, state = next_time(time.time(), head.version), target.state
        gone = pc.invert(pc.is_in(head.files.column("path"), value_set=target.files.column("path").combine_chunks()))
        spec, forms = state.spec, state.forms
        if not spec:  # version 0: the table keeps its columns, so that changes can show what was removed
            spec, forms = head.state.spec, head.state.forms
        version = head.version.next(
            RESTORE,
            run=self._run,
            committed=time_text(now),
            buckets=target.version.buckets,
            horizon=target.version.horizon,
            floor=target.version.floor,
            snapshot=target.version.snapshot,
            parts=target.version.parts,
            truncates=target.version.truncates,
            records=target.version.records,
            tombstones=target.version.tombstones,
            files=tuple(file for file, _ in files),
            removed=tuple(head.files.column("path").filter(gone).to_pylist()),
            settings={name: state.settings[name] for name in OF_APPLIES if name in state.settings},
            restored=Restored(
                version=self._number,
                spec=spec,
                forms=forms,
                feed=state.feed,
                transactions=dict(state.transactions),
                added=tuple(number for _, number in files),
                masks=self._masks,
            ),
            seconds=round(time.monotonic() - self._started, 3),
        )
        self.version = version
        return version

    def _is_there(self, head: Snapshot) -> bool:
        """Return whether a snapshot is the wanted version, or just restored it."""
        if head.version.number == self._number:
            return True
        if head.version.action != RESTORE:
            return False
        restored = TableLog(head.table).read(head.version.number).restored
        return restored is not None and restored.version == self._number

    def _files(self, head: Snapshot) -> list[tuple[FileEntry, int]]:
        """Return the files that the earlier version has and a snapshot lacks, and the version that added each."""
        columns = self._target.files
        live = pc.is_in(columns.column("path"), value_set=head.files.column("path").combine_chunks())
        rows = np.flatnonzero(~live.to_numpy())
        numbers = columns.column("version").take(pa.array(rows)).to_pylist()
        return list(zip(map(self._whole, files_of(columns, rows)), numbers, strict=True))

    def _whole(self, file: FileEntry) -> FileEntry:
        """Return a file with its contents, if log entries have them."""
        return file.with_each(self._with_content)

    def _with_content(self, stored: FileEntry) -> FileEntry:
        if stored.packed is None:
            return stored
        if stored.path not in self._read:
            content = inline_of(self._target.table, stored)  # whoever reads it verifies it
            if content is None:
                raise damaged(self._target.table, stored, "its log entry does not have it")
            self._read[stored.path] = stored.with_content(content)
        return self._read[stored.path]


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
