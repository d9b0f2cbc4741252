"""The commands of a base: run, status, history, restore. Each begins with recovery."""

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

from mutator.config import Config
from mutator.dataset.directory import differing_parts, read_manifest
from mutator.dataset.manifest import Manifest
from mutator.dataset.version_log import NONE, UNCHANGED, Log, Version
from mutator.errors import MutatorError, error
from mutator.errors.exceptions import BUSY, rebuilt, suppressed
from mutator.errors.failpoints import failpoint
from mutator.errors.interrupts import Interrupted, deferred_signals
from mutator.rules import file_names
from mutator.workflow.directory import journal, versions
from mutator.workflow.directory.arrivals import arrivals
from mutator.workflow.directory.journal import Journal
from mutator.workflow.directory.lock import holder, locked
from mutator.workflow.directory.paths import Base, Dataset, open_base, probe_dataset
from mutator.workflow.directory.recovery import Recovered, abandon, recover, remove_dead_outputs
from mutator.workflow.directory.results import KeptVersion, Outcome, Status
from mutator.workflow.directory.run_phases import Merge, Run

_LOOKS = 30  # tries for a lock that another process holds only to look
_PATIENCE = 10.0  # seconds that a run waits for files whose only fault is that they are too young


def run(path: str, config: Config, merge: Merge, *, sleep: Callable[[float], None] = time.sleep) -> Outcome:
    """Merge the feed files that have arrived into the master of a base.

    Raises MutatorError. An error before the commit leaves the feed files in incr/ and the master unchanged; after an
    error later on, the next command finishes the run.
    """
    base = open_base(path)
    if config.symlink_manifest and base.storage.renames:
        raise error(
            "usage", what=f"symlink.manifest: not needed, because {base.given}/master/ is always whole; unset it"
        )
    base.make()
    with _patiently_locked(base, config, sleep):
        recovered = recover(base, Log(base.path))
        # An adopted master need not be the dataset of the latest version.
        adopted = ("base.master",) if config.master_adopt else ()
        for problem in recovered.problems:
            if problem.kind not in adopted:
                raise problem
        one = Run(base, config, merge)
        found = one.arrivals()
        if not found.ready and found.seconds is not None and found.seconds <= _PATIENCE:
            sleep(found.seconds + 0.01)
        return _run(one, tuple(recovered.actions))


@contextmanager
def _patiently_locked(base: Base, config: Config, sleep: Callable[[float], None]) -> Iterator[None]:
    """Hold the lock; wait for a process that only looks."""
    for left in reversed(range(_LOOKS)):
        try:
            with _locked(base, "run", config.lock_timeout):
                yield
                return
        except MutatorError as fault:
            if fault.kind not in BUSY or not left:
                raise
            owner = holder(base)
            if owner is not None and owner.run != "look":
                raise
        sleep(0.1)


