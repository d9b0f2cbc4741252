"""The table that a workflow applies feed files to, as functions: the workflow knows only the log of the table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mutator.dataset.manifest import FeedFile
from mutator.dataset.version_log import Arrived
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.version import TableVersion


@dataclass(frozen=True)
class ApplyTask:
    """What a run asks of the table."""

    run: str
    since: int  # a version that was there before the run claimed anything
    claimed: tuple[Arrived, ...]
    feed: tuple[str, ...]  # paths
    feed_afterwards: tuple[str, ...]  # the same paths after the run, for the report
    # To be called before the commit, with the merged files, and the names of those that earlier versions have.
    check: Callable[[Sequence[FeedFile], Sequence[str]], None]


@dataclass(frozen=True)
class AppliedFeed:
    """The result of applying a feed."""

    version: int | None  # None: earlier versions have every feed file
    skipped: tuple[str, ...]  # names of feed files that earlier versions have
    report: Any


@dataclass(frozen=True)
class Target:
    """A table."""

    path: str
    newest: Callable[[], TableVersion]
    apply: Callable[[ApplyTask], AppliedFeed]
    # Makes sure that a run commits nothing any more, given a version that was there before; False if it has committed.
    give_up: Callable[[str, int], bool]

    def version_of(self, run: str, since: int) -> TableVersion | None:
        """Return the version that a run committed; None without one. since: a version that was there before the run."""
        versions = TableLog(self.path).following(since)
        return next((one for one in versions if one.claim is not None and one.claim.run == run), None)

    def has_given_up(self, run: str, since: int) -> TableVersion | None:
        """Return the version that gave up a run; None without one."""
        return next((one for one in TableLog(self.path).following(since) if run in one.given_up), None)
