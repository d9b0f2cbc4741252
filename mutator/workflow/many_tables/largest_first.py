"""The order of tables: largest first, because a large table that begins last would end long after the others."""

import posixpath
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from mutator.dataset.version_log import Log
from mutator.errors import MutatorError
from mutator.rules.file_names import is_hidden
from mutator.storage import located
from mutator.workflow.directory.paths import master_of, open_base
from mutator.workflow.many_tables.tables_file import ListedTable


def sizes_of(tables: Sequence[ListedTable], at_once: int) -> dict[str, int]:
    """Return the bytes of master and feed of each table, by its name.

    at_once: number of tables that are listed together, because listing a remote storage is mostly waiting.
    """
    with ThreadPoolExecutor(at_once) as threads:
        return dict(zip((table.name for table in tables), threads.map(bytes_of, tables), strict=True))


def largest_first(tables: Sequence[ListedTable], sizes: Mapping[str, int]) -> list[ListedTable]:
    """Return tables by their bytes, largest first; equally large ones by name."""
    return sorted(tables, key=lambda table: (-sizes[table.name], table.name))


def bytes_of(table: ListedTable) -> int:
    """Return the bytes of a table's master and feed, as listed; 0 for missing paths.

    This is only an estimate, and faults are left for the run to report.
    """
    paths: tuple[str, ...] = (table.master, *table.feed)
    if table.base is not None:
        paths = (_master_of(table.base), posixpath.join(table.base, "incr"))
    return sum(map(_bytes_at, paths))


def _master_of(given: str) -> str:
    try:
        base = open_base(given)
        return master_of(base, Log(base.path).latest())
    except MutatorError:
        return posixpath.join(given, "master")


def _bytes_at(path: str) -> int:
    """Return the bytes of all files below a path, those of partitions included, but not of hidden ones."""
    try:
        storage, path = located(path)
        entry = storage.stat(path)
        if entry is not None and entry.type == "directory":
            files = ((one.path[len(path) + 1 :], one) for one in storage.walk(path))
        else:
            files = ((one.name, one) for one in (storage.glob(path) if entry is None else [entry]))
        return sum(one.bytes for name, one in files if one.type == "file" and not any(map(is_hidden, name.split("/"))))
    except MutatorError:
        return 0  # the run reports the fault
