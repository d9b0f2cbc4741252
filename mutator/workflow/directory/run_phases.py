"""A run of a base, phase by phase, whatever its target is.

    claim     note feed files that have arrived whole in the journal, then move them to working/<run>
    merge     merge master/ and working/<run> into output/<run>
    verify    check the sizes of all files, and that the merge began with the expected master
    commit    create the next version exclusively in the log: the one commit point
    publish   make the new dataset master/, and move the old one to backup/<version>
    archive   move the feed files to archive/<run>

A run that fails before its commit puts its feed files back; one that is killed is finished, or put back, by the next
command (``recovery``). These are the phases of a base with a master. A table verifies and commits within its merge.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mutator.config import Config
from mutator.dataset.commits import RUN, Arrived, Commit
from mutator.dataset.state import State
from mutator.dataset.version_log import UNCHANGED
from mutator.errors import MutatorError, error
from mutator.errors.display import counted
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass
from mutator.rules import file_names
from mutator.workflow.directory import lock
from mutator.workflow.directory.arrivals import Arrivals, arrivals
from mutator.workflow.directory.bad_files import settled
from mutator.workflow.directory.claim import is_own
from mutator.workflow.directory.claimed_feed import ClaimedFeed
from mutator.workflow.directory.merged_content import IsMerged
from mutator.workflow.directory.paths import Base
from mutator.workflow.directory.view import Recovered, View

if TYPE_CHECKING:
    from mutator.workflow.directory.results import SeenTarget

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Merged:
    """The result of a merge. Without a manifest or a version, earlier versions have every feed file."""

    skipped: tuple[str, ...]  # names of feed files that earlier versions have
    report: Any = None
    state: State | None = None  # of the dataset that the commit makes the master
    version: int | None = None  # that the merge has committed to a table

    @property
    def is_new(self) -> bool:
        """Whether it has, or is to become, a version."""
        return self.state is not None or self.version is not None


class Target(ABC):
    """What the feed files of a base are merged into: its own master, or a table.

    since: a version that was there before a run claimed anything; it may come from a damaged journal.
    """

    directories: Collection[str]  # of the base; a run makes them
    table: str | None = None  # its path, as a user writes it; None: a master
    warnings: tuple[str, ...] = ()  # on what was to be written when the newest version was published

    def __init__(self, base: Base, config: Config) -> None:
        self.base, self.config = base, config

    def arrivals(self, now: float | None = None) -> Arrivals:
        """Return the feed files in incr/. now: the time, if it is not that of this machine's clock."""
        there = () if self.base.storage.renames else {*self.claimed(), *settled(self.base)}
        return arrivals(self.base, self.config, there, now)

    # --- the versions

    @abstractmethod
    def newest(self) -> Commit:
        """Return the newest version."""

    @abstractmethod
    def version_of(self, run: str, since: int) -> Commit | None:
        """Return the version that a run committed; None without one."""

    def same_until(self, since: int) -> int | None:
        """Return a version up to which a run would merge as it did after an earlier one; None if there is none."""
        return since if self.newest().number == since else None

    @abstractmethod
    def claimed(self) -> Collection[Arrived]:
        """Return the feed files that versions have claimed; called on a storage where files are not moved."""

    @abstractmethod
    def merged_after(self, version: int) -> Iterable[str]:
        """Return the names of the feed files that the versions after one merged, as far as they can be read."""

    @abstractmethod
    def merged_content(self, run: str, since: int) -> IsMerged:
        """Return a function that reads a file a run has claimed, and returns whether a version has its content."""

    @abstractmethod
    def state(self, view: View, *, recovered: bool) -> SeenTarget:
        """Return what can be seen of the target. recovered: no run is at work, and none was left half done."""

    # --- the phases of a run

    def check(self, problems: Sequence[MutatorError]) -> None:
        """Raise the error that keeps runs from beginning, if there is one. problems: those of the recovery."""
        for problem in problems:
            raise problem

    @abstractmethod
    def prepare(self, run: Run) -> None:
        """Make the version that a run starts from ready, once feed files have arrived, and check it."""

    @abstractmethod
    def merge(self, run: Run) -> Merged:
        """Merge the claimed files of a run."""

    @abstractmethod
    def verify(self, run: Run) -> None:
        """Compare the files with those claimed and made, unless the merge has."""

    @abstractmethod
    def commit(self, run: Run) -> int:
        """Make the version of a run exist, unless its merge has; return its number."""

    @abstractmethod
    def publish(self, run: Run) -> None:
        """Show the version of a run, if it committed one, to readers."""

    @abstractmethod
    def tidy(self, run: Run) -> None:
        """Remove and note what a run whose feed files are archived leaves to do."""

    def follow(self) -> Sequence[str]:
        """Bring whatever else is made of the versions up to date, after a run; return warnings."""
        return ()

    # --- runs that do not end like this

    @abstractmethod
    def give_up(self, run: str, since: int) -> bool:
        """Make sure that a run commits nothing from now on; return False if it has committed."""

    @abstractmethod
    def remove(self, run: str) -> None:
        """Remove the output of a run that can never commit."""

    @abstractmethod
    def why_lost(self, run: Run) -> MutatorError | None:
        """Return the error of a run that another process has kept from committing; None for any other run."""

    def explained(self, fault: MutatorError) -> MutatorError:
        """Return the error of a run with the cures of a damaged target."""
        return fault

    def make_room(self) -> bool:
        """Remove what dead runs have written, for which no lock is needed; return whether anything was there."""
        return False

    @contextmanager
    def recovering(self, done: Recovered) -> Iterator[set[str]]:
        """Do what comes before and after the recovery of single runs; yield those whose output no version names.

        Raises StateError or StorageError to stop it.
        """
        yield set()

    @abstractmethod
    def keep(self, run: str) -> None:
        """Keep what belongs to the version of a run that was killed after its commit."""


