"""The table that a workflow applies feed files to, as functions: the workflow itself only reads the table's log."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mutator.config import Config
from mutator.dataset.commits import Arrived, Commit, FeedFile
from mutator.dataset.versions.log import TableLog


@dataclass(frozen=True)
class ApplyTask:
    """What a run asks of the table."""

    run: str
    since: int  # a version that was there before the run claimed anything
    claimed: tuple[Arrived, ...]
    feed: tuple[str, ...]  # paths
    config: Config
    # To be called before the commit, with the merged files, and the names of those that earlier versions have.
    check: Callable[[Sequence[FeedFile], Sequence[str]], None]


@dataclass(frozen=True)
class AppliedFeed:
    """The result of applying a feed."""

    version: int | None  # None: earlier versions have every feed file
    skipped: tuple[str, ...]  # names of feed files that earlier versions have
    report: Any


@dataclass(frozen=True)
class Kept:
    """The result of a step of the upkeep of a table."""

    report: Any  # of a compaction; None without one
    seconds: float  # until the next step may have something to do


@dataclass(frozen=True)
class TargetTable:
    """The table of a workflow."""

    path: str
    newest: Callable[[], Commit]
    apply: Callable[[ApplyTask], AppliedFeed]
    # Makes sure that a run commits nothing any more, given a version that was there before; False if it has committed.
    give_up: Callable[[str, int], bool]
    # Compacts a few buckets, if the table is idle.
    keep: Callable[[Config], Kept]

    def version_of(self, run: str, since: int) -> Commit | None:
        """Return the version that a run committed; None without one. since: a version that was there before the run."""
        found = (one for one in self.versions(since) if one.claim is not None and one.claim.run == run)
        return next(found, None)

    def has_given_up(self, run: str, since: int) -> Commit | None:
        """Return the version that gave up a run; None without one."""
        return next((one for one in self.versions(since) if run in one.given_up), None)

    def versions(self, since: int) -> Iterator[Commit]:
        """Yield the versions after one. Raises StateError if an entry is missing: without it, nothing is certain."""
        log, newest = TableLog(self.path), self.newest().number
        yield from log.after(since, newest)
        yield from log.following(max(newest, since))
