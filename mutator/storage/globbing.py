"""Path patterns for storages that can only list directories, with the rules of Python's ``glob``."""

import fnmatch
import posixpath
import re
from collections.abc import Callable, Iterable

from mutator.storage.entry import Entry

_MAGIC = re.compile(r"[*?[]")


def matching_part(path: str, pattern: str) -> str | None:
    """Return the beginning of a path that a pattern matches, up to a whole name; None if it matches none.

    The path need not exist. Here ``*`` matches hidden names, too.

    >>> matching_part("/data/incr/a.csv/x", "/data/incr/*.csv"), matching_part("/data/a.csv", "/data/incr/*.csv")
    ('/data/incr/a.csv', None)
    """
    names, tests = path.split("/"), pattern.split("/")
    fits = len(names) >= len(tests) and all(map(fnmatch.fnmatchcase, names, tests))
    return "/".join(names[: len(tests)]) if fits else None


def matches(
    pattern: str, entries: Callable[[str], Iterable[Entry]], stat: Callable[[str], Entry | None]
) -> list[Entry]:
    """Return the entries that match a pattern, sorted by path; ``*`` does not match hidden names.

    entries: lists a directory, and is called only for existing ones. stat: returns the entry at a path.
    """
    if not _MAGIC.search(pattern):
        found = stat(pattern)
        return [] if found is None else [found]
    directory, name = posixpath.split(pattern)
    if _MAGIC.search(directory.partition("://")[2]):
        above = [entry.path for entry in matches(directory, entries, stat) if entry.type == "directory"]
    else:
        above = [directory] if stat(directory) is not None else []
    if not _MAGIC.search(name):
        here = (stat(posixpath.join(parent, name)) for parent in above)
        return [entry for entry in here if entry is not None]
    test = re.compile(fnmatch.translate(name)).match
    found_all = [
        entry
        for parent in above
        for entry in entries(parent)
        if test(entry.name) and (name.startswith(".") or not entry.name.startswith("."))
    ]
    return sorted(found_all, key=lambda entry: entry.path.encode("utf-8", "surrogateescape"))
