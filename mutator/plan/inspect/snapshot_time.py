"""The order value that a full snapshot is as of: a value of the settings, the sequence of its files, or a field's.

A snapshot as of S is a truncate at S, and upserts of its rows at the higher of their own order value and S. So the
floor is S or higher afterwards, and each record that is left with a lower order value of its own came with the snapshot
that raised the floor: it counts as one at the floor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from mutator.config.settings import OpSpec, RowSpec
from mutator.errors import error
from mutator.plan.inspect.first_rows import first_batch, first_rows
from mutator.plan.inspect.source import Source
from mutator.rules.order_tuples import read_order
from mutator.rules.order_types import single_type
from mutator.rules.order_values import NO_SEQUENCE
from mutator.rules.snapshot_times import FirstTime, TimeField
from mutator.rules.typed_values import canonical, column_order_type

SEQUENCE = "sequence"
_CURE = "name the order value at which the snapshot was taken"


def first_time(rows: RowSpec, feed: Sequence[Source]) -> FirstTime | None:
    """Return the time in the first row of a snapshot that has one; None without any, or if no field has it."""
    field, stated = rows.ops.said_in, rows.order.type
    if not isinstance(rows.ops.as_of, TimeField):
        return None
    for source in sorted(feed, key=lambda one: one.precedence_name):
        order_type = stated
        if source.file_format == "text":
            values = first_rows(source, rows.text.delimiter.split).columns.get(str(field), ())
        else:
            names = [] if source.file_schema is None else source.file_schema.schema.names
            name = names[field] if isinstance(field, int) and field < len(names) else field
            batch = first_batch(source, [name]) if name in names else None
            if batch is None or pa.types.is_nested(batch.column(name).type):
                continue
            order_type = column_order_type(batch.column(name).type, stated) or stated
            values = canonical(batch.column(name)).to_pylist()
        value = next(filter(None, values), None)
        if value is not None:
            return FirstTime(value, order_type)
    return None


def as_of(ops: OpSpec, order_type: str, sequence: int | None, epoch: int = 0) -> Any:
    """Return the order value that a snapshot is as of; None if it is not as of one.

    sequence: of the files of the snapshot. epoch: of its rows. Raises ConfigError.

    >>> [as_of(OpSpec(as_of=one), "long", 7) for one in ("12", "sequence", None)]
    [12, 7, None]
    """
    if ops.as_of is None:
        return None
    wanted, own_type = str(ops.as_of), single_type(order_type)
    if own_type is None:
        why = f"order values are of type {order_type}, and it needs one order field, in ascending order"
        raise error("snapshot.as.of", value=wanted, why=why)
    text, whose = wanted, ""
    if wanted == SEQUENCE:
        if sequence is None or sequence == NO_SEQUENCE:
            raise error("snapshot.as.of", value=wanted, why=f"no number is in the names of the feed files; {_CURE}")
        if own_type not in ("long", "decimal", "sequence"):
            raise error("snapshot.as.of", value=wanted, why=f"order values are of type {own_type}; {_CURE}")
        text = str(sequence)
    elif own_type == "sequence":
        raise error("snapshot.as.of", value=wanted, why=f"order comes from file names; set it to {SEQUENCE}")
    elif isinstance(ops.as_of, TimeField):
        if ops.time is None:
            why = f"no row of the snapshot has a value in this field; {_CURE}"
            raise error("snapshot.as.of", value=wanted, why=why)
        text = ops.time.text.decode("utf-8", "surrogateescape")
        whose = f"the first row has '{text}', and "
    try:
        return read_order(order_type, text, epoch)
    except ValueError as reason:
        why = f"{whose}as an order value of type {own_type}, it {reason}"
        raise error("snapshot.as.of", value=wanted, why=why) from None
