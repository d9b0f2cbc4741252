"""The feed files of a run: claimed when they have arrived whole, and compared with what was merged."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TypeVar

from mutator.config import Config
from mutator.dataset import checksum
from mutator.dataset.commit.process import Owner
from mutator.dataset.commits import Arrived, FeedFile
from mutator.errors import MutatorError, error, suppressed
from mutator.errors.display import counted
from mutator.errors.failpoints import failpoint
from mutator.rules import file_names
from mutator.storage import Entry, entries_of
from mutator.storage.contract import CERTAIN
from mutator.workflow.directory import arrivals, bad_files, claim, lock
from mutator.workflow.directory.arrivals import Arrivals, ReadyFile
from mutator.workflow.directory.bad_files import BadFile
from mutator.workflow.directory.lock import Journal
from mutator.workflow.directory.merged_content import IsMerged, Stamp, is_as_written, stamp
from mutator.workflow.directory.paths import Base

Result = TypeVar("Result")
_log = logging.getLogger(__name__)
PATIENCE = 10.0  # seconds that a run waits for files whose only fault is that they are too young


class ClaimedFeed:
    """The feed files that one run claims."""

    def __init__(self, base: Base, config: Config, run: str, clock: Callable[[], float] = time.time) -> None:
        """Claim nothing yet."""
        self.base, self.config, self.run, self._clock = base, config, run, clock
        self.files: list[Arrived] = []
        self.waiting: tuple[tuple[str, str], ...] = ()
        self.stuck: tuple[tuple[str, str], ...] = ()  # the waiting files that cannot be moved
        self.rewritten: tuple[str, ...] = ()  # names of claimed files that were rewritten after they were merged
        self.has_begun = False  # there may be a journal, and files in working/
        self.bad: dict[str, BadFile] = {}  # those of the claimed files that are set aside, by name
        self.ready: tuple[ReadyFile, ...] = ()  # as they were before the claim
        self.all_bad = False  # none of them could be merged, each for its own fault
        self._journal: Journal | None = None
        self._stamps: dict[str, Stamp] = {}  # of the claimed files, where files are moved

    def arrivals(self, look: Callable[[float], Arrivals]) -> Arrivals:
        """Return the feed files in incr/, and note those with times ahead of this machine's clock.

        look: returns them, given the time.
        """
        now = self._clock()
        found = look(now)
        arrivals.note(self.base, found.ahead, now)
        self.waiting, self.ready = found.waiting, found.ready
        return found

    def claim(self, found: Arrivals, since: int) -> bool:
        """Claim the feed files that have arrived whole; return whether any was claimed.

        since: the version that the run starts from.
        """
        arrived = tuple(arrivals.arrived(ready.feed) for ready in found.ready)
        started = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="seconds")
        owner = Owner.this_process(self.run, self.config.workflow.lock_timeout)
        self.has_begun = True
        self._journal = Journal(self.run, "run", since, started, arrived, owner)
        lock.begin(self.base, self._journal)
        failpoint("claim.journaled")
        self.base.guard(one.name for one in arrived)
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
        for fault in faults.values():
            fault.say(self.base.writers(self.put_back))
        paths = {name: self.base.at("incr", name) for name in faults}
        why = {
            name: f"cannot be moved: {str(fault).removeprefix(self.base.shown(paths[name]) + ': ')}"
            for name, fault in faults.items()
        }
        with suppressed(*CERTAIN):  # only ``status`` needs it
            arrivals.note_stuck(self.base, {paths[name]: text for name, text in why.items()})
        fault = next(iter(faults.values()))
        causes = {
            "sync.mode=full": self.config.operation.full,
            f"write.operation={self.config.operation.name}": self.config.operation.overwrites,
            "late.files=fail": self.config.rows.order.by_file_name and self.config.inputs.late_files == "fail",
        }
        for cause, holds in causes.items():
            if holds:
                raise error("claim.stuck", what=fault, cause=cause)
        if not self.files:
            raise fault
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
    def good(self) -> tuple[str, ...]:
        """The names of those that are not set aside."""
        return tuple(one.name for one in self.files if one.name not in self.bad)

    @property
    def directory(self) -> str:
        """The directory that has the claimed files."""
        return self.base.at("working", self.run) if self.base.storage.renames else self.base.at("incr")

    @property
    def archived(self) -> Mapping[str, str]:
        """Where the run moves its directory of claimed files if it commits: old path to new path."""
        return {self.base.at("working", self.run): self.base.at("archive", self.run)}

    @property
    def put_back(self) -> Mapping[str, str]:
        """Where the run moves its directory of claimed files if it does not commit: old path to new path."""
        return {self.base.at("working", self.run): self.base.at("incr")}

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths to merge: the directory that has the claimed files alone, or each of them."""
        if self.base.storage.renames and not self.bad:
            return (self.directory,)
        return tuple(f"{self.directory}/{name}" for name in self.good)

    def shown(self, path: str) -> str:
        """Return a path as the caller spelled it, and of a claimed file where it is after the run."""
        return self.base.shown(path, self.archived)

    @property
    def arrived(self) -> tuple[Arrived, ...]:
        """The claimed files that are not set aside, and their control files that stay in incr/."""
        files = [one for one in self.files if one.name not in self.bad]
        return (*files, *(one for name, one in self._controls.items() if name not in self.bad))

    @cached_property
    def _controls(self) -> dict[str, Arrived]:
        """The control files of the claimed files, by the names of these, on a storage where nothing is moved."""
        beside = () if self.base.storage.renames else self.ready
        return {one.feed.name: arrivals.arrived(one.control) for one in beside if one.control is not None}

    def without_bad(self, merge: Callable[[], Result], is_new: Callable[[Result], bool]) -> Result:
        """Return the result of a merge of the claimed files, or of those that are left where some are bad.

        is_new: returns whether a result has anything to commit. Raises the error of the merge if it is not the fault of
        some of the files, or if no other file is merged beside them: then none is set aside.
        """
        first: MutatorError | None = None
        for _ in range(bad_files.TRIES):
            try:
                done = merge()
            except MutatorError as fault:
                first, bad = first or fault, self._blamed(fault)
                if not bad:
                    self.bad = {}
                    raise
                self.bad |= {one.name: one for one in bad}
                failpoint("merge.bad")
                _log.info("merging without %s: error %s", file_names.first_few([one.name for one in bad]), fault.kind)
                if not self.good:
                    break
                continue
            if first is None or is_new(done):
                return done
            break
        else:
            found, incr = len(self.bad), self.base.at("incr")
            first = error("feed.bad", path=incr, count=found, why=first)
        assert first is not None
        self.bad, self.all_bad = {}, True
        raise first

    def _blamed(self, fault: MutatorError) -> list[BadFile]:
        """Return the files whose fault an error is, unless the files of this run are merged all or not at all."""
        if bad_files.why_all_or_none(self.config) is not None:
            return []
        texts = bad_files.blamed(fault, self.directory, self.good, self.config.inputs, self.config.limits)
        files = {one.name: one for one in self.files if one.name in texts}
        reasons = {name: bad_files.reason(self.base, self.run, name, text) for name, text in texts.items()}
        return [BadFile(name, fault.kind, why, files[name], self._controls.get(name)) for name, why in reasons.items()]

    def note_bad(self) -> None:
        """Note in the journal which files are set aside if the run commits: to be called before it does."""
        if self.bad and self._journal is not None:
            lock.rewrite(self.base, replace(self._journal, bad=tuple(self.bad.values())))
            failpoint("merge.bad.noted")

    def check(self, merged: Sequence[FeedFile], skipped: Collection[str]) -> None:
        """Compare the claimed files with those that were merged, and those that earlier versions have.

        Raises DataError where a file is not as it was when it was claimed, in size or content, or is unaccounted for.
        """
        self._check_sizes()
        self._check_content(merged)
        missing = set(self.good) - {part.name for part in merged} - set(skipped)
        if missing:
            count = counted(len(missing), "feed file")
            raise error("sums", problems=f"{count} unaccounted for, for example {min(missing)}")

    def _check_sizes(self) -> None:
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

    def _check_content(self, merged: Iterable[FeedFile]) -> None:
        """Raise DataError where a file in working/ no longer has the content that was merged."""
        for part in merged:
            before = self._stamps.get(part.name)
            entry = self.base.storage.stat(self.base.at("working", self.run, part.name)) if before else None
            if entry is None or stamp(entry) == before:
                continue
            # A link or a change of permissions does not stop the run.
            if before is None or entry.last_write != before[1] or checksum.difference(entry.path, part.checksum):
                raise error("changed.content", path=entry.path)

    def archive(self, content: IsMerged) -> None:
        """Move the claimed files to archive/, and bad ones to failed/. content: as for ``archived``."""
        assert self._journal is not None
        journal = replace(self._journal, bad=tuple(self.bad.values()))
        _, rewritten = archived(self.base, journal, content, self._stamps)
        self.rewritten = tuple(rewritten)

    def give_back(self) -> None:
        """Move the claimed files back to incr/."""
        claim.give_back(self.base, self.run)
        failpoint("return.done")


def archived(
    base: Base, journal: Journal, content: IsMerged, stamps: Mapping[str, Stamp]
) -> tuple[list[str], list[str]]:
    """Move the feed files of a run that committed to archive/, and bad ones to failed/; return as ``claim.archive``.

    content: returns whether a version has the content of a file. stamps: of those files whose stamps are known.
    """
    bad_files.record(base, journal.run, journal.since, journal.bad)
    bad = {one.name: one.file.bytes for one in journal.bad}

    def is_bad(entry: Entry) -> bool:
        before = stamps.get(entry.name)
        return bad.get(entry.name) == entry.bytes and (before is None or is_as_written(entry, before))

    return claim.archive(
        base,
        journal.run,
        lambda entry: stamp(entry) == stamps.get(entry.name) or content(entry),
        is_bad,
    )
