"""Order values of fields: what is kept beside the rows of places whose records get patches.

A side column has, for each row, the fields whose order value differs from that of the row; NULL for a row without any.
The order value of the last upsert is that of the field NULL, where patches of unknown records wait.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.rules.byte_columns import Ints
from mutator.rules.order_columns import column_type, converted_orders, flags

FIELD_ORDERS = "field_orders"  # the side column
_ORDER_TYPE = b"order type"  # in its metadata


def column_of_orders(order_type: str) -> Any:
    """Return the side column, a pa.Field."""
    one = pa.struct([pa.field("field", pa.string()), pa.field("order", column_type(order_type))])
    return ordered(pa.field(FIELD_ORDERS, pa.list_(one)), order_type)


def ordered(field: Any, order_type: str) -> Any:
    """Return a side column, a pa.Field, whose order values ``widened`` finds: it, or its member *order*."""
    return field.with_metadata({_ORDER_TYPE: order_type})


def orders_of_fields(orders: Any, names: Collection[str]) -> Any:
    """Return the order values of fields beside some rows, a pa.ListArray, without those of other fields.

    The order value of the last upsert, whose field is NULL, stays.

    >>> of_row = [{"field": "price", "order": 3}, {"field": "gone", "order": 1}]
    >>> form = column_of_orders("long").type
    >>> orders_of_fields(pa.array([of_row, None, of_row[1:]], form), {"price"}).to_pylist()
    [[{'field': 'price', 'order': 3}], None, None]
    """
    entries = orders.flatten()
    stay = flags(pc.is_in(entries.field(0), pa.array([*names, None], pa.string())))
    if stay.all():
        return orders
    parents = pc.list_parent_indices(orders).to_numpy()[stay]
    return lists_of(entries.filter(pa.array(stay)), np.bincount(parents, minlength=len(orders))).cast(orders.type)


def wrong_orders(orders: Any, names: Collection[str], of_rows: Any) -> str | None:
    """Return what is wrong with the order values of fields beside some rows, a pa.ListArray; None if nothing is.

    names: of the fields. of_rows: the order values of the rows, a pa.Array; None if they are not known.

    >>> form = column_of_orders("long").type
    >>> wrong_orders(pa.array([[{"field": "price", "order": None}], None], form), ["price"], pa.array([3, 1]))
    >>> wrong_orders(pa.array([None, [{"field": "price", "order": 2}]], form), ["price"], pa.array([3, 1]))
    'has an order value of a field that is higher than that of its row'
    >>> wrong_orders(pa.array([None, [{"field": "price", "order": 2}]], form), ["name"], None)
    'has an order value of the field price, which the rows lack'
    """
    entries, rows = orders.flatten(), pc.list_parent_indices(orders)
    unknown = entries.field(0).filter(pc.invert(pc.is_in(entries.field(0), pa.array([*names, None], pa.string()))))
    if len(unknown):
        return f"has an order value of the field {unknown[0].as_py()}, which the rows lack"
    if of_rows is not None and pc.any(pc.greater(entries.field(1), of_rows.take(rows))).as_py():
        return "has an order value of a field that is higher than that of its row"
    return None


def widened(column: Any, wanted: Any) -> Any:
    """Return a side column that was kept while order values were integers, or values narrower, as they are now.

    wanted: the pa.Field.
    """
    order_type = (wanted.metadata or {}).get(_ORDER_TYPE)
    if order_type is None or column.type.equals(wanted.type):
        return column
    if not pa.types.is_list(wanted.type):
        return converted_orders("long", column, order_type.decode())
    entries, form = column.flatten(), wanted.type.value_type
    parts = [
        converted_orders("long", part, order_type.decode())
        if one.name == "order" and part.type != one.type
        else _cast(part, one.type)
        for part, one in zip(entries.flatten(), form, strict=True)
    ]
    counts = pc.list_value_length(column).fill_null(0).to_numpy().astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    items = pa.StructArray.from_arrays(parts, fields=[*form])
    return pa.ListArray.from_arrays(pa.array(offsets), items, mask=column.is_null()).cast(wanted.type)


def _cast(values: Any, wanted: Any) -> Any:
    """Return values of a wider type. Times of nanoseconds are kept as numbers.

    >>> _cast(pa.array([7], pa.timestamp("ms")), pa.int64()).to_pylist()
    [7000000]
    """
    own, types = values.type, pa.types
    if types.is_temporal(own) and types.is_integer(wanted):
        nanos = pa.time64("ns") if types.is_time(own) else pa.timestamp("ns", getattr(own, "tz", None))
        values = values.cast(pa.duration("ns") if types.is_duration(own) else nanos)
    return values.cast(wanted)


def lists_of(entries: Any, counts: Ints) -> Any:
    """Return a pa.ListArray; NULL for rows without entries. entries: by row. counts: of each row."""
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets, mask=np.append(counts == 0, False)), entries)
