"""The bookmark of a reader: set it, read the changes since, and move it once they are processed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from mutator.dataset.versions.bookmarks import LASTS, Bookmark, bookmark_of, change_bookmark
from mutator.dataset.versions.opening import check_version, open_snapshot, refreshed
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors import MutatorError, error
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.reports.printed import PrintedReport
from mutator.pipeline.reports.sections import ReportSection, aligned, said
from mutator.rules.version_names import Version
from mutator.table.changes import changes_of
from mutator.table.rows import Rows
from mutator.table.tags import number_of

_ENOUGH = 0.9  # of the time of a bookmark: with less left, it is renewed


def bookmarked(snapshot: Snapshot, name: str, number: int, lasts: int | None = None) -> Bookmark:
    """Set or move a bookmark; return it. Raises ConfigError if its version does not exist, or does not any more.

    lasts: seconds until it expires, unless it is moved; by default as before, or those of a new one.
    """
    _check(snapshot, number)

    def change(present: Bookmark | None) -> Bookmark:
        before = LASTS if present is None else present.lasts
        return Bookmark(name, number, _now(), before if lasts is None else lasts)

    return _changed(snapshot, name, change)


def _changed(snapshot: Snapshot, name: str, change: Callable[[Bookmark | None], Bookmark]) -> Bookmark:
    return change_bookmark(snapshot.table, name, change, lambda mark: check_version(refreshed(snapshot), mark.version))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _check(snapshot: Snapshot, number: int) -> None:
    """Raise ConfigError if a version does not exist, or is gone. It may be newer than a snapshot."""
    check_version(snapshot if number <= snapshot.version.number else refreshed(snapshot), number)


def known_bookmark(table: str, name: str) -> Bookmark:
    """Return a bookmark. Raises ConfigError if there is none, StateError if it is damaged."""
    return _there(table, name, bookmark_of(table, name))


def _there(table: str, name: str, found: Bookmark | None) -> Bookmark:
    if found is None:
        raise error("table.bookmark.unknown", path=table, name=name)
    return found


def renewed(snapshot: Snapshot, name: str) -> Bookmark:
    """Return a bookmark; renew it if a part of its time is over. Raises ConfigError without one."""
    mark, now = known_bookmark(snapshot.table, name), datetime.now(UTC)
    left = datetime.fromisoformat(mark.expires) - now
    if left.total_seconds() > _ENOUGH * mark.lasts:
        with _with_cure(snapshot, mark):
            _check(snapshot, mark.version)
        return mark
    return _renewed(snapshot, name)


def _renewed(snapshot: Snapshot, name: str) -> Bookmark:
    """Return a bookmark with all of its time left. Raises ConfigError without one, StateError if it is damaged."""
    mark = known_bookmark(snapshot.table, name)
    with _with_cure(snapshot, mark):
        _check(snapshot, mark.version)
        return _changed(snapshot, name, lambda present: replace(_there(snapshot.table, name, present), moved=_now()))


@contextmanager
def _with_cure(snapshot: Snapshot, mark: Bookmark) -> Iterator[None]:
    """Raise ConfigError with the cure for a reader if the changes after its bookmark are gone for good."""
    try:
        yield
    except MutatorError as fault:
        is_gone = fault.kind in ("table.version.gone", "table.changes.gone")
        if not is_gone or fault.fields["version"] != str(mark.version):
            raise
        if refreshed(snapshot).state.cleaning.left.earliest <= mark.version:  # a cleaning has given them back meanwhile
            raise
        raise error("table.bookmark.gone", path=snapshot.table, name=mark.name, version=mark.version) from None


@contextmanager
def changes_since(snapshot: Snapshot, name: str, to: Version | None = None, *, net: bool = False) -> Iterator[Rows]:
    """Yield the changes since a bookmark; move it when the ``with`` block ends, if all were read and nothing failed.

    to: the last version, by default the newest. Raises ConfigError if the changes since are gone, StateError
    if another reader moved it meanwhile.
    """
    mark = _renewed(snapshot, name)  # so that it does not expire meanwhile
    after = refreshed(snapshot)
    if to is not None:
        after = open_snapshot(snapshot.table, number_of(after, to))
    with _with_cure(snapshot, mark):
        rows = changes_of(snapshot.table, mark.version, after, net=net)
    yield rows
    if rows.is_read:
        move(after, mark, after.version.number)


def move(snapshot: Snapshot, mark: Bookmark, number: int) -> Bookmark:
    """Move a bookmark to a version up to which its reader has processed the changes; return it.

    mark: as the reader has found it. Raises StateError if another reader has moved or removed it since.
    """
    _check(snapshot, number)

    def change(present: Bookmark | None) -> Bookmark:
        if present is None or present.version != mark.version:
            place = "was removed" if present is None else f"is at version {present.version} now"
            raise error("table.bookmark.moved", path=snapshot.table, name=mark.name, before=mark.version, place=place)
        return replace(present, version=number, moved=_now())

    return _changed(snapshot, mark.name, change)


@dataclass(frozen=True)
class BookmarkReport(PrintedReport):
    """The place of a bookmark, or its removal."""

    table: str
    name: str
    version: int | None = None  # None: it was removed
    moved: str | None = None
    expires: str | None = None

    def sections(self) -> Iterable[ReportSection]:
        """Return what was done."""
        what = "is removed" if self.version is None else f"is at version {self.version:,}, and expires {self.expires}"
        return (said(f"table {self.table}: bookmark {self.name} {what}"),)


def report_of_bookmark(table: str, name: str, mark: Bookmark | None) -> BookmarkReport:
    """Return the report of a bookmark. mark: None: it was removed."""
    if mark is None:
        return BookmarkReport(table, name)
    return BookmarkReport(table, name, mark.version, mark.moved, mark.expires)


@dataclass(frozen=True)
class BookmarkList(PrintedReport):
    """The bookmarks of a table."""

    bookmarks: Sequence[Bookmark]

    def json(self) -> str:
        """Return an array with an object for each bookmark."""
        names = ("name", "version", "moved", "expires")
        return json.dumps([{name: getattr(one, name) for name in names} for one in self.bookmarks], indent=1)

    def sections(self) -> Iterable[ReportSection]:
        """Return a line for each bookmark."""
        now, rows = datetime.now(UTC), [("bookmark", "version", "moved", "expires")]
        for one in self.bookmarks:
            expires = f"{one.expires}, so it has expired" if one.is_expired(now) else one.expires
            rows.append((one.name, f"{one.version:,}", one.moved, expires))
        return (said(*(aligned(rows, right={1}) if self.bookmarks else ["no bookmarks"])),)