@contextmanager
def _locked(base: Base, run: str, timeout: float) -> Iterator[None]:
    """Hold the lock. Where the disk is too full for it, first remove what dead runs have written."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(base, run, timeout))
        except MutatorError as fault:
            if fault.kind != "storage.full" or not remove_dead_outputs(base, Log(base.path)):
                raise
            stack.enter_context(locked(base, run, timeout))
        yield


def _run(one: Run, recovered: tuple[str, ...]) -> Outcome:
    stopped = None
    try:
        merged = one.claim() and one.merge()
        if merged:
            one.verify()
        with deferred_signals():  # this is quick, and a half-done commit would have to be explained
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
        if lost:  # the cause is that another run claimed the files or changed the master
            raise one.why_lost() from None
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
        rewritten=one.rewritten,
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
    with contextlib.suppress(MutatorError):  # then the next command does it; the first fault is the one to report
        one.roll_back()


@contextmanager
def _settled(base: Base, config: Config) -> Iterator[Recovered | None]:
    """Hold the lock and yield the recovery; None if another process is at work."""
    recovered = None
    with ExitStack() as stack:
        with suppressed(*BUSY):
            stack.enter_context(_locked(base, "look", config.lock_timeout))
            recovered = recover(base, Log(base.path))
        yield recovered


def status(path: str, config: Config) -> Status:
    """Return the status of a base."""
    base = open_base(path)
    with _settled(base, config) as recovered:
        log = Log(base.path)
        latest = log.latest()
        found = arrivals(base, config, () if base.storage.renames else log.all())
        problems = [base.shown(str(problem)) for problem in recovered.problems] if recovered else []
        problems += _differences(base, log, latest)
        outputs = [dataset.path for dataset in base.datasets() if dataset.path.startswith(base.at("output/"))]
        known = set() if base.storage.renames else {base.at(made.path) for made in log.all() if made.path is not None}
        foreign = [path for path in outputs if path not in known] if recovered else []
        problems += [
            f"{base.shown(path)}: does not belong to any version of this base; move it away" for path in foreign
        ]
        return Status(
            base=base.given,
            running=holder(base) if recovered is None else None,
            version=latest,
            made=_made(log, latest),
            master=base.shown(versions.master_of(base, latest)),
            ready=tuple(ready.feed.name for ready in found.ready),
            waiting=found.waiting,
            recovered=tuple(recovered.actions) if recovered else (),
            problems=tuple(problems),
        )


def history(path: str, config: Config) -> list[KeptVersion]:
    """Return the versions of a base, oldest first, each with the path of its dataset."""
    base = open_base(path)
    with _settled(base, config):
        log = Log(base.path)
        paths = {dataset.commit: dataset.path for dataset in base.datasets() if dataset.commit is not None}
        paths[probe_dataset(base.storage, base.master).commit or ""] = base.master
        given = versions.given_master(base, log)
        first = given if base.storage.stat(given) is not None else None
        found = [(version, paths.get(version.dataset) if version.dataset else first) for version in (NONE, *log.all())]
        return [KeptVersion(version, base.shown(path) if path else None) for version, path in found]


def restore(path: str, to: int, config: Config) -> Outcome:
    """Make an older version the master again, as a new version; the history stays complete.

    The dataset comes back whole: its rows, tombstones, row sequences, horizon and list of feed files.
    """
    base = open_base(path)
    with _locked(base, "restore", config.lock_timeout):
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
        version = before.next(
            "restore",
            name,
            time.time(),
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
            recovered=tuple(recovered.actions),
            stopped=stopped,
            restored=to,
        )


def _commit(base: Base, log: Log, version: Version, begun: Journal) -> None:
    """Commit a restore; if that fails, make sure that it never commits later."""
    try:
        log.commit(version)
    except MutatorError:
        if abandon(base, log, version.run, begun):
            journal.end(base, version.run)
            raise


def _restorable(base: Base, log: Log, to: int) -> tuple[Dataset, Manifest]:
    if to not in (0, *log.numbers()):
        raise error("base.version", path=base.given, why=f"there is no version {to}")
    wanted = log.read(to).dataset if to else None
    if wanted is not None and wanted == log.latest().dataset == probe_dataset(base.storage, base.master).commit:
        raise error("base.version", path=base.given, why=f"version {to} is the master already")
    found = base.find(wanted) if wanted is not None else probe_dataset(base.storage, versions.given_master(base, log))
    if found is None or base.storage.stat(found.path) is None:
        raise error("base.version", path=base.given, why=f"the dataset of version {to} is not in backup/ any more")
    manifest = read_manifest(base.storage, found.path)
    if manifest is None:
        why = "the dataset from before the first run has no manifest: start a new base with it as its master"
        raise error("base.version", path=found.path, why=why)
    problems = differing_parts(base.storage, found.path, manifest.parts())
    if problems:
        raise error("base.version", path=found.path, why=file_names.first_few(problems))
    return found, manifest


def _differences(base: Base, log: Log, latest: Version) -> list[str]:
    """Return the problems that show without reading data: in the log, and in the sizes of the master's files."""
    try:
        log.all()
        master = versions.master_of(base, latest)
        manifest = read_manifest(base.storage, master) if latest.dataset is not None else None
    except MutatorError as fault:
        return [base.shown(str(fault))]
    if manifest is None or manifest.commit != latest.dataset:
        if latest.dataset is None or base.storage.renames:  # the recovery has reported it
            return []
        return [base.shown(str(versions.lost_master(base, log, latest)))]
    return [f"{base.shown(master)}: {part}" for part in differing_parts(base.storage, master, manifest.parts())]


def _made(log: Log, latest: Version) -> Version:
    """Return the version that made or restored the master."""
    found = map(log.read, reversed(log.numbers()))
    made = (version for version in found if version.action not in UNCHANGED and version.dataset == latest.dataset)
    return next(made, NONE)
