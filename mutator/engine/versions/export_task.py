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
from mutator.dataset.versions.version import DATA, TOMBSTONES
from mutator.engine.bucket_files import BucketFiles
from mutator.engine.malloc import keep_freed_memory
from mutator.engine.task_files import create, file_name
from mutator.engine.versions.live_rows import LiveRows, taken_tombstones
from mutator.engine.versions.old_values import order_values
from mutator.plan.merge_unit import MergeUnit
from mutator.plan.run_plan import Plan
from mutator.rules.bloom_filter import filter_of
from mutator.rules.byte_columns import ByteColumn, Ints
from mutator.rules.key_hash import hash_columns

_ROWS = 1 << 20  # rows that are read at once


@dataclass(frozen=True)
class Exported:
    """The files of a task."""

    files: tuple[DataFile, ...]
    beside: tuple[SideFile, ...]


class OfFiles:
    """The masks of a snapshot, looked up once for each file: a file may have thousands of extents."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._masks = snapshot.masks
        self._known: tuple[str, Ints, Ints, Any] | None = None

    def hidden(self, extent: LiveExtent) -> Ints:
        """Return the positions of the hidden rows of an extent."""
        _, hidden, _, _ = self._of(extent.file.path)
        first, last = np.searchsorted(hidden, [extent.start, extent.end])
        return hidden[first:last]

    def touched(self, extent: LiveExtent) -> tuple[Ints, Any]:
        """Return the positions of the touched rows of an extent, and their order values as text."""
        _, _, positions, orders = self._of(extent.file.path)
        first, last = np.searchsorted(positions, [extent.start, extent.end])
        return positions[first:last], orders.slice(first, last - first)

    def _of(self, path: str) -> tuple[str, Ints, Ints, Any]:
        if self._known is None or self._known[0] != path:
            self._known = path, self._masks.hidden(path), *self._masks.touched(path)
        return self._known


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


def fingerprint(masks: OfFiles, extents: Sequence[LiveExtent]) -> str:
    """Return a text that is equal for two versions of a table if a bucket has the same rows and order values in both.

    extents: of the bucket. The name of a file is unique to the task that wrote it.
    """
    found = xxhash.xxh3_128()
    for extent in extents:
        positions, orders = masks.touched(extent)
        described = (extent.file.path, extent.start, extent.extent.rows, orders.to_pylist())
        found.update(repr(described).encode("utf-8", "surrogateescape"))
        for numbers in (masks.hidden(extent), positions):
            found.update(len(numbers).to_bytes(8, "little") + numbers.astype("<i8").tobytes())
    return found.hexdigest()


def write_units(
    plan: Plan, snapshot: Snapshot, staging: str, units: Sequence[MergeUnit], number: int, attempt: int
) -> Exported:
    """Write some buckets; return their files. number: of the task."""
    keep_freed_memory()
    live = LiveRows(snapshot, by_file_name=plan.by_file_name)
    pack = f"{DIRECTORY}/filters/{file_name(plan, number, attempt)}.parquet" if plan.by_table else None
    files, beside, filters = list[DataFile](), list[SideFile](), list[KeyFilter]()
    for unit in units:
        with ExitStack() as stack:
            written = _Unit(plan, live, unit, BucketFiles(plan, staging, unit, attempt, stack, pack))
            written.write()
            files += written.files.files
            beside += written.files.beside
            filters += [KeyFilter(path, b"", None, filter_of(own)) for path, own in written.files.key_hashes()]
    if pack is not None and filters:
        with create(plan, staging, pack) as stream:
            write_filters(stream, filters)  # type: ignore[arg-type]  # as much of a stream as it needs
        beside.append(stream.side_file("filters", len(filters)))
    return Exported(tuple(files), tuple(beside))


class _Unit:
    """One bucket."""

    def __init__(self, plan: Plan, live: LiveRows, unit: MergeUnit, files: BucketFiles) -> None:
        self._plan, self._live, self._unit, self.files = plan, live, unit, files

    def write(self) -> None:
        """Write the rows and the tombstones."""
        for extent in self._extents(DATA):
            positions = self._positions(extent)
            for start in range(0, len(positions), _ROWS):
                self._write_rows(extent, positions[start : start + _ROWS])
        tombstones = [self._tombstones(extent) for extent in self._extents(TOMBSTONES)]
        if tombstones:
            whole = pa.concat_tables(tombstones).combine_chunks()
            keys = [f"key_{number}" for number in range(self._plan.key_width)]
            self.files.bury(whole.sort_by([(key, "ascending") for key in keys]))
        self.files.close()

    def _extents(self, role: str) -> Iterator[LiveExtent]:
        partitions = None if self._unit.partition is None else {self._unit.partition}
        return self._live.snapshot.extents(role, {self._unit.group}, partitions)

    def _positions(self, extent: LiveExtent) -> Ints:
        """Return the positions of the live rows of an extent."""
        positions = np.arange(extent.start, extent.end)
        found: Ints = positions[self._live.are_live(extent.file, positions)]
        return found

    def _write_rows(self, extent: LiveExtent, positions: Ints) -> None:
        plan, live = self._plan, self._live
        block = live.rows(extent.file, positions, plan.rows.layouts["master"])
        sequences = None
        if plan.by_file_name:
            entries = live.entry_numbers(extent.file)[positions]
            sequences = order_values(plan, live, extent.file, entries, positions).to_numpy()
        self.files.write(block.written(), len(positions), block.hashes(), sequences)

    def _tombstones(self, extent: LiveExtent) -> Any:
        file = extent.file
        found = taken_tombstones(self._live.snapshot.table, file.data, file.rows, self._positions(extent))
        keys = [found.column(f"key_{n}").combine_chunks().cast(pa.large_binary()) for n in range(self._plan.key_width)]
        return found.append_column("hash", pa.array(hash_columns([ByteColumn.of_array(key) for key in keys])))


def directories_of(units: Sequence[MergeUnit]) -> list[str]:
    """Return the directories that a dataset needs for some buckets, relative to it."""
    roots = ["", f"{DIRECTORY}/tombstones", f"{DIRECTORY}/filters", f"{DIRECTORY}/order"]
    partitions = sorted({unit.partition or "" for unit in units})
    return [posixpath.join(root, partition) for root in roots for partition in partitions if root or partition]
