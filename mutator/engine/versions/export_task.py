"""Write buckets of a table as the files of a dataset."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from mutator.dataset.filter_packs import KeyFilter, write_filters
from mutator.dataset.manifest import DIRECTORY, DataFile, SideFile
from mutator.dataset.versions.snapshot import LiveExtent, Snapshot
from mutator.dataset.versions.version import DATA, TOMBSTONES, TableFile
from mutator.engine.bucket_files import BucketFiles
from mutator.engine.malloc import keep_freed_memory
from mutator.engine.task_files import create, file_name
from mutator.engine.versions.earlier_forms import Forms
from mutator.engine.versions.live_rows import LiveRows, taken_tombstones
from mutator.engine.versions.old_values import order_values
from mutator.plan.merge_unit import MergeUnit
from mutator.plan.run_plan import Plan
from mutator.rules.bloom_filter import filter_of
from mutator.rules.byte_columns import ByteColumn, Ints
from mutator.rules.key_hash import Hashes, hash_columns

_ROWS = 1 << 20  # rows that are read at once
_UNMASKED = np.zeros(0, np.int64), np.zeros(0, np.int64), pa.array([], pa.large_binary())


@dataclass(frozen=True)
class Exported:
    """The files of a task."""

    files: tuple[DataFile, ...]
    beside: tuple[SideFile, ...]


class OfFiles:
    """The masks of a snapshot, looked up once for each file: a file may have thousands of extents."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Read which files have hidden or touched rows."""
        self._masks = snapshot.masks
        self._known: dict[str, tuple[Ints, Ints, Any] | None] = dict.fromkeys(snapshot.masks.files())

    def hidden(self, extent: LiveExtent) -> Ints:
        """Return the positions of the hidden rows of an extent."""
        hidden, _, _ = self._of(extent.file.path)
        first, last = np.searchsorted(hidden, [extent.start, extent.end])
        return hidden[first:last]

    def touched(self, extent: LiveExtent) -> tuple[Ints, Any]:
        """Return the positions of the touched rows of an extent, and their order values as text."""
        _, positions, orders = self._of(extent.file.path)
        first, last = np.searchsorted(positions, [extent.start, extent.end])
        return positions[first:last], orders.slice(first, last - first)

    def _of(self, path: str) -> tuple[Ints, Ints, Any]:
        if path not in self._known:
            return _UNMASKED
        found = self._known[path]
        if found is None:
            found = self._known[path] = self._masks.hidden(path), *self._masks.touched(path)
        return found


def units_of(snapshot: Snapshot, masks: OfFiles) -> dict[MergeUnit, list[LiveExtent]]:
    """Return the buckets that have live rows or tombstones, with the extents of these."""
    found: dict[MergeUnit, list[LiveExtent]] = {}
    buckets = snapshot.version.buckets
    for role in (DATA, TOMBSTONES):
        for extent in snapshot.extents(role):
            if len(masks.hidden(extent)) < extent.extent.rows:
                unit = MergeUnit(extent.extent.bucket, buckets, buckets, extent.extent.partition)
                found.setdefault(unit, []).append(extent)
    return dict(sorted(found.items(), key=lambda item: (item[0].partition or "", item[0].group)))


def fingerprint(masks: OfFiles, forms: Forms, extents: Sequence[LiveExtent]) -> str:
    """Return a text that is equal for two versions of a table if a bucket has the same rows and order values in both.

    extents: of the bucket. The name of a file is unique to the task that wrote it; but a field that was removed and
    added again has other values in its rows.
    """
    found = xxhash.xxh3_128()
    for extent in extents:
        positions, orders = masks.touched(extent)
        described = (
            extent.file.path,
            extent.start,
            extent.extent.rows,
            orders.to_pylist(),
            forms.added(extent.file.schema),
        )
        found.update(repr(described).encode("utf-8", "surrogateescape"))
        for numbers in (masks.hidden(extent), positions):
            found.update(len(numbers).to_bytes(8, "little") + numbers.astype("<i8").tobytes())
    return found.hexdigest()


def write_units(
    plan: Plan,
    snapshot: Snapshot,
    staging: str,
    units: Sequence[tuple[MergeUnit, Sequence[LiveExtent]]],
    number: int,
    attempt: int,
) -> Exported:
    """Write some buckets; return their files. units: each with its extents. number: of the task."""
    keep_freed_memory()
    live = LiveRows(snapshot)
    rows = _Files(plan, live, [extent for _, extents in units for extent in extents])
    pack = f"{DIRECTORY}/filters/{file_name(plan, number, attempt)}.parquet" if plan.by_table else None
    files, beside, filters = list[DataFile](), list[SideFile](), list[KeyFilter]()
    for unit, extents in units:
        with ExitStack() as stack:
            written = BucketFiles(plan, staging, unit, attempt, stack, pack)
            _write_unit(plan, rows, extents, written)
            files += written.files
            beside += written.beside
            filters += [KeyFilter(path, b"", None, filter_of(own)) for path, own in written.key_hashes()]
    if pack is not None and filters:
        with create(plan, staging, pack) as stream:
            write_filters(stream, filters)  # type: ignore[arg-type]  # as much of a stream as it needs
        beside.append(stream.side_file("filters", len(filters)))
    return Exported(tuple(files), tuple(beside))


