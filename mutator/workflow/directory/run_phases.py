"""A run of the directory workflow, phase by phase.

    claim     note feed files that have arrived whole in the journal, then move them to working/<run>
    merge     merge master/ and working/<run> into output/<run>
    verify    check the sizes of all files, and that the merge began with the expected master
    commit    create the next version exclusively in the log: the one commit point
    publish   make the new dataset master/
    archive   move the old one to backup/<version>, the feed files to archive/<run>

The merge is a function, so that all of this is tested without Spark. A run that fails before its commit puts its feed
files back; one that is killed is finished, or put back, by the next command (``recovery``).

The merge of a workflow: ``mutator run`` on the claimed feed files, with any engine.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mutator.config import Config
from mutator.dataset.commit.staging import discard
from mutator.dataset.commits import Claim, Commit, FeedFile
from mutator.dataset.directory import differing_parts
from mutator.dataset.filter_paths import FilterTarget
from mutator.dataset.manifest import Manifest
from mutator.dataset.version_log import Log, claimed_files, lost, next_commit
from mutator.errors import MutatorError, error, suppressed
from mutator.errors.display import counted
from mutator.errors.failpoints import failpoint
from mutator.rules import file_names
from mutator.storage import entries_of
from mutator.workflow.directory import bad_files, changed_rows, cures, lock
from mutator.workflow.directory import versions as masters
from mutator.workflow.directory.arrivals import Arrivals
from mutator.workflow.directory.claim import with_paths
from mutator.workflow.directory.claimed_feed import ClaimedFeed
from mutator.workflow.directory.lock import Journal
from mutator.workflow.directory.merged_content import merged_content
from mutator.workflow.directory.paths import Base, master_of
from mutator.workflow.directory.recovery import abandon, remove_output

if TYPE_CHECKING:
    from mutator.pipeline.runners import Engine


def merge_by(config: Config, merge_on: Engine, engine: str = "auto") -> Merge:
    """Return the merge for a configuration. engine: as in ``mutate``."""

    def merge(task: Task) -> Merged | tuple[str, ...]:
        # They load Arrow: most runs of a workflow find nothing to merge.
        from mutator.pipeline.merge import carry_out, prepare

        prepared = prepare(
            config, task.master, task.feed, task.output, run=task.run, version=task.version, engine=engine
        )
        skipped = tuple(source.name for source in prepared.survey.consumed)
        if not prepared.survey.feed:
            return skipped
        plan = replace(prepared.plan, filters=task.filters)
        made, report = carry_out(replace(prepared, plan=plan, given=task.paths), merge_on)
        return Merged(made, skipped, with_paths(report, task.moved))

    return merge


_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """The inputs and the output of a merge."""

    run: str
    master: str
    feed: tuple[str, ...]
    output: str
    version: int  # number of the version that the output can become
    paths: Mapping[str, Any]  # the paths for the report: of everything once the version is published
    moved: Mapping[str, str]  # the directory of the feed files -> where they are then
    filters: FilterTarget | None = None  # where filters of the feed's keys go


@dataclass(frozen=True)
class Merged:
    """The result of a merge."""

    manifest: Manifest
    skipped: tuple[str, ...]  # names of feed files that were merged by an earlier run
    report: Any = None


Merge = Callable[[Task], Merged | tuple[str, ...]]  # only names: all files were merged before, and there is no result


class Run:
    """One run; its phases are called in order."""

    def __init__(self, base: Base, config: Config, merge: Merge, clock: Callable[[], float] = time.time) -> None:
        self.base, self.config, self._merge, self._clock = base, config, merge, clock
        self.log = Log(base.path)
        self.id = file_names.new_run_id(clock())
        self.before = self.log.latest()
        self.feed = ClaimedFeed(base, config, self.id, clock)
        self.merged: Merged | None = None
        self.skipped: tuple[str, ...] = ()
        self.aside: tuple[str, ...] = ()  # paths of former masters that are not the dataset of a version, or damaged
        self.damaged: tuple[str, ...] = ()  # names of the files known to be damaged, for which no backup is removed
        self.version: Commit | None = None
        self.mode = ""
        self._committing = False

    def claim(self) -> bool:
        """Claim the feed files that have arrived whole; return whether any was claimed."""
        # Otherwise a version that is committed but not yet published would be left out.
        with suppressed(*(["base.master"] if self.config.inputs.master_adopt else [])):
            masters.publish(self.base, self.log)
        found = self.arrivals()
        if not found.ready:
            return False
        self._check_master()
        return self.feed.claim(found, self.before.number)

    def _check_master(self) -> None:
        """Raise ConfigError for a first run without a master, unless the configuration allows it."""
        needed = self.before.dataset is None and not self.config.inputs.allow_empty_master
        if needed and all(file_names.is_hidden(entry.name) for entry in entries_of(self.base.master)):
            raise error("master.empty", path=self.base.master)

    def merge(self) -> bool:
        """Merge; False if earlier runs have merged every claimed file, so there is nothing to commit."""
        made = self.feed.without_bad(self._made, lambda made: not isinstance(made, tuple))
        failpoint("merge.done")
        if isinstance(made, tuple):
            self.skipped = made
            if not self.base.storage.renames:
                self._settle()
            return False
        self.merged, self.skipped = made, made.skipped
        return True

    def _made(self) -> Merged | tuple[str, ...]:
        if self.feed.bad:  # the merge before has failed, and left the filters of its feed
            remove_output(self.base, self.id)
            discard(self.base.at("output", self.id))
        return self._merge(self.task())

    def task(self) -> Task:
        """Return the inputs and the output of the merge."""
        base = self.base
        master, output = master_of(base, self.before), base.at("output", self.id)
        published = base.master if base.storage.renames else output
        paths: dict[str, str | tuple[str, ...]]
        paths = {"master": master, "feed": self.feed.paths_afterwards, "output": published}
        filters = changed_rows.target(base, self.config)
        version = self.before.number + 1
        moved = {self.feed.directory: base.shown(self.feed.directory_afterwards)}
        return Task(self.id, master, self.feed.paths, output, version, _shown(base, paths), moved, filters)

    def verify(self) -> None:
        """Compare the files with those claimed and made. Raises DataError, StorageError or StateError."""
        assert self.merged is not None
        made = self.merged.manifest
        self.feed.check_sizes()
        self.feed.check_content(self._merged_feed())
        missing = set(self.feed.good) - {part.name for part in self._merged_feed()} - set(self.skipped)
        if missing:
            raise error(
                "sums", problems=f"{counted(len(missing), 'feed file')} unaccounted for, for example {min(missing)}"
            )
        # An adopted master has only its rows, and so no parent.
        before = self.before.dataset
        if before is not None and made.commit.parent != before and not self.config.inputs.master_adopt:
            raise lost(self.base.path, self.before.number + 1)
        output = self.base.at("output", self.id)
        problems = differing_parts(self.base.storage, output, made.parts())
        if problems:
            raise error("receipt", path=output, why=file_names.first_few(problems))
        failpoint("verify.done")
        _log.info("verified the sizes of all files")

    def commit(self) -> None:
        """Make the version exist. Raises StateError if another run was faster."""
        assert self.merged is not None
        made = self.merged.manifest
        self.feed.note_bad()
        self.base.guard(part.path for part in made.files[:1])
        self._committing = True
        failpoint("commit.begin")
        version = next_commit(
            self.before,
            "run",
            self.id,
            self._clock(),
            dataset=made.commit.id,
            path=f"output/{self.id}",
            records=sum(part.rows for part in made.files),
            counts={**made.commit.counts, **({bad_files.COUNT: len(self.feed.bad)} if self.feed.bad else {})},
            claim=self._claim(),
            feed=self._merged_feed(),
        )
        try:
            self.log.commit(version)
        except MutatorError as fault:
            self._committing = fault.kind == "commit.uncertain"
            raise
        self.version = version
        failpoint("commit.done")
        _log.info("committed version %d", version.number)

    def _settle(self) -> None:
        """Note in the log that files were merged before: where nothing is moved, each run would find them again."""
        self._committing = True
        self.log.commit(next_commit(self.before, "settled", self.id, self._clock(), claim=self._claim()))
        failpoint("commit.settled")

    def _claim(self) -> Claim:
        return Claim(self.id, self.feed.arrived)

    def publish(self) -> None:
        """Make the version the master."""
        assert self.version is not None
        self.mode = masters.publish(self.base, self.log)
        failpoint("publish.version.done")
        _log.info("published version %d as the master", self.version.number)

    def archive(self) -> None:
        """Move everything to where it belongs."""
        if self.config.output.symlink_manifest:
            masters.write_symlinks(self.base, self.log)
        if self.version is not None and self.merged is not None and self.merged.manifest.changes:
            changed_rows.keep(self.base, self.log, self.id)
        masters.back_up(self.base, self.log)
        self.aside = masters.set_aside(self.base, self.id)
        self.feed.archive(merged_content(self.base, self.log, self.id))
        if self.version is not None:
            self.damaged = tuple(one.path for one in cures.notes(self.base))
            masters.prune(self.base, self.log, self.config.base.backup_keep)
            if self.config.base.changes_keep is not None:
                changed_rows.prune(self.base, self.config.base.changes_keep)
        lock.end(self.base, self.id)
        failpoint("archive.done")
        _log.info("archived the feed files")

    def _merged_feed(self) -> tuple[FeedFile, ...]:
        """Return the claimed files that were merged. By name as well: two runs may have the same commit time."""
        assert self.merged is not None
        made, names = self.merged.manifest, set(self.feed.good) - set(self.skipped)
        return tuple(part for part in made.feed if part.committed == made.commit.committed and part.name in names)

    def is_lost(self) -> bool:
        """Return whether another run has made the version that this one could become."""
        with contextlib.suppress(MutatorError):  # an unreadable log proves nothing
            number = self.before.number + 1
            if number not in self.log.numbers():
                return False
            other = self.log.read(number)
            return other.run != self.id or other.action == "abandoned"  # a recovery counted this run as dead
        return False

    def why_lost(self) -> MutatorError:
        """Return the error of a run that ``is_lost``, once it is rolled back: what became of its feed files."""
        since = [self.log.read(number) for number in self.log.numbers() if number > self.before.number]
        given_up = since[0].action == "abandoned" and since[0].run == self.id
        names = set(self.feed.names)
        merged = names & {part.name for version in since for part in version.feed}
        cure = f"its feed files are {'back ' if self.base.storage.renames else ''}in incr/: run again"
        if merged == names:
            cure = "another run has merged its feed files, so nothing is left to do"
        elif merged:
            cure = f"another run has merged {file_names.first_few(sorted(merged))} of its feed files: run again"
        what = "process took this run for dead with" if given_up else "run committed"
        return lost(self.base.given, since[0].number, what, cure)

    def roll_back(self) -> None:
        """Undo the run, unless its version exists."""
        begun = Journal(self.id, "run", self.before.number, "")
        if self._committing and not abandon(self.base, self.log, self.id, begun):
            return
        self.feed.give_back()
        remove_output(self.base, self.id)
        lock.end(self.base, self.id)

    def arrivals(self) -> Arrivals:
        """Return the feed files in incr/, and note those with times ahead of this machine's clock."""
        return self.feed.arrivals(lambda: claimed_files(self.log.all()))


def _shown(base: Base, paths: Mapping[str, str | tuple[str, ...]]) -> dict[str, Any]:
    return {
        name: base.shown(path) if isinstance(path, str) else tuple(map(base.shown, path))
        for name, path in paths.items()
    }
