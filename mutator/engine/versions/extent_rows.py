"""The live rows and tombstones of some extents of a table, read file by file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from mutator.dataset.file_entry import FileEntry
from mutator.dataset.versions.snapshot import LiveExtent
from mutator.engine.versions.live_rows import LiveRows
from mutator.engine.versions.stored_rows import taken_tombstones
from mutator.rules.byte_columns import ByteColumn, Ints
from mutator.rules.key_hash import hash_columns
from mutator.storage import progress

_ROWS = 1 << 20  # rows that are read at once


class ExtentPart(Protocol):
    """Live rows of a data file."""

    @property
    def positions(self) -> Ints:
        """The positions of the rows in the file, ascending."""

    def slice(self, first: int, last: int) -> Self:
        """Return some of the rows."""


_P = TypeVar("_P", bound=ExtentPart)
Read = Callable[[FileEntry, Ints, Ints | None], _P]  # file, positions, their entries in the key index -> the rows


class ExtentRows(Generic[_P]):
    """The files of a task. A file with rows of several extents is read once."""

    def __init__(
        self,
        live: LiveRows,
        extents: Sequence[LiveExtent],
        read: Read[_P],
        *,
        width: int,
        indexed: bool,
        at_once: int = _ROWS,
    ) -> None:
        """Read nothing yet.

        extents: of the task. read: reads rows of a data file. width: number of ID fields. indexed: whether it needs the
        entries of the rows. at_once: rows of a file that are read at once, if the task has one extent of it.
        """
        self._live, self._read, self._width, self._indexed, self._at_once = live, read, width, indexed, at_once
        self._extents: dict[str, list[LiveExtent]] = {}
        for extent in sorted(extents, key=lambda one: one.start):
            self._extents.setdefault(extent.file.path, []).append(extent)
        self._left = {path: len(found) for path, found in self._extents.items()}  # extents to be read
        self._rows: dict[str, _P] = {}
        self._tombstones: dict[str, tuple[Ints, Any]] = {}

    def data(self, extent: LiveExtent) -> Iterator[_P]:
        """Yield the live rows of an extent, a part at a time."""
        file = extent.file
        if len(self._extents[file.path]) == 1:
            positions, entries = self._positions(file), self._entries(file)
            for start in range(0, len(positions), self._at_once):
                yield self._part(file, positions[start : start + self._at_once], entries)
            return
        if file.path not in self._rows:
            self._rows[file.path] = self._part(file, self._positions(file), self._entries(file))
        found = self._rows[file.path]
        self._done(file, self._rows)
        yield found.slice(*np.searchsorted(found.positions, [extent.start, extent.end]).tolist())

    def tombstones(self, extent: LiveExtent) -> Any:
        """Return the live tombstones of an extent, a pa.Table with the column "hash"."""
        file = extent.file
        if file.path not in self._tombstones:
            positions = self._positions(file)
            found = taken_tombstones(self._live.snapshot.table, file, file.rows, positions)
            names = [f"key_{number}" for number in range(self._width)]
            keys = [found.column(name).combine_chunks().cast(pa.large_binary()) for name in names]
            hashes = hash_columns([ByteColumn.of_array(key) for key in keys])
            self._tombstones[file.path] = positions, found.append_column("hash", pa.array(hashes))
        positions, table = self._tombstones[file.path]
        first, last = np.searchsorted(positions, [extent.start, extent.end]).tolist()
        self._done(file, self._tombstones)
        return table.slice(first, last - first)

    def _part(self, file: FileEntry, positions: Ints, entries: Ints | None) -> _P:
        progress.count(rows=len(positions))
        return self._read(file, positions, None if entries is None else entries[positions])

    def _done(self, file: FileEntry, read: dict[str, Any]) -> None:
        """Forget a file after its last extent."""
        self._left[file.path] -= 1
        if not self._left[file.path]:
            del read[file.path]

    def _positions(self, file: FileEntry) -> Ints:
        """Return the positions of the live rows of a file's extents, ascending."""
        live = np.zeros(file.rows, np.bool_)
        for one in self._extents[file.path]:
            live[one.start : one.end] = True
        for hidden in self._live.snapshot.masks.hidden_parts(file.path):
            live[hidden] = False
        return np.flatnonzero(live)

    def _entries(self, file: FileEntry) -> Ints | None:
        return self._live.entry_numbers(file) if self._indexed else None
