"""Bookmarks of a table: how far named readers have read, each a small file in ``_mutator/table/bookmarks``.

The first file of a bookmark is ``<name>.json``, and each change of it creates the next one: ``<name>@1.json``,
``<name>@2.json`` and so on. The one with the highest number is the bookmark; a change removes the others. Only one of
several processes creates a file, so none replaces a place that it has not seen. A removal is a change, too: its file
stays, so that no slower process creates a file with a number that was there before.

A process that has created a file may find a later one when it lists them. Then either other processes have followed its
change, or it has created a file again that was removed. The ids that the newest file follows tell it which.

A bookmark keeps the versions after its own, and the rows of its own, from being cleaned until it expires. It is not in
the log, because readers move it often. Instead a reader and a cleaning each write first and look then:

- a reader writes the bookmark, and then reads the log to see whether its version is still there;
- a cleaning commits which versions it takes away, and then reads the bookmarks before it removes any file.

So at least one of the two sees the other, in whichever order their steps come.
"""

from __future__ import annotations

import posixpath
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from mutator.dataset import checksummed_json
from mutator.dataset.versions.log import DIRECTORY
from mutator.errors import MutatorError, StorageError, error, suppressed
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.version_names import is_name
from mutator.storage import entries_of, read_if_exists, storage_for

_FORM = ("mutator table bookmark", 1)
_FILE = re.compile(r"(?P<name>[^@]+)(?:@(?P<number>[1-9][0-9]*))?\.json")
_TRIES = 50  # of a change, while other processes change the bookmark
_FOLLOWED = 32  # changes that a file names; a process that others outrun by more regards its change as lost
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
    found = (_bookmark(table, name, *_last(table, name, numbers)) for name, numbers in sorted(_files(table).items()))
    return [one for one in found if one is not None]


def damaged_bookmarks(table: str) -> Iterator[MutatorError]:
    """Yield the errors of the bookmarks that are damaged."""
    for name, numbers in sorted(_files(table).items()):
        try:
            _bookmark(table, name, *_last(table, name, numbers))
        except MutatorError as fault:
            yield fault


def bookmark_of(table: str, name: str) -> Bookmark | None:
    """Return a bookmark; None if there is none. Raises StateError if it is damaged."""
    return _bookmark(table, name, *_newest(table, name))


def change_bookmark(
    table: str,
    name: str,
    change: Callable[[Bookmark | None], Bookmark],
    check: Callable[[Bookmark], object] = lambda _: None,
) -> Bookmark:
    """Set or move a bookmark; return it.

    change: given the present bookmark, returns the new one or raises an error; it is called again if another process
    changes the bookmark meanwhile. A damaged bookmark is None to it. check: called once the new one is written; reads
    the log, and raises an error if the version is gone. Then the bookmark is what it was before. Raises StateError if
    other processes are always faster.
    """
    for _ in range(_TRIES):
        number, before = _newest(table, name)
        new = change(_known(table, name, number, before))
        content = _content(new, before)
        if not _create(table, name, number + 1, content):
            continue
        try:
            check(new)
        except MutatorError:
            _create(table, name, number + 2, before or _removed(name, content))  # unless another process has changed it
            raise
        return new
    raise error("table.outrun.bookmark", path=_path(table, name, number + 1))


def remove_bookmark(table: str, name: str) -> None:
    """Remove a bookmark; it may be missing. Raises StateError if other processes are always faster."""
    for _ in range(_TRIES):
        number, before = _newest(table, name)
        if before is None or _is_removed(before) or _create(table, name, number + 1, _removed(name, before)):
            return
    raise error("table.outrun.bookmark", path=_path(table, name, number + 1))


