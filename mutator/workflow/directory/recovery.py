"""Recovery: finish or undo runs that were killed.

    committed          its version is published, its feed files go to archive/
    not committed      it can never commit any more; its feed files go back to incr/, its output is removed

The target gives up a run that has not committed, so a run that was only paused loses when it goes on. Every step can be
repeated, by two processes at once, and after a kill.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from mutator.errors import MutatorError, StateError, StorageError
from mutator.errors.failpoints import failpoint
from mutator.rules import file_names
from mutator.storage import Entry, entries_of
from mutator.workflow.directory import bad_files
from mutator.workflow.directory.claim import give_back
from mutator.workflow.directory.claimed_feed import archived
from mutator.workflow.directory.lock import Journal, end, journals, locked, storage_time
from mutator.workflow.directory.paths import Base
from mutator.workflow.directory.run_phases import Target
from mutator.workflow.directory.view import Recovered

_LONG = 60.0  # seconds after which a file that another process needs for a moment is litter


def recover(target: Target) -> Recovered:
    """Finish or undo the runs that have not ended. The caller holds the lock, so no run that respects it is at work.

    A storage that fails, or a log that lacks an entry, stops it: the last problem says why, and the next command goes
    on. Without every entry, the dataset of a version could be taken for litter.
    """
    done = Recovered()
    try:
        _recover(target, done)
    except (StateError, StorageError) as fault:
        done.problems.append(fault)
        done.stopped = True
    return done


def _recover(target: Target, done: Recovered) -> None:
    base = target.base
    with target.recovering(done) as outputs:
        # The journals are read last: a run writes its own before anything else, so a run without one has ended.
        # An entry of working/ or output/ that is not named after a run is foreign, and stays.
        left = {entry.name for entry in entries_of(base.at("working")) if file_names.is_run_id(entry.name)}
        failpoint("recover.listed")
        begun = {journal.run: journal for journal in journals(base)}
        for run in sorted({*begun, *left, *outputs}):
            journal = begun.get(run, Journal(run, "run", 0, ""))
            undone = target.version_of(run, journal.since) is None
            undone = undone and (run not in begun or target.give_up(run, journal.since))
            fate = "was not committed, and is undone" if undone else "was committed, and is finished"
            went = _put_back(target, journal) if undone else _complete(target, journal)
            if went or run in {*begun, *outputs}:
                done.actions.append(": ".join([f"{journal.action} {run} {fate}", *(["; ".join(went)] if went else [])]))
            end(base, run)
            failpoint("recover.ended")
    _sweep(base)
    failpoint("recover.done")


@contextmanager
def locked_with_room(target: Target, run: str) -> Iterator[None]:
    """Hold the lock of a base. Where the disk is too full for it, first remove what dead runs have written."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(target.base, run, target.config.workflow.lock_timeout))
        except MutatorError as fault:
            if fault.kind != "storage.full" or not target.make_room():
                raise
            stack.enter_context(locked(target.base, run, target.config.workflow.lock_timeout))
        yield


def _sweep(base: Base) -> None:
    """Remove unfinished files of killed processes, whose names are hidden, and notes of files that were moved away."""
    for directory in ("runs", "log"):
        for entry in _hidden(base, directory):
            base.storage.remove(entry.path)
    bad_files.sweep(base)
    # Other processes may be reading the lock just now, each with a clock file.
    litter = _hidden(base, "lock")
    now = storage_time(base) if litter else 0.0
    for entry in litter:
        if now - entry.last_write > _LONG:
            base.storage.remove(entry.path)


def _hidden(base: Base, directory: str) -> list[Entry]:
    return [entry for entry in entries_of(base.at("_mutator", directory)) if entry.name.startswith(".")]


def _put_back(target: Target, journal: Journal) -> list[str]:
    """Move the feed files of a run back to incr/ and remove its output; return where the files went."""
    base = target.base
    names, verb = give_back(base, journal.run), "went back to"
    failpoint("recover.returned")
    target.remove(journal.run)
    failpoint("recover.swept")
    if not base.storage.renames:  # they were never moved
        names, verb = [one.name for one in journal.claimed], "wait in"
    return [f"{file_names.first_few(names)} {verb} incr/"] if names else []


def _complete(target: Target, journal: Journal) -> list[str]:
    """Archive the feed files of a run that committed, and set its bad ones aside; return where the files went."""
    base, run = target.base, journal.run
    target.keep(run)
    names, rewritten = archived(base, journal, target.merged_content(run, journal.since), {})
    went = [f"{file_names.first_few(names)} went to archive/"] if names else []
    if journal.bad:
        bad = sorted(one.name for one in journal.bad)
        went.append(f"{file_names.first_few(bad)} cannot be merged, and is set aside")
    if rewritten:
        went.append(f"{file_names.first_few(rewritten)} was rewritten after it was merged, and went back to incr/")
    return went
