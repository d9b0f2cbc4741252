"""Versions that a cleaning must keep, because they have a tag, or because a reader has a bookmark there."""

from __future__ import annotations

from datetime import UTC, datetime

from mutator.dataset.commits import Left
from mutator.dataset.versions.bookmarks import bookmarks_of
from mutator.dataset.versions.snapshot import Snapshot
from mutator.table.clean_removal import has_begun, is_taken_back


def tagged(snapshot: Snapshot, left: Left, earliest: int) -> tuple[int, ...]:
    """Return the versions before one that have tags and are left."""
    numbers = set(snapshot.state.tags.values())
    return tuple(sorted(number for number in numbers if number < earliest and left.has(number)))


def bookmarked(table: str, now: float) -> list[int]:
    """Return the versions at which readers have bookmarks that have not expired. now: seconds since 1970.

    Raises StateError if a bookmark is damaged: it may name any version.
    """
    time = datetime.fromtimestamp(now, UTC)
    return [one.version for one in bookmarks_of(table) if not one.is_expired(time)]


def taken_back(snapshot: Snapshot, bookmarks: list[int]) -> tuple[Left, tuple[int, ...]]:
    """Return which versions are left without the cleanings that took a bookmark's version away, and these cleanings.

    A reader may write its bookmark while a cleaning is being committed. As long as nothing was removed, the next
    cleaning names its files anew, without those that the bookmark needs. It also does so where a cleaning has taken a
    list back, and ended before it could commit.
    """
    cleaning = snapshot.state.cleaning
    for number, waiting in sorted(cleaning.waiting.items()):
        is_needed = any(waiting.before.earliest <= version < waiting.earliest for version in bookmarks)
        if is_taken_back(snapshot.table, waiting) or (is_needed and not has_begun(snapshot.table, waiting)):
            return waiting.before, tuple(later for later in sorted(cleaning.waiting) if later >= number)
    return cleaning.left, ()