def _write_unit(plan: Plan, rows: _Files, extents: Sequence[LiveExtent], files: BucketFiles) -> None:
    """Write the rows and the tombstones of a bucket. extents: of the bucket."""
    for extent in extents:
        if extent.file.role == DATA:
            for part in rows.data(extent):
                files.write(part.rows, len(part.positions), part.hashes, part.sequences)
    tombstones = [rows.tombstones(extent) for extent in extents if extent.file.role == TOMBSTONES]
    if tombstones:
        whole = pa.concat_tables(tombstones).combine_chunks()
        keys = [f"key_{number}" for number in range(plan.key_width)]
        files.bury(whole.sort_by([(key, "ascending") for key in keys]))
    files.close()


@dataclass(frozen=True)
class _Rows:
    """Live rows of a data file."""

    positions: Ints  # ascending
    rows: Any  # pa.StructArray
    hashes: Hashes
    sequences: Ints | None

    def slice(self, first: int, last: int) -> _Rows:
        """Return some of the rows."""
        sequences = None if self.sequences is None else self.sequences[first:last]
        rows = self.rows.slice(first, last - first)
        return _Rows(self.positions[first:last], rows, self.hashes[first:last], sequences)


class _Files:
    """The files of a task. A file with rows of several buckets is read once."""

    def __init__(self, plan: Plan, live: LiveRows, extents: Sequence[LiveExtent]) -> None:
        """Read nothing yet. extents: that the task writes."""
        self._plan, self._live = plan, live
        self._extents: dict[str, list[LiveExtent]] = {}
        for extent in sorted(extents, key=lambda one: one.start):
            self._extents.setdefault(extent.file.path, []).append(extent)
        self._left = {path: len(found) for path, found in self._extents.items()}  # extents to be written
        self._rows: dict[str, _Rows] = {}
        self._tombstones: dict[str, tuple[Ints, Any]] = {}

    def data(self, extent: LiveExtent) -> Iterator[_Rows]:
        """Yield the live rows of an extent, a part at a time."""
        file = extent.file
        if len(self._extents[file.path]) == 1:
            positions = self._positions(file)
            numbers = self._entries(file)
            for start in range(0, len(positions), _ROWS):
                yield self._read(file, positions[start : start + _ROWS], numbers)
            return
        if file.path not in self._rows:
            self._rows[file.path] = self._read(file, self._positions(file), self._entries(file))
        found = self._rows[file.path]
        yield found.slice(*np.searchsorted(found.positions, [extent.start, extent.end]).tolist())
        self._done(file, self._rows)

    def tombstones(self, extent: LiveExtent) -> Any:
        """Return the live tombstones of an extent, a pa.Table with the column "hash"."""
        file = extent.file
        if file.path not in self._tombstones:
            positions = self._positions(file)
            found = taken_tombstones(self._live.snapshot.table, file.data, file.rows, positions)
            names = [f"key_{number}" for number in range(self._plan.key_width)]
            keys = [found.column(name).combine_chunks().cast(pa.large_binary()) for name in names]
            hashes = hash_columns([ByteColumn.of_array(key) for key in keys])
            self._tombstones[file.path] = positions, found.append_column("hash", pa.array(hashes))
        positions, table = self._tombstones[file.path]
        first, last = np.searchsorted(positions, [extent.start, extent.end]).tolist()
        self._done(file, self._tombstones)
        return table.slice(first, last - first)

    def _done(self, file: TableFile, read: dict[str, Any]) -> None:
        """Forget a file after its last extent."""
        self._left[file.path] -= 1
        if not self._left[file.path]:
            del read[file.path]

    def _positions(self, file: TableFile) -> Ints:
        """Return the positions of the live rows of a file's extents, ascending."""
        positions = np.concatenate([np.arange(one.start, one.end) for one in self._extents[file.path]])
        found: Ints = positions[self._live.are_live(file, positions)]
        return found

    def _entries(self, file: TableFile) -> Ints | None:
        return self._live.entry_numbers(file) if self._plan.by_file_name else None

    def _read(self, file: TableFile, positions: Ints, numbers: Ints | None) -> _Rows:
        """Read rows. numbers: of the entry of each row of the file; None if their order values are not needed."""
        plan, live = self._plan, self._live
        block = live.rows_of_whole(file, positions, plan.rows.layouts["master"])
        sequences = None
        if numbers is not None:
            sequences = order_values(plan, live, file, numbers[positions], positions).to_numpy()
        return _Rows(positions, block.written(), block.hashes(), sequences)


def directories_of(units: Sequence[MergeUnit]) -> list[str]:
    """Return the directories that a dataset needs for some buckets, relative to it."""
    roots = ["", f"{DIRECTORY}/tombstones", f"{DIRECTORY}/filters", f"{DIRECTORY}/order"]
    partitions = sorted({unit.partition or "" for unit in units})
    return [posixpath.join(root, partition) for root in roots for partition in partitions if root or partition]
