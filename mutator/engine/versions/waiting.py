"""Rows that wait beside the tombstones of a table, and records that lose fields to a truncate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.file_entry import DATA, TOMBSTONES, FileEntry
from mutator.dataset.versions.key_index import decoded_keys
from mutator.engine.blocks.tombstone_columns import beside_columns, cleared, waiting_rows, with_beside
from mutator.engine.tally import Tally
from mutator.engine.versions.delta_files import Delta, DeltaWriter, unit_order
from mutator.engine.versions.live_rows import LiveRows
from mutator.engine.versions.met_rows import MetRows
from mutator.engine.versions.old_values import tombstone_rows
from mutator.engine.versions.stored_rows import taken_tombstones
from mutator.formats.blocks.block_type import Hashes
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.rules.byte_columns import Ints
from mutator.rules.register import RECORD, Olds

Absent = tuple[Ints, Hashes, Any, Any, list[str | None]]  # positions, hashes, keys, order values, partitions


def waiting_of(plan: Plan, live: LiveRows, met: MetRows, rows: Ints) -> tuple[Any, ...]:
    """Return what waits beside some tombstones, as ``waiting_rows`` does; nothing if the register buries no rows."""
    if not plan.buries_rows:
        return ()
    names = [one.name for one in plan.beside_tombstones]
    tables = [pa.schema(plan.beside_tombstones).empty_table()]
    for file, own in met.by_file(rows):
        found = taken_tombstones(live.snapshot.table, file, file.rows, met.positions[own])
        tables.append(with_beside(plan, found).select(names))
    return waiting_rows(plan, pa.concat_tables(tables).combine_chunks())


def clear_fields(
    plan: Plan, live: LiveRows, file: FileEntry, absent: Absent, tally: Tally, writer: DeltaWriter
) -> Ints:
    """Write records again that lose fields to a truncate, or let them wait; return their numbers among some.

    absent: records of a file that no winner met, and that are not below the floor.
    """
    positions, hashes, keys, orders, partitions = absent
    if file.sides is None or not len(positions):
        return np.zeros(0, np.int64)
    sides = live.sides(file, positions, plan.side_columns)
    rows = live.rows_of_whole(file, positions, plan.rows.layouts["master"]).written()
    none, found = np.zeros(len(positions), np.bool_), [np.zeros(0, np.int64)]
    olds = Olds(RECORD, none, none, orders, rows, plan.sides(len(positions), orders, sides.flatten()))

    def keys_of(numbers: Ints) -> list[Any]:
        return decoded_keys(keys.take(pa.array(numbers)), plan.key_width)

    for met, named, content, full in cleared(plan, tally, olds, keys_of):
        own, waits = met.keys, met.decision.result == "wait"
        tally.counts["master kept"] -= len(own) if met.decision.master == "kept" else 0
        tally.counts["rows rewritten"] += 0 if waits else len(own)
        found.append(own)
        if waits:
            content = tombstone_rows(plan, named, met.orders, beside_columns(plan, content, full))
        names = [partitions[number] for number in own.tolist()]
        if plan.is_partitioned and plan.by_table and not waits:  # a partition field may be among those that are cleared
            placed = plan.block_type.partitions(content, plan.rows.layouts["written"])
            moved = [placed.names[code] for code in placed.codes.tolist()]
            for count in ("moved in", "moved out"):
                tally.counts[count] += sum(one != other for one, other in zip(moved, names, strict=True))
            names = moved
        delta = _delta(names, content, hashes[own], keys.take(pa.array(own)), met.orders, None if waits else met.sides)
        writer.write(TOMBSTONES if waits else DATA, _by_unit(plan, writer, delta))
    return np.sort(np.concatenate(found))


def _delta(names: Sequence[str | None], rows: Any, hashes: Hashes, keys: Any, orders: Any, sides: Any) -> Delta:
    partitions = pa.array(names, pa.string()).dictionary_encode("encode")
    codes = partitions.indices.to_numpy().astype(np.int64)
    return Delta(partitions.dictionary.to_pylist(), codes, rows, hashes, keys, orders, None, sides)


def _by_unit(plan: Reading, writer: DeltaWriter, delta: Delta) -> Delta:
    """Sort a delta by partition, bucket and key."""
    buckets = writer.buckets.of_rows(delta.partitions, delta.codes, delta.hashes)
    return delta.take(unit_order(delta.partitions, delta.codes, buckets, decoded_keys(delta.keys, plan.key_width)))
