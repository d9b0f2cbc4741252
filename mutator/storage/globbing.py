"""Patterns on storages that only list: as shells and Python's ``glob`` have them."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Callable, Iterable

from mutator.storage.entry import Entry

__all__ = ["matches"]

_MAGIC = re.compile(r"[*?[]")


def matches(
    pattern: str, entries: Callable[[str], Iterable[Entry]], look: Callable[[str], Entry | None]
) -> list[Entry]:
    """Return the entries that match a pattern, by path; ``*`` does not match hidden names.

    entries: lists a directory, and is given those alone that are there. look: returns what is at a path.
    """
    if not _MAGIC.search(pattern):
        found = look(pattern)
        return [] if found is None else [found]
    directory, name = posixpath.split(pattern)
    if _MAGIC.search(directory.partition("://")[2]):
        above = [one.path for one in matches(directory, entries, look) if one.type == "directory"]
    else:
        above = [directory] if look(directory) is not None else []
    if not _MAGIC.search(name):
        here = (look(posixpath.join(place, name)) for place in above)
        return [one for one in here if one is not None]
    test = re.compile(fnmatch.translate(name)).match
    found_all = [
        one
        for place in above
        for one in entries(place)
        if test(one.name) and (name.startswith(".") or not one.name.startswith("."))
    ]
    return sorted(found_all, key=lambda one: one.path.encode("utf-8", "surrogateescape"))
