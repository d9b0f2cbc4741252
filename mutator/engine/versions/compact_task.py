"""The task of a compaction: the live rows and tombstones of some buckets in, base files out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.file_entry import DATA, TOMBSTONES, FileEntry
from mutator.dataset.versions.snapshot import LiveExtent, Snapshot
from mutator.engine.blocks.tombstone_columns import covered, raised_orders, waits, with_beside
from mutator.engine.malloc import keep_freed_memory
from mutator.engine.versions.base_files import BaseWriter, Buried
from mutator.engine.versions.delta_files import ApplyTarget, text_of_order
from mutator.engine.versions.extent_rows import ExtentRows
from mutator.engine.versions.indexed_rows import IndexedRows, merged, read_rows
from mutator.engine.versions.live_rows import LiveRows
from mutator.errors import error
from mutator.errors.display import key_text
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.schema_rows import BadRows
from mutator.plan.merge_unit import MergeUnit
from mutator.plan.run_plan import Plan
from mutator.rules.order_columns import column_type, encoded_lowest, flags, from_texts, to_texts
from mutator.rules.order_values import NO_SEQUENCE
from mutator.rules.register import no_sides

_ROWS = 1 << 18  # of an extent that are in memory at once, at most
_BYTES = 32 << 20  # of Parquet, of all extents of a bucket, that are in memory at once

Unit = tuple[MergeUnit, Sequence[LiveExtent]]


@dataclass(frozen=True)
class Compacted:
    """The result of a task."""

    files: tuple[FileEntry, ...]
    rows: int
    tombstones: int  # that it wrote
    expired: int  # tombstones that it did not write, because they are old
    covered: int  # tombstones that it did not write, because the floor is as high
    horizon: str | None  # highest order value of expired ones, as text


def compact_units(
    plan: Plan,
    snapshot: Snapshot,
    target: ApplyTarget,
    packed: frozenset[str | None],
    ordered: Plan | None,
    units: Sequence[Unit],
    number: int,
    attempt: int,
) -> Compacted:
    """Write the live rows of some buckets, sorted by partition, bucket and key; tombstones expire, or are covered.

    packed: partitions whose rows share files. ordered: the plan of another order, which the rows get; deletes are then
    forgotten, as their order values mean nothing in it. Raises DataError for a row without such a value. units: sorted
    by partition and bucket, each with its extents. number: of the task.
    """
    failpoint("task.started", attempt)
    keep_freed_memory()
    live = LiveRows(snapshot)
    extents = [extent for _, found in units for extent in found]
    read = partial(read_rows, plan, live)
    at_once = min(_ROWS, *(_rows_at_once(found) for _, found in units))
    rows = ExtentRows[IndexedRows](live, extents, read, width=plan.key_width, indexed=True, at_once=at_once)
    buried = list[Buried]()
    written, covered = 0, 0
    expired = [pa.array([], from_texts(plan.rows.order_type, pa.array([], pa.large_binary())).type)]
    with BaseWriter(ordered or plan, target, number, attempt) as writer:
        before: MergeUnit | None = None
        for unit, found in units:
            if before is not None and before.partition != unit.partition:
                writer.end_partition()
            before = unit
            data = [extent for extent in found if extent.file.role == DATA]
            size = sum(extent.extent.rows for extent in data)
            for part in merged([rows.data(extent) for extent in data]):
                if ordered is not None:
                    none = no_sides(len(part), ordered.side_columns)  # order values of fields are of the other order
                    part = replace(part, orders=_orders(ordered, part), sides=none)
                writer.write(unit, part, size, packed=unit.partition in packed)
                written += len(part)
            writer.end_unit()
            tables = [rows.tombstones(extent) for extent in found if extent.file.role == TOMBSTONES]
            if tables and ordered is not None:
                covered += sum(table.num_rows for table in tables)
            elif tables:
                kept, gone, below = _kept(
                    plan, pa.concat_tables([with_beside(plan, one) for one in tables]).combine_chunks()
                )
                expired.append(gone)
                covered += below
                buried += _by_bucket(unit, kept)
        if buried:
            writer.bury(buried)
    gone = pa.concat_arrays(expired)
    highest = to_texts(plan.rows.order_type, pa.array([pc.max(gone)], gone.type))[0].as_py() if len(gone) else None
    return Compacted(
        files=tuple(writer.files),
        rows=written,
        tombstones=sum(one.rows.num_rows for one in buried),
        expired=len(gone),
        covered=covered,
        horizon=text_of_order(highest),
    )


def _orders(plan: Plan, rows: IndexedRows) -> Any:
    """Return the order values of rows by a plan: of their fields, or the lowest one. Raises DataError."""
    if plan.keeps_orders:
        lowest = NO_SEQUENCE if plan.by_file_name else encoded_lowest(plan.rows.order_type)
        return pa.array([lowest], column_type(plan.rows.order_type)).take(pa.array(np.zeros(len(rows), np.int64)))
    layout, bad_rows = plan.rows.layouts["written"], BadRows()
    columns = dict(zip(layout.result.names, rows.rows.flatten(), strict=True))
    found = layout.orders_of({name: columns[name] for name in layout.ordered_by}, bad_rows)
    if bad_rows:
        row = min(bad_rows)
        raise error("order.row", key=key_text(rows.key(row)), why=bad_rows[row])
    return found


def _rows_at_once(extents: Sequence[LiveExtent]) -> int:
    """Return how many rows of each extent of a bucket may be in memory: large ones get what small ones leave."""
    left, found = float(_BYTES), 1 << 62
    bytes_of_rows = sum(one.file.bytes / max(one.file.rows, 1) for one in extents)
    for one in sorted(extents, key=lambda one: one.extent.rows):
        found = int(left / max(bytes_of_rows, 1.0))
        if one.extent.rows > found:
            break
        bytes_of_row = one.file.bytes / max(one.file.rows, 1)
        left -= one.extent.rows * bytes_of_row
        bytes_of_rows -= bytes_of_row
    else:
        found = max(one.extent.rows for one in extents)
    return max(found, 1 << 12)


def _by_bucket(unit: MergeUnit, tombstones: Any) -> Iterator[Buried]:
    """Yield the tombstones of each bucket of a unit that has any. tombstones: a pa.Table."""
    buckets = unit.buckets or 1
    of_row = tombstones.column("hash").to_numpy() % np.uint64(buckets)
    for bucket in unit.numbers:
        rows = tombstones if len(unit.numbers) == 1 else tombstones.filter(pa.array(of_row == bucket))
        if rows.num_rows:
            yield Buried(unit.partition, bucket, buckets, rows.combine_chunks())


def _kept(plan: Plan, table: Any) -> tuple[Any, Any, int]:
    """Return the tombstones that are kept, by key; the order values that deltas met in expired ones; how many others.

    The others are covered by the floor.
    """
    keys = [(f"key_{number}", "ascending") for number in range(plan.key_width)]
    table = table.sort_by(keys).combine_chunks()
    orders, below = raised_orders(plan, table), covered(plan, table)
    old = np.zeros(len(orders), np.bool_)
    if plan.expire_before is not None:
        times = table.column("committed").cast(pa.int64()).combine_chunks()
        old = flags(pc.less(times, plan.expire_before)) & ~below & ~waits(table)
    kept = table.filter(pa.array(~old & ~below)).combine_chunks()
    return kept, orders.filter(pa.array(old)), int(below.sum())
