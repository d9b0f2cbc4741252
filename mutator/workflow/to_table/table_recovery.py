"""Recovery: finish or undo runs that were killed.

    committed          its feed files go to archive/
    not committed      the table gives it up, so that it can never commit; its feed files go back to incr/

Every step can be repeated, by two processes at once, and after a kill.
"""

from contextlib import suppress
from functools import cache

from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.errors import MutatorError
from mutator.errors.failpoints import failpoint
from mutator.rules import file_names
from mutator.storage import Entry, entries_of
from mutator.workflow.directory.bad_files import FailedFile, failed_files
from mutator.workflow.directory.claim import give_back
from mutator.workflow.directory.journal import Journal, end, journals
from mutator.workflow.directory.merged_content import IsMerged, has_content
from mutator.workflow.directory.paths import Base
from mutator.workflow.directory.recovery import archived, sweep
from mutator.workflow.to_table.target import TargetTable


def recover(base: Base, target: TargetTable) -> list[str]:
    """Finish or undo the runs that have not ended; return what was done. The caller holds the lock."""
    done = []
    left = {entry.name for entry in entries_of(base.at("working")) if file_names.is_run_id(entry.name)}
    # The journals are read last: a run writes its own before anything else, so a run without one has ended.
    begun = {journal.run: journal for journal in journals(base)}
    newest = target.newest().number if begun or left else 0
    for run in sorted({*begun, *left}):
        journal = begun.get(run, Journal(run, "run", 0, ""))
        since = journal.since if 0 <= journal.since <= newest else 0  # else the journal is damaged, or the table new
        undone = run not in begun and target.version_of(run, since) is None
        undone = undone or target.give_up(run, since)
        fate = "was not committed, and is undone" if undone else "was committed, and is finished"
        went = _put_back(base, journal) if undone else _completed(base, target, journal, since)
        if run in begun or went:
            done.append(": ".join([f"run {run} {fate}", *went]))
        end(base, run)
        failpoint("recover.ended")
    sweep(base)
    failpoint("recover.done")
    return done


def _put_back(base: Base, journal: Journal) -> list[str]:
    """Move the feed files of a run back to incr/; return where they went."""
    names, verb = give_back(base, journal.run), "went back to"
    failpoint("recover.returned")
    if not base.storage.renames:  # they were never moved
        names, verb = [one.name for one in journal.claimed], "wait in"
    return [f"{file_names.first_few(names)} {verb} incr/"] if names else []


def _completed(base: Base, target: TargetTable, journal: Journal, since: int) -> list[str]:
    """Archive the feed files of a run that committed; return where the files went."""
    went = archived(base, journal, merged_content(target, journal.run, since))
    return ["; ".join(went)] if went else []


def set_aside(base: Base, table: str) -> tuple[FailedFile, ...]:
    """Return the feed files of a base that are set aside. table: path of its target. Raises StorageError."""

    def merged(version: int) -> list[str]:
        with suppress(MutatorError):  # a log that cannot be read is one of the problems of a status
            return [part.name for one in TableLog(table).all_after(version) for part in one.feed]
        return []

    return failed_files(base, merged)


def merged_content(target: TargetTable, run: str, since: int) -> IsMerged:
    """Return a function that reads a file a run has claimed, and returns whether a version has its content.

    since: a version that was there before the run claimed anything.
    """
    version = cache(lambda: target.version_of(run, since))
    known = cache(lambda: open_snapshot(target.path).state.feed)

    def is_merged(entry: Entry) -> bool:
        made = version()
        own = {part.checksum for part in made.feed if part.name == entry.name} if made is not None else set()
        # A file that the run did not merge was merged by an earlier version.
        return has_content(entry, own or {part.checksum for part in known() if part.name == entry.name})

    return is_merged
