"""Bookmarks of a table: how far named readers have read, each a small file ``_mutator/table/bookmarks/<name>.json``.

A bookmark keeps the versions after its own, and the rows of its own, from being cleaned until it expires. It is not in
the log, because readers move it often. Instead a reader and a cleaning each write first and look then:

- a reader writes the bookmark, and then reads the log to see whether its version is still there;
- a cleaning commits which versions it takes away, and then reads the bookmarks before it removes any file.

So at least one of the two sees the other, in whichever order their steps come.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from mutator.dataset import checksummed_json
from mutator.dataset.versions.log import DIRECTORY
from mutator.errors import MutatorError, error, suppressed
from mutator.errors.failpoints import failpoint
from mutator.rules.version_names import is_name
from mutator.storage import entries_of, read_if_exists, storage_for

_FORM = ("mutator table bookmark", 1)
_END = ".json"
LASTS = 7 * 86400  # seconds after which a bookmark expires that was not moved


@dataclass(frozen=True)
class Bookmark:
    """The place of a named reader in the versions of a table."""

    name: str
    version: int  # that it has read
    moved: str  # when it was set or moved last, ISO 8601, UTC
    lasts: int  # seconds after ``moved`` until it expires

    @property
    def expires(self) -> str:
        """When it expires, ISO 8601, UTC."""
        return (datetime.fromisoformat(self.moved) + timedelta(seconds=self.lasts)).isoformat(timespec="milliseconds")

    def is_expired(self, now: datetime) -> bool:
        """Return whether it has expired. now: with a zone."""
        return now >= datetime.fromisoformat(self.expires)


def bookmarks_of(table: str) -> list[Bookmark]:
    """Return all bookmarks of a table, those that have expired, too, by name. Raises StateError for a damaged one."""
    with suppressed("storage.missing"):
        names = [entry.name.removesuffix(_END) for entry in entries_of(_directory(table)) if entry.name.endswith(_END)]
        found = (bookmark_of(table, name) for name in sorted(names) if is_name(name))
        return [one for one in found if one is not None]  # else it was removed just now
    return []


def bookmark_of(table: str, name: str) -> Bookmark | None:
    """Return a bookmark; None if there is none. Raises StateError if it is damaged."""
    path = _path(table, name)
    content = read_if_exists(path)
    if content is None:
        return None
    with suppress(ValueError, KeyError, TypeError):
        members = checksummed_json.parse(content, *_FORM)
        found = Bookmark(members["name"], int(members["number"]), members["moved"], int(members["lasts"]))
        if found.name == name and found.expires:
            return found
    raise error("table.bookmark.damaged", path=path, table=table, name=name)


def put_bookmark(
    table: str, name: str, version: int, lasts: int, now: datetime, check: Callable[[], object]
) -> Bookmark:
    """Set or move a bookmark; return it.

    lasts: seconds. now: with a zone. check: called once the bookmark is written; reads the log, and raises an error if
    the version is gone. Then the bookmark is what it was before.
    """
    path = _path(table, name)
    before = read_if_exists(path)
    new = Bookmark(name, version, now.astimezone(UTC).isoformat(timespec="milliseconds"), lasts)
    storage = storage_for(path)
    storage.make_directory(posixpath.dirname(path))
    members = {"name": name, "number": version, "moved": new.moved, "lasts": lasts}
    storage.replace(path, checksummed_json.dump(*_FORM, members))
    failpoint("table.bookmark.written")
    try:
        check()
    except MutatorError:
        if before is None:
            storage.remove(path)
        else:
            storage.replace(path, before)
        raise
    return new


def remove_bookmark(table: str, name: str) -> None:
    """Remove a bookmark; it may be missing."""
    storage_for(table).remove(_path(table, name))
    failpoint("table.bookmark.removed")


def _directory(table: str) -> str:
    return posixpath.join(table, DIRECTORY, "bookmarks")


def _path(table: str, name: str) -> str:
    return posixpath.join(_directory(table), f"{name}{_END}")
