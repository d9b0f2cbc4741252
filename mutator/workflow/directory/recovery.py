"""Recovery: finish or undo runs that were killed.

    committed          its dataset becomes the master, the old one goes to backup/, the feed files to archive/
    not committed      it can never commit any more; its feed files go back to incr/, its output is removed

A run can only become the version after the one it started from. If that version does not exist, recovery creates it,
with the action "abandoned" that changes nothing, so a run that was only paused loses when it goes on. Every step can be
repeated, by two processes at once, and after a kill.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from mutator.dataset.commit.staging import discard, has_manifest
from mutator.dataset.version_log import Log, next_commit
from mutator.errors import MutatorError, StorageError, error, suppressed
from mutator.errors.failpoints import failpoint
from mutator.rules import file_names
from mutator.storage import Entry, entries_of
from mutator.workflow.directory import bad_files, changed_rows
from mutator.workflow.directory.claim import archive, give_back
from mutator.workflow.directory.lock import Journal, end, journals, locked, storage_time
from mutator.workflow.directory.merged_content import IsMerged, merged_content
from mutator.workflow.directory.paths import Base, probe_dataset, run_of
from mutator.workflow.directory.versions import REMOVING, back_up, hide, publish, remove_hidden

_LONG = 60.0  # seconds after which a file that another process needs for a moment is litter


@dataclass
class Recovered:
    """The actions and problems of a recovery."""

    actions: list[str] = field(default_factory=list)
    problems: list[MutatorError] = field(default_factory=list)
    stopped: bool = False  # by the last problem


def recover(base: Base, log: Log) -> Recovered:
    """Finish or undo the runs that have not ended. The caller holds the lock, so no run that respects it is at work.

    A storage that fails, or a log that lacks an entry, stops it: the last problem says why, and the next command goes
    on. Without every entry, the dataset of a version could be taken for litter.
    """
    done = Recovered()
    try:
        _recover(base, log, done)
    except MutatorError as fault:
        if not isinstance(fault, StorageError) and fault.kind not in ("log.damaged", "log.newer"):
            raise
        done.problems.append(fault)
        done.stopped = True
    return done


def _recover(base: Base, log: Log, done: Recovered) -> None:
    log.make_durable()
    if not log.numbers() and has_old_datasets(base):
        done.problems.append(error("base.log", path=base.path))  # there are versions, but their log is gone
        return
    try:
        how = publish(base, log)
        if how not in ("done", "log"):
            done.actions.append(f"version {log.latest().number} was committed and is the master now ({how})")
    except MutatorError as fault:
        if fault.kind != "base.master":
            raise
        done.problems.append(fault)  # a restore can fix it
    failpoint("recover.published")
    remove_dead_outputs(base, log)  # first: everything else may need the space
    # The journals are read last: a run writes its own before anything else, so a run without one has ended.
    # An entry of working/ or output/ that is not named after a run is foreign, and stays.
    left = {entry.name for entry in entries_of(base.at("working")) if file_names.is_run_id(entry.name)}
    left |= _outputs(base, log)
    failpoint("recover.listed")
    begun = {journal.run: journal for journal in journals(base)}
    for run in sorted({*begun, *left}):
        journal = begun.get(run)
        what = "restore" if journal is not None and journal.action == "restore" else "run"
        undone = abandon(base, log, run, journal)
        fate = "was not committed, and is undone" if undone else "was committed, and is finished"
        went = _put_back(base, run, journal) if undone else _complete(base, log, run, journal)
        done.actions.append(": ".join([f"{what} {run} {fate}", *(["; ".join(went)] if went else [])]))
        end(base, run)
        failpoint("recover.ended")
    for number in back_up(base, log):
        done.actions.append(f"version {number} was replaced, and is in backup/{number} now")
    remove_hidden(base)
    sweep(base)
    failpoint("recover.done")


def has_old_datasets(base: Base) -> bool:
    """Return whether there are datasets that only versions can have made."""
    if base.storage.renames:
        return any(one.name.isdecimal() for one in entries_of(base.at("backup")))
    begun = {journal.run for journal in journals(base)}
    return any(one.commit is not None and run_of(one.name) not in begun for one in base.datasets())


def abandon(base: Base, log: Log, run: str, journal: Journal | None) -> bool:
    """Make sure that a run which has not committed never will, and return True; False if it has.

    A run without a journal has ended, or has been abandoned before.
    """
    while True:
        latest = log.latest()
        if _has_committed(log, run, journal.since if journal is not None else 0):
            return False
        if journal is None or latest.number > journal.since >= 0:
            return True
        failpoint("recover.abandoning")
        with suppressed("base.lost"):  # the run itself, or another recovery, was faster
            log.commit(next_commit(latest, "abandoned", run, time.time()))
            failpoint("recover.abandoned")
            return True


def remove_dead_outputs(base: Base, log: Log) -> bool:
    """Remove what runs have written whose processes ended without a commit; return whether anything was there.

    It needs neither space nor the lock. Only a local disk makes it certain that such a run will never commit: on others
    the creation of its version may still be on the way.
    """
    if not base.storage.holds:
        return False
    names = {entry.name for entry in entries_of(base.at("output"))}
    found = any(name.startswith(REMOVING) for name in names)
    for journal in journals(base):
        # The log is read after the process has ended.
        if journal.owner is None or not journal.owner.has_ended() or _has_committed(log, journal.run, journal.since):
            continue
        if any(name == journal.run or name.startswith(f".{journal.run}.mutator-") for name in names):
            found = True
            remove_output(base, journal.run)
            discard(base.at("output", journal.run))
    remove_hidden(base)
    return found


def _has_committed(log: Log, run: str, since: int) -> bool:
    versions = (log.read(number) for number in _after(log, max(since, 0)))
    return any(version.run == run and version.action != "abandoned" for version in versions)


@contextmanager
def locked_with_room(base: Base, run: str, timeout: float) -> Iterator[None]:
    """Hold the lock. Where the disk is too full for it, first remove what dead runs have written."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(base, run, timeout))
        except MutatorError as fault:
            if fault.kind != "storage.full" or not remove_dead_outputs(base, Log(base.path)):
                raise
            stack.enter_context(locked(base, run, timeout))
        yield


