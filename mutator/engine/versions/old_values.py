"""Order values of live records, and tombstones that take them over."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.file_entry import FileEntry
from mutator.dataset.side_columns import tombstone_schema
from mutator.engine.versions.live_rows import LiveRows
from mutator.plan.reading import Reading
from mutator.rules.byte_columns import Ints
from mutator.rules.order_columns import from_texts, to_texts


def order_values(plan: Reading, live: LiveRows, file: FileEntry, entries: Ints, positions: Ints) -> Any:
    """Return the order values of some records or tombstones, touches included. entries, positions: of their rows."""
    old = live.orders(file, entries, plan.rows.order_type)
    if not plan.keeps_orders:
        return old
    touched, texts = live.snapshot.masks.touched(file.path)
    if not len(touched):
        return old
    at = np.minimum(np.searchsorted(touched, positions), len(touched) - 1)
    newer = from_texts(plan.rows.order_type, texts).take(pa.array(at))
    return pc.if_else(pa.array(touched[at] == positions), newer, old)


def tombstone_rows(plan: Reading, keys: list[Any], orders: Any, beside: Sequence[Any] = ()) -> Any:
    """Return new tombstones, a pa.Table. keys: a column for each ID field. orders: order values.

    beside: a column for each value beside them; none without a row that waits.

    Their commit time is that of the plan, because they are written before their version is committed.
    """
    schema = tombstone_schema(len(keys), plan.beside_tombstones if beside else ())
    times = pa.array(np.full(len(orders), plan.now), pa.int64()).cast(pa.timestamp("ms", "UTC"))
    columns = [*keys, to_texts(plan.rows.order_type, orders), times, *beside]
    return pa.table([column.cast(one.type) for column, one in zip(columns, schema, strict=True)], schema=schema)
