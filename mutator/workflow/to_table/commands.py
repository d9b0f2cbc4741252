"""The commands of a base whose target is a table: run and status. Each begins with recovery."""

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

from mutator.config import Config
from mutator.errors import MutatorError, StateError, StorageError, error, suppressed
from mutator.errors.exceptions import BUSY
from mutator.errors.interrupts import Interrupted, deferred_signals
from mutator.rules import file_names
from mutator.storage import entries_of
from mutator.workflow.directory.arrivals import Arrivals, arrivals
from mutator.workflow.directory.claimed_feed import PATIENCE
from mutator.workflow.directory.lock import holder, locked, patient
from mutator.workflow.directory.paths import Base, open_base
from mutator.workflow.directory.sightings import sightings
from mutator.workflow.to_table.claims import claims
from mutator.workflow.to_table.recovery import recover
from mutator.workflow.to_table.results import Outcome, Status
from mutator.workflow.to_table.table_run import TableRun
from mutator.workflow.to_table.target import Target

_DIRECTORIES = ("incr", "working", "archive")


def run(path: str, config: Config, target: Target, *, sleep: Callable[[float], None] = time.sleep) -> Outcome:
    """Apply the feed files that have arrived in a base to a table.

    Raises MutatorError. An error before the commit leaves the feed files in incr/ and adds no version; after an error
    later on, the next command finishes the run.
    """
    base = _opened(path, target)
    base.make(_DIRECTORIES)
    with patient(base, lambda: locked(base, "run", config.lock_timeout), sleep):
        recovered = recover(base, target)
        one = TableRun(base, config, target)
        found = one.arrivals()
        if not found.ready and found.seconds is not None and found.seconds <= PATIENCE:
            sleep(found.seconds + 0.01)
        return _run(one, tuple(recovered))


def _opened(path: str, target: Target) -> Base:
    """Return the base at a path. Raises ConfigError if it has a master, too."""
    base = open_base(path)
    if any(not file_names.is_hidden(entry.name) for entry in entries_of(base.master)):
        raise error("base.targets", path=base.given, table=target.path)
    return base


def _run(one: TableRun, recovered: tuple[str, ...]) -> Outcome:
    stopped = None
    try:
        if one.claim():
            one.apply()
        with deferred_signals():  # this is quick
            _archive(one)
    except Interrupted as stop:
        if not one.has_ended:
            if not one.feed.files or _undone(one, stop):
                raise
            with suppress(Interrupted), deferred_signals():
                _archive(one)
        stopped = stop.number  # all of it is done
    except MutatorError as fault:
        if one.applied is None and _undone(one, fault):
            raise one.explained(fault) from None
        raise
    except BaseException as fault:
        if one.applied is None:
            _undone(one, fault)
        raise
    version = one.version()
    return Outcome(
        base=one.base.given,
        table=one.target.path,
        run=one.id,
        version=version,
        claimed=one.feed.names,
        skipped=one.applied.skipped if one.applied is not None else (),
        rewritten=one.feed.rewritten,
        waiting=one.feed.waiting,
        stuck=one.feed.stuck,
        recovered=recovered,
        report=one.applied.report if one.applied is not None and version is not None else None,
        stopped=stopped,
    )


def _archive(one: TableRun) -> None:
    """Archive the feed files. Raise errors as those of a version that exists: the next command completes it."""
    if not one.feed.files:
        return
    try:
        one.archive()
    except MutatorError as fault:
        version = one.version()
        if version is None:
            raise
        raise error("publish.later", path=one.base.given, version=version, why=fault) from None


def _undone(one: TableRun, fault: BaseException) -> bool:
    """Put the feed files back; return False if the version of the run exists, or it is unknown."""
    try:
        if one.has_committed(fault):
            return False
        one.roll_back()
    except MutatorError:
        return isinstance(fault, MutatorError)  # the next command does it; the first fault is the one to report
    return True


def seconds_until_ready(path: str, config: Config, target: Target) -> float | None:
    """Return the seconds until a run would claim a feed file: 0 for now; None while there is no feed file.

    It only lists incr/, so it can be called often.
    """
    base = open_base(path)
    found = _arrivals(base, config, target)
    if found.ready:
        return 0.0
    return found.seconds


def _arrivals(base: Base, config: Config, target: Target) -> Arrivals:
    merged = frozenset() if base.storage.renames else claims(base, target.path).files
    return arrivals(base, config, merged)


def status(path: str, config: Config, target: Target) -> Status:
    """Return the status of a base."""
    base = _opened(path, target)
    problems, recovered = list[str](), None
    with ExitStack() as stack:
        try:
            with suppressed(*BUSY):
                stack.enter_context(locked(base, "look", config.lock_timeout))
                recovered = recover(base, target)
        except (StateError, StorageError) as fault:
            problems.append(base.shown(f"the recovery stopped: {fault}"))
        found, newest = None, None
        try:
            newest = target.newest()
            found = _arrivals(base, config, target)
        except (StateError, StorageError) as fault:
            problems.append(base.shown(str(fault)))
        notes = sightings(base).stuck
        stuck = {one.feed.name: notes[one.feed.path] for one in found.ready if one.feed.path in notes} if found else {}
        problems += [base.shown(f"{base.at('incr', name)}: {why}") for name, why in stuck.items()]
        return Status(
            base=base.given,
            table=target.path,
            running=holder(base) if recovered is None and not problems else None,
            version=None if newest is None else newest.number,
            committed=None if newest is None else newest.committed,
            records=None if newest is None else newest.records,
            ready=None if found is None else tuple(one.feed.name for one in found.ready if one.feed.name not in stuck),
            waiting=None if found is None else found.waiting,
            recovered=tuple(recovered or ()),
            problems=tuple(problems),
        )
