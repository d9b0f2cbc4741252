"""The task of a compaction that closes the history of some buckets: all their events in, closed files out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.file_entry import CLOSED, FileEntry
from mutator.dataset.versions.snapshot import LiveExtent, Snapshot
from mutator.engine.malloc import keep_freed_memory
from mutator.engine.versions.confirmations import compressed
from mutator.engine.versions.delta_files import ApplyTarget, Delta, DeltaWriter, unit_order
from mutator.engine.versions.history_rows import HistoryRows, Meaning, shown_fields, sides_of
from mutator.errors.failpoints import failpoint
from mutator.plan.run_plan import Plan
from mutator.rules.byte_columns import Ints
from mutator.rules.history import EventColumns, still_counting
from mutator.rules.order_columns import flags, ranks
from mutator.rules.typed_values import canonical


def close_units(
    plan: Plan,
    snapshot: Snapshot,
    target: ApplyTarget,
    meaning: Meaning,
    units: Sequence[Sequence[LiveExtent]],
    number: int,
    attempt: int,
) -> tuple[FileEntry, ...]:
    """Write the events of some buckets, with the versions that they mean; return the files.

    units: the extents of each bucket. number: of the task.
    """
    failpoint("task.started", attempt)
    keep_freed_memory()
    rows, writer = HistoryRows(snapshot, meaning), DeltaWriter(plan, target, number, attempt, meaning.digest)
    for extents in units:
        whole = rows.events([rows.place_of(one) for one in extents])
        kept = still_counting(whole.columns)
        events = whole.columns.take(kept)
        found = meaning.versions(events)
        short = compressed(whole.lists, events, whole.marks[kept], found)
        kept, events, found = kept[short.rows], events.take(short.rows), replace(found, last=short.last)
        written = pa.StructArray.from_arrays(shown_fields(events, found), fields=list(meaning.fields))
        partition = extents[0].extent.partition
        names, codes = [partition], np.zeros(len(kept), np.int64)
        hashes, sides = whole.hashes[kept], sides_of(events, found, meaning, whole.lists.column(short.lists))
        keys = [canonical(written.field(name)) for name in meaning.key]
        buckets = writer.buckets.of_rows(names, codes, hashes)
        order = by_time(unit_order(names, codes, buckets, keys), buckets, events, sides)
        at = pa.array(order)
        delta = Delta(
            names,
            codes,
            written.take(at),
            hashes[order],
            whole.keys.take(pa.array(kept)).take(at),
            events.orders.take(at),
            sides=sides.take(at),
        )
        writer.write(CLOSED, delta)
    return tuple(writer.files)


def by_time(order: Ints, buckets: Ints, events: EventColumns, sides: Any) -> Ints:
    """Return the order of closed rows in which those of a time are near each other, so that others need not be read.

    In each bucket, versions come by their start, and then the events that are no version's last one. Those with one key
    and order value stay together, in their sequence, which decides between them. order: by bucket and key. buckets,
    sides: of each event.
    """
    starts = sides.field("start")
    rank = np.full(len(order), len(order))  # of the others
    rank[flags(starts.is_valid())] = np.unique(ranks(starts.drop_null()), return_inverse=True)[1]
    begins = np.flatnonzero(np.append(True, (np.diff(events.keys) != 0) | (np.diff(ranks(events.orders)) != 0)))
    if len(rank):
        lowest = np.minimum.reduceat(rank, begins)
        rank = np.repeat(lowest, np.diff(np.append(begins, len(rank))))
    return order[np.lexsort((rank[order], buckets[order]))]
