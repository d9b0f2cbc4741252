"""A run of a workflow, which claims feed files before it applies them, and may count as dead."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from mutator.dataset.commits import ABANDON, Claim, Commit, FeedFile, next_time, time_text
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.errors import error
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass


@dataclass(frozen=True)
class ClaimingRun:
    """A run of a workflow, as an apply needs it."""

    claim: Claim
    since: int  # a version that was there before the run claimed anything
    # Called before the commit with the merged files, and the names of those that earlier versions have. Raises an error
    # if a claimed file is not among them, or is not as it was.
    check: Callable[[Sequence[FeedFile], Sequence[str]], None]


def check_alive(table: str, run: ClaimingRun, versions: Iterable[Commit]) -> None:
    """Raise StateError if a version has given up a run. versions: those since the run claimed its files."""
    for version in versions:
        if run.claim.run in version.given_up:
            raise error("table.given_up", path=table, run=run.claim.run, version=version.number)


def give_up(table: str, run: str, since: int) -> bool:
    """Make sure that a run of a workflow commits no version from now on; return False if it has committed one.

    since: a version that was there before the run claimed anything.
    """
    log, newest = TableLog(table), open_snapshot(table).version
    while True:
        # Without every entry it is not certain what the run has committed.
        for version in chain(log.after(since, newest.number), log.following(newest.number)):
            if version.claim is not None and version.claim.run == run:
                return False
            if run in version.given_up:
                return True
            newest = version if version.number > newest.number else newest
        failpoint("table.giving.up")
        committed = time_text(next_time(time.time(), newest))
        version = newest.next(ABANDON, run=run, committed=committed, given_up=(run,))
        if log.commit(version):
            log.confirm(version, newest)
            failpoint("table.given.up")
            return True
