"""A run whose target is a table, phase by phase.

    claim     note feed files that have arrived whole in the journal, then move them to working/<run>
    apply     apply them to the table: the entry of its log is the one commit point
    archive   move them to archive/<run>

A run that fails before its commit puts its feed files back. One that is killed is finished, or put back, by the next
command (``recovery``).
"""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from mutator.config import Config
from mutator.dataset.commits import FeedFile
from mutator.errors import MutatorError, error
from mutator.errors.display import counted
from mutator.errors.exceptions import rebuilt
from mutator.errors.failpoints import failpoint
from mutator.rules import file_names
from mutator.workflow.directory import journal
from mutator.workflow.directory.arrivals import Arrivals
from mutator.workflow.directory.claimed_feed import ClaimedFeed
from mutator.workflow.directory.paths import Base
from mutator.workflow.directory.report_paths import with_paths
from mutator.workflow.directory.target_note import note_target
from mutator.workflow.to_table import claims
from mutator.workflow.to_table.table_recovery import merged_content
from mutator.workflow.to_table.target import AppliedFeed, ApplyTask, TargetTable

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
        return self.feed.arrivals(lambda: claims.claims(self.base, self.target.path).files)

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
            claims.note(self.base, claims.claims(self.base, self.target.path), self.feed.arrived)
        journal.end(self.base, self.id)
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
        journal.end(self.base, self.id)
        self.has_ended = True