def _create(table: str, name: str, number: int, content: bytes) -> bool:
    """Create the next file of a bookmark, and remove those before it; return False if another process was faster.

    It was faster, too, where this process is so slow that the file with its number has been there and is removed: then
    there is a later one that does not follow this one.
    """
    path = _path(table, name, number)
    storage = storage_for(path)
    storage.make_directory(posixpath.dirname(path))
    try:
        with storage.create_new(path) as stream:
            stream.write(content)
    except StorageError as fault:
        if fault.kind != "storage.exists":
            raise
        return False
    failpoint("table.bookmark.written")
    *earlier, last = _files(table).get(name, [number])
    if last != number:
        with suppress(StorageError):  # the next change removes it
            storage.remove(path)
        newest = _ids(_newest(table, name)[1])
        return any(own in newest for own in _ids(content)[:1])
    for one in earlier:
        with suppress(StorageError):  # the next change removes it
            storage.remove(_path(table, name, one))
        failpoint("table.bookmark.removed")
    return True


def _newest(table: str, name: str) -> tuple[int, bytes | None]:
    """Return the number and the content of the newest file of a bookmark; -1 and None if there is no file."""
    return _last(table, name, _files(table).get(name, []))


def _last(table: str, name: str, numbers: list[int]) -> tuple[int, bytes | None]:
    """Return the newest file of a bookmark, as ``_newest`` does. numbers: of its files, as they were listed."""
    while numbers:
        content = read_if_exists(_path(table, name, numbers[-1]))
        if content is not None:
            return numbers[-1], content
        numbers = _files(table).get(name, [])  # there is a newer one by now
    return -1, None


def _files(table: str) -> dict[str, list[int]]:
    """Return the numbers of the files of each bookmark, in ascending order."""
    found: dict[str, list[int]] = {}
    for entry in entries_of(_directory(table)):
        match = _FILE.fullmatch(entry.name)
        if match and is_name(match["name"]) and entry.type == "file":
            found.setdefault(match["name"], []).append(int(match["number"] or 0))
    return {name: sorted(numbers) for name, numbers in found.items()}


def _known(table: str, name: str, number: int, content: bytes | None) -> Bookmark | None:
    with suppressed("table.bookmark.damaged"):
        return _bookmark(table, name, number, content)
    return None


def _bookmark(table: str, name: str, number: int, content: bytes | None) -> Bookmark | None:
    """Return the bookmark in a file; None without one, or if it was removed. Raises StateError if it is damaged."""
    if content is None:
        return None
    with suppress(ValueError, KeyError, TypeError):
        members = checksummed_json.parse(content, *_FORM)
        if members["name"] == name and members["number"] is None:
            return None
        found = Bookmark(members["name"], int(members["number"]), members["moved"], int(members["lasts"]))
        if found.name == name and found.expires:
            return found
    raise error("table.bookmark.damaged", path=_path(table, name, number), table=table, name=name)


def _content(mark: Bookmark, before: bytes | None) -> bytes:
    members = {"name": mark.name, "number": mark.version, "moved": mark.moved, "lasts": mark.lasts}
    return _dumped(members, before)


def _removed(name: str, before: bytes | None) -> bytes:
    return _dumped({"name": name, "number": None}, before)


def _dumped(members: dict[str, Any], before: bytes | None) -> bytes:
    """Write a file of a bookmark. before: the one that it follows."""
    own = {"id": secrets.token_hex(8), "follows": _ids(before)[:_FOLLOWED]}
    return checksummed_json.dump(*_FORM, members | own)


def _ids(content: bytes | None) -> list[str]:
    """Return the id of a file of a bookmark, and those that it follows, the newest first; none if it has no id."""
    with suppress(ValueError, KeyError, TypeError):
        members = {} if content is None else checksummed_json.parse(content, *_FORM)
        return [members["id"], *members["follows"]]
    return []


def _is_removed(content: bytes) -> bool:
    with suppress(ValueError, KeyError):
        return checksummed_json.parse(content, *_FORM)["number"] is None
    return False


def _directory(table: str) -> str:
    return posixpath.join(table, DIRECTORY, "bookmarks")


def _path(table: str, name: str, number: int) -> str:
    return posixpath.join(_directory(table), f"{name}@{number}.json" if number else f"{name}.json")
