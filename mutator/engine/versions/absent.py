"""The records that no winner meets, and that are deleted: by absence from a snapshot or overwrite, or by a truncate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.file_entry import DATA, TOMBSTONES, FileEntry
from mutator.dataset.state import BucketCounts
from mutator.dataset.versions.hidden_rows import index_table
from mutator.dataset.versions.key_index import decoded_keys
from mutator.dataset.versions.snapshot import LiveExtent
from mutator.engine.blocks.tombstone_columns import floor_of
from mutator.engine.tally import Tally
from mutator.engine.versions.delta_files import Delta, DeltaWriter, unit_order
from mutator.engine.versions.live_rows import LiveRows
from mutator.engine.versions.old_values import order_values, tombstone_rows
from mutator.engine.versions.replaced import Replaced
from mutator.engine.versions.waiting import Absent, clear_fields
from mutator.plan.reading import SAMPLES, Reading
from mutator.plan.run_plan import Plan
from mutator.rules.byte_columns import Ints
from mutator.rules.key_hash import Hashes
from mutator.rules.order_columns import flags, newest, to_texts
from mutator.rules.order_units import units_of
from mutator.rules.register import RECORD
from mutator.rules.sort_order import number_order

_FEW = 4  # extents of a file whose hashes are read one extent after the other
_ROWS = 1 << 20  # tombstones that are collected before they are written


def bury_absent(
    plan: Plan,
    live: LiveRows,
    group: int,
    met: Mapping[str, Sequence[Ints]],
    tally: Tally,
    writer: DeltaWriter,
    replaced: Replaced | None = None,
) -> list[Any]:
    """Hide the records of a group that no winner met, and write tombstones for them; return version index tables.

    Records below the floor get no tombstones, and where the plan has truncates and nothing else, only these are hidden.

    met: positions of the records that winners met, by file. A tombstone has the order value of its record. replaced:
    the partitions whose records are hidden; None for all.
    """
    partitions, removed = (None, frozenset[str]()) if replaced is None else (replaced.partitions, replaced.removed)
    if plan.scope is not None and not plan.truncates:
        partitions = plan.partitions_inside(live.snapshot.partitions)
    hidden, waiting, rows = list[Any](), list[Absent](), 0
    floor, buries = floor_of(plan, RECORD), plan.register.buries_absent or replaced is not None
    wanted = partial(buckets_of_group, group, plan.groups)
    for path, of_file in groupby(live.snapshot.extents(DATA, wanted, partitions), lambda extent: extent.file.path):
        extents = list(of_file)
        count = sum(map(len, met.get(path, ())))
        if count == extents[0].file.rows:
            continue  # no row of the file is absent, so its key index need not be read again
        entries, hashes = _of_group(plan, live, extents, group)
        if partitions is None and count and count == len(entries):
            continue
        found = _absent(plan, live, extents, entries, hashes, met.get(path, ()))
        if floor is not None and len(found[0]):
            below = flags(pc.less(found[3], floor))
            _hide(plan, path, _chosen(found, np.flatnonzero(below)), hidden)
            tally.counts["master truncated"] += int(below.sum())
            tally.note_units(units_of(plan.rows.order_type, found[3].filter(pa.array(below))))
            found = _chosen(found, np.flatnonzero(~below))
            cleared = clear_fields(plan, live, extents[0].file, found, tally, writer)
            _hide(plan, path, _chosen(found, cleared), hidden)
            found = _chosen(found, np.setdiff1d(np.arange(len(found[0])), cleared)) if len(cleared) else found
        if plan.scope is not None and len(found[0]):
            found = _chosen(found, inside_of(plan, live, extents[0].file, found[0]))
        positions, hashes, keys, orders, _ = found
        if not len(positions) or not buries:
            continue
        tally.counts["master deleted by absence"] += len(positions)
        if plan.register.full:
            tally.note_absent(newest(plan.rows.order_type, orders, decoded_keys(keys, plan.key_width), SAMPLES))
        if path not in removed:
            _hide(plan, path, found, hidden)
        waiting.append(found)
        rows += len(positions)
        if rows >= _ROWS:
            writer.write(TOMBSTONES, _tombstones(plan, writer.buckets, waiting))
            waiting, rows = [], 0
    if waiting:
        writer.write(TOMBSTONES, _tombstones(plan, writer.buckets, waiting))
    return hidden


def inside_of(plan: Plan, live: LiveRows, file: FileEntry, positions: Ints) -> Ints:
    """Return those of some rows of a file, by number, that a snapshot of a part decides about."""
    layout, scope = plan.rows.layouts["written"], plan.scope
    assert scope is not None
    result = pa.schema([layout.result.field(name) for name in scope.columns])
    narrow = replace(layout, result=result, id_fields=(), order_fields=(), partition=())
    return np.flatnonzero(plan.inside(live.rows_of_whole(file, positions, narrow).written()))


def _chosen(found: Absent, rows: Ints) -> Absent:
    positions, hashes, keys, orders, names = found
    index = pa.array(rows)
    return positions[rows], hashes[rows], keys.take(index), orders.take(index), [names[row] for row in rows.tolist()]


def _hide(plan: Reading, path: str, found: Absent, hidden: list[Any]) -> None:
    """Add records of a file to the tables of a version index."""
    positions, hashes, keys, orders, _ = found
    if len(positions):
        texts = to_texts(plan.rows.order_type, orders)
        hidden.append(index_table(path, positions, hashes, keys, texts, touched=False))


def buckets_of_group(group: int, groups: int, buckets: int) -> list[int]:
    """Return the buckets that may have keys of a group: the hash of a key modulo ``groups`` is its group.

    >>> buckets_of_group(1, 2, 4), buckets_of_group(3, 4, 2), buckets_of_group(1, 3, 2)
    ([1, 3], [1], [0, 1])
    """
    step = math.gcd(groups, buckets)
    return list(range(group % step, buckets, step))


def _of_group(plan: Reading, live: LiveRows, extents: Sequence[LiveExtent], group: int) -> tuple[Ints, Hashes]:
    """Return (entries, hashes) of all rows of some extents with keys of a group, hidden ones too.

    extents: of one file. The file of a large partition has rows of many groups: of the rows of other groups, only the
    hashes are read.
    """
    entries, found = [np.zeros(0, np.int64)], [np.zeros(0, np.uint64)]
    first, last = (extents[0].start, extents[-1].end) if len(extents) > _FEW else (0, 0)
    together = live.hashes(extents[0].file, first, last) if last else None
    for extent in extents:
        if together is None:
            hashes = live.hashes(extent.file, extent.start, extent.end)
        else:
            hashes = together[extent.start - first : extent.end - first]
        own = np.flatnonzero(hashes % np.uint64(plan.groups) == np.uint64(group))
        entries.append(extent.start + own)
        found.append(hashes[own])
    return np.concatenate(entries), np.concatenate(found)


def _absent(
    plan: Reading,
    live: LiveRows,
    extents: Sequence[LiveExtent],
    entries: Ints,
    hashes: Hashes,
    met: Sequence[Ints],
) -> Absent:
    """Return the records of a file that are absent, by position. extents: of the file. entries, hashes: of a group."""
    file = extents[0].file
    positions = live.positions(file, entries)
    is_met = np.zeros(file.rows, np.bool_)
    for one in met:
        is_met[one] = True
    chosen = np.flatnonzero(~is_met[positions])
    chosen = chosen[live.are_live(file, positions[chosen])]
    chosen = chosen[number_order(positions[chosen])]
    entries, positions, hashes = entries[chosen], positions[chosen], hashes[chosen]
    if not len(chosen):
        return positions, hashes, None, None, []
    names = np.array([extent.extent.partition for extent in extents], object)
    which = np.searchsorted([extent.end for extent in extents], positions, "right")
    orders = order_values(plan, live, file, entries, positions)
    return positions, hashes, live.entry_keys(file, entries), orders, names[which].tolist()


def _tombstones(plan: Reading, buckets: BucketCounts, parts: Sequence[Absent]) -> Delta:
    """Return the tombstones of absent records, by partition, bucket and key."""
    hashes = np.concatenate([part[1] for part in parts])
    encoded, orders = (pa.concat_arrays([part[column] for part in parts]) for column in (2, 3))
    partitions = pa.array([name for part in parts for name in part[4]], pa.string()).dictionary_encode("encode")
    names, codes = partitions.dictionary.to_pylist(), partitions.indices.to_numpy().astype(np.int64)
    keys = decoded_keys(encoded, plan.key_width)
    order = unit_order(names, codes, buckets.of_rows(names, codes, hashes), keys)
    index = pa.array(order)
    orders = orders.take(index)
    rows = tombstone_rows(plan, [column.take(index) for column in keys], orders)
    return Delta(names, codes[order], rows, hashes[order], encoded.take(index), orders)
