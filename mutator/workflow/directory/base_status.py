"""The status of a base: what can be seen of it, and, as problems, what cannot, and why."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from typing import TypeVar

from mutator.config import Config
from mutator.dataset.commits import Commit
from mutator.dataset.directory import differing_parts, oldest_check, read_manifest
from mutator.dataset.version_log import NONE, UNCHANGED, Log, claimed_files
from mutator.errors import MutatorError, StateError, StorageError
from mutator.errors.exceptions import BUSY
from mutator.rules import file_names
from mutator.workflow.directory import bad_files
from mutator.workflow.directory.arrivals import Arrivals, arrivals, sightings
from mutator.workflow.directory.cures import forget_repaired, has_whole_copy, lost_master, master_faults
from mutator.workflow.directory.failed_run import failed_run
from mutator.workflow.directory.lock import holder
from mutator.workflow.directory.paths import Base, master_of, open_base
from mutator.workflow.directory.recovery import Recovered, locked_with_room, recover
from mutator.workflow.directory.results import BaseRunStatus

Seen = TypeVar("Seen")


class _View:
    """A base, and the problems met while it is looked at."""

    def __init__(self, base: Base, config: Config) -> None:
        self.base, self.config, self.log = base, config, Log(base.path)
        self.problems: list[str] = []

    def see(self, act: Callable[[], Seen]) -> Seen | None:
        """Return the result of a function; None, with a problem, if the storage fails or what it reads is damaged."""
        try:
            return act()
        except (StorageError, StateError) as fault:
            self.add(str(fault))
            return None

    def add(self, problem: str) -> None:
        """Add a problem, unless it is there already."""
        shown = self.base.shown(problem)
        if not any(one.endswith(shown) for one in self.problems):
            self.problems.append(shown)

    def recover(self, stack: ExitStack) -> Recovered | None:
        """Take the lock and recover; None if another process is at work, or the lock cannot be taken."""
        try:
            stack.enter_context(locked_with_room(self.base, "look", self.config.base.lock_timeout))
        except StorageError as fault:
            self.add(f"nothing was recovered, because the lock cannot be taken: {fault}")
            return None
        except MutatorError as fault:
            if fault.kind not in BUSY:
                raise
            return None
        recovered = recover(self.base, self.log)
        for problem in recovered.problems:
            last = recovered.stopped and problem is recovered.problems[-1]
            self.add(f"the recovery stopped: {problem}" if last else str(problem))
        return recovered

    def versions(self) -> list[Commit] | None:
        """Return the versions that can be read, oldest first, from ``NONE``; None if the newest cannot be read."""
        found = self.see(self.log.readable)
        if found is None:
            return None
        versions, faults, newest = found
        for fault in faults:
            self.add(str(fault))
        versions.insert(0, NONE)
        return versions if versions[-1].number == newest else None

    def check_master(self, master: str, latest: Commit | None) -> None:
        """Add a problem for each difference between the master and its manifest, and if it is not the latest version.

        latest: None if the log does not show it.
        """
        base = self.base
        try:
            known = read_manifest(base.storage, master)
        except StateError as fault:
            # The cures of the version's own dataset depend on the log.
            self.add(str(lost_master(base, self.log, latest) if latest is not None and latest.dataset else fault))
            return
        if latest is None or self.log.readable()[1]:
            problems = differing_parts(base.storage, master, known.parts()) if known is not None else []
            if problems:
                self.add(f"{master}: {file_names.first_few(problems)}")
        elif latest.dataset is not None and (known is None or known.commit.id != latest.dataset):
            if not base.storage.renames:  # else the recovery has reported it
                self.add(str(lost_master(base, self.log, latest)))
        else:
            for problem in master_faults(base, self.log):
                self.add(str(problem))

    def arrivals(self) -> Arrivals:
        """Return the feed files in incr/."""
        base = self.base
        there = () if base.storage.renames else claimed_files(self.log.all()) | bad_files.settled(base)
        return arrivals(base, self.config, there)

    def stuck(self, found: Arrivals) -> set[str]:
        """Return the names of the files that the last run could not move; each is a problem."""
        notes = sightings(self.base).stuck
        stuck = [ready.feed for ready in found.ready if ready.feed.path in notes]
        for entry in stuck:
            self.add(f"{entry.path}: {notes[entry.path]}")
        return {entry.name for entry in stuck}

    def check_outputs(self) -> None:
        """Add a problem for each dataset in output/ that does not belong there."""
        base = self.base
        outputs = [dataset.path for dataset in base.datasets() if dataset.path.startswith(base.at("output/"))]
        made, faults, _ = self.log.readable()
        if faults:
            return  # they are problems already, and an entry that cannot be read may name a dataset
        known = {base.at(version.path) for version in made if version.path and not base.storage.renames}
        committed = {version.dataset for version in made if version.dataset is not None}
        for path in outputs:
            if has_whole_copy(base, path, committed):
                self.add(f"{path}: its manifest is damaged; put it back: mutator verify --repair {base.given}")
            elif path not in known:
                self.add(f"{path}: does not belong to any version of this base; move it away")


def status(path: str, config: Config) -> BaseRunStatus:
    """Return the status of a base."""
    base = open_base(path)
    view = _View(base, config)
    with ExitStack() as stack:
        recovered = view.recover(stack)
        versions = view.versions()
        latest = versions[-1] if versions else None
        found = view.see(view.arrivals)
        master = base.master if base.storage.renames else None if latest is None else master_of(base, latest)
        if recovered is not None and not recovered.stopped:
            view.see(lambda: forget_repaired(base))
        if master is not None:
            view.see(lambda: view.check_master(master, latest))
        if recovered is not None and not recovered.stopped:  # it may have left a version's dataset in output/
            view.see(view.check_outputs)
        stuck = (view.see(lambda: view.stuck(found)) if found is not None else None) or set()
        failed = view.see(lambda: failed_run(base))
        if failed is not None:
            view.add(failed.problem())
        aside = view.see(lambda: set_aside(base)) or ()
        for problem in bad_files.problems(base, aside):
            view.add(problem)
        return BaseRunStatus(
            base=base.given,
            running=view.see(lambda: holder(base)) if recovered is None else None,
            version=latest,
            made=None if versions is None else _made(versions),
            master=None if master is None else base.shown(master),
            ready=None if found is None else tuple(one.feed.name for one in found.ready if one.feed.name not in stuck),
            waiting=None if found is None else found.waiting,
            recovered=tuple(recovered.actions) if recovered else (),
            problems=tuple(view.problems),
            failed=failed,
            failed_files=aside,
            oldest_check=None if master is None else _oldest_check(base, master),
        )


def set_aside(base: Base) -> tuple[bad_files.FailedFile, ...]:
    """Return the feed files of a base that are set aside. Raises StorageError."""
    versions = cache(lambda: Log(base.path).readable()[0])

    def merged(number: int) -> list[str]:
        return [part.name for version in versions() if version.number > number for part in version.feed]

    return bad_files.failed_files(base, merged)


def _oldest_check(base: Base, master: str) -> tuple[str, str | None] | None:
    """Return the file of the master that was checked longest ago, and when; None if the manifest cannot be read."""
    with suppress(MutatorError):  # it is one of the problems
        manifest = read_manifest(base.storage, master)
        part = oldest_check(manifest) if manifest is not None else None
        return (part.path, part.checked) if part is not None else None
    return None


def _made(versions: Sequence[Commit]) -> Commit:
    """Return the version that made or restored the master. versions: oldest first."""
    dataset = versions[-1].dataset
    made = (one for one in reversed(versions) if one.action not in UNCHANGED and one.dataset == dataset)
    return next(made, NONE)
