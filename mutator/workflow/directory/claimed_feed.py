"""The feed files of a run: claimed when they have arrived whole, and compared with what was merged."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime

from mutator.config import Config
from mutator.dataset import checksum
from mutator.dataset.commit.process import Owner
from mutator.dataset.manifest import FeedFile
from mutator.dataset.version_log import Arrived
from mutator.errors import MutatorError, error, suppressed
from mutator.errors.display import counted
from mutator.errors.exceptions import rebuilt
from mutator.errors.failpoints import failpoint
from mutator.storage import entries_of
from mutator.storage.contract import CERTAIN
from mutator.workflow.directory import arrivals, claim, journal, sightings
from mutator.workflow.directory.arrivals import Arrivals
from mutator.workflow.directory.journal import Journal
from mutator.workflow.directory.merged_content import IsMerged, Stamp, stamp
from mutator.workflow.directory.paths import Base

_log = logging.getLogger(__name__)
PATIENCE = 10.0  # seconds that a run waits for files whose only fault is that they are too young


class ClaimedFeed:
    """The feed files that one run claims."""

    def __init__(self, base: Base, config: Config, run: str, clock: Callable[[], float] = time.time) -> None:
        """Claim nothing yet."""
        self.base, self.config, self.run, self._clock = base, config, run, clock
        self.files: list[Arrived] = []
        # Control files of the claimed files, on a storage where nothing is moved.
        self.controls: tuple[Arrived, ...] = ()
        self.waiting: tuple[tuple[str, str], ...] = ()
        self.stuck: tuple[tuple[str, str], ...] = ()  # the waiting files that cannot be moved
        self.rewritten: tuple[str, ...] = ()  # names of claimed files that were rewritten after they were merged
        self.has_begun = False  # there may be a journal, and files in working/
        self._stamps: dict[str, Stamp] = {}  # of the claimed files, where files are moved

    def arrivals(self, merged: Callable[[], Collection[Arrived]]) -> Arrivals:
        """Return the feed files in incr/, and note those with times ahead of this machine's clock.

        merged: returns the files that versions have claimed; called on a storage where files are not moved.
        """
        now = self._clock()
        there = frozenset[Arrived]() if self.base.storage.renames else merged()
        found = arrivals.arrivals(self.base, self.config, there, now)
        sightings.note(self.base, found.ahead, now)
        self.waiting = found.waiting
        self.controls = () if self.base.storage.renames else arrivals.controls_of(found)
        return found

    def claim(self, found: Arrivals, since: int) -> bool:
        """Claim the feed files that have arrived whole; return whether any was claimed.

        since: the version that the run starts from.
        """
        arrived = tuple(arrivals.arrived(ready.feed) for ready in found.ready)
        started = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="seconds")
        owner = Owner.this_process(self.run, self.config.lock_timeout)
        self.has_begun = True
        journal.begin(self.base, Journal(self.run, "run", since, started, arrived, owner))
        failpoint("claim.journaled")
        self.files, stuck = claim.claim(self.base, self.run, found)
        self._stamps = self._claimed_stamps(found)
        failpoint("claim.done")
        _log.info("claimed %s, run %s", counted(len(self.files), "feed file"), self.run)
        self._note_stuck(stuck)
        return bool(self.files)

    def _note_stuck(self, faults: Mapping[str, MutatorError]) -> None:
        """Note the files that cannot be moved. Raise the first fault where the others must not be merged without it."""
        if not faults:
            return
        shown = {name: self.base.shown_put_back(str(fault), self.run) for name, fault in faults.items()}
        paths = {name: self.base.at("incr", name) for name in faults}
        why = {
            name: f"cannot be moved: {text.removeprefix(self.base.shown(paths[name]) + ': ')}"
            for name, text in shown.items()
        }
        with suppressed(*CERTAIN):  # only ``status`` needs it
            sightings.note_stuck(self.base, {paths[name]: text for name, text in why.items()})
        name, text = next(iter(shown.items()))
        causes = {
            "sync.mode=full": self.config.full,
            f"write.operation={self.config.write_operation}": self.config.overwrites,
            "late.files=fail": self.config.by_file_name and self.config.late_files == "fail",
        }
        for cause, holds in causes.items():
            if holds:
                raise error("claim.stuck", what=text, cause=cause)
        if not self.files:
            raise rebuilt(faults[name].kind, text)
        self.stuck = tuple(why.items())
        self.waiting = (*self.stuck, *self.waiting)

    def _claimed_stamps(self, found: Arrivals) -> dict[str, Stamp]:
        """Return the stamps of the claimed files, where files are moved: a rename changes ``Entry.modified``."""
        if not self.base.storage.renames:
            return {}
        before = {ready.feed.name: ready.feed for ready in found.ready}
        moved = {entry.name: entry for entry in entries_of(self.base.at("working", self.run))}
        # The age of the file was that of its content then.
        return {
            one.name: stamp(moved[one.name]._replace(bytes=one.bytes, written=before[one.name].last_write))
            for one in self.files
            if one.name in moved
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the claimed files."""
        return tuple(one.name for one in self.files)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths to merge: the directory that has the claimed files, or each of them."""
        if self.base.storage.renames:
            return (self.base.at("working", self.run),)
        return tuple(self.base.at("incr", name) for name in self.names)

    @property
    def paths_afterwards(self) -> tuple[str, ...]:
        """The same paths after the run."""
        return (self.base.at("archive", self.run),) if self.base.storage.renames else self.paths

    @property
    def arrived(self) -> tuple[Arrived, ...]:
        """The claimed files, and the control files that stay in incr/."""
        return (*self.files, *self.controls)

    def check_sizes(self) -> None:
        """Raise DataError if a file is not as it was when it was claimed: another size, or, in incr/, overwritten."""
        place = f"working/{self.run}" if self.base.storage.renames else "incr"
        for one in self.arrived:
            entry = self.base.storage.stat(self.base.at(place, one.name))
            found = entry.bytes if entry is not None else "no"
            if found != one.bytes:
                raise error("changed", path=self.base.at(place, one.name), before=one.bytes, after=found)
            # Files that stay in incr/ may be overwritten.
            if entry is not None and place == "incr" and entry.tag != one.tag:
                raise error("changed.content", path=entry.path)

    def check_content(self, merged: Iterable[FeedFile]) -> None:
        """Raise DataError where a file in working/ no longer has the content that was merged."""
        for part in merged:
            before = self._stamps.get(part.name)
            entry = self.base.storage.stat(self.base.at("working", self.run, part.name)) if before else None
            if entry is None or stamp(entry) == before:
                continue
            # A link or a change of permissions is no reason to stop.
            if before is None or entry.last_write != before[1] or checksum.difference(entry.path, part.checksum):
                raise error("changed.content", path=entry.path)

    def archive(self, content: IsMerged) -> None:
        """Move the claimed files to archive/. content: returns whether a version has the content of a file."""
        _, rewritten = claim.archive(
            self.base, self.run, lambda entry: stamp(entry) == self._stamps.get(entry.name) or content(entry)
        )
        self.rewritten = tuple(rewritten)

    def give_back(self) -> None:
        """Move the claimed files back to incr/."""
        claim.give_back(self.base, self.run)
        failpoint("return.done")
