"""The records that a full snapshot lacks: they are deleted by absence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.versions.hidden_rows import index_table
from mutator.dataset.versions.key_index import decoded_keys
from mutator.dataset.versions.snapshot import LiveExtent
from mutator.dataset.versions.version import DATA, TOMBSTONES
from mutator.engine.tally import Tally
from mutator.engine.versions.delta_files import Delta, DeltaWriter
from mutator.engine.versions.live_rows import LiveRows
from mutator.engine.versions.old_values import order_values, tombstone_rows
from mutator.plan.run_plan import Plan
from mutator.rules.byte_columns import Ints
from mutator.rules.order_columns import to_texts


def bury_absent(
    plan: Plan, live: LiveRows, group: int, met: Mapping[str, Sequence[Ints]], tally: Tally, writer: DeltaWriter
) -> list[Any]:
    """Hide the records of a group that no winner met, and write tombstones for them; return version index tables.

    met: positions of the records that winners met, by file. A tombstone has the order value of its record.
    """
    hidden = []
    for extent in live.snapshot.extents(DATA):
        found = _absent(plan, live, extent, group, met.get(extent.file.path, ()))
        if found is None:
            continue
        positions, delta = found
        tally.counts["master deleted by absence"] += len(positions)
        orders = to_texts(plan.rows.order_type, delta.orders)
        hidden.append(index_table(extent.file.path, positions, delta.hashes, delta.keys, orders, touched=False))
        writer.write(TOMBSTONES, delta)
    return hidden


def _absent(
    plan: Plan, live: LiveRows, extent: LiveExtent, group: int, met: Sequence[Ints]
) -> tuple[Ints, Delta] | None:
    """Return the positions of the absent records of an extent, and their tombstones."""
    hashes, keys, positions = live.entries(extent)
    chosen = np.flatnonzero(hashes % np.uint64(plan.groups) == np.uint64(group))
    chosen = chosen[~np.isin(positions[chosen], np.concatenate([np.zeros(0, np.int64), *met]))]
    chosen = chosen[live.are_live(extent.file, positions[chosen])]
    if not len(chosen):
        return None
    chosen = chosen[np.argsort(positions[chosen])]
    positions, hashes, keys = positions[chosen], hashes[chosen], keys.take(pa.array(chosen))
    orders = order_values(plan, live, extent.file, extent.start + chosen, positions)
    rows = tombstone_rows(plan, decoded_keys(keys, plan.key_width), orders)
    return positions, Delta([extent.extent.partition], np.zeros(len(chosen), np.int64), rows, hashes, keys, orders)
