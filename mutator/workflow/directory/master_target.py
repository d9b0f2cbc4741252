"""The master of a base as the target of its runs: merged into output/<run>, and published as master/.

A version exists when its entry is in the log of the base. A run can only become the version after the one it started
from. If that version does not exist, ``give_up`` creates it, with the action "abandoned" that changes nothing.

The merge is a function, so that all of this is tested without Spark: ``merge_by`` is that of ``mutator run``, with any
engine.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mutator.config import Config
from mutator.dataset.commit.staging import discard, has_manifest
from mutator.dataset.commits import Arrived, Claim, Commit, FeedFile
from mutator.dataset.directory import differing_parts
from mutator.dataset.filter_paths import FilterTarget
from mutator.dataset.version_log import Log, claimed_files, lost, next_commit
from mutator.errors import MutatorError, error, suppressed
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass
from mutator.rules import file_names
from mutator.storage import entries_of
from mutator.workflow.directory import bad_files, changed_rows, cures, versions
from mutator.workflow.directory.lock import journals
from mutator.workflow.directory.master_state import SeenMaster, state_of
from mutator.workflow.directory.merged_content import IsMerged, merged_content
from mutator.workflow.directory.paths import DIRECTORIES, Base, master_of, probe_dataset, run_of
from mutator.workflow.directory.run_phases import Merged, Run, Target

if TYPE_CHECKING:
    from mutator.pipeline.runners import Engine
    from mutator.workflow.directory.view import Recovered, View


@dataclass(frozen=True)
class Task:
    """The inputs and the output of a merge."""

    run: str
    master: str
    feed: tuple[str, ...]
    output: str
    version: int  # number of the version that the output can become
    paths: Mapping[str, Any]  # the paths for the report: of everything once the version is published
    shown: Callable[[str], str]  # returns any other path, as the report has it
    filters: FilterTarget | None = None  # where filters of the feed's keys go


Merge = Callable[[Task], Merged]


def merge_by(config: Config, merge_on: Engine, engine: str = "auto") -> Merge:
    """Return the merge for a configuration. engine: as in ``mutate``."""

    def merge(task: Task) -> Merged:
        # They load Arrow: most runs of a workflow find nothing to merge.
        from mutator.pipeline.merge import carry_out, prepare

        prepared = prepare(
            config, task.master, task.feed, task.output, run=task.run, version=task.version, engine=engine
        )
        skipped = tuple(source.name for source in prepared.survey.consumed)
        if not prepared.survey.feed:
            return Merged(skipped)
        audience = replace(prepared.plan.audience, paths=task.shown)
        plan = replace(prepared.plan, filters=task.filters, audience=audience)
        made, report = carry_out(replace(prepared, plan=plan, given=task.paths), merge_on)
        return Merged(skipped, report, made)

    return merge


class MasterTarget(Target):
    """The master of a base."""

    directories = DIRECTORIES

    def __init__(
        self,
        base: Base,
        config: Config,
        merge: Merge | None = None,
        follow: Callable[[], Sequence[str]] | None = None,
    ) -> None:
        """Read nothing yet. merge: needed for runs. follow: called after each run, as ``Target.follow``."""
        super().__init__(base, config)
        self.log, self._merge, self._follow = Log(base.path), merge, follow

    def follow(self) -> Sequence[str]:
        """Bring a history of the base up to date; return warnings."""
        return () if self._follow is None else self._follow()

    def newest(self) -> Commit:
        """Return the latest version."""
        return self.log.latest()

    def version_of(self, run: str, since: int) -> Commit | None:
        """Return the version that a run committed; None without one."""
        later = (self.log.read(number) for number in self.log.numbers() if number > max(since, 0))
        return next((one for one in later if one.run == run and one.action != "abandoned"), None)

    def claimed(self) -> Collection[Arrived]:
        """Return the feed files that versions have claimed."""
        return claimed_files(self.log.all())

    def merged_after(self, version: int) -> Iterable[str]:
        """Return the names of the feed files that the versions after one merged."""
        return merged_after(self.log, version)

    def merged_content(self, run: str, since: int) -> IsMerged:
        """Return a function that reads a claimed file, and returns whether a version has its content."""
        return merged_content(self.base, self.log, run)

    def state(self, view: View, *, recovered: bool) -> SeenMaster:
        """Return what can be seen of the master."""
        return state_of(view, self.log, recovered=recovered)

    # --- the phases of a run

    def check(self, problems: Sequence[MutatorError]) -> None:
        """Raise the error that keeps runs from beginning, if there is one."""
        base, config = self.base, self.config
        for problem in problems:
            # An adopted master need not be the dataset of the latest version.
            if problem.kind != "base.master" or not config.inputs.master_adopt:
                raise problem
        if config.output.symlink_manifest and base.storage.renames:
            what = f"symlink.manifest: not needed, because {base.given}/master/ is always whole; unset it"
            raise error("usage", what=what)
        # A run could take over a file that is known to be damaged without reading it.
        cures.forget_repaired(base)
        if cures.notes(base) and not config.inputs.master_adopt:
            for fault in cures.master_faults(base, self.log):
                fault.say(base.writers())
                raise fault

    def prepare(self, run: Run) -> None:
        """Publish the latest version. Raises ConfigError for a first run without a master, unless it is allowed."""
        # Otherwise a version that is committed but not yet published would be left out.
        with suppressed(*(["base.master"] if self.config.inputs.master_adopt else [])):
            self._publish()
        needed = run.before.dataset is None and not self.config.inputs.allow_empty_master
        if needed and all(file_names.is_hidden(entry.name) for entry in entries_of(self.base.master)):
            raise error("master.empty", path=self.base.master)

    def merge(self, run: Run) -> Merged:
        """Merge the claimed files of a run into its output."""
        assert self._merge is not None
        if run.feed.bad:  # the merge before has failed, and left the filters of its feed
            self.remove(run.id)
        made = self._merge(self._task(run))
        if not made.is_new and not run.feed.bad and not self.base.storage.renames:
            # Where nothing is moved, each run would find the files again.
            self._commit(run, next_commit(run.before, "settled", run.id, run.clock(), claim=_claim(run)))
            run.committing = False
            failpoint("commit.settled")
        return made

    def _task(self, run: Run) -> Task:
        base, feed = self.base, run.feed
        master, output = master_of(base, run.before), base.at("output", run.id)
        published = base.master if base.storage.renames else output
        shown = feed.shown
        paths = {"master": shown(master), "feed": tuple(map(shown, feed.paths)), "output": shown(published)}
        filters = changed_rows.target(base, self.config.workflow, self.config.given)
        return Task(run.id, master, feed.paths, output, run.before.number + 1, paths, shown, filters)

    def verify(self, run: Run) -> None:
        """Compare the files with those claimed and made. Raises DataError, StorageError or StateError."""
        assert run.merged is not None
        made = run.merged.state
        assert made is not None
        run.feed.check(_merged_feed(run), run.merged.skipped)
        # An adopted master has only its rows, and so no parent.
        before = run.before.dataset
        if before is not None and made.commit.parent != before and not self.config.inputs.master_adopt:
            raise lost(self.base.path, run.before.number + 1)
        output = self.base.at("output", run.id)
        problems = differing_parts(self.base.storage, output, made.parts())
        if problems:
            raise error("receipt", path=output, why=file_names.first_few(problems))
        failpoint("verify.done")

    def commit(self, run: Run) -> int:
        """Make the version exist. Raises StateError if another run was faster."""
        assert run.merged is not None
        made, bad = run.merged.state, run.feed.bad
        assert made is not None
        run.feed.note_bad()
        self.base.guard(part.path for part in made.files[:1])
        failpoint("commit.begin")
        version = next_commit(
            run.before,
            run.action,
            run.id,
            run.clock(),
            dataset=made.commit.id,
            path=f"output/{run.id}",
            floor=made.commit.floor,
            records=made.commit.records,
            counts={**made.commit.counts, **({bad_files.COUNT: len(bad)} if bad else {})},
            claim=_claim(run),
            feed=_merged_feed(run),
        )
        self._commit(run, version)
        failpoint("commit.done")
        return version.number

    def _commit(self, run: Run, version: Commit) -> None:
        run.committing = True
        try:
            self.log.commit(version)
        except MutatorError as fault:
            run.committing = fault.kind == "commit.uncertain"
            raise

    def publish(self, run: Run) -> None:
        """Make the version of a run the master, and back up the old one."""
        base = self.base
        if run.version is not None:
            run.mode = self._publish()
            failpoint("publish.version.done")
        if run.version is not None and run.merged is not None and run.merged.state and run.merged.state.changes:
            changed_rows.keep(base, self.log, run.id)
        versions.back_up(base, self.log)
        run.aside = versions.set_aside(base, run.id)

    def _publish(self) -> str:
        how, warnings = versions.publish(self.base, self.log, self.config)
        self.warnings = tuple(map(self.base.said, warnings))
        return how

    def tidy(self, run: Run) -> None:
        """Remove the backups and changed rows that are too old, after a run with a version."""
        if run.version is not None:
            run.damaged = tuple(one.path for one in cures.notes(self.base))
            versions.prune(self.base, self.log, self.config.workflow.backup_keep)
            if self.config.workflow.changes_keep is not None:
                changed_rows.prune(self.base, self.config.workflow.changes_keep)

    # --- runs that do not end like this

    def give_up(self, run: str, since: int) -> bool:
        """Make sure that a run which has not committed never will, and return True; False if it has."""
        while True:
            latest = self.log.latest()
            if self.version_of(run, since) is not None:
                return False
            if latest.number > since >= 0:
                return True
            failpoint("recover.abandoning")
            with suppressed("base.lost"):  # the run itself, or another recovery, was faster
                self.log.commit(next_commit(latest, "abandoned", run, time.time()))
                failpoint("recover.abandoned")
                return True

    def remove(self, run: str) -> None:
        """Remove the output of a run that can never commit."""
        base = self.base
        changed_rows.forget(base, run)
        path = base.at("output", run)
        if not base.storage.renames:
            base.storage.remove(path)
        elif base.storage.stat(path) is not None:  # it is never visible in part
            versions.hide(base, path)
            failpoint("recover.output.hidden")
            versions.remove_hidden(base)
        failpoint("recover.output.removed")
        discard(path)

    def why_lost(self, run: Run) -> MutatorError | None:
        """Return the error of a run whose version another run has made, or a recovery that counted this run as dead."""
        with contextlib.suppress(MutatorError):  # an unreadable log proves nothing
            since = [self.log.read(number) for number in self.log.numbers() if number > run.before.number]
            if not since or (since[0].run == run.id and since[0].action != "abandoned"):
                return None
            given_up = since[0].action == "abandoned" and since[0].run == run.id
            names = set(run.feed.names)
            merged = names & {part.name for version in since for part in version.feed}
            cure = f"its feed files are {'back ' if self.base.storage.renames else ''}in incr/: run again"
            if merged == names:
                cure = "another run has merged its feed files, so nothing is left to do"
            elif merged:
                cure = f"another run has merged {file_names.first_few(sorted(merged))} of its feed files: run again"
            what = "process took this run for dead with" if given_up else "run committed"
            return lost(self.base.given, since[0].number, what, cure)
        return None

    def explained(self, fault: MutatorError) -> MutatorError:
        """Return an error with the cures of a damaged master."""
        with contextlib.suppress(MutatorError):  # if the base cannot be read, the first fault is the one to report
            return cures.explained(self.base, self.log, fault)
        return fault

    def make_room(self) -> bool:
        """Remove what runs have written whose processes ended without a commit; return whether anything was there.

        Only a local disk makes it certain that such a run will never commit: on others the creation of its version may
        still be on the way.
        """
        base = self.base
        if not base.storage.holds:
            return False
        names = {entry.name for entry in entries_of(base.at("output"))}
        found = any(name.startswith(versions.REMOVING) for name in names)
        for journal in journals(base):
            # The log is read after the process has ended.
            if journal.owner is None or not journal.owner.has_ended() or self.version_of(journal.run, journal.since):
                continue
            if any(name == journal.run or name.startswith(f".{journal.run}.mutator-") for name in names):
                found = True
                self.remove(journal.run)
        versions.remove_hidden(base)
        return found

    @contextlib.contextmanager
    def recovering(self, done: Recovered) -> Iterator[set[str]]:
        """Publish the latest version and make room; yield the runs with unnamed outputs; back up former masters."""
        base, log = self.base, self.log
        log.make_durable()
        if not log.numbers() and has_old_datasets(base):
            raise error("base.log", path=base.path)  # there are versions, but their log is gone
        try:
            how = self._publish()
            if how not in ("done", "log"):
                done.actions.append(f"version {log.latest().number} was committed and is the master now ({how})")
        except MutatorError as fault:
            if fault.kind != "base.master":
                raise
            done.problems.append(fault)  # a restore can fix it
        failpoint("recover.published")
        self.make_room()  # first: everything else may need the space
        yield _unnamed_outputs(base, log)
        for number in versions.back_up(base, log):
            done.actions.append(f"version {number} was replaced, and is in backup/{number} now")
        versions.remove_hidden(base)

    def keep(self, run: str) -> None:
        """Keep the changed rows of the version that a run committed."""
        changed_rows.keep(self.base, self.log, run)
        discard(self.base.at("output", run))


def merged_after(log: Log, version: int) -> list[str]:
    """Return the names of the feed files that the readable versions after one merged."""
    return [part.name for one in log.readable()[0] if one.number > version for part in one.feed]


def _claim(run: Run) -> Claim:
    return Claim(run.id, run.feed.arrived)


def _merged_feed(run: Run) -> tuple[FeedFile, ...]:
    """Return the claimed files that were merged. By name as well: two runs may have the same commit time."""
    assert run.merged is not None
    made, names = run.merged.state, set(run.feed.good) - set(run.merged.skipped)
    assert made is not None
    return tuple(part for part in made.feed if part.committed == made.commit.committed and part.name in names)


def has_old_datasets(base: Base) -> bool:
    """Return whether there are datasets that only versions can have made."""
    if base.storage.renames:
        return any(one.name.isdecimal() for one in entries_of(base.at("backup")))
    begun = {journal.run for journal in journals(base)}
    return any(one.commit is not None and run_of(one.name) not in begun for one in base.datasets())


def _unnamed_outputs(base: Base, log: Log) -> set[str]:
    """Return the runs with a dataset or staging directory in output/ that no version names."""
    found = set()
    for entry in entries_of(base.at("output")):
        if entry.name.startswith("."):
            if ".mutator-" in entry.name:  # a staging directory or announcement of ``publish``
                found.add(entry.name[1:].partition(".mutator-")[0])
            continue
        if entry.type != "directory":
            continue
        dataset = probe_dataset(base.storage, entry.path)
        if base.storage.renames:
            if dataset.commit is not None and log.newest_of(dataset.commit) is None:
                found.add(run_of(entry.name))
        elif not has_manifest(base.storage, entry.path):
            found.add(entry.name)  # a whole dataset is not removed for its name alone: it may be the last copy
    return {run for run in found if file_names.is_run_id(run)}
