"""What an operator does with a base: run, look at it, go back to an older version. Recovery comes first in each."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from mutator.config import Config
from mutator.dataset.directory import differing_parts, read_manifest
from mutator.dataset.manifest import Manifest
from mutator.dataset.version_log import NONE, UNCHANGED, Log, Version
from mutator.errors import BUSY, MutatorError, error, rebuilt
from mutator.errors.failpoints import failpoint
from mutator.errors.interrupts import Interrupted, deferred_signals
from mutator.rules import file_names
from mutator.workflow.directory import journal, versions
from mutator.workflow.directory.base import Base, Dataset, open_base, probe_dataset
from mutator.workflow.directory.claim import arrivals
from mutator.workflow.directory.journal import Journal
from mutator.workflow.directory.lock import holder, locked
from mutator.workflow.directory.phases import Merge, Run
from mutator.workflow.directory.recovery import Recovered, abandon, recover
from mutator.workflow.directory.results import Outcome, Place, Status

__all__ = ["history", "restore", "run", "status"]

_LOOKS = 30  # tries for a lock that somebody holds who only looks
_PATIENCE = 10.0  # seconds that a run waits for files that are only too young


def run(path: str, config: Config, merge: Merge, *, sleep: Callable[[float], None] = time.sleep) -> Outcome:
    """Merge the feed files that have arrived into the master of a base.

    Raises the errors of the catalogue. Before the commit, whatever it raises leaves the feed files in incr/ and the
    master as it was; after it, the next command finishes what is left.
    """
    base = open_base(path)
    if config.symlink_manifest and base.storage.renames:
        raise error(
            "usage", what=f"symlink.manifest: not needed, because {base.given}/master/ is always whole; unset it"
        )
    base.make()
    with _patiently_locked(base, config, sleep):
        recovered = recover(base, Log(base.path))
        if recovered.problems:
            raise recovered.problems[0]
        one = Run(base, config, merge)
        found = one.arrivals()
        if not found.ready and found.seconds is not None and found.seconds <= _PATIENCE:
            sleep(found.seconds + 0.01)
        return _run(one, tuple(recovered.actions))


@contextmanager
def _patiently_locked(base: Base, config: Config, sleep: Callable[[float], None]) -> Iterator[None]:
    """Hold the lock; wait for somebody who only looks."""
    for left in reversed(range(_LOOKS)):
        try:
            with locked(base, "run", config.lock_timeout):
                yield
                return
        except MutatorError as fault:
            if fault.kind not in BUSY or not left:
                raise
            owner = holder(base)
            if owner is not None and owner.run != "look":
                raise
        sleep(0.1)


def _run(one: Run, recovered: tuple[str, ...]) -> Outcome:
    stopped = None
    try:
        merged = one.claim() and one.merge()
        if merged:
            one.verify()
        with deferred_signals():  # from here on it takes no time, and what is half done would have to be explained
            if merged:
                one.commit()
            _finish(one)
    except Interrupted as stop:
        if one.version is None:
            _roll_back(one)
            raise
        stopped = stop.number  # all of it is done
    except MutatorError as fault:
        if one.version is not None:
            raise
        lost = one.is_lost()
        _roll_back(one)
        if lost:  # whatever went wrong, it is because another run has taken the files, or changed the master
            raise error("base.lost", path=one.base.given, version=one.before.number + 1) from None
        raise rebuilt(fault.kind, one.base.shown_put_back(str(fault), one.id)) from None
    except BaseException:
        if one.version is None:
            _roll_back(one)
        raise
    return Outcome(
        base=one.base.given,
        run=one.id,
        version=one.version.number if one.version else None,
        mode=one.mode,
        claimed=tuple(arrived.name for arrived in one.claimed),
        skipped=one.skipped,
        waiting=one.waiting,
        recovered=recovered,
        report=one.merged.report if one.merged else None,
        stopped=stopped,
    )


def _finish(one: Run) -> None:
    try:
        if one.version is not None:
            one.publish()
        one.archive()
    except MutatorError as fault:
        if one.version is None:
            raise
        raise error("publish.later", path=one.base.path, version=one.version.number, why=fault) from None


def _roll_back(one: Run) -> None:
    with contextlib.suppress(MutatorError):  # then the next command does it; the first fault is the one to tell
        one.roll_back()


@contextmanager
def _settled(base: Base, config: Config) -> Iterator[Recovered | None]:
    """Recover, and hold the lock; None where somebody is at work."""
    try:
        with locked(base, "look", config.lock_timeout):
            yield recover(base, Log(base.path))
    except MutatorError as fault:
        if fault.kind not in BUSY:
            raise
        yield None


def status(path: str, config: Config) -> Status:
    """Return what a base is doing, and what waits."""
    base = open_base(path)
    with _settled(base, config) as recovered:
        log = Log(base.path)
        latest = log.latest()
        found = arrivals(base, config, () if base.storage.renames else log.all())
        problems = [base.shown(str(problem)) for problem in recovered.problems] if recovered else []
        problems += _differences(base, log, latest)
        inside = [one.path for one in base.datasets() if one.path.startswith(base.at("output/"))]
        known = set() if base.storage.renames else {base.at(one.path) for one in log.all() if one.path is not None}
        strangers = [one for one in inside if one not in known] if recovered else []
        problems += [f"{base.shown(one)}: is no dataset of this base's versions; move it away" for one in strangers]
        return Status(
            base=base.given,
            running=holder(base) if recovered is None else None,
            version=latest,
            made=_made(log, latest),
            master=base.shown(versions.master_of(base, latest)),
            ready=tuple(one.name for one in found.ready),
            waiting=found.waiting,
            recovered=tuple(recovered.actions) if recovered else (),
            problems=tuple(problems),
        )


def history(path: str, config: Config) -> list[Place]:
    """Return the versions of a base, oldest first, each with the place of its dataset (None: removed)."""
    base = open_base(path)
    with _settled(base, config):
        log = Log(base.path)
        lying = {one.commit: one.path for one in base.datasets() if one.commit is not None}
        lying[probe_dataset(base.storage, base.master).commit or ""] = base.master
        given = _given(base, log)
        there = given if base.storage.stat(given) is not None else None
        places = [Place(one, lying.get(one.dataset) if one.dataset else there) for one in (NONE, *log.all())]
        return [replace(one, path=base.shown(one.path) if one.path else None) for one in places]


def restore(path: str, to: int, config: Config) -> Outcome:
    """Make an older version the master again, as a new version; nothing of the history is lost by it.

    The dataset comes back whole: its rows, tombstones, row sequences, horizon and list of feed files.
    """
    base = open_base(path)
    with locked(base, "restore", config.lock_timeout):
        log = Log(base.path)
        recovered = recover(base, log)
        for problem in recovered.problems:
            if problem.kind == "base.log":
                raise problem
        before = log.latest()
        found, manifest = _restorable(base, log, to)
        name = file_names.new_run_id(time.time())
        begun = Journal(name, "restore", before.number, datetime.now(UTC).isoformat(timespec="seconds"))
        journal.begin(base, begun)
        failpoint("restore.journaled")
        if versions.is_going(base, manifest.commit):
            journal.end(base, name)
            raise error("base.version", path=found.path, why=f"version {to} is being removed, because it is too old")
        version = Version(
            number=before.number + 1,
            id=uuid.uuid4().hex,
            action="restore",
            run=name,
            committed=max(datetime.now(UTC).isoformat(timespec="milliseconds"), before.committed),
            dataset=manifest.commit,
            path=found.path.removeprefix(base.path + "/"),
            rows=sum(part.rows for part in manifest.files),
            restored=to,
        )
        stopped = None
        try:
            with deferred_signals():
                _commit(base, log, version, begun)
                failpoint("restore.committed")
                mode = versions.publish(base, log)
                versions.back_up(base, log)
                journal.end(base, name)
        except Interrupted as stop:
            stopped = stop.number  # all of it is done
        return Outcome(
            base=base.given,
            run=name,
            version=version.number,
            mode=mode,
            claimed=(),
            skipped=(),
            waiting=(),
            recovered=tuple(recovered.actions),
            report=None,
            stopped=stopped,
            restored=to,
        )


def _commit(base: Base, log: Log, version: Version, begun: Journal) -> None:
    """Commit a restore; where that fails, make sure that it never happens later."""
    try:
        log.commit(version)
    except MutatorError:
        if abandon(base, log, version.run, begun):
            journal.end(base, version.run)
            raise


def _restorable(base: Base, log: Log, to: int) -> tuple[Dataset, Manifest]:
    where = base.given
    if to not in (0, *log.numbers()):
        raise error("base.version", path=where, why=f"there is no version {to}")
    wanted = log.read(to).dataset if to else None
    if wanted is not None and wanted == log.latest().dataset == probe_dataset(base.storage, base.master).commit:
        raise error("base.version", path=where, why=f"version {to} is the master already")
    found = base.find(wanted) if wanted is not None else probe_dataset(base.storage, _given(base, log))
    if found is None or base.storage.stat(found.path) is None:
        raise error("base.version", path=where, why=f"the dataset of version {to} is not in backup/ any more")
    manifest = read_manifest(base.storage, found.path)
    if manifest is None:
        why = "what was given before the first run has no manifest: start a new base with it as its master"
        raise error("base.version", path=found.path, why=why)
    problems = differing_parts(base.storage, found.path, manifest.parts())
    if problems:
        raise error("base.version", path=found.path, why=file_names.first_few(problems))
    return found, manifest


def _differences(base: Base, log: Log, latest: Version) -> list[str]:
    """Say what can be seen to be wrong without reading any data: the log, and the sizes of the master's files."""
    try:
        log.all()
        place = versions.master_of(base, latest)
        manifest = read_manifest(base.storage, place) if latest.dataset is not None else None
    except MutatorError as fault:
        return [base.shown(str(fault))]
    if manifest is None or manifest.commit != latest.dataset:
        if latest.dataset is None or base.storage.renames:  # the recovery has said so
            return []
        problem = error("base.master", path=place, version=latest.number, dataset=latest.dataset)
        return [base.shown(str(problem))]
    return [f"{base.shown(place)}: {one}" for one in differing_parts(base.storage, place, manifest.parts())]


def _made(log: Log, latest: Version) -> Version:
    """Return the version that made the master, or brought it back."""
    numbers = reversed(log.numbers())
    found = (log.read(number) for number in numbers)
    return next((one for one in found if one.action not in UNCHANGED and one.dataset == latest.dataset), NONE)


def _given(base: Base, log: Log) -> str:
    """Return where the master lies that was there before the first run."""
    if not base.storage.renames or log.latest().dataset is None:
        return base.master
    first = log.first_run()
    return base.at("backup", str(first.number - 1 if first is not None else 0))
