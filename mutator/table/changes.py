"""The changes of the versions of a table: of each one, or of all of them together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mutator.dataset.commits import COMPACT
from mutator.dataset.versions.checkpoint import FILES
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import check_version, open_snapshot
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors import error
from mutator.table.changed_rows import ChangedRows, changes_schema
from mutator.table.earlier_files import DataFiles
from mutator.table.outlived import changes_gone, reading
from mutator.table.rows import Rows


def changes_of(table: str, start: int, after: Snapshot, *, net: bool) -> Rows:
    """Return the changes of the versions after ``start``, up to that of a snapshot.

    All rows have the schema of the last version. net: at most one change of each record, from the first version to the
    last. Without it, versions follow each other; within one, old images come before new ones. Raises ConfigError for
    versions that do not exist or run backwards.
    """
    end = after.version.number
    newest = open_snapshot(table) if start > end or start < 0 else after
    check_version(newest, start)
    if start > end:
        raise error("table.changes.order", path=table, start=start, end=end)
    schema, before = changes_schema(after), open_snapshot(table, start)
    if start < end and start < _earliest(table):  # a tagged version: those that follow it are gone
        raise changes_gone(open_snapshot(table), start)
    return Rows(schema, _read(before, after, net=net))


def _earliest(table: str) -> int:
    """Return the earliest version without a gap after it."""
    hint = TableLog(table).hinted()
    return open_snapshot(table).state.cleaning.earliest if hint.number is None else hint.earliest


def _read(before: Snapshot, after: Snapshot, *, net: bool) -> Iterator[Any]:
    """Yield the changes from one version to another."""
    with reading(after, before.version.number):
        yield from (_net if net else _each)(before, after)


def _net(before: Snapshot, after: Snapshot) -> Iterator[Any]:
    """Yield at most one change of each record."""
    log = TableLog(after.table)
    yield from ChangedRows(before, after, log.chain(before.version, after.version.number), DataFiles(before)).batches()


def _each(before: Snapshot, after: Snapshot) -> Iterator[Any]:
    """Yield the changes of each version."""
    log, files = TableLog(after.table), DataFiles(before)
    for version in log.chain(before.version, after.version.number):
        following = replace(before, files=FILES.empty_table()).after(version)
        if version.action != COMPACT:
            yield from ChangedRows(before, following, [version], files, after).batches()
        files.follow(version)
        before = following
