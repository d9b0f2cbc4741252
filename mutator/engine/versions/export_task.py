"""Write buckets of a table as the files of a dataset."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import pyarrow as pa
import xxhash

from mutator.dataset.file_entry import DATA, TOMBSTONES, FileEntry
from mutator.dataset.filter_packs import KeyFilter, write_filters
from mutator.dataset.manifest import DIRECTORY
from mutator.dataset.versions.snapshot import LiveExtent, Snapshot
from mutator.engine.blocks.tombstone_columns import with_beside
from mutator.engine.bucket_files import BucketFiles
from mutator.engine.malloc import keep_freed_memory
from mutator.engine.task_files import create, file_name
from mutator.engine.versions.earlier_forms import EarlierForms
from mutator.engine.versions.extent_rows import ExtentRows
from mutator.engine.versions.live_extents import OfFiles
from mutator.engine.versions.live_rows import LiveRows
from mutator.engine.versions.old_values import order_values
from mutator.errors.quick_dataclass import dataclass
from mutator.plan.merge_unit import MergeUnit
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.rules.bloom_filter import filter_of
from mutator.rules.byte_columns import Ints
from mutator.rules.key_hash import Hashes


@dataclass(frozen=True)
class Exported:
    """The files of a task."""

    files: tuple[FileEntry, ...]
    beside: tuple[FileEntry, ...]


def fingerprint(masks: OfFiles, forms: EarlierForms, unit: MergeUnit, extents: Sequence[LiveExtent]) -> str:
    """Return a text that is equal for two versions of a table if a bucket has the same rows and order values in both.

    unit, extents: of the bucket. The name of a file is unique to the task that wrote it; but a field that was removed
    and added again has other values in its rows.
    """
    found = xxhash.xxh3_128()
    if unit.groups != unit.buckets:  # it is written as several buckets
        found.update(repr((unit.groups, unit.buckets)).encode())
    for extent in extents:
        positions, orders = masks.touched(extent)
        described = (
            extent.file.path,
            extent.start,
            extent.extent.rows,
            orders.to_pylist(),
            forms.added(extent.file.form),
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
    rows = ExtentRows(
        live,
        [extent for _, extents in units for extent in extents],
        partial(_read, plan, live),
        width=plan.key_width,
        indexed=plan.keeps_orders,
    )
    pack = f"{DIRECTORY}/filters/{file_name(plan, number, attempt)}.filters" if plan.by_table else None
    files, beside, filters = list[FileEntry](), list[FileEntry](), list[KeyFilter]()
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
        beside.append(stream.entry(len(filters), "filters"))
    return Exported(tuple(files), tuple(beside))


def _write_unit(plan: Reading, rows: ExtentRows[_Rows], extents: Sequence[LiveExtent], files: BucketFiles) -> None:
    """Write the rows and the tombstones of a bucket. extents: of the bucket."""
    for extent in extents:
        if extent.file.role == DATA:
            for part in rows.data(extent):
                files.write(part.rows, len(part.positions), part.hashes, part.sides)
    tombstones = [rows.tombstones(extent) for extent in extents if extent.file.role == TOMBSTONES]
    if tombstones:
        whole = pa.concat_tables([with_beside(plan, table) for table in tombstones]).combine_chunks()
        keys = [f"key_{number}" for number in range(plan.key_width)]
        files.bury(whole.sort_by([(key, "ascending") for key in keys]))
    files.close()


@dataclass(frozen=True)
class _Rows:
    """Live rows of a data file."""

    positions: Ints  # ascending
    rows: Any  # pa.StructArray
    hashes: Hashes
    sides: Any  # as ``Reading.sides`` returns them; None without any

    def slice(self, first: int, last: int) -> _Rows:
        """Return some of the rows."""
        sides = None if self.sides is None else self.sides.slice(first, last - first)
        rows = self.rows.slice(first, last - first)
        return _Rows(self.positions[first:last], rows, self.hashes[first:last], sides)


def _read(plan: Reading, live: LiveRows, file: FileEntry, positions: Ints, entries: Ints | None) -> _Rows:
    """Read rows. entries: of the rows in the key index; None if their order values are not needed."""
    block = live.rows_of_whole(file, positions, plan.rows.layouts["master"])
    sides = None
    if plan.has_sides:
        orders = None if entries is None else order_values(plan, live, file, entries, positions)
        kept = live.sides(file, positions, plan.side_columns).flatten()
        sides = plan.sides(len(positions), orders, kept)
    return _Rows(positions, block.written(), block.hashes(), sides)


def directories_of(units: Sequence[MergeUnit]) -> list[str]:
    """Return the directories that a dataset needs for some buckets, relative to it."""
    roots = ["", f"{DIRECTORY}/tombstones", f"{DIRECTORY}/filters", f"{DIRECTORY}/order"]
    partitions = sorted({unit.partition or "" for unit in units})
    return [posixpath.join(root, partition) for root in roots for partition in partitions if root or partition]
