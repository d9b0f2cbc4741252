"""The paths of tables that are merged at the same time: no table may write to a path that another one reads or writes.

Otherwise their order would decide the result. A pattern meets a path if it matches the first parts of the path, one by
one.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence

from mutator.errors.quick_dataclass import dataclass
from mutator.storage import located

_MAGIC = re.compile(r"[*?[]")
_Reads = str | tuple[str, ...]


@dataclass(frozen=True)
class TablePaths:
    """The paths that a table writes and reads, by key of the tables file."""

    table: str
    writes: Mapping[str, str]
    reads: Mapping[str, _Reads]


def clashes(tables: Sequence[TablePaths]) -> list[str]:
    """Return a fault for each path that a table writes and another one reads, writes or has an entry below.

    >>> clashes([TablePaths("a", {"output": "/o/a"}, {}), TablePaths("b", {"output": "/o/b"}, {"master": "/o/a"})])
    ['tables.b.master: is /o/a, the output of table a; tables run in any order, so give b a run of its own']
    """
    written: dict[str, tuple[str, str]] = {}
    found = []
    for table in tables:
        for key, path in table.writes.items():
            first = written.setdefault(resolved(path), (table.table, key))
            if first != (table.table, key) and not first[1] == key == "feed":  # bases share it
                found.append(f"tables.{table.table}.{key}: is {path}, the {first[1]} of table {first[0]}, too; {_CURE}")
    above = {parent: path for path in written for parent in _above(path)}
    for table in tables:
        for key, path, reads in _all_paths(table):
            met = _met(path, written, above, reads)
            if met is None or written[met][0] == table.table:
                continue
            other, role = written[met]
            here = f"tables.{table.table}.{key}"
            if path == met:
                how = f"is {path}, the {role} of table {other}"
                found.append(f"{here}: {how}; tables run in any order, so give {table.table} a run of its own")
            else:
                found.append(f"{here}: {path} and {met}, the {role} of table {other}, overlap; {_CURE}")
    return found


_CURE = "name another path"


def _all_paths(table: TablePaths) -> Iterator[tuple[str, str, bool]]:
    yield from ((key, resolved(path), False) for key, path in table.writes.items())
    for key, paths in table.reads.items():
        for path in (paths,) if isinstance(paths, str) else paths:
            yield key, resolved(path), True


def _met(path: str, written: Mapping[str, tuple[str, str]], above: Mapping[str, str], reads: bool) -> str | None:
    """Return a written path that is above a path or below it; for a path that is read, also the path itself."""
    if reads and _MAGIC.search(path.partition("://")[2] or path):
        return next((other for other in written if _matches(path, other)), None)
    if reads and path in written:
        return path
    return next((parent for parent in _above(path) if parent in written), above.get(path))


def _matches(pattern: str, path: str) -> bool:
    parts = zip(pattern.split("/"), path.split("/"), strict=False)
    return all(fnmatch.fnmatchcase(name, part) for part, name in parts)


def _above(path: str) -> Iterator[str]:
    root = path.find("://") + 3 if "://" in path else 1
    while (cut := path.rfind("/", root)) > 0:
        path = path[:cut]
        yield path


def resolved(path: str) -> str:
    """Return the one spelling of a path."""
    return located(path)[1].rstrip("/")


def why_not_shared(base: str, feed: Sequence[str]) -> str | None:
    """Return why bases cannot share a feed; None if they can."""
    if not feed:
        return None
    if len(feed) > 1 or _MAGIC.search(feed[0]):
        return "beside base must be one directory, whose files are moved to incr/ of each base that names it"
    if resolved(base) in (resolved(feed[0]), *_above(resolved(feed[0]))):
        return "is in the base; name a directory outside of it, or leave it out, and deliver the files into incr/"
    if not all(located(path)[0].renames for path in (base, feed[0])):
        return "beside base needs a storage that moves files, such as a local disk or HDFS: deliver into incr/ instead"
    return None
