"""Places of tables that are merged at the same time: none may write where another one reads or writes.

Which of the two came first would decide what the other one sees. A pattern meets a path where it matches its beginning,
part by part.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mutator.storage import absolute, storage_for

__all__ = ["Places", "clashes"]

_MAGIC = re.compile(r"[*?[]")
_Reads = str | tuple[str, ...]


@dataclass(frozen=True)
class Places:
    """What a table writes and reads, by the keys of the tables file."""

    table: str
    writes: Mapping[str, str]
    reads: Mapping[str, _Reads]


def clashes(tables: Sequence[Places]) -> list[str]:
    """Name the places that a table writes, and another one reads or writes, or has something in.

    >>> clashes([Places("a", {"output": "/o/a"}, {}), Places("b", {"output": "/o/b"}, {"master": "/o/a"})])
    ['tables.b.master: is /o/a, the output of table a; tables run in any order, so give b a run of its own']
    """
    written: dict[str, tuple[str, str]] = {}
    found = []
    for one in tables:
        for key, path in one.writes.items():
            place = _resolved(path)
            first = written.setdefault(place, (one.table, key))
            if first != (one.table, key):
                found.append(f"tables.{one.table}.{key}: is {path}, the {first[1]} of table {first[0]}, too; {_CURE}")
    above = {place: other for other in written for place in _above(other)}
    for one in tables:
        for key, path, reads in _all_places(one):
            met = _met(path, written, above, reads)
            if met is None or written[met][0] == one.table:
                continue
            table, role = written[met]
            here = f"tables.{one.table}.{key}"
            if path == met:
                how = f"is {path}, the {role} of table {table}"
                found.append(f"{here}: {how}; tables run in any order, so give {one.table} a run of its own")
            else:
                found.append(f"{here}: {path} and {met}, the {role} of table {table}, overlap; {_CURE}")
    return found


_CURE = "name a place of its own"


def _all_places(one: Places) -> Iterator[tuple[str, str, bool]]:
    yield from ((key, _resolved(path), False) for key, path in one.writes.items())
    for key, paths in one.reads.items():
        for path in (paths,) if isinstance(paths, str) else paths:
            yield key, _resolved(path), True


def _met(path: str, written: Mapping[str, tuple[str, str]], above: Mapping[str, str], reads: bool) -> str | None:
    """Return a written place that is above a path or in it, or is it, where the path is read."""
    if reads and _MAGIC.search(path.partition("://")[2] or path):
        return next((place for place in written if _matches(path, place)), None)
    if reads and path in written:
        return path
    return next((place for place in _above(path) if place in written), above.get(path))


def _matches(pattern: str, place: str) -> bool:
    parts = zip(pattern.split("/"), place.split("/"), strict=False)
    return all(fnmatch.fnmatchcase(name, part) for part, name in parts)


def _above(path: str) -> Iterator[str]:
    root = path.find("://") + 3 if "://" in path else 1
    while (cut := path.rfind("/", root)) > 0:
        path = path[:cut]
        yield path


def _resolved(path: str) -> str:
    path = absolute(path)
    return storage_for(path).resolve(path).rstrip("/")
