"""The versions of a base as reports and metrics show them."""

from collections.abc import Mapping

from mutator.dataset.version_log import Log, Version
from mutator.pipeline.version_point import VersionPoint, lags, newest_of, seconds_of


def point_of(version: Version, sizes: Mapping[str, int] | None = None) -> VersionPoint:
    """Return a version. sizes: commit ID of a dataset -> its bytes."""
    committed = seconds_of(version.committed)
    lag, shortest = lags(committed, version.claimed, {file.name for file in version.feed})
    return VersionPoint(
        number=version.number,
        kind=version.action,
        run=version.run,
        committed=committed,
        rows=version.rows,
        bytes=(sizes or {}).get(version.dataset or ""),
        counts=version.counts,
        files=len(version.feed),
        feed_bytes=sum(file.bytes for file in version.feed),
        lag=lag,
        shortest_lag=shortest,
    )


def newest_points(base: str) -> tuple[VersionPoint | None, VersionPoint | None]:
    """Return the newest version of a base, and the newest one that merged something; None without one.

    base: full path. Raises StateError for a damaged log.
    """
    log = Log(base)
    numbers = log.numbers()
    versions = (log.read(number) for number in reversed(numbers))
    return newest_of(map(point_of, versions), "run")
