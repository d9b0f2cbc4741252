"""Which table is begun first: the largest, for whatever is begun last decides when all of them are done."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from mutator.errors import MutatorError
from mutator.rules.file_names import is_hidden
from mutator.storage import absolute, storage_for
from mutator.workflow.many.tables_file import Table

__all__ = ["bytes_of", "largest_first"]


def largest_first(tables: Sequence[Table], at_once: int) -> list[Table]:
    """Return tables by what they have to read, master and feed; of equally large ones by name.

    at_once: how many are looked at together, for a listing of a remote storage is mostly waiting.
    """
    with ThreadPoolExecutor(at_once) as looks:
        sizes = dict(zip((table.name for table in tables), looks.map(bytes_of, tables), strict=True))
    return sorted(tables, key=lambda table: (-sizes[table.name], table.name))


def bytes_of(table: Table) -> int:
    """Return the bytes of a table's master and feed as listings have them, 0 of what is not there.

    It is only an estimate: a listing is never the truth, and a run finds its own faults.
    """
    if table.base is not None:
        paths: tuple[str, ...] = tuple(posixpath.join(table.base, name) for name in ("master", "incr"))
    else:
        paths = (table.master, *table.feed)
    return sum(map(_bytes_at, paths))


def _bytes_at(path: str) -> int:
    try:
        path = absolute(path)
        storage = storage_for(path)
        path = storage.resolve(path)
        entry = storage.stat(path)
        if entry is None:
            found = storage.glob(path)
        else:
            found = storage.entries(path) if entry.type == "directory" else [entry]
    except MutatorError:
        return 0  # the run will say why
    return sum(one.bytes for one in found if one.type == "file" and not is_hidden(one.name))
