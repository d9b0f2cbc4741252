"""The commands of a base: run, whatever its target is; history and restore of a master. Each begins with recovery."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime

from mutator.config import Config
from mutator.dataset.commits import REORDER, Commit, Restored
from mutator.dataset.directory import differing_parts, read_manifest
from mutator.dataset.state import State
from mutator.dataset.version_log import NONE, Log, next_commit
from mutator.errors import MutatorError, error
from mutator.errors.exceptions import BUSY, suppressed
from mutator.errors.failpoints import failpoint
from mutator.errors.interrupts import Interrupted, deferred_signals
from mutator.pipeline.version_list import entry_of
from mutator.rules import file_names
from mutator.workflow.directory import bad_files, cures, lock, versions
from mutator.workflow.directory.bad_files import Tried
from mutator.workflow.directory.claimed_feed import PATIENCE
from mutator.workflow.directory.failed_run import noted
from mutator.workflow.directory.lock import Journal, patient
from mutator.workflow.directory.master_target import MasterTarget
from mutator.workflow.directory.paths import Base, FoundDataset, given_master, open_base, probe_dataset
from mutator.workflow.directory.recovery import locked_with_room, recover
from mutator.workflow.directory.results import RunOutcome
from mutator.workflow.directory.run_phases import Run, Target, completed_later
from mutator.workflow.directory.versions import KeptVersion


def run(target: Target, *, sleep: Callable[[float], None] = time.sleep, tried: Tried | None = None) -> RunOutcome:
    """Merge the feed files that have arrived in a base into its target.

    Raises MutatorError. An error before the commit leaves the feed files in incr/ and adds no version; after an error
    later on, the next command finishes the run. tried: of a watch.
    """
    base, config = target.base, target.config
    base.make(target.directories)
    with patient(base, lambda: locked_with_room(target, "run"), sleep):
        recovered = recover(target)
        target.check(recovered.problems)
        one, actions = Run(target), tuple(recovered.actions)
        if tried is not None and tried.failed:
            same = target.same_until(tried.version)
            if tried.look(config, same, one.arrivals().ready):
                return _outcome(one, actions)
        with noted(base, one.id, lambda: one.feed.names):
            found = one.arrivals()
            if not found.ready and found.seconds is not None and found.seconds <= PATIENCE:
                sleep(found.seconds + 0.01)
            try:
                return _followed(target, do_phases(one, actions))
            except MutatorError:
                if tried is not None and one.feed.all_bad:
                    tried.note(config, one.before.number, one.feed.ready)
                raise


def _followed(target: Target, outcome: RunOutcome) -> RunOutcome:
    """Return the outcome of a run after the target has followed it. A signal meanwhile is too late to stop the run."""
    if outcome.stopped is not None:
        return outcome
    try:
        return replace(outcome, out_of_date=(*outcome.out_of_date, *target.follow()))
    except Interrupted as stop:
        return replace(outcome, stopped=stop.number)


def do_phases(one: Run, recovered: tuple[str, ...] = ()) -> RunOutcome:
    """Do the phases of a run; if one fails before the commit, undo them. The caller holds the lock."""
    stopped = None
    try:
        merged = one.claim() and one.merge()
        if merged:
            one.verify()
        with deferred_signals():  # this is quick, and a half-done commit would have to be explained
            if merged:
                one.commit()
            one.end()
    except Interrupted as stop:
        if not one.has_ended:
            if one.version is None:
                one.undo(stop)
            if one.version is None:
                raise
            with suppress(Interrupted), deferred_signals():
                one.end()
        stopped = stop.number  # all of it is done
    except MutatorError as fault:
        if one.version is not None:
            raise
        lost = one.target.why_lost(one)
        undone = one.undo(fault)
        raise lost or one.explained(fault, undone=undone) from None
    except BaseException as fault:
        if one.version is None:
            one.undo(fault)
        raise
    return _outcome(one, recovered, stopped)


def _outcome(one: Run, recovered: tuple[str, ...], stopped: int | None = None) -> RunOutcome:
    merged, version = one.merged, one.version
    return RunOutcome(
        base=one.base.given,
        run=one.id,
        version=version,
        claimed=one.feed.names,
        skipped=merged.skipped if merged is not None else (),
        rewritten=one.feed.rewritten,
        waiting=one.feed.waiting,
        stuck=one.feed.stuck,
        failed_files=bad_files.of_run(one.base, one.id, one.feed.bad.values()),
        recovered=recovered,
        report=merged.report if merged is not None and version is not None else None,
        stopped=stopped,
        mode=one.mode,
        aside=one.aside,
        damaged=one.damaged,
        out_of_date=one.target.warnings,
        table=one.target.table,
    )


def reorder(target: MasterTarget) -> int | None:
    """Give the master of a base another order, as a new version. The merge of the target does it.

    Return the signal that came after the commit, when all was done; None for none.
    """
    base = target.base
    with locked_with_room(target, "order"):
        recovered = recover(target)
        target.check(recovered.problems)
        one = Run(target)
        one.action = REORDER
        lock.begin(base, Journal(one.id, REORDER, one.before.number, datetime.now(UTC).isoformat(timespec="seconds")))
        failpoint("order.journaled")
        try:
            target.prepare(one)
            one.merged = target.merge(one)
            target.verify(one)
        except BaseException:
            target.remove(one.id)
            lock.end(base, one.id)
            raise
        return _commit(one, lambda: target.commit(one), lambda: failpoint("order.committed"))


def _commit(one: Run, commit: Callable[[], object], then: Callable[[], None]) -> int | None:
    """Commit a version, and publish it; return the signal that came after the commit, when all was done; None for none.

    then: called after the commit.
    """
    target, base, has_output = one.target, one.base, one.merged is not None
    try:
        with deferred_signals():
            try:
                commit()
            except MutatorError:
                if target.give_up(one.id, one.before.number):  # it never commits later
                    if has_output:
                        target.remove(one.id)
                    lock.end(base, one.id)
                    raise
            one.version = one.before.number + 1
            then()
            with completed_later(base, one.version):
                target.publish(one)
                if has_output:
                    target.tidy(one)
                lock.end(base, one.id)
    except Interrupted as stop:
        return stop.number
    return None


def history(path: str, config: Config) -> list[KeptVersion]:
    """Return the versions of a base, oldest first, each with the path of its dataset."""
    target = MasterTarget(open_base(path), config)
    base, log = target.base, target.log
    with ExitStack() as stack:
        with suppressed(*BUSY):
            stack.enter_context(locked_with_room(target, "look"))
            recover(target)
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


def restore(path: str, to: int, config: Config) -> RunOutcome:
    """Make an older version the master again, as a new version; the history stays complete.

    The dataset comes back whole: its rows, tombstones, side files, horizon, floor and list of feed files.
    """
    target = MasterTarget(open_base(path), config)
    base, log = target.base, target.log
    with locked_with_room(target, "restore"):
        recovered = recover(target)
        if recovered.stopped:
            raise recovered.problems[-1]
        found, manifest = _restorable(base, log, to)
        one = Run(target)
        lock.begin(base, Journal(one.id, "restore", one.before.number, datetime.now(UTC).isoformat(timespec="seconds")))
        failpoint("restore.journaled")
        if versions.is_going(base, manifest.commit.id):
            lock.end(base, one.id)
            raise _cannot_restore(base, log, found.path, f"version {to} is being removed, because it is too old")
        version = next_commit(
            one.before,
            "restore",
            one.id,
            one.clock(),
            dataset=manifest.commit.id,
            path=found.path.removeprefix(base.path + "/"),
            floor=manifest.commit.floor,
            records=manifest.commit.records,
            restored=Restored(version=to),
        )
        stopped = _commit(one, lambda: log.commit(version), lambda: failpoint("restore.committed"))
        return replace(_outcome(one, tuple(recovered.actions), stopped), restored=to)


def _restorable(base: Base, log: Log, to: int) -> tuple[FoundDataset, State]:
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
    return error("base.version", path=base.shown(path), why=why, others=base.said(others))
