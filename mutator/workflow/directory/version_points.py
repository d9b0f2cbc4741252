"""The versions of a base as reports and metrics show them."""

from collections.abc import Mapping
from contextlib import suppress

from mutator.dataset.commits import Commit
from mutator.dataset.directory import read_manifest
from mutator.dataset.version_log import Log
from mutator.errors import MutatorError
from mutator.pipeline.version_point import VersionPoint, lags, newest_of, seconds_of
from mutator.workflow.directory.paths import Base, open_base, probe_dataset


def point_of(version: Commit, sizes: Mapping[str, int] | None = None) -> VersionPoint:
    """Return a version. sizes: commit ID of a dataset -> its bytes."""
    committed = seconds_of(version.committed)
    lag, shortest = lags(committed, version.claimed, {file.name for file in version.feed})
    return VersionPoint(
        number=version.number,
        kind=version.action,
        run=version.run,
        committed=committed,
        rows=version.records,
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


def latest_points(path: str, most: int) -> tuple[list[VersionPoint], int]:
    """Return the newest versions of a base that can be read, oldest first, and the number of all.

    path: of the base, as the user gives it. Datasets that are kept have a size.
    """
    base = open_base(path)
    log = Log(base.path)
    with suppress(MutatorError):  # a listing that cannot be trusted is one of the problems of a status
        numbers = log.numbers()
        sizes = _sizes(base)
        points = []
        for number in numbers[-most:]:
            with suppress(MutatorError):
                points.append(point_of(log.read(number), sizes))
        return points, len(numbers)
    return [], 0


def _sizes(base: Base) -> dict[str, int]:
    """Return the bytes of each dataset that is kept, by its commit ID."""
    found = {}
    for dataset in (*base.datasets(), probe_dataset(base.storage, base.master)):
        with suppress(MutatorError):
            manifest = read_manifest(base.storage, dataset.path)
            if manifest is not None:
                found[manifest.commit.id] = sum(part.bytes for part in manifest.files)
    return found
