"""Where a compaction moved rows, and what becomes of them in the versions that were committed meanwhile.

A compaction reads one snapshot and is committed after a later one. Rows that the versions between hide or touch are
hidden or touched in its files, where they are found by their keys. A task whose files or rows another compaction moved,
or an overwrite replaced, is given up: its buckets stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.commits import COMPACT, OVERWRITES, Commit
from mutator.dataset.file_entry import DATA, FileEntry
from mutator.dataset.state import State
from mutator.dataset.versions.checkpoint import file_columns
from mutator.dataset.versions.hidden_rows import SCHEMA, Hidden, index_table
from mutator.dataset.versions.masks import Masks, index_of
from mutator.dataset.versions.snapshot import LiveExtent, Snapshot
from mutator.engine.versions.compact_task import Compacted, Unit
from mutator.engine.versions.live_rows import LiveRows
from mutator.errors import error
from mutator.errors.quick_dataclass import dataclass
from mutator.plan.merge_unit import MergeUnit
from mutator.rules.byte_columns import Flags, Ints

_Unit = tuple[str | None, int, int]  # partition, and the number of the unit and of units, as MergeUnit has them
_Part = tuple[str, _Unit]  # role


@dataclass(frozen=True)
class _Extents:
    """The extents of a file that tasks moved, by position."""

    file: FileEntry
    starts: Ints
    ends: Ints
    tasks: Ints
    parts: list[_Part]

    def which(self, positions: Ints) -> Ints:
        """Return the number of the extent of each row; -1 for a row that no task moved."""
        at = np.searchsorted(self.starts, positions, "right") - 1
        found: Ints = np.where((at >= 0) & (positions < self.ends[np.maximum(at, 0)]), at, -1)
        return found


@dataclass(frozen=True)
class Moves:
    """The changes of a compaction."""

    files: tuple[FileEntry, ...] = ()  # new
    removed: tuple[str, ...] = ()  # paths of the files that have no other live rows than those that were moved
    # pa.Tables of the version index: the rows of new files that are hidden or touched, and the moved rows of files that
    # stay.
    index: tuple[Any, ...] = ()
    rows: int = 0  # moved
    tombstones: int = 0  # moved
    expired: int = 0  # tombstones that are gone
    covered: int = 0  # likewise, because the floor is as high
    horizons: tuple[str, ...] = ()  # highest order values of expired ones, as text


class MovedRows:
    """The rows that the tasks of a compaction moved."""

    def __init__(self, base: Snapshot, tasks: Sequence[tuple[Sequence[Unit], Compacted]]) -> None:
        """Read nothing yet. base: the snapshot that the tasks have read. tasks: the buckets and results of each."""
        self._base, self._results = base, [result for _, result in tasks]
        self.given_up = np.zeros(len(tasks), np.bool_)  # of each task
        self._extents = _by_file([units for units, _ in tasks])
        self._tasks = {_key(unit): number for number, (units, _) in enumerate(tasks) for unit, _ in units}
        self._groups: dict[str | None, set[int]] = {}  # of the units of each partition
        for partition, _, groups in self._tasks:
            self._groups.setdefault(partition, set()).add(groups)
        self._carried: dict[_Part, list[Any]] = {}  # rows of version indexes, oldest first

    def follow(self, versions: Sequence[Commit]) -> None:
        """Take what the next versions did to the rows. Raises StateError for a damaged version index."""
        for version in versions:
            if version.restored is not None:
                self._restored(version)
            for path in version.removed:
                if path in self._extents:
                    self.given_up[self._extents[path].tasks] = True
            for found in self._base.masks.of_version(index_of(version)):
                for path in self._extents.keys() & set(found.files):
                    self._take(self._extents[path], found, version)

    def _restored(self, version: Commit) -> None:
        """Give up the tasks whose rows a restore changed: hid, showed, or touched otherwise than the base has them."""
        base, after = self._base.masks, self._base.masks.after(version)
        state = self._base.state.after(version)
        if _as_read(state) != _as_read(self._base.state):
            self.given_up[:] = True
        for path, extents in self._extents.items():
            (positions, orders), (others, newer) = base.touched(path), after.touched(path)
            is_same = np.array_equal(positions, others) and orders.equals(newer.cast(orders.type))
            rows = np.setxor1d(base.hidden(path), after.hidden(path))
            if not is_same:
                rows = np.concatenate((rows, positions, others))
            which = extents.which(rows)
            self.given_up[extents.tasks[which[which >= 0]]] = True
        for part in self._carried:
            self.given_up[self._tasks[part[1]]] = True

    def at(self, head: Snapshot) -> Moves:
        """Return what a compaction changes that follows a snapshot."""
        kept = [result for result, is_out in zip(self._results, self.given_up, strict=True) if not is_out]
        files = tuple(file for result in kept for file in result.files)
        tables, lost = self._carried_rows(files)
        # Those that later versions hid have left already, whichever of the two they were.
        covered = sum(result.covered for result in kept)
        expired = sum(result.expired for result in kept) - max(lost - covered, 0)
        live, removed = LiveRows(self._base), list[str]()
        for path, extents in self._extents.items():
            moved = ~self.given_up[extents.tasks]
            if not moved.any():
                continue
            hidden = head.masks.hidden(path)
            within = np.searchsorted(hidden, extents.ends) - np.searchsorted(hidden, extents.starts)
            if int((extents.ends - extents.starts - within)[moved].sum()) == extents.file.rows - len(hidden):
                removed.append(path)
            else:
                tables.append(_left(live, extents, moved, hidden))
        return Moves(
            files=files,
            removed=tuple(removed),
            index=tuple(tables),
            rows=sum(result.rows for result in kept),
            tombstones=sum(result.tombstones for result in kept),
            expired=expired,
            covered=max(covered - lost, 0),
            horizons=tuple(result.horizon for result in kept if result.horizon is not None),
        )

    def _take(self, extents: _Extents, found: Hidden, version: Commit) -> None:
        """Take the moved rows of a file from a version index."""
        rows = found.rows(extents.file.path)
        which = extents.which(rows.column("position").to_numpy().astype(np.int64))
        if version.action in (COMPACT, *OVERWRITES):
            self.given_up[extents.tasks[which[which >= 0]]] = True
            return
        for number in np.unique(which[which >= 0]).tolist():
            own = rows.take(pa.array(np.flatnonzero(which == number)))
            self._carried.setdefault(extents.parts[number], []).append(own)

    def _carried_rows(self, files: Sequence[FileEntry]) -> tuple[list[Any], int]:
        """Return (pa.Tables of the rows of new files that are hidden or touched, tombstones that no file has)."""
        new = file_columns(files, self._base.version.number)
        live = LiveRows(Snapshot(self._base.table, self._base.state, new, Masks(self._base.table)))
        extents: dict[_Part, list[LiveExtent]] = {}
        for role in {role for role, _ in self._carried}:
            for one in live.snapshot.extents(role):
                extents.setdefault((role, self._unit(one)), []).append(one)
        tables, lost = list[Any](), 0
        for part, taken in self._carried.items():
            if self.given_up[self._tasks[part[1]]]:
                continue
            rows = _last_of_keys(pa.concat_tables(taken))
            left = rows.num_rows
            for extent in extents.get(part, ()):
                own = _found(live, extent, rows)
                left -= sum(table.num_rows for table in own)
                tables += own
            if left and part[0] == DATA:
                raise error("table.counts", path=self._base.table, version=self._base.version.number)
            lost += left
        return tables, lost

    def _unit(self, extent: LiveExtent) -> _Unit:
        """Return the unit that an extent of a new file is of."""
        own = extent.extent
        keys = ((own.partition, own.bucket % groups, groups) for groups in self._groups[own.partition])
        return next(key for key in keys if key in self._tasks)


def _as_read(state: State) -> tuple[Any, ...]:
    """Return what tasks know of a table beside its rows: by the floor they forget tombstones."""
    return state.spec, state.commit.buckets, state.commit.floor


def _key(unit: MergeUnit) -> _Unit:
    return unit.partition, unit.group, unit.groups


def _left(live: LiveRows, extents: _Extents, moved: Flags, hidden: Ints) -> Any:
    """Return the moved rows of a file that stays, a pa.Table of a version index that hides them. hidden: rows."""
    file = extents.file
    ranges = zip(extents.starts[moved].tolist(), extents.ends[moved].tolist(), strict=True)
    positions = np.concatenate([np.arange(start, end) for start, end in ranges])
    positions = np.setdiff1d(positions, hidden)
    entries = live.entry_numbers(file)[positions]
    keys, hashes = live.entry_keys(file, entries), live.hashes(file)[entries]
    return index_table(file.path, positions, hashes, keys, pa.nulls(len(positions), pa.large_binary()), touched=False)


def _by_file(tasks: Sequence[Sequence[Unit]]) -> dict[str, _Extents]:
    """Return the extents of all tasks, by file."""
    found: dict[str, list[tuple[LiveExtent, int, _Unit]]] = {}
    for number, units in enumerate(tasks):
        for unit, extents in units:
            for extent in extents:
                found.setdefault(extent.file.path, []).append((extent, number, _key(unit)))
    return {
        path: _Extents(
            file=parts[0][0].file,
            starts=np.array([extent.start for extent, _, _ in parts]),
            ends=np.array([extent.end for extent, _, _ in parts]),
            tasks=np.array([number for _, number, _ in parts]),
            parts=[(extent.file.role, unit) for extent, _, unit in parts],
        )
        for path, unsorted in found.items()
        for parts in [sorted(unsorted, key=lambda one: one[0].start)]
    }


def _last_of_keys(rows: Any) -> Any:
    """Return the last of the rows of a version index that each key has, by hash: touches of a row may follow others."""
    rows = rows.combine_chunks()
    last = {key: number for number, key in enumerate(rows.column("key").to_pylist())}
    rows = rows.take(pa.array(sorted(last.values())))
    return rows.take(pa.array(np.argsort(rows.column("hash").to_numpy(), kind="stable"))).combine_chunks()


def _found(live: LiveRows, extent: LiveExtent, rows: Any) -> list[Any]:
    """Return the rows of an extent that have the keys of some rows of a version index, beside the columns of these."""
    columns = {name: rows.column(name).combine_chunks() for name in SCHEMA.names if name != "file"}
    numbers, _, positions = live.find(extent, columns["hash"].to_numpy(), columns["key"])
    touched, tables = columns["touched"].to_numpy(zero_copy_only=False)[numbers], []
    for is_touched in (False, True):
        chosen = np.flatnonzero(touched == is_touched)
        if len(chosen):
            index = pa.array(numbers[chosen])
            hashes, keys, orders = (columns[name].take(index) for name in ("hash", "key", "order"))
            tables.append(index_table(extent.file.path, positions[chosen], hashes, keys, orders, touched=is_touched))
    return tables
