"""Readers that take longer than a cleaning leaves them the files of their versions: an error, or what is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from mutator.dataset.versions.opening import check_version, open_snapshot
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors import MutatorError, error

Found = TypeVar("Found")


def newest_or_none(table: str) -> Snapshot | None:
    """Return the newest version; None if the log cannot be read."""
    try:
        return open_snapshot(table)
    except MutatorError:
        return None


@contextmanager
def reading(snapshot: Snapshot, start: int | None = None) -> Iterator[None]:
    """Let the block read files of a version, or of the changes after ``start`` up to it.

    Raises ConfigError if the block fails and a cleaning has taken one of the versions away: a data file is missing, or
    a file of the log.
    """
    try:
        yield
    except MutatorError as fault:
        if fault.kind.startswith("table."):
            check_kept(snapshot, snapshot.version.number if start is None else start)
        raise


def with_what_is_left(snapshot: Snapshot, read: Callable[[Snapshot], Found]) -> Found:
    """Return the result of a call that reads a version and all earlier ones that there are.

    It is called again, with the newest version, if it fails and a cleaning has taken versions away since: then it finds
    fewer of them. snapshot: the first one that it is called with.
    """
    while True:
        try:
            return read(snapshot)
        except MutatorError as fault:
            newest = newest_with_less(snapshot, fault)
            if newest is None:
                raise
            snapshot = newest


def newest_with_less(snapshot: Snapshot, fault: MutatorError) -> Snapshot | None:
    """Return the newest version if a fault may come of a cleaning that took versions away since a snapshot."""
    newest = newest_or_none(snapshot.table) if fault.kind.startswith("table.") else None
    return None if newest is None or newest.state.cleaning.left == snapshot.state.cleaning.left else newest


def check_kept(snapshot: Snapshot, start: int) -> None:
    """Raise ConfigError if a cleaning has taken a version away, or one of those after it up to that of a snapshot."""
    end, newest = snapshot.version.number, newest_or_none(snapshot.table)
    if newest is not None and newest.version.number >= end:  # else another table is there by now
        check_changes(newest, start, end)


def newest_if_gone(snapshot: Snapshot, fault: MutatorError) -> Snapshot | None:
    """Return the newest version if a fault comes of a cleaning that took a version away while it was read.

    snapshot: that version. None: its files are there, or else lost or damaged.
    """
    newest = newest_or_none(snapshot.table) if fault.kind in ("table.file", "table.version.gone") else None
    return None if newest is None or newest.state.cleaning.left.has(snapshot.version.number) else newest


def check_changes(newest: Snapshot, start: int, end: int) -> None:
    """Raise ConfigError if a version, or one of those after it up to ``end``, does not exist, or is gone.

    newest: the newest version.
    """
    check_version(newest, start)
    if start < end and start < newest.state.cleaning.earliest:  # a tagged version: those that follow it are gone
        raise changes_gone(newest, start)


def changes_gone(newest: Snapshot, start: int) -> MutatorError:
    """Return the error of changes after a tagged version that were cleaned. newest: the newest version."""
    earliest, number = newest.state.cleaning.earliest, newest.version.number
    return error("table.changes.gone", path=newest.table, version=start, earliest=earliest, newest=number)
