"""Records that a truncate moves: it clears the fields that are older than it, among them perhaps a partition field.

No mutation says so. The merge of the old partition leaves such a record out, and this one finds it for the new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.partition_index import Files
from mutator.engine.blocks.master import MasterBlock, from_files
from mutator.engine.blocks.mutations import key_names
from mutator.engine.blocks.tombstone_columns import floor_of
from mutator.plan.partition_plan import inputs_of_files
from mutator.plan.run_plan import Plan
from mutator.plan.splits import splits_of
from mutator.rules.byte_columns import Ints
from mutator.rules.order_columns import flags
from mutator.rules.register import RECORD, Olds


def cleared(plan: Plan, group: int) -> Iterator[Any]:
    """Yield the records of a group that a truncate moves if they have no mutation, as ``Winners.inserted`` does.

    Only a field with an order value of its own can be older than its record, so other files are not read. Where patches
    of unknown records wait, a record lives by an upsert that is not below the truncate, and so are all its fields.
    """
    if plan.master is None or not (plan.truncates and plan.side_columns) or plan.buries_rows:
        return
    for directory, files in sorted(plan.master.partitions.items()):
        for part in files.data:
            if part.order is None:
                continue
            inputs = inputs_of_files(plan, Files((part,), (), files.orders))
            own = replace(plan, inputs=tuple(inputs))
            splits = splits_of(inputs, plan.chunks.master, plan.chunks.feed)
            for block in from_files(own, splits, lambda *_: None):
                rows = np.flatnonzero(block.hashes % np.uint64(plan.groups) == group)
                yield from _moved(plan, block, rows, directory)


def _moved(plan: Plan, block: MasterBlock, rows: Ints, directory: str) -> Iterator[Any]:
    orders = block.orders(rows)
    rows = rows[flags(pc.greater_equal(orders, floor_of(plan)))]
    index, none = pa.array(rows), np.zeros(len(rows), np.bool_)
    olds = Olds(RECORD, none, none, block.orders(rows), block.block.written().take(index), block.sides.take(index))
    for decision, keys, written, orders, sides, *_ in plan.register.truncated(olds, floor_of(plan)):
        if decision.result != "write":
            continue
        placed = plan.block_type.partitions(written, plan.rows.layouts["written"])
        gone = np.flatnonzero(np.array([name != directory for name in placed.names], np.bool_)[placed.codes])
        own, which = rows[keys[gone]], pa.array(gone)
        names = [*key_names(plan.key_width), "hash", "row", "sides", *(["arrives"] if plan.changes else [])]
        full = plan.sides(len(own), orders.take(which), sides.take(which).flatten())
        arrives = [pa.array(np.ones(len(own), np.bool_))] if plan.changes else []
        yield pa.table([*block.keys(own), pa.array(block.hashes[own]), written.take(which), full, *arrives], names)
