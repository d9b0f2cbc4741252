"""The commands of a base: run, status, history, restore. Each begins with recovery."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

from mutator.config import Config
from mutator.dataset.commits import Commit, Restored
from mutator.dataset.directory import differing_parts, read_manifest
from mutator.dataset.manifest import Manifest
from mutator.dataset.version_log import NONE, Log, next_commit
from mutator.errors import MutatorError, error
from mutator.errors.exceptions import BUSY, rebuilt, suppressed
from mutator.errors.failpoints import failpoint
from mutator.errors.interrupts import Interrupted, deferred_signals
from mutator.pipeline.version_list import entry_of
from mutator.rules import file_names
from mutator.workflow.directory import bad_files, cures, lock, versions
from mutator.workflow.directory.bad_files import Tried
from mutator.workflow.directory.claimed_feed import PATIENCE
from mutator.workflow.directory.failed_run import noted
from mutator.workflow.directory.lock import Journal, patient
from mutator.workflow.directory.paths import Base, FoundDataset, given_master, open_base, probe_dataset
from mutator.workflow.directory.recovery import Recovered, abandon, locked_with_room, recover
from mutator.workflow.directory.results import BaseRunOutcome
from mutator.workflow.directory.run_phases import Merge, Run
from mutator.workflow.directory.versions import KeptVersion


def run(
    path: str,
    config: Config,
    merge: Merge,
    *,
    sleep: Callable[[float], None] = time.sleep,
    tried: Tried | None = None,
) -> BaseRunOutcome:
    """Merge the feed files that have arrived into the master of a base.

    Raises MutatorError. An error before the commit leaves the feed files in incr/ and the master unchanged; after an
    error later on, the next command finishes the run. tried: of a watch.
    """
    base = open_base(path)
    if config.output.symlink_manifest and base.storage.renames:
        raise error(
            "usage", what=f"symlink.manifest: not needed, because {base.given}/master/ is always whole; unset it"
        )
    base.make()
    with patient(base, lambda: locked_with_room(base, "run", config.base.lock_timeout), sleep):
        recovered = recover(base, Log(base.path))
        # An adopted master need not be the dataset of the latest version.
        adopted = ("base.master",) if config.inputs.master_adopt else ()
        for problem in recovered.problems:
            if problem.kind not in adopted:
                raise problem
        _check_noted(base, config)
        one = Run(base, config, merge)
        if tried is not None and tried.failed and tried.look(config, one.before.number, one.arrivals().ready):
            return _outcome(one, tuple(recovered.actions))
        with noted(base, one.id, lambda: one.feed.names):
            found = one.arrivals()
            if not found.ready and found.seconds is not None and found.seconds <= PATIENCE:
                sleep(found.seconds + 0.01)
            try:
                return _run(one, tuple(recovered.actions))
            except MutatorError:
                if tried is not None and one.feed.all_bad:
                    tried.note(config, one.before.number, one.feed.ready)
                raise


def _check_noted(base: Base, config: Config) -> None:
    """Raise StateError if the master has a file known to be damaged: a run could take it over without reading it."""
    cures.forget_repaired(base)
    if cures.notes(base) and not config.inputs.master_adopt:
        for fault in cures.master_faults(base, Log(base.path)):
            raise rebuilt(fault.kind, base.shown(str(fault)))


def _run(one: Run, recovered: tuple[str, ...]) -> BaseRunOutcome:
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
        fault = _explained(one, fault)
        raise rebuilt(fault.kind, one.base.shown_put_back(str(fault), one.id)) from None
    except BaseException:
        if one.version is None:
            _roll_back(one)
        raise
    return _outcome(one, recovered, stopped)


def _outcome(one: Run, recovered: tuple[str, ...], stopped: int | None = None) -> BaseRunOutcome:
    return BaseRunOutcome(
        base=one.base.given,
        run=one.id,
        version=one.version.number if one.version else None,
        mode=one.mode,
        claimed=one.feed.names,
        skipped=one.skipped,
        rewritten=one.feed.rewritten,
        waiting=one.feed.waiting,
        stuck=one.feed.stuck,
        failed_files=bad_files.of_run(one.base, one.id, one.feed.bad.values()),
        aside=one.aside,
        damaged=one.damaged,
        recovered=recovered,
        report=one.merged.report if one.merged else None,
        stopped=stopped,
    )


def _explained(one: Run, fault: MutatorError) -> MutatorError:
    try:
        return cures.explained(one.base, one.log, fault)
    except MutatorError:
        return fault  # the base cannot be read; the first fault is the one to report


def _finish(one: Run) -> None:
    if one.version is None:
        one.archive()
        return
    with _after_commit(one.base, one.version):
        one.publish()
        one.archive()


@contextmanager
def _after_commit(base: Base, version: Commit) -> Iterator[None]:
    """Raise the errors of a block as those of a version that exists: the next command completes it."""
    try:
        yield
    except MutatorError as fault:
        raise error("publish.later", path=base.path, version=version.number, why=fault) from None


def _roll_back(one: Run) -> None:
    with contextlib.suppress(MutatorError):  # then the next command does it; the first fault is the one to report
        one.roll_back()


@contextmanager
def _settled(base: Base, config: Config) -> Iterator[Recovered | None]:
    """Hold the lock and yield the recovery; None if another process is at work."""
    recovered = None
    with ExitStack() as stack:
        with suppressed(*BUSY):
            stack.enter_context(locked_with_room(base, "look", config.base.lock_timeout))
            recovered = recover(base, Log(base.path))
        yield recovered


def history(path: str, config: Config) -> list[KeptVersion]:
    """Return the versions of a base, oldest first, each with the path of its dataset."""
    base = open_base(path)
    with _settled(base, config):
        log = Log(base.path)
        all_versions = log.all()
        paths, damaged = dict[str, str](), dict[str, str]()
        for dataset in (*base.datasets(), probe_dataset(base.storage, base.master)):
            if dataset.commit is not None:
                paths[dataset.commit] = dataset.path
            elif dataset.foreign and (commit := _damaged_dataset(base, all_versions, dataset)) is not None:
                damaged[commit] = dataset.path
        given = given_master(base, log)
        first = given if base.storage.stat(given) is not None else None
        found = []
        for version in (NONE, *all_versions):
            whole = paths.get(version.dataset) if version.dataset else first
            where = whole or damaged.get(version.dataset or "")
            shown = base.shown(where) if where else None
            found.append(entry_of(version, KeptVersion, path=shown, damaged=where != whole))
        return found


def _damaged_dataset(base: Base, all_versions: Sequence[Commit], dataset: FoundDataset) -> str | None:
    """Return the commit ID of a dataset whose manifest cannot be read, by its path; None if the path does not tell."""
    if base.storage.renames and dataset.path == base.master:
        return all_versions[-1].dataset if all_versions else None
    relative = dataset.path.removeprefix(base.path + "/")
    named = (version.dataset for version in all_versions if version.number == dataset.backup)
    made = (version.dataset for version in all_versions if not base.storage.renames and version.path == relative)
    return next((commit for commit in (*named, *made) if commit is not None), None)


def restore(path: str, to: int, config: Config) -> BaseRunOutcome:
    """Make an older version the master again, as a new version; the history stays complete.

    The dataset comes back whole: its rows, tombstones, row sequences, horizon and list of feed files.
    """
    base = open_base(path)
    with locked_with_room(base, "restore", config.base.lock_timeout):
        log = Log(base.path)
        recovered = recover(base, log)
        for problem in recovered.problems:
            if problem.kind == "base.log" or recovered.stopped:
                raise problem
        before = log.latest()
        found, manifest = _restorable(base, log, to)
        name = file_names.new_run_id(time.time())
        begun = Journal(name, "restore", before.number, datetime.now(UTC).isoformat(timespec="seconds"))
        lock.begin(base, begun)
        failpoint("restore.journaled")
        if versions.is_going(base, manifest.commit.id):
            lock.end(base, name)
            raise _cannot_restore(base, log, found.path, f"version {to} is being removed, because it is too old")
        version = next_commit(
            before,
            "restore",
            name,
            time.time(),
            dataset=manifest.commit.id,
            path=found.path.removeprefix(base.path + "/"),
            records=sum(part.rows for part in manifest.files),
            restored=Restored(version=to),
        )
        stopped: int | None = None
        aside: tuple[str, ...] = ()
        try:
            with deferred_signals():
                _commit(base, log, version, begun)
                failpoint("restore.committed")
                with _after_commit(base, version):
                    mode = versions.publish(base, log)
                    versions.back_up(base, log)
                    aside = versions.set_aside(base, name)
                    lock.end(base, name)
        except Interrupted as stop:
            stopped = stop.number  # all of it is done
        return BaseRunOutcome(
            base=base.given,
            run=name,
            version=version.number,
            mode=mode,
            recovered=tuple(recovered.actions),
            aside=aside,
            stopped=stopped,
            restored=to,
        )


def _commit(base: Base, log: Log, version: Commit, begun: Journal) -> None:
    """Commit a restore; if that fails, make sure that it never commits later."""
    try:
        log.commit(version)
    except MutatorError:
        if abandon(base, log, version.run, begun):
            lock.end(base, version.run)
            raise


def _restorable(base: Base, log: Log, to: int) -> tuple[FoundDataset, Manifest]:
    if to not in (0, *log.numbers()):
        raise _cannot_restore(base, log, base.given, f"there is no version {to}")
    wanted = log.read(to).dataset if to else None
    if wanted is not None and wanted == log.latest().dataset == probe_dataset(base.storage, base.master).commit:
        faults = cures.master_faults(base, log)
        raise faults[0] if faults else _cannot_restore(base, log, base.given, f"version {to} is the master already")
    found = base.find(wanted) if wanted is not None else probe_dataset(base.storage, given_master(base, log))
    if found is None or base.storage.stat(found.path) is None:
        raise _cannot_restore(base, log, base.given, f"the dataset of version {to} is not in backup/ any more")
    manifest = read_manifest(base.storage, found.path)
    if manifest is None:
        why = "the dataset from before the first run has no manifest, so it cannot be a version"
        raise _cannot_restore(base, log, found.path, why)
    problems = differing_parts(base.storage, found.path, manifest.parts())
    problems += [f"{part.path}: {why}" for part, why in cures.damaged_parts(base, found.path, manifest)]
    if problems:
        raise _cannot_restore(base, log, found.path, file_names.first_few(problems))
    return found, manifest


def _cannot_restore(base: Base, log: Log, path: str, why: str) -> MutatorError:
    """Return the error of a version that cannot be restored, with what can be done instead."""
    numbers = sorted(cures.restorable(base, log))
    others = f"versions that can be restored: {', '.join(map(str, numbers))}"
    if not numbers:
        others = ": ".join(["no other version can be restored", *cures.new_base(base, log)])
    return error("base.version", path=base.shown(path), why=why, others=base.shown(others))
