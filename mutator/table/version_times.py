"""Commit times of versions, and the version that was the newest one at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors import error
from mutator.pipeline.version_point import VersionPoint, point_of

_EPOCH = datetime.fromtimestamp(0, UTC)


def version_as_of(snapshot: Snapshot, time: datetime | str) -> int:
    """Return the number of the newest version that was committed at or before a time, at most that of a snapshot.

    time: in ISO 8601 if it is text; in UTC if it has no zone. Raises ConfigError for a time before all versions.
    """
    wanted = time_of(time)
    newest = snapshot.version
    if time_of(newest.committed) <= wanted:
        return newest.number
    log, earliest = TableLog(snapshot.table), snapshot.state.cleaning.earliest
    numbers = range(earliest, newest.number)
    found = bisect_right(numbers, wanted, key=lambda number: time_of(log.read(number).committed))
    if not found:
        for number in sorted(snapshot.state.cleaning.left.bases, reverse=True):  # of tagged versions, also
            if number < earliest and time_of(log.read(number).committed) <= wanted:
                if wanted < time_of(log.read(number + 1).committed):
                    return number
                break
        since = log.read(earliest).committed
        raise error(
            "table.time",
            path=snapshot.table,
            time=wanted.isoformat(),
            earliest=earliest,
            since=since,
            newest=newest.number,
            until=newest.committed,
        )
    return numbers[found - 1]


def time_of(time: datetime | str) -> datetime:
    """Return a time with its zone: UTC if it has none. Raises ConfigError for text that is not a time.

    >>> time_of("2026-01-31T12:00").isoformat()
    '2026-01-31T12:00:00+00:00'
    """
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time.strip())
        except ValueError:
            raise error("table.time.text", text=repr(time)) from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def microseconds_of(committed: str) -> int:
    """Return a commit time as microseconds since 1970."""
    return (datetime.fromisoformat(committed) - _EPOCH) // timedelta(microseconds=1)


def points_before(snapshot: Snapshot) -> Iterator[VersionPoint]:
    """Yield the versions up to a snapshot, newest first, as far as the log has them."""
    log, newest = TableLog(snapshot.table), snapshot.version.number  # the version of a snapshot is abridged
    for version in log.backwards(newest, min(log.numbers(), default=newest)):
        added = sum(one.bytes for one in version.stored())
        yield point_of(version, added, version.seconds)