class Run:
    """One run; its phases are called in order."""

    def __init__(self, target: Target, clock: Callable[[], float] = time.time) -> None:
        self.target, self.base, self.clock = target, target.base, clock
        self.id = file_names.new_run_id(clock())
        self.before = target.newest()
        self.feed = ClaimedFeed(target.base, target.config, self.id, clock)
        self.merged: Merged | None = None
        self.version: int | None = None  # that it has committed
        self.action = RUN
        self.committing = False  # its version may exist even if the commit fails
        self.has_ended = False  # every feed file that it claimed is where it belongs
        # Of a master: how the version became it; former masters that are not the dataset of a version, or damaged; the
        # files known to be damaged, for which no backup is removed.
        self.mode = ""
        self.aside: tuple[str, ...] = ()
        self.damaged: tuple[str, ...] = ()

    def arrivals(self) -> Arrivals:
        """Return the feed files in incr/, and note those with times ahead of this machine's clock."""
        return self.feed.arrivals(self.target.arrivals)

    def claim(self) -> bool:
        """Claim the feed files that have arrived whole; return whether any was claimed."""
        found = self.arrivals()
        if not found.ready:
            return False
        self.target.prepare(self)
        return self.feed.claim(found, self.before.number)

    def merge(self) -> bool:
        """Merge; return whether there is anything to commit: earlier runs may have merged every claimed file."""
        made = self.feed.without_bad(lambda: self.target.merge(self), lambda one: one.is_new)
        failpoint("merge.done")
        if made.report is not None:
            ignored = tuple(path for path in made.report.ignored if not is_own(file_names.base_name(path)))
            made = replace(made, report=replace(made.report, ignored=ignored))
        self.merged = made
        _log.info("merged %s, run %s", counted(len(self.feed.files), "feed file"), self.id)
        return made.is_new

    def verify(self) -> None:
        """Compare the files with those claimed and made. Raises DataError, StorageError or StateError."""
        self.target.verify(self)
        _log.info("verified the sizes of all files")

    def commit(self) -> None:
        """Make the version exist. Raises StateError if another run was faster."""
        self.version = self.target.commit(self)
        _log.info("committed version %d", self.version)

    def archive(self) -> None:
        """Move the feed files to where they belong."""
        if self.feed.has_begun:
            self.feed.archive(self.target.merged_content(self.id, self.before.number))
            self.target.tidy(self)
            lock.end(self.base, self.id)
            self.has_ended = True
            failpoint("archive.done")
            _log.info("archived the feed files")

    def end(self) -> None:
        """Publish and archive."""
        with completed_later(self.base, self.version):
            self.target.publish(self)
            self.archive()

    def undo(self, fault: BaseException) -> bool:
        """Put the feed files back, unless the version exists; return whether this is done.

        fault: that ends the run. Where the storage fails, too, the next command does it.
        """
        if not self.feed.has_begun:
            return True
        try:
            if self._has_committed(fault):
                return False
            self.feed.give_back()
            self.target.remove(self.id)
            lock.end(self.base, self.id)
        except MutatorError:  # the first fault is the one to report
            return False
        return True

    def _has_committed(self, fault: BaseException) -> bool:
        """Return whether the version exists in spite of a fault. Where it does not, it never will."""
        if not self.committing:
            return False
        is_certain = isinstance(fault, MutatorError) and fault.kind != "commit.uncertain"
        if not is_certain and self.target.give_up(self.id, self.before.number):
            return False
        found = self.target.version_of(self.id, self.before.number)
        if found is not None and found.action not in UNCHANGED:
            self.version = found.number
        return found is not None

    def explained(self, fault: MutatorError, *, undone: bool) -> MutatorError:
        """Return an error of the run before its commit, with the paths that its feed files have now."""
        fault = self.target.explained(fault)
        fault.say(self.base.writers(self.feed.put_back if undone else {}))
        return fault


@contextmanager
def completed_later(base: Base, version: int | None) -> Iterator[None]:
    """Raise the errors of a ``with`` block after a commit as those of a version that exists: the next command ends it.

    version: None if there is no commit.
    """
    try:
        yield
    except MutatorError as fault:
        if version is None:
            raise
        raise error("publish.later", path=base.given, version=version, why=fault) from None
