"""The versions of a table as reports and metrics show them."""

from collections.abc import Iterator

from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.snapshot import Snapshot
from mutator.pipeline.version_point import VersionPoint, point_of


def points_before(snapshot: Snapshot) -> Iterator[VersionPoint]:
    """Yield the versions up to a snapshot, newest first, as far as the log has them."""
    log, newest = TableLog(snapshot.table), snapshot.version.number  # the version of a snapshot is abridged
    for version in log.backwards(newest, min(log.numbers(), default=newest)):
        added = sum(one.bytes for one in version.stored())
        yield point_of(version, added, version.seconds)