def sweep(base: Base) -> None:
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


def _after(log: Log, number: int) -> list[int]:
    return [one for one in log.numbers() if one > number]


def _outputs(base: Base, log: Log) -> set[str]:
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


def _put_back(base: Base, run: str, journal: Journal | None) -> list[str]:
    """Move the feed files of a run back to incr/ and remove its output; return where the files went."""
    names, verb = give_back(base, run), "went back to"
    failpoint("recover.returned")
    remove_output(base, run)
    discard(base.at("output", run))
    failpoint("recover.swept")
    if journal is not None and not base.storage.renames:  # they were never moved
        names, verb = [one.name for one in journal.claimed], "wait in"
    return [f"{file_names.first_few(names)} {verb} incr/"] if names else []


def _complete(base: Base, log: Log, run: str, journal: Journal | None) -> list[str]:
    """Archive the feed files of a run that committed; return where the files went."""
    changed_rows.keep(base, log, run)
    went = archived(base, journal or Journal(run, "run", 0, ""), merged_content(base, log, run))
    discard(base.at("output", run))
    return went


def archived(base: Base, journal: Journal, is_merged: IsMerged) -> list[str]:
    """Archive the feed files of a run that committed, and set its bad ones aside; return where the files went."""
    bad = {one.name: one.file.bytes for one in journal.bad}
    bad_files.record(base, journal.run, journal.since, journal.bad)
    names, rewritten = archive(base, journal.run, is_merged, lambda entry: bad.get(entry.name) == entry.bytes)
    went = [f"{file_names.first_few(names)} went to archive/"] if names else []
    if bad:
        went.append(f"{file_names.first_few(sorted(bad))} cannot be merged, and is set aside")
    if rewritten:
        went.append(f"{file_names.first_few(rewritten)} was rewritten after it was merged, and went back to incr/")
    return went


def remove_output(base: Base, run: str) -> None:
    """Remove the output of a run that can never commit; it is never visible in part."""
    changed_rows.forget(base, run)
    path = base.at("output", run)
    if not base.storage.renames:
        base.storage.remove(path)
    elif base.storage.stat(path) is not None:
        hide(base, path)
        failpoint("recover.output.hidden")
        remove_hidden(base)
    failpoint("recover.output.removed")
