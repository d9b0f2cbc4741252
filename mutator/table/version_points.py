"""The versions of a table as reports and metrics show them."""

from collections.abc import Iterator

from mutator.dataset.commits import Commit
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.snapshot import Snapshot
from mutator.pipeline.version_point import VersionPoint, lags, seconds_of


def point_of(version: Commit) -> VersionPoint:
    """Return a version; its bytes are those of the files that it added."""
    committed = seconds_of(version.committed)
    claimed = () if version.claim is None else version.claim.files
    lag, shortest = lags(committed, claimed, {file.name for file in version.feed})
    return VersionPoint(
        number=version.number,
        kind=version.action,
        run=version.run,
        committed=committed,
        rows=version.records,
        bytes=sum(one.bytes for one in version.stored()),
        counts=version.counts,
        files=len(version.feed),
        feed_bytes=sum(file.bytes for file in version.feed),
        lag=lag,
        shortest_lag=shortest,
        seconds=version.seconds,
    )


def points_before(snapshot: Snapshot) -> Iterator[VersionPoint]:
    """Yield the versions up to a snapshot, newest first, as far as the log has them."""
    log, newest = TableLog(snapshot.table), snapshot.version.number  # the version of a snapshot is abridged
    yield from map(point_of, log.backwards(newest, min(log.numbers(), default=newest)))
