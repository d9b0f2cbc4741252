"""The data files of a version by path, while one goes on to later versions; and those that were replaced before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.commits import COMPACT, Commit
from mutator.dataset.file_entry import DATA, FileEntry
from mutator.dataset.versions.checkpoint import files_of
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.dataset.versions.snapshot import KeptKeys, Snapshot, added_files
from mutator.errors import suppressed
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.order_columns import flags

_NEAR = 32  # entries that are read rather than another snapshot


@dataclass(frozen=True)
class EarlierFiles:
    """The files that were live at a version or before a version that replaced some, as far back as they are there."""

    snapshot: Snapshot  # of the version; ``files`` are all of these
    replacements: tuple[Commit, ...]  # the newest first
    entries: dict[int, Commit]  # that were read, by number
    oldest: Any  # paths of the files that were live before the first of the replacements, a pa.Array

    def without_copies(self) -> Snapshot:
        """Return the snapshot without the files of compactions whose rows are in other files, too."""
        compactions = [one.number for one in self.replacements if one.action == COMPACT]
        files = self.snapshot.files
        is_copy = pc.is_in(files.column("version"), value_set=pa.array(compactions, pa.int64()))
        is_first = pc.is_in(files.column("path"), value_set=self.oldest)
        return self.snapshot.only(flags(pc.or_(pc.invert(is_copy), is_first)))


def earlier_files(snapshot: Snapshot) -> EarlierFiles:
    """Return the files of a version, and those that were replaced before. Their rows may be hidden.

    One snapshot is opened, that of the version before the first replacement. The entries after it name the other files.
    """
    log = TableLog(snapshot.table)
    replacements = list(_replacements(log, snapshot))
    entries = {one.number: one for one in replacements}
    while replacements:
        with suppressed("table.version.gone"):  # a cleaning that the snapshot does not know has taken it away
            oldest = open_snapshot(snapshot.table, replacements[-1].number - 1)
            parts = [oldest.files, *_between(oldest.table, replacements, entries), snapshot.files]
            found = replace(snapshot, files=_each_once(parts), keys=KeptKeys())
            paths = oldest.files.column("path").combine_chunks()
            return EarlierFiles(found, tuple(replacements), entries, paths)
        replacements.pop()
    return EarlierFiles(snapshot, (), {}, pa.array([], pa.string()))


def _replacements(log: TableLog, snapshot: Snapshot) -> Iterator[Commit]:
    """Yield the versions that replaced files, the newest first, as long as the version before each is there."""
    left, number = snapshot.state.cleaning.left, snapshot.version.last_replacement
    while number is not None and left.has(number - 1):
        version = log.read(number)
        yield version
        number = version.compacted


def _between(table: str, replacements: Sequence[Commit], entries: dict[int, Commit]) -> Iterator[Any]:
    """Yield the files that the first replacement and the versions after it added, but for those after the last one.

    Where many versions replaced nothing, a snapshot has what their entries have. entries: gets those that are read.
    """
    for first, following in zip(replacements[:0:-1], replacements[-2::-1], strict=True):
        last = following.number - 1
        if last - first.number > _NEAR:
            yield open_snapshot(table, last).files
            continue
        entries.update((one.number, one) for one in TableLog(table).after(first.number, last))
        yield from (added_files(entries[number]) for number in range(first.number, last + 1))


def _each_once(parts: Sequence[Any]) -> Any:
    """Return the files of some pa.Tables, each path once."""
    files = pa.concat_tables(parts).combine_chunks()
    codes = files.column("path").combine_chunks().dictionary_encode().indices.to_numpy()
    _, first = np.unique(codes, return_index=True)
    return files.take(pa.array(np.sort(first)))


class DataFiles:
    """The data files of a version, by path."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Read no path yet. snapshot: of the first version."""
        self._columns = snapshot.files
        self._added: dict[str, FileEntry] = {}

    @cached_property
    def _rows(self) -> dict[str, int]:
        """The row of each data file of the first version."""
        rows = np.flatnonzero(pc.equal(self._columns.column("role"), DATA).to_numpy())
        paths = self._columns.column("path").take(pa.array(rows)).to_pylist()
        return dict(zip(paths, rows.tolist(), strict=True))

    def find(self, paths: Iterable[str]) -> dict[str, FileEntry]:
        """Return those of some paths that are data files of the version."""
        found = {path: self._added[path] for path in paths if path in self._added}
        others = [path for path in paths if path not in found and path in self._rows]
        rows = np.array([self._rows[path] for path in others], np.int64)
        return found | dict(zip(others, files_of(self._columns, rows), strict=True))

    def of_schemas(self, wanted: Callable[[int], bool]) -> dict[str, FileEntry]:
        """Return the data files of the version whose schema, a number, is wanted."""
        schemas = self._columns.column("schema").to_numpy()
        numbers = np.array([number for number in np.unique(schemas).tolist() if wanted(number)], schemas.dtype)
        rows = np.array(list(self._rows.values()), np.int64)
        rows = np.sort(rows[np.isin(schemas[rows], numbers)])
        found = {file.path: file for file in files_of(self._columns, rows)}
        return found | {path: file for path, file in self._added.items() if wanted(file.form)}

    def follow(self, version: Commit) -> None:
        """Go on to the next version."""
        for path in version.removed:
            if self._added.pop(path, None) is None:
                self._rows.pop(path, None)
        self._added |= {file.path: file for file in version.files if file.role == DATA}
