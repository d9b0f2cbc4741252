"""Order values of live records, and tombstones that take them over."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.file_entry import FileEntry
from mutator.dataset.side_columns import tombstone_schema
from mutator.dataset.versions.packs import damaged
from mutator.engine.versions.live_rows import LiveRows
from mutator.plan.reading import Reading
from mutator.rules.byte_columns import Ints
from mutator.rules.order_columns import from_texts, to_texts

_EACH = 64 << 20  # bytes of a file that are verified as a whole rather than one row with all of its row group


def order_values(plan: Reading, live: LiveRows, file: FileEntry, entries: Ints, positions: Ints) -> Any:
    """Return the order values of some records, touches included. entries, positions: of their rows, ascending."""
    old = live.orders(file, entries, plan.rows.order_type)
    if plan.by_file_name:
        if old is None:
            raise damaged(live.snapshot.table, file.keys, "it has no order values")
        touched, texts = live.snapshot.masks.touched(file.path)
        if len(touched):
            at = np.minimum(np.searchsorted(touched, positions), len(touched) - 1)
            newer: Ints = from_texts(plan.rows.order_type, texts).to_numpy()
            old = pa.array(np.where(touched[at] == positions, newer[at], old.to_numpy()), pa.int64())
    if old is not None:
        return old
    layout = plan.rows.layouts["master"]
    order = layout.result.field(layout.order_field)
    only = replace(layout, result=pa.schema([order]), id_fields=(), order_field=0, op_field=None)
    if file.bytes > len(positions) * _EACH:
        return live.rows(file, positions, entries, only).orders()
    return live.rows_of_whole(file, positions, only).orders()


def tombstone_rows(plan: Reading, keys: list[Any], orders: Any) -> Any:
    """Return new tombstones, a pa.Table. keys: a column for each ID field. orders: order values.

    Their commit time is that of the plan, because they are written before their version is committed.
    """
    schema = tombstone_schema(len(keys))
    times = pa.array(np.full(len(orders), plan.now), pa.int64()).cast(pa.timestamp("ms", "UTC"))
    columns = [*keys, to_texts(plan.rows.order_type, orders), times]
    return pa.table([column.cast(one.type) for column, one in zip(columns, schema, strict=True)], schema=schema)
