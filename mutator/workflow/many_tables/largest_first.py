"""The order of tables: largest first, because a large table that begins last would end long after the others."""

import posixpath
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from mutator.errors import MutatorError
from mutator.rules.file_names import is_hidden
from mutator.storage import located
from mutator.workflow.many_tables.tables_file import Table


def largest_first(tables: Sequence[Table], at_once: int) -> list[Table]:
    """Return tables by the size of master and feed, largest first; equally large ones by name.

    at_once: number of tables that are listed together, because listing a remote storage is mostly waiting.
    """
    with ThreadPoolExecutor(at_once) as threads:
        sizes = dict(zip((table.name for table in tables), threads.map(bytes_of, tables), strict=True))
    return sorted(tables, key=lambda table: (-sizes[table.name], table.name))


def bytes_of(table: Table) -> int:
    """Return the bytes of a table's master and feed, as listed; 0 for missing paths.

    This is only an estimate, and faults are left for the run to report.
    """
    if table.base is not None:
        paths: tuple[str, ...] = tuple(posixpath.join(table.base, name) for name in ("master", "incr"))
    else:
        paths = (table.master, *table.feed)
    return sum(map(_bytes_at, paths))


def _bytes_at(path: str) -> int:
    try:
        storage, path = located(path)
        entry = storage.stat(path)
        if entry is None:
            found = storage.glob(path)
        else:
            found = storage.entries(path) if entry.type == "directory" else [entry]
    except MutatorError:
        return 0  # the run reports the fault
    return sum(entry.bytes for entry in found if entry.type == "file" and not is_hidden(entry.name))
