"""Tombstones as columns: their tables, and the order values that mutations meet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.engine.blocks.mutations import Mutations, key_names
from mutator.formats.blocks.block_type import Hashes
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.rules.order_columns import from_texts, met_orders, to_column, to_texts
from mutator.rules.register import NOTHING, RECORD


def floor_of(plan: Plan, kind: str = NOTHING) -> Any:
    """Return the floor that a key meets, as an element of a column of order values; None without one.

    kind: of what the place has of the key. Records meet it in the run that raises it: those that are below it later
    count as records at it (``met_records``).
    """
    if plan.floor is None or (kind == RECORD and not plan.truncates):
        return None
    return to_column(plan.rows.order_type, [plan.floor])[0]


def met_records(plan: Plan, orders: Any) -> Any:
    """Return the order values of records that mutations meet. orders: their own."""
    return _raised(plan, orders, plan.known_floor)


def at_as_of(plan: Plan, winners: Mutations) -> Mutations:
    """Return winners with the order values by which they meet what is there. winners: with their own."""
    return winners if plan.as_of is None else replace(winners, orders=_raised(plan, winners.orders, plan.as_of))


def _raised(plan: Plan, orders: Any, least: Any) -> Any:
    return orders if least is None else pc.max_element_wise(orders, to_column(plan.rows.order_type, [least])[0])


def tombstone_table(plan: Reading, hashes: Hashes, keys: list[Any], orders: Any, committed: int) -> Any:
    """Return a pa.Table of tombstones: key columns, order values as text, commit times in ms, hashes."""
    times = pa.array(np.full(len(hashes), committed, np.int64))
    return pa.table(
        [*keys, to_texts(plan.rows.order_type, orders), times, pa.array(hashes)],
        [*key_names(len(keys)), "order", "committed", "hash"],
    )


def own_orders(plan: Reading, table: Any) -> Any:
    """Return the order values of a pa.Table of tombstones: those that a full snapshot meets."""
    return from_texts(plan.rows.order_type, table.column("order").combine_chunks())


def raised_orders(plan: Plan, table: Any) -> Any:
    """Return the order values of a pa.Table of tombstones that a delta meets: ``rules.absences``."""
    committed = table.column("committed").combine_chunks()
    return met_orders(plan.rows.order_type, own_orders(plan, table), committed, plan.absences)
