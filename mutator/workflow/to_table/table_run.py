"""A run whose target is a table, phase by phase.

    claim     note feed files that have arrived whole in the journal, then move them to working/<run>
    apply     apply them to the table: the entry of its log is the one commit point
    archive   move them to archive/<run>

A run that fails before its commit puts its feed files back. One that is killed is finished, or put back, by the next
command (``recovery``).

Recovery: finish or undo runs that were killed.

    committed          its feed files go to archive/
    not committed      the table gives it up, so that it can never commit; its feed files go back to incr/

Every step can be repeated, by two processes at once, and after a kill.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache

from mutator.config import Config
from mutator.dataset.commits import FeedFile
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.errors import MutatorError, error
from mutator.errors.display import counted
from mutator.errors.exceptions import rebuilt
from mutator.errors.failpoints import failpoint
from mutator.rules import file_names
from mutator.storage import Entry, entries_of
from mutator.workflow.directory import lock
from mutator.workflow.directory.arrivals import Arrivals
from mutator.workflow.directory.bad_files import FailedFile, failed_files
from mutator.workflow.directory.claim import give_back, with_paths
from mutator.workflow.directory.claimed_feed import ClaimedFeed
from mutator.workflow.directory.lock import Journal, end, journals
from mutator.workflow.directory.merged_content import IsMerged, has_content
from mutator.workflow.directory.paths import Base
from mutator.workflow.directory.recovery import archived, sweep
from mutator.workflow.directory.results import note_target
from mutator.workflow.to_table import target
from mutator.workflow.to_table.target import AppliedFeed, ApplyTask, TargetTable


def recover(base: Base, target: TargetTable) -> list[str]:
    """Finish or undo the runs that have not ended; return what was done. The caller holds the lock."""
    done = []
    left = {entry.name for entry in entries_of(base.at("working")) if file_names.is_run_id(entry.name)}
    # The journals are read last: a run writes its own before anything else, so a run without one has ended.
    begun = {journal.run: journal for journal in journals(base)}
    newest = target.newest().number if begun or left else 0
    for run in sorted({*begun, *left}):
        journal = begun.get(run, Journal(run, "run", 0, ""))
        since = journal.since if 0 <= journal.since <= newest else 0  # else the journal is damaged, or the table new
        undone = run not in begun and target.version_of(run, since) is None
        undone = undone or target.give_up(run, since)
        fate = "was not committed, and is undone" if undone else "was committed, and is finished"
        went = _put_back(base, journal) if undone else _completed(base, target, journal, since)
        if run in begun or went:
            done.append(": ".join([f"run {run} {fate}", *went]))
        end(base, run)
        failpoint("recover.ended")
    sweep(base)
    failpoint("recover.done")
    return done


def _put_back(base: Base, journal: Journal) -> list[str]:
    """Move the feed files of a run back to incr/; return where they went."""
    names, verb = give_back(base, journal.run), "went back to"
    failpoint("recover.returned")
    if not base.storage.renames:  # they were never moved
        names, verb = [one.name for one in journal.claimed], "wait in"
    return [f"{file_names.first_few(names)} {verb} incr/"] if names else []


def _completed(base: Base, target: TargetTable, journal: Journal, since: int) -> list[str]:
    """Archive the feed files of a run that committed; return where the files went."""
    went = archived(base, journal, merged_content(target, journal.run, since))
    return ["; ".join(went)] if went else []


def set_aside(base: Base, table: str) -> tuple[FailedFile, ...]:
    """Return the feed files of a base that are set aside. table: path of its target. Raises StorageError."""

    def merged(version: int) -> list[str]:
        with suppress(MutatorError):  # a log that cannot be read is one of the problems of a status
            return [part.name for one in TableLog(table).all_after(version) for part in one.feed]
        return []

    return failed_files(base, merged)


def merged_content(target: TargetTable, run: str, since: int) -> IsMerged:
    """Return a function that reads a file a run has claimed, and returns whether a version has its content.

    since: a version that was there before the run claimed anything.
    """
    version = cache(lambda: target.version_of(run, since))
    known = cache(lambda: open_snapshot(target.path).state.feed)

    def is_merged(entry: Entry) -> bool:
        made = version()
        own = {part.checksum for part in made.feed if part.name == entry.name} if made is not None else set()
        # A file that the run did not merge was merged by an earlier version.
        return has_content(entry, own or {part.checksum for part in known() if part.name == entry.name})

    return is_merged


_log = logging.getLogger(__name__)


class TableRun:
    """One run; its phases are called in order."""

    def __init__(self, base: Base, config: Config, target: TargetTable, clock: Callable[[], float] = time.time) -> None:
        self.base, self.config, self.target = base, config, target
        self.id = file_names.new_run_id(clock())
        self.since = target.newest().number
        self.feed = ClaimedFeed(base, config, self.id, clock)
        self.applied: AppliedFeed | None = None
        self.has_ended = False
        self._committing = False
        self._gave_up = False  # by this process

    def version(self) -> int | None:
        """Return the version that the run committed; None if earlier versions have every feed file."""
        if self.applied is not None or not self.feed.files:
            return self.applied.version if self.applied is not None else None
        found = self.target.version_of(self.id, self.since)  # a signal came between the commit and the answer
        return found.number if found is not None else None

    def arrivals(self) -> Arrivals:
        """Return the feed files in incr/, and note those with times ahead of this machine's clock."""
        return self.feed.arrivals(lambda: target.claims(self.base, self.target.path).files)

    def claim(self) -> bool:
        """Claim the feed files that have arrived whole; return whether any was claimed."""
        found = self.arrivals()
        return bool(found.ready) and self.feed.claim(found, self.since)

    def apply(self) -> None:
        """Apply the claimed files to the table."""
        feed = self.feed
        applied = feed.without_bad(lambda: self.target.apply(self._task()), lambda one: one.version is not None)
        moved = {feed.directory: feed.directory_afterwards} if self.base.storage.renames else {}
        report = with_paths(applied.report, {**moved, f"{self.base.path}/": f"{self.base.given}/"})
        self.applied = replace(applied, report=report)
        failpoint("merge.done")
        _log.info("applied %s, run %s", counted(len(feed.files), "feed file"), self.id)

    def _task(self) -> ApplyTask:
        feed = self.feed
        return ApplyTask(self.id, self.since, feed.arrived, feed.paths, self.config, self._check)

    def _check(self, merged: Sequence[FeedFile], skipped: Sequence[str]) -> None:
        """Compare the claimed files with those that were merged. Raises DataError, StorageError."""
        names = {part.name for part in merged} | set(skipped)
        missing = set(self.feed.good) - names
        if missing:
            count = counted(len(missing), "feed file")
            raise error("sums", problems=f"{count} unaccounted for, for example {min(missing)}")
        self.feed.check_sizes()
        self.feed.check_content(merged)
        failpoint("verify.done")
        note_target(self.base, self.target.path)  # not before: a feed that does not fit may be for another table
        self.feed.note_bad()
        self._committing = True

    def archive(self) -> None:
        """Move everything to where it belongs."""
        self.feed.archive(merged_content(self.target, self.id, self.since))
        if not self.base.storage.renames:
            # All that was claimed is in a version: of this run, or of an earlier one.
            target.note(self.base, target.claims(self.base, self.target.path), self.feed.arrived)
        lock.end(self.base, self.id)
        self.has_ended = True
        failpoint("archive.done")
        _log.info("archived the feed files")

    def has_committed(self, fault: BaseException) -> bool:
        """Return whether the version of the run exists in spite of a fault. Where it does not, it never will."""
        if not self._committing:
            return False
        if isinstance(fault, MutatorError) and fault.kind != "commit.uncertain":
            return self.target.version_of(self.id, self.since) is not None
        self._gave_up = self.target.give_up(self.id, self.since)
        return not self._gave_up

    def explained(self, fault: MutatorError) -> MutatorError:
        """Return the error of a run that committed nothing: that another process gave it up, if this is the cause."""
        if not self._gave_up:
            with suppress(MutatorError):  # else the fault says enough
                version = self.target.has_given_up(self.id, self.since)
                if version is not None:
                    path = self.base.shown(self.target.path)
                    return error("table.given_up", path=path, run=self.id, version=version.number)
        return rebuilt(fault.kind, self.base.shown_put_back(str(fault), self.id))

    def roll_back(self) -> None:
        """Put the feed files back."""
        self.feed.give_back()
        lock.end(self.base, self.id)
        self.has_ended = True
