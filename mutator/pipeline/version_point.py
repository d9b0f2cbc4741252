"""A version of a base or a table as reports and metrics know it: when it was made, of what, and how late."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from mutator.dataset.commits import Arrived, Commit
from mutator.errors.quick_dataclass import dataclass


@dataclass(frozen=True, kw_only=True)
class VersionPoint:
    """A version. Times are seconds since 1970; None is not known."""

    number: int
    kind: str  # run | restore | create | apply | compact | …, as the log has it
    run: str
    committed: float
    rows: int  # of the master, or live records of the table
    bytes: int | None = None  # of the master; of a table, those that the version added
    counts: Mapping[str, int] = field(default_factory=dict)
    files: int = 0  # feed files that were merged
    feed_bytes: int = 0
    lag: float | None = None  # seconds from the arrival of its oldest feed file to its commit
    shortest_lag: float | None = None  # from the arrival of its newest feed file
    seconds: float | None = None  # that the merge took


def point_of(version: Commit, size: int | None, seconds: float | None = None) -> VersionPoint:
    """Return a version. size: its bytes, as in ``VersionPoint``. seconds: that the merge took."""
    committed = seconds_of(version.committed)
    lag, shortest = lags(committed, version.claimed, {file.name for file in version.feed})
    return VersionPoint(
        number=version.number,
        kind=version.action,
        run=version.run,
        committed=committed,
        rows=version.records,
        bytes=size,
        counts=version.counts,
        files=len(version.feed),
        feed_bytes=sum(file.bytes for file in version.feed),
        lag=lag,
        shortest_lag=shortest,
        seconds=seconds,
    )


def seconds_of(committed: str) -> float:
    """Return a commit time as seconds since 1970.

    >>> seconds_of("2026-03-01T00:00:00.500+00:00")
    1772323200.5
    """
    return datetime.fromisoformat(committed).timestamp()


def lags(committed: float, claimed: Iterable[Arrived], merged: Collection[str]) -> tuple[float | None, float | None]:
    """Return the longest and the shortest time between the arrival of a feed file and its commit.

    claimed: the files as they arrived. merged: names of those that count. A file from the future has no lag.
    """
    found = [max(committed - file.modified, 0.0) for file in claimed if file.name in merged]
    return (max(found), min(found)) if found else (None, None)


def newest_of(points: Iterable[VersionPoint], kind: str) -> tuple[VersionPoint | None, VersionPoint | None]:
    """Return the first of some versions, newest first, and the first one of a kind; None without one."""
    newest = None
    for point in points:
        newest = newest or point
        if point.kind == kind:
            return newest, point
    return newest, None


def measures_of(newest: VersionPoint | None, merged: VersionPoint | None) -> dict[str, Any]:
    """Return members of ``metrics.Measured``. merged: the newest version that a merge made."""
    found: dict[str, Any] = {}
    if newest is not None:
        found |= {"version": newest.number, "committed": newest.committed}
    if merged is not None:
        found |= {"counts": merged.counts, "lag": merged.lag}
        found |= {} if merged.seconds is None else {"seconds": merged.seconds}
    return found
