"""Remove the files that cleanings have named, and move log entries of versions that are gone to the archive.

Nothing is removed before the list of a cleaning is marked as begun. Until then, a version that it declared gone can
still become available again; then the list is marked as taken back. The mark is created exclusively, so
of two cleanings, one decides.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.state import Waiting
from mutator.dataset.versions.archive import FIRST
from mutator.dataset.versions.checkpoint import STORED
from mutator.dataset.versions.log import DIRECTORY, TableLog
from mutator.dataset.versions.packs import content_of, damaged, needed_packs
from mutator.dataset.versions.snapshot import Snapshot
from mutator.dataset.versions.table_codec import read_list
from mutator.errors import MutatorError, suppressed
from mutator.errors.display import counted
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.file_names import run_of
from mutator.storage import Entry, read_if_exists, storage_for, walk
from mutator.table.version_times import time_of

_BEGUN = ".begun"  # suffix of the mark beside a list
_REMOVAL, _TAKEN_BACK = b"", b"taken back"  # contents of marks
_THREADS = 16  # that remove files, where that is mostly waiting
_AT_ONCE = 4096  # files that are removed between two looks at signals
_VERSION = re.compile(r"(?:.*/)?version_id=(\d+)")
_BATCH = 1 << 18  # files that are listed at a time
_OTHERS = tuple(f"{DIRECTORY}/{name}/" for name in ("log", "archive", "checkpoints"))  # whose files belong to no run
_OF_THE_LOG = ("log", "archive", "bookmarks", "checkpoints", "hint.json")


@dataclass(frozen=True)
class Removed:
    """The removed files."""

    cleanings: tuple[int, ...] = ()  # whose lists are done
    files: int = 0
    bytes: int = 0
    entries: int = 0  # of the log, that were moved to the archive


def mark_of(waiting: Waiting) -> str:
    """Return the path of the mark that files of a list may have been removed, relative to the table."""
    return waiting.named.path + _BEGUN


def has_begun(table: str, waiting: Waiting) -> bool:
    """Return whether files of a list may have been removed. The list itself is removed after them, before its mark."""
    mark = read_if_exists(posixpath.join(table, mark_of(waiting)))
    return mark == _REMOVAL or not is_there(table, waiting)


def is_taken_back(table: str, waiting: Waiting) -> bool:
    """Return whether a list was marked as taken back, so that none of its files will be removed."""
    return read_if_exists(posixpath.join(table, mark_of(waiting))) == _TAKEN_BACK


def take_back(table: str, waiting: Waiting) -> bool:
    """Mark a list as taken back; return False if the removal of its files may have begun."""
    return is_there(table, waiting) and _marked(table, waiting, _TAKEN_BACK)


def named_files(table: str, waiting: Waiting) -> Any | None:
    """Return the files of a list, a pa.Table of ``NAMED``; None if all of them were removed, and the list, too.

    Raises StateError if the list is damaged.
    """
    try:
        content = content_of(table, waiting.named)
    except MutatorError:
        if is_there(table, waiting):
            raise
        return None
    try:
        return read_list(content)
    except ValueError as fault:
        raise damaged(table, waiting.named, fault) from None


def remove_named(snapshot: Snapshot, grace: float, now: float) -> Removed:
    """Remove the files of the cleanings up to a snapshot whose grace is over; return what was removed.

    snapshot: the newest one. grace: seconds. now: seconds since 1970. Raises StorageError; the next call goes on.
    """
    table, cleaning = snapshot.table, snapshot.state.cleaning
    done, files, size, entries = list[int](), 0, 0, 0
    for number, waiting in sorted(cleaning.waiting.items()):
        if time_of(waiting.committed).timestamp() + grace > now:
            break
        named = named_files(table, waiting)
        if named is None:  # a killed cleaning may have left the mark
            storage_for(table).remove(posixpath.join(table, mark_of(waiting)))
        elif not _marked(table, waiting, _REMOVAL):
            break  # another cleaning names its files anew, and those of the lists after it
        else:
            failpoint("clean.begun")
            entries += archive_entries(TableLog(table), waiting.earliest)
            named = _unneeded(named, snapshot)
            _remove(table, named.column("path"), waiting.earliest)
            files, size = files + len(named), size + (pc.sum(named.column("bytes")).as_py() or 0)
            _end(table, waiting)
        done.append(number)
    return Removed(tuple(done), files, size, entries)


def archive_entries(log: TableLog, end: int) -> int:
    """Move the entries before one to the archive, but for the first; return how many.

    They leave the log one by one, the earliest first, so that nobody can create one again without noticing: see
    ``TableLog.commit``.
    """
    there = [number for number in log.numbers() if FIRST <= number < end]
    if not there:
        return 0
    log.archive.write(log.contents(log.archive.last() + 1, end - 1))
    left = set(there)
    for number, _ in log.archive.contents(there[0], end - 1):
        if number in left:
            log.remove_entry(number)
            left.discard(number)
            failpoint("clean.entry.removed")
    if left:
        raise log.missing(min(left))
    return len(there)


def is_there(table: str, waiting: Waiting) -> bool:
    """Return whether files of a list may still exist: the list is removed after them."""
    path = posixpath.join(table, waiting.named.path)
    return storage_for(path).stat(path) is not None


def _marked(table: str, waiting: Waiting, mark: bytes) -> bool:
    """Mark a list, unless it is marked; return whether it has this mark."""
    path = posixpath.join(table, mark_of(waiting))
    with suppressed("storage.exists"), storage_for(path).create_new(path) as stream:
        stream.write(mark)
    return read_if_exists(path) == mark


def _end(table: str, waiting: Waiting) -> None:
    """Remove a list, the mark last: without the list, the mark means nothing."""
    path = posixpath.join(table, waiting.named.path)
    storage = storage_for(path)
    storage.remove(path)
    failpoint("clean.list.removed")
    storage.remove(path + _BEGUN)


def _unneeded(named: Any, snapshot: Snapshot) -> Any:
    """Return the named files without those that are live. There are none; but nothing is worse than to remove one.

    Nor are packs removed that a checkpoint names which was written since the files were named.
    """
    live = pa.chunked_array([chunk for name, *_ in STORED for chunk in snapshot.files.column(name).chunks], pa.string())
    paths = named.column("path")
    needed = pc.is_in(paths, value_set=live)
    if pc.any(pc.ends_with(paths, ".pack")).as_py():
        names = needed_packs(TableLog(snapshot.table), snapshot.state.cleaning.left)
        packs = pa.array([f"{DIRECTORY}/checkpoints/{name}" for name in sorted(names)], pa.string())
        needed = pc.or_(needed, pc.is_in(paths, value_set=packs))
    return named.filter(pc.invert(needed))


def _remove(table: str, paths: Any, earliest: int) -> None:
    storage, directories = storage_for(table), set[str]()

    def remove(path: str) -> None:
        storage.remove(posixpath.join(table, path))
        failpoint("clean.file.removed")

    for start in range(0, len(paths), _AT_ONCE):
        part = paths.slice(start, _AT_ONCE).to_pylist()
        if storage.waits:
            with ThreadPoolExecutor(_THREADS, "remove") as threads:
                list(threads.map(remove, part))
        else:
            for path in part:
                remove(path)
        directories.update(posixpath.dirname(path) for path in part)
    if storage.empty_directories:
        for directory in sorted(directories, reverse=True):
            match = _VERSION.fullmatch(directory)
            if match and int(match[1]) < earliest:  # else a writer may be about to create a file there
                storage.remove_directory(posixpath.join(table, directory))


@dataclass(frozen=True)
class DeadRuns:
    """Files of runs without a version."""

    runs: tuple[str, ...]
    paths: list[str]  # relative to the table
    bytes: list[int]


def dead_runs(table: str, known: Any, written_before: float) -> DeadRuns:
    """Return the files below a table of runs that all wrote their last file before a time.

    known: paths of files that belong to no run without a version, a pa.ChunkedArray. A run that has written anything
    since is alive: a merge may take longer than the time that a run may do nothing. Files without a run's id in their
    names are never among the result.
    """
    strays = list(_strays(table, known))
    alive = {run for run, _, entry in strays if entry.last_write >= written_before}
    dead = [(run, path, entry) for run, path, entry in strays if run not in alive]
    runs = tuple(sorted({run for run, _, _ in dead}))
    return DeadRuns(runs, [path for _, path, _ in dead], [entry.bytes for _, _, entry in dead])


def _strays(table: str, known: Any) -> Iterator[tuple[str, str, Entry]]:
    """Yield (run, path, entry) of the files that are not known."""
    found = walk(table)
    while entries := list(islice(found, _BATCH)):
        paths = [entry.path.removeprefix(f"{table}/") for entry in entries]
        is_known = pc.is_in(pa.array(paths, pa.string()), value_set=known)
        for number in np.flatnonzero(~is_known.to_numpy(zero_copy_only=False)).tolist():
            path = paths[number]
            run = run_of(path)
            if run is not None and not path.startswith(_OTHERS):
                yield run, path, entries[number]


@dataclass(frozen=True)
class StrayFiles:
    """Files that no version names."""

    files: int
    bytes: int
    example: str | None  # the first path, relative to the table

    def text(self) -> str:
        """Return a line for a terminal."""
        size = f"{counted(self.files, 'file')} ({counted(self.bytes, 'byte')})"
        return f"{size} of no version, for example {self.example}: of a killed command, or of one that is running"


def stray_files(table: str, named: Collection[str]) -> StrayFiles:
    """Return the files below a table that no version names. named: paths that versions name, relative to the table."""
    known = tuple(f"{DIRECTORY}/{name}" for name in _OF_THE_LOG)
    found = [(posixpath.relpath(entry.path, table), entry.bytes) for entry in walk(table)]
    stray = sorted(one for one in found if one[0] not in named and not one[0].startswith(known))
    return StrayFiles(len(stray), sum(size for _, size in stray), stray[0][0] if stray else None)
