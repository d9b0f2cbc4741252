"""What reports and metrics say of a base, put together of the rooms ``workflow`` and ``table``."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from mutator.errors import MutatorError

if TYPE_CHECKING:
    from mutator.pipeline.reports.base_report import BaseReport
    from mutator.pipeline.version_point import VersionPoint
    from mutator.workflow.directory.results import BaseStatus

_VERSIONS = 200  # that a report has


def measures(base: str, table: str | None) -> dict[str, Any]:
    """Return members of ``metrics.Measured`` on the versions of a base. table: path of its target, if that is a table.

    Raises MutatorError.
    """
    from mutator.pipeline.version_point import measures_of, newest_of
    from mutator.workflow.directory.bad_files import failed_files
    from mutator.workflow.directory.paths import open_base

    opened = open_base(base)
    if table is None:
        from mutator.dataset.version_log import Log
        from mutator.workflow.directory.master_target import merged_after
        from mutator.workflow.directory.versions import newest_points

        found = measures_of(*newest_points(opened.path))
        aside = failed_files(opened, partial(merged_after, Log(opened.path)))
    else:
        from mutator.dataset.versions.opening import open_snapshot
        from mutator.table.version_times import points_before
        from mutator.workflow.to_table.table_target import merged_after_of

        found = measures_of(*newest_of(points_before(open_snapshot(table)), "apply"))
        aside = failed_files(opened, partial(merged_after_of, table))
    return found | {"set_aside": sum(not one.merged for one in aside)}


def base_report(base: str, table: str | None, status: BaseStatus) -> BaseReport:
    """Return the report of a base. table: path of its target, if that is a table."""
    from mutator.pipeline.reports.base_report import BaseReport

    if table is None:
        from mutator.workflow.directory.versions import latest_points

        versions, count = latest_points(base, _VERSIONS)
    else:
        versions, count = _of_table(table)
    owner = status.running
    running = None
    if owner is not None:
        running = f"{owner.run}, process {owner.process} on {owner.host}, since {owner.since}"
    return BaseReport(
        base=status.base,
        table=None if table is None else getattr(status, "table", table),
        taken=time.time(),
        running=running,
        versions=versions,
        count=count,
        ready=status.ready,
        waiting=status.waiting,
        problems=status.problems,
        failed=() if status.failed is None else status.failed.feed,
        set_aside=[(one.path, one.why) for one in status.failed_files if not one.merged],
    )


def _of_table(table: str) -> tuple[list[VersionPoint], int]:
    """Return the newest versions of a table, oldest first, and the number of all."""
    from mutator.dataset.versions.opening import open_snapshot
    from mutator.table.version_times import points_before

    found: list[VersionPoint] = []
    with suppress(MutatorError):  # the problems of the status say what cannot be read
        snapshot = open_snapshot(table)
        found += islice(points_before(snapshot), _VERSIONS)
        return found[::-1], snapshot.version.number + 1
    return found[::-1], len(found)
