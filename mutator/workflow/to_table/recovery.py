"""Recovery: finish or undo runs that were killed.

    committed          its feed files go to archive/
    not committed      the table gives it up, so that it can never commit; its feed files go back to incr/

Every step can be repeated, by two processes at once, and after a kill.
"""

from mutator.dataset.versions.opening import open_snapshot
from mutator.errors.failpoints import failpoint
from mutator.rules import file_names
from mutator.storage import Entry, entries_of
from mutator.workflow.directory.claim import archive, give_back
from mutator.workflow.directory.journal import Journal, check_target, end, journals
from mutator.workflow.directory.merged_content import IsMerged, has_content
from mutator.workflow.directory.paths import Base
from mutator.workflow.directory.recovery import sweep
from mutator.workflow.to_table.target import Target


def recover(base: Base, target: Target) -> list[str]:
    """Finish or undo the runs that have not ended; return what was done. The caller holds the lock.

    Raises StateError if a run was started for another table.
    """
    done = []
    left = {entry.name for entry in entries_of(base.at("working")) if file_names.is_run_id(entry.name)}
    # The journals are read last: a run writes its own before anything else, so a run without one has ended.
    begun = {journal.run: journal for journal in journals(base)}
    for journal in begun.values():
        check_target(base, journal, target.path)
    for run in sorted({*begun, *left}):
        journal = begun.get(run, Journal(run, "run", 0, ""))
        undone = run not in begun and target.version_of(run, 0) is None
        undone = undone or target.give_up(run, max(journal.since, 0))
        fate = "was not committed, and is undone" if undone else "was committed, and is finished"
        went = _put_back(base, journal) if undone else _completed(base, target, journal)
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


def _completed(base: Base, target: Target, journal: Journal) -> list[str]:
    """Archive the feed files of a run that committed; return where they went."""
    names, rewritten = archive(base, journal.run, merged_content(target, journal.run, max(journal.since, 0)))
    went = [f"{file_names.first_few(names)} went to archive/"] if names else []
    if rewritten:
        went.append(f"{file_names.first_few(rewritten)} was rewritten after it was merged, and went back to incr/")
    return ["; ".join(went)] if went else []


def merged_content(target: Target, run: str, since: int) -> IsMerged:
    """Return a function that reads a file a run has claimed, and returns whether a version has its content.

    since: a version that was there before the run claimed anything.
    """

    def is_merged(entry: Entry) -> bool:
        version = target.version_of(run, since)
        own = {part.checksum for part in version.feed if part.name == entry.name} if version is not None else set()
        # A file that the run did not merge was merged by an earlier version.
        known = own or {part.checksum for part in open_snapshot(target.path).state.feed if part.name == entry.name}
        return has_content(entry, known)

    return is_merged
