"""Which versions of a table a cleaning keeps, but for those that tags and bookmarks keep."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from mutator.dataset.commits import ABANDON, CLEAN, COMPACT, TAG, Commit
from mutator.dataset.versions.log import TableLog
from mutator.table.version_times import time_of

VERSIONS, SECONDS = 10, 7 * 86_400  # that are kept by default
_SAME_FILES = (ABANDON, CLEAN, TAG)  # kinds of versions that have the files of the one before, too
_CHANGES = ("feed inserted", "feed updated", "feed deleted", "master deleted by absence")  # counts of an apply
_SAME_ROWS = (*_SAME_FILES, COMPACT)  # kinds of versions that have the rows of the one before


@dataclass(frozen=True)
class Retention:
    """How many versions are kept: those that either of the two limits keeps; None for no such limit.

    The newest version is always kept.
    """

    versions: int | None = VERSIONS  # the last ones with different rows
    seconds: float | None = SECONDS  # since a version was superseded by the next one

    def earliest(self, log: TableLog, newest: Commit, known: int, now: float) -> int:
        """Return the number of the earliest version that is kept. known: the earliest one that there is.

        now: seconds since 1970. Raises StateError if an entry is missing or damaged.
        """
        found = newest.number
        if self.versions is not None:
            found = min(found, self._by_number(log, newest, known))
        if self.seconds is not None:
            superseded = range(known + 1, newest.number + 1)
            limit = now - self.seconds
            young = bisect_right(superseded, limit, key=lambda number: time_of(log.read(number).committed).timestamp())
            found = min(found, known + young)
        return max(found, known)

    def _by_number(self, log: TableLog, newest: Commit, known: int) -> int:
        """Return the number of the earliest version that is needed for the rows of the last versions that changed any.

        Of the versions with the same rows, those since the last compaction are enough. So the same versions are kept
        when only cleanings and tags were committed since.
        """
        version, left = newest, (self.versions or 1) - 1
        while version.number > known and (left or version.action in _SAME_FILES):
            left -= changes_rows(version)
            version = log.read(version.number - 1)
        return version.number


def first_with_rows(log: TableLog, number: int) -> int:
    """Return the first of the versions up to one that have the same rows. Raises StateError if an entry is missing."""
    while not changes_rows(log.read(number)):
        number -= 1
    return number


def changes_rows(version: Commit) -> bool:
    """Return whether a version may have other rows, or other fields, than the one before."""
    if version.action == "apply" and version.spec is None:
        return any(version.counts.get(name, 1) for name in _CHANGES)
    return version.action not in _SAME_ROWS
