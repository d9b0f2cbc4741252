"""What metrics say of a base, put together of the rooms ``workflow`` and ``table``."""

from __future__ import annotations

from typing import Any


def measures(base: str, table: str | None) -> dict[str, Any]:
    """Return members of ``metrics.Measured`` on the versions of a base. table: path of its target, if that is a table.

    Raises MutatorError.
    """
    from mutator.pipeline.version_point import measures_of, newest_of

    if table is None:
        from mutator.workflow.directory.paths import open_base
        from mutator.workflow.directory.version_points import newest_points

        return measures_of(*newest_points(open_base(base).path))
    from mutator.dataset.versions.opening import open_snapshot
    from mutator.table.version_points import points_before

    return measures_of(*newest_of(points_before(open_snapshot(table)), "apply"))
