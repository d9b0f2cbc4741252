"""Tombstones as columns: their tables, and the order values that mutations meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.side_columns import WAITING, Tombstone, tombstone_tables, tombstones_of
from mutator.engine.blocks.mutations import Mutations, key_names
from mutator.engine.tally import Tally
from mutator.formats.blocks.block_type import Hashes
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.rules.byte_columns import Flags, Ints, exchanged
from mutator.rules.field_orders import FIELD_ORDERS, widened
from mutator.rules.order_columns import flags, from_texts, met_orders, to_column, to_texts
from mutator.rules.register import NOTHING, RECORD, Met, Olds


def floor_of(plan: Plan, kind: str = NOTHING) -> Any:
    """Return the floor that a key meets, as an element of a column of order values; None without one.

    kind: of what the place has of the key. Records meet it in the run that raises it: those that are below it later
    count as records at it (``met_records``).
    """
    if plan.floor is None or (kind == RECORD and not plan.truncates):
        return None
    return to_column(plan.rows.order_type, [plan.floor])[0]


def known_floor_of(plan: Plan) -> Any:
    """Return the floor that no record is below, as an element of a column of order values; None without one."""
    return None if plan.known_floor is None else to_column(plan.rows.order_type, [plan.known_floor])[0]


def met_records(plan: Plan, orders: Any) -> Any:
    """Return the order values of records that mutations meet. orders: their own."""
    return _raised(plan, orders, plan.known_floor)


def at_as_of(plan: Plan, winners: Mutations) -> Mutations:
    """Return winners with the order values by which they meet what is there. winners: with their own."""
    return winners if plan.as_of is None else replace(winners, orders=_raised(plan, winners.orders, plan.as_of))


def _raised(plan: Plan, orders: Any, least: Any) -> Any:
    return orders if least is None else pc.max_element_wise(orders, to_column(plan.rows.order_type, [least])[0])


def tombstone_table(
    plan: Reading, hashes: Hashes, keys: list[Any], orders: Any, committed: int, waiting: tuple[Any, Any] | None = None
) -> Any:
    """Return a pa.Table of tombstones: key columns, order values as text, commit times in ms, hashes.

    waiting: the rows that wait, NULL for none, and their side columns; None: none waits.
    """
    times = pa.array(np.full(len(hashes), committed, np.int64))
    columns = [*keys, to_texts(plan.rows.order_type, orders), times, pa.array(hashes)]
    found = pa.table(columns, [*key_names(len(keys)), "order", "committed", "hash"])
    for field, column in zip(
        plan.beside_tombstones, () if waiting is None else beside_columns(plan, *waiting), strict=False
    ):
        found = found.append_column(field, column)
    return with_beside(plan, found)


def beside_columns(plan: Reading, rows: Any, sides: Any) -> list[Any]:
    """Return the columns of ``Reading.beside_tombstones``. rows: that wait, NULL for none. sides: as of records."""
    is_row = flags(rows.is_valid())
    kept = plan.block_type.kept(rows.filter(pa.array(is_row)))
    found = [exchanged(pa.nulls(len(rows), kept.type), [(np.flatnonzero(is_row), kept)])]
    for column, field in zip(plan.kept(sides).flatten(), plan.side_columns, strict=True):
        found.append(pc.if_else(pa.array(is_row), column, pa.scalar(None, column.type)).cast(field.type))
    return found


def with_beside(plan: Reading, table: Any) -> Any:
    """Return a pa.Table of tombstones with a column for each value beside them, NULLs where it lacks one."""
    for field in plan.beside_tombstones:
        if field.name in table.column_names:
            column = table.column(field.name).combine_chunks()
            if field.name == WAITING:
                column = _where_valid(column, lambda rows: plan.block_type.kept(_written(plan, rows)))
            else:
                column = widened(column, field).cast(field.type)
            table = table.drop_columns([field.name]).append_column(field, column)
        else:
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table


def with_kept(plan: Reading, table: Any, kept: Sequence[tuple[Any, ...]]) -> Any:
    """Return a pa.Table of tombstones with the values beside each: the content of a row that waits, or None, …"""
    if not plan.beside_tombstones:
        return table
    contents = pa.array([row for row, *_ in kept], pa.large_binary())
    rows = _where_valid(
        contents, lambda some: plan.block_type.from_contents(some.to_pylist(), plan.rows.layouts["written"])
    )
    columns = [[one[number] for one in kept] for number in range(1, 1 + len(plan.side_columns))]
    sides = plan.sides(
        len(kept), None, [pa.array(column, one.type) for column, one in zip(columns, plan.side_columns, strict=True)]
    )
    for field, column in zip(plan.beside_tombstones, beside_columns(plan, rows, sides), strict=True):
        table = table.append_column(field, column)
    return table


def waits(table: Any) -> Flags:
    """Return which tombstones of a pa.Table have a row that waits beside them."""
    if WAITING not in table.column_names:
        return np.zeros(table.num_rows, np.bool_)
    return flags(table.column(WAITING).combine_chunks().is_valid())


def with_each(plan: Reading, stream: BinaryIO) -> Iterator[tuple[Tombstone, tuple[Any, ...]]]:
    """Yield the tombstones of a file, each with the values beside it: the content of a row that waits, or None, …"""
    for table in tombstone_tables(stream):
        if not plan.beside_tombstones:
            yield from zip(tombstones_of(table), repeat(()), strict=False)
            continue
        table = with_beside(plan, table)
        rows, _ = waiting_rows(plan, table)
        contents = iter(plan.block_type.contents(rows.drop_null()).to_pylist())
        columns = [table.column(one.name).to_pylist() for one in plan.side_columns]
        beside = zip(rows.is_valid().to_pylist(), *columns, strict=True)
        for one, (is_valid, *kept) in zip(tombstones_of(table), beside, strict=True):
            yield one, (next(contents) if is_valid else None, *kept)


def _written(plan: Reading, rows: Any) -> Any:
    return plan.block_type.from_kept(rows, plan.rows.layouts["written"])


def _where_valid(column: Any, changed: Callable[[Any], Any]) -> Any:
    """Return a column of other values, NULL where it is NULL."""
    values = changed(column.drop_null())
    places = np.flatnonzero(flags(column.is_valid()))
    return exchanged(pa.nulls(len(column), values.type), [(places, values)])


def covered(plan: Plan, table: Any) -> Flags:
    """Return which tombstones of a pa.Table the floor covers. It spares those of a waiting row with a newer field."""
    floor = floor_of(plan)
    if floor is None:
        return np.zeros(table.num_rows, np.bool_)
    found, waiting = flags(pc.less_equal(raised_orders(plan, table), floor)), waits(table)
    if (found & waiting).any():
        lists = table.column(FIELD_ORDERS).combine_chunks()
        fields = lists.flatten().field(1)
        spared = flags(pc.fill_null(pc.greater_equal(fields, floor.cast(fields.type)), False))
        found[pc.list_parent_indices(lists).to_numpy()[spared]] = False
    return found


def cleared(
    plan: Plan, tally: Tally, olds: Olds, keys_of: Callable[[Ints], list[Any]]
) -> Iterator[tuple[Met, list[Any], Any, Any]]:
    """Yield the records that no mutation met and that a truncate changes, with keys, rows and side columns; count them.

    keys_of: returns the keys of some of the records.
    """
    for met in plan.register.truncated(olds, floor_of(plan, RECORD)):
        tally.count(met.decision, len(met.keys))
        names = keys_of(met.keys)
        tally.note_all("partly cleared", zip(*(column.to_pylist() for column in names), strict=True))
        rows = olds.rows.take(pa.array(met.keys)) if met.rows is None else met.rows
        yield met, names, rows, plan.sides(len(met.keys), met.orders, met.sides.flatten())


def waiting_rows(plan: Reading, table: Any) -> tuple[Any, Any]:
    """Return the rows that wait beside tombstones, NULL for none, and their side columns."""
    rows = _where_valid(table.column(WAITING).combine_chunks(), lambda rows: _written(plan, rows))
    kept = [table.column(one.name).combine_chunks() for one in plan.side_columns]
    return rows, plan.sides(table.num_rows, None, kept)


def own_orders(plan: Reading, table: Any) -> Any:
    """Return the order values of a pa.Table of tombstones: those that a full snapshot meets."""
    return from_texts(plan.rows.order_type, table.column("order").combine_chunks())


def raised_orders(plan: Plan, table: Any) -> Any:
    """Return the order values of a pa.Table of tombstones that a delta meets: ``rules.absences``."""
    committed = table.column("committed").combine_chunks()
    return met_orders(plan.rows.order_type, own_orders(plan, table), committed, plan.absences)
