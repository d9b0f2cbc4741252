"""The commands of a base whose target is a table: run and status. Each begins with recovery.

Compactions of the table of a workflow, while no feed file waits: no lock is held, and they never fail a run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

from mutator.config import Config
from mutator.dataset.version_log import Log
from mutator.errors import MutatorError, StateError, StorageError, error, suppressed
from mutator.errors.exceptions import BUSY
from mutator.errors.interrupts import Interrupted, deferred_signals
from mutator.rules import file_names
from mutator.storage import entries_of
from mutator.workflow.directory import bad_files
from mutator.workflow.directory.arrivals import sightings
from mutator.workflow.directory.bad_files import Tried
from mutator.workflow.directory.claimed_feed import PATIENCE
from mutator.workflow.directory.failed_run import failed_run, noted
from mutator.workflow.directory.lock import holder, locked, patient
from mutator.workflow.directory.paths import Base, open_base
from mutator.workflow.to_table.table_results import TableRunOutcome, TableRunStatus
from mutator.workflow.to_table.table_run import TableRun, recover, set_aside
from mutator.workflow.to_table.target import Look, TargetTable

_AFTER_FAULT = 60.0  # seconds until the next try, at least


class Upkeep:
    """The compactions of one process. Each is a step of a few seconds, so that a feed file waits for one at most."""

    def __init__(self, config: Config, target: TargetTable, clock: Callable[[], float] = time.monotonic) -> None:
        """Compact nothing yet."""
        self._after, self._config, self._target, self._clock = config.base.compact_after, config, target, clock
        self._next = 0.0

    def steps(self, is_quiet: Callable[[], bool]) -> Iterator[Any]:
        """Yield the reports of compactions until nothing is left to do, or no longer quiet.

        Raises the exception of a compaction that failed; it is not tried again for a minute.
        """
        if self._after is None:
            return
        try:
            while self._clock() >= self._next and is_quiet():
                kept = self._target.keep(self._config)
                self._next = self._clock() + kept.seconds
                if kept.report is not None:
                    yield kept.report
        except Exception:
            self._next = self._clock() + max(self._after, _AFTER_FAULT)
            raise

    def applied(self) -> None:
        """Take note that a version was applied: the table may need a compaction once it is idle."""
        if self._after is not None:
            self._next = min(self._next, self._clock() + self._after)


def kept(outcome: TableRunOutcome, upkeep: Upkeep, is_quiet: Callable[[], bool]) -> TableRunOutcome:
    """Return the outcome of a run with the compactions that follow it. is_quiet: whether no feed file waits."""
    if outcome.stopped is not None:
        return outcome
    if outcome.version is not None:
        upkeep.applied()
    reports, fault, stopped = list[Any](), None, None
    try:
        for report in upkeep.steps(is_quiet):
            reports.append(report)  # those before an error count
    except MutatorError as found:
        fault = str(found)
    except Exception as found:  # noqa: BLE001  # a bug of the compaction must not look like one of the run
        fault = f"{type(found).__name__}: {found}"
    except Interrupted as stop:  # the run itself is done
        stopped = stop.number
        fault = "a signal stopped it; the next one goes on"
    return replace(outcome, compactions=tuple(reports), compaction_fault=fault, stopped=stopped)


_DIRECTORIES = ("incr", "working", "archive")
_ANY = 0  # in place of the version that a run starts from: other writers may add versions all the time


def run(
    path: str,
    config: Config,
    target: TargetTable,
    *,
    sleep: Callable[[float], None] = time.sleep,
    tried: Tried | None = None,
) -> TableRunOutcome:
    """Apply the feed files that have arrived in a base to a table.

    Raises MutatorError. An error before the commit leaves the feed files in incr/ and adds no version; after an error
    later on, the next command finishes the run. tried: of a watch.
    """
    base = opened(path, target)
    base.make(_DIRECTORIES)
    with patient(base, lambda: locked(base, "run", config.base.lock_timeout), sleep):
        recovered = recover(base, target)
        one = TableRun(base, config, target)
        if tried is not None and tried.failed and tried.look(config, _ANY, one.arrivals().ready):
            return _outcome(one, tuple(recovered))
        with noted(base, one.id, lambda: one.feed.names):
            found = one.arrivals()
            if not found.ready and found.seconds is not None and found.seconds <= PATIENCE:
                sleep(found.seconds + 0.01)
            try:
                return _run(one, tuple(recovered))
            except MutatorError:
                if tried is not None and one.feed.all_bad:
                    tried.note(config, _ANY, one.feed.ready)
                raise


def opened(path: str, target: TargetTable) -> Base:
    """Return the base at a path. Raises ConfigError, or StateError if its target is a master."""
    base = open_base(path)
    visible = (entry for entry in entries_of(base.master) if not file_names.is_hidden(entry.name))
    if next(visible, None) is not None or Log(base.path).numbers():
        raise error("base.targets", path=base.given, table=base.shown(target.path))
    return base


def _run(one: TableRun, recovered: tuple[str, ...]) -> TableRunOutcome:
    stopped = None
    try:
        if one.claim():
            one.apply()
        with deferred_signals():  # this is quick
            _end(one)
    except Interrupted as stop:
        if not one.has_ended:
            if not one.feed.has_begun or _undone(one, stop):
                raise
            with suppress(Interrupted), deferred_signals():
                _end(one)
        stopped = stop.number  # all of it is done
    except MutatorError as fault:
        if one.applied is None and _undone(one, fault):
            raise one.explained(fault) from None
        raise
    except BaseException as fault:
        if one.applied is None:
            _undone(one, fault)
        raise
    return _outcome(one, recovered, stopped)


def _outcome(one: TableRun, recovered: tuple[str, ...], stopped: int | None = None) -> TableRunOutcome:
    applied, version = one.applied, one.version()
    return TableRunOutcome(
        base=one.base.given,
        table=one.base.shown(one.target.path),
        run=one.id,
        version=version,
        claimed=one.feed.names,
        skipped=applied.skipped if applied is not None else (),
        rewritten=one.feed.rewritten,
        waiting=one.feed.waiting,
        stuck=one.feed.stuck,
        failed_files=bad_files.of_run(one.base, one.id, one.feed.bad.values()),
        recovered=recovered,
        report=applied.report if applied is not None and version is not None else None,
        stopped=stopped,
    )


def _end(one: TableRun) -> None:
    """End a run. Raise errors after its commit as those of a version that exists: the next command completes it."""
    if not one.feed.has_begun:
        return
    if not one.feed.files:  # all of them were gone
        one.roll_back()
        return
    try:
        one.archive()
    except MutatorError as fault:
        version = one.version()
        if version is None:
            raise
        raise error("publish.later", path=one.base.given, version=version, why=fault) from None


def _undone(one: TableRun, fault: BaseException) -> bool:
    """Put the feed files back; return False if the version of the run exists, or if this is unknown or failed."""
    if not one.feed.has_begun:
        return True
    try:
        if one.has_committed(fault):
            return False
        one.roll_back()
    except MutatorError:  # the next command does it; the first fault is the one to report
        return False
    return True


def status(path: str, config: Config, target: TargetTable) -> TableRunStatus:
    """Return the status of a base."""
    base = opened(path, target)
    problems, recovered = list[str](), None
    with ExitStack() as stack:
        try:
            with suppressed(*BUSY):
                stack.enter_context(locked(base, "look", config.base.lock_timeout))
                recovered = recover(base, target)
        except (StateError, StorageError) as fault:
            problems.append(base.shown(f"the recovery stopped: {fault}"))
        found, newest = None, None
        try:
            newest = target.newest()
            found = Look(base, config, target).arrivals()
        except (StateError, StorageError) as fault:
            problems.append(base.shown(str(fault)))
        notes = sightings(base).stuck
        stuck = {one.feed.name: notes[one.feed.path] for one in found.ready if one.feed.path in notes} if found else {}
        problems += [base.shown(f"{base.at('incr', name)}: {why}") for name, why in stuck.items()]
        running = holder(base) if recovered is None and not problems else None
        failed = failed_run(base)
        problems += [failed.problem()] if failed is not None else []
        aside = set_aside(base, target.path)
        problems += bad_files.problems(base, aside)
        return TableRunStatus(
            base=base.given,
            table=base.shown(target.path),
            running=running,
            version=None if newest is None else newest.number,
            committed=None if newest is None else newest.committed,
            records=None if newest is None else newest.records,
            ready=None if found is None else tuple(one.feed.name for one in found.ready if one.feed.name not in stuck),
            waiting=None if found is None else found.waiting,
            recovered=tuple(recovered or ()),
            problems=tuple(problems),
            failed=failed,
            failed_files=aside,
        )
