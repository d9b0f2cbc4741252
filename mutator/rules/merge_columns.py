"""Merge functions of columns: the entries of a field of many keys as Arrow arrays, decided as ``merge_functions`` does.

>>> from mutator.rules.merge_functions import entries_type
>>> from mutator.rules.merge_names import merge_function
>>> least = merge_function("min")
>>> old = expanded(least, pa.nulls(2, entries_type(least, pa.int64(), pa.int64())), pa.array([4, 4]), pa.array([7, 7]))
>>> new, no_bounds = EntryColumns(np.array([1]), pa.array([5]), pa.array([9])), (pa.nulls(2, pa.int64()),) * 2
>>> entries, late, spared = meet_columns(least, old, new, no_bounds, pa.array([None, None], pa.int64()))
>>> shown_columns(least, entries, 2, pa.int64())[0].to_pylist(), beside(least, entries, pa.array([4, 5])).to_pylist()
([7, 7], [None, [{'order': 4, 'value': 7}, {'order': 5, 'value': 9}]])
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.merge_functions import limits
from mutator.rules.merge_names import ALL, BEST, NEWEST, MergeFunction
from mutator.rules.order_columns import flags, ranks
from mutator.rules.sort_order import then_by
from mutator.rules.typed_values import row_bytes, ticks_type, unequal


class EntryColumns(NamedTuple):
    """Entries of many keys, by key and order value. keys: their numbers."""

    keys: Ints
    orders: Any
    values: Any

    def chosen(self, rows: Any) -> EntryColumns:
        """Return some rows, numbers or flags."""
        rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return EntryColumns(self.keys[rows], self.orders.take(pa.array(rows)), self.values.take(pa.array(rows)))

    @property
    def firsts(self) -> Flags:
        """Whether an entry is the first of its key."""
        found = np.ones(len(self.keys), np.bool_)
        found[1:] = self.keys[1:] != self.keys[:-1]
        return found


def fold_columns(function: MergeFunction, sent: EntryColumns, places: Ints, deletes: Ints) -> Ints:
    """Return the rows that a fold leaves of contributions, by key and order value.

    places: numbers by which they compare, from 0. deletes: of each key the place of its highest delete, or -1.
    """
    rows = np.flatnonzero(places > deletes[sent.keys])
    some = sent.chosen(rows)
    return rows[_kept_rows(function, some, _numbers(some.orders)[0], places[rows])]


def left_columns(function: MergeFunction, sent: EntryColumns, places: Ints, deletes: Ints) -> Ints:
    """Return the rows that a fold leaves, those among them that ``clashing`` must see. Arguments as above."""
    if function.keeps != ALL:
        return fold_columns(function, sent, places, deletes)
    rows = np.flatnonzero(places > deletes[sent.keys])
    if not function.counts_null:
        rows = rows[flags(sent.values.take(pa.array(rows)).is_valid())]
    some = sent.chosen(rows)
    by = [places[rows], _alike(some.values), _numbers(some.orders)[0], some.keys]
    sorting = np.arange(len(rows))
    for part in by:
        sorting = then_by(sorting, part)
    kept, again = np.ones(len(rows), np.bool_), np.ones(max(len(rows) - 1, 0), np.bool_)
    for part in by[1:]:
        again &= part[sorting][1:] == part[sorting][:-1]
    kept[:-1] = ~again
    return rows[sorting[kept]]


def clashing(function: MergeFunction, old: EntryColumns, new: EntryColumns, count: int) -> Flags:
    """Return the keys, some of whose contributions have one order value and several values. count: of the keys."""
    found = np.zeros(count, np.bool_)
    if not function.clashes or not len(new.keys):
        return found
    both = EntryColumns(*(_joined(*parts) for parts in zip(old, new, strict=True)))
    if not function.counts_null:
        both = both.chosen(flags(both.values.is_valid()))
    orders = _numbers(both.orders)[0]
    sorting = then_by(np.argsort(orders, kind="stable"), both.keys)
    same = (both.keys[sorting][1:] == both.keys[sorting][:-1]) & (orders[sorting][1:] == orders[sorting][:-1])
    rows = np.flatnonzero(same)
    one, other = (both.values.take(pa.array(sorting[some])) for some in (rows, rows + 1))
    found[both.keys[sorting[rows[unequal(one, other)]]]] = True
    return found


def meet_columns(
    function: MergeFunction,
    old: EntryColumns,
    new: EntryColumns,
    bounds: tuple[Any, Any],
    deletes: Any,
    floor: Any = None,
) -> tuple[EntryColumns, Flags, Flags]:
    """Return what ``meet`` does: the entries, which of the new ones are late, and the keys with a spared one.

    bounds: of each key. deletes: order values of the highest deletes of each key. Both are NULL where there is none.
    """
    numbers = _numbers(old.orders, new.orders, *bounds, deletes, _array(floor, deletes.type))
    at, sent, (bottom,) = numbers[0], numbers[1], numbers[5]
    cleared, seal, delete, raised = _moved(*numbers[2:])
    lowest = np.full(len(deletes), np.iinfo(np.int64).max)
    lowest[old.keys[::-1]] = at[::-1]
    spared = (lowest <= seal) & ((delete >= lowest) | (raised > lowest)) & function.seals
    stays = spared[old.keys] | (at > delete[old.keys]) & (at >= raised[old.keys])
    fresh = sent >= np.maximum(cleared, bottom)[new.keys]
    late = fresh & (sent <= seal[new.keys]) & function.adds
    taken = fresh & ~late
    both = EntryColumns(*(_joined(*parts) for parts in zip(old.chosen(stays), new.chosen(taken), strict=True)))
    orders = np.concatenate([at[stays], sent[taken]])
    rows = _kept_rows(function, both, orders, np.arange(len(orders)))
    return _sealed(function, both.chosen(rows), orders[rows], seal), late, spared


def bounds_after_columns(bounds: tuple[Any, Any], deletes: Any, floor: Any = None) -> tuple[Any, Any]:
    """Return what ``bounds_after`` does."""
    floors = _array(floor, deletes.type)
    numbers = _numbers(*bounds, deletes, floors)
    cleared, seal, delete, raised = _moved(*numbers)
    highest = np.maximum(np.maximum(cleared, delete), raised)
    rows = np.arange(len(highest))
    rows = np.where(highest == cleared, rows, np.where(highest == delete, rows + len(rows), 2 * len(rows)))
    nothing = (highest == 0) | (seal == 0) & (highest <= numbers[3])
    found = pa.concat_arrays([bounds[0], deletes, floors]).take(pa.array(rows, mask=nothing))
    return found, bounds[1].take(pa.array(np.arange(len(seal)), mask=seal == 0))


def sealed_columns(function: MergeFunction, entries: EntryColumns, seals: Any) -> EntryColumns:
    """Return what ``sealed`` does. seals: of each key, NULL where there is none."""
    return _sealed(function, entries, *_numbers(entries.orders, seals))


def span_columns(entries: EntryColumns, count: int) -> tuple[Any, Any]:
    """Return what ``span`` does, of one field. count: of the keys. ``pc.min_element_wise`` and max join fields."""
    firsts = entries.firsts
    seconds = np.append(False, firsts[:-1])[: len(firsts)] & ~firsts
    lasts = np.append(firsts[1:], True)[: len(firsts)] & ~firsts
    found = []
    for rows in (np.flatnonzero(seconds), np.flatnonzero(lasts)):
        places = np.full(count, -1)
        places[entries.keys[rows]] = rows
        found.append(entries.orders.take(pa.array(places, mask=places < 0)))
    return found[0], found[1]


def aged_columns(
    marks: tuple[Any, Any], second: Any, highest: Any, now: int, retention: int
) -> tuple[Any, tuple[Any, Any]]:
    """Return what ``aged`` does: where keys are sealed, and their marks. marks: order values and times; or NULL."""
    at, low, high = _numbers(marks[0], second, highest)
    due = (at > 0) & (low > 0)
    due[due] = now - marks[1].filter(pa.array(due)).to_numpy() >= retention
    sealing = due & (low <= at)
    fresh = (low > 0) & (due | (at == 0)) & (high > at)
    gone = pa.array(~fresh & (due | (low == 0)))
    orders, times = (
        pc.if_else(gone, pa.scalar(None, old.type), pc.if_else(pa.array(fresh), one, old))
        for old, one in zip(marks, (highest, pa.scalar(now, marks[1].type)), strict=True)
    )
    return marks[0].take(pa.array(np.arange(len(at)), mask=~sealing)), (orders, times)


def shown_columns(function: MergeFunction, entries: EntryColumns, count: int, data_type: Any) -> tuple[Any, Flags]:
    """Return the field of each key, and which sums do not fit it; these are NULL. count: of the keys."""
    rows = np.flatnonzero(entries.firsts)
    places, over = np.full(count, -1), np.zeros(count, np.bool_)
    places[entries.keys[rows]] = np.arange(len(rows))
    if function.adds:
        values, beyond = _totals(entries.values, rows)
        least, most = (pa.scalar(limit, values.type) for limit in limits(data_type))
        beyond |= flags(pc.or_(pc.less(values, least), pc.greater(values, most)))
        over[entries.keys[rows]] = beyond
        values = pc.if_else(pa.array(beyond), pa.scalar(None, values.type), values)
    else:
        values = entries.values.take(pa.array(rows))
    if values.type != data_type:
        values = values.cast(data_type)
    return values.take(pa.array(places, mask=places < 0)), over


def expanded(function: MergeFunction, beside: Any, orders: Any, values: Any) -> EntryColumns:
    """Return the entries of rows from their side column. orders, values: of the rows; NULL orders are no rows."""
    own = beside.is_null()
    if not function.counts_null:
        own = pc.and_(own, values.is_valid())
    rows = np.flatnonzero(flags(pc.and_(own, orders.is_valid())))
    listed = beside.flatten()
    keys = np.repeat(np.arange(len(beside)), pc.fill_null(pc.list_value_length(beside), 0).to_numpy())
    shown_values = values.take(pa.array(rows)).cast(listed.type.field("value").type)
    found = EntryColumns(
        np.concatenate([keys, rows]),
        _joined(listed.field("order"), orders.take(pa.array(rows))),
        _joined(listed.field("value"), shown_values),
    )
    return found.chosen(np.argsort(found.keys, kind="stable"))


def beside(function: MergeFunction, entries: EntryColumns, orders: Any) -> Any:
    """Return the side column of rows, the inverse of ``expanded``. orders: of the rows."""
    counts = np.bincount(entries.keys, minlength=len(orders))
    ends = np.cumsum(counts)
    own = (counts == 0) & (not function.counts_null)
    alone = np.flatnonzero(counts[entries.keys] == 1)
    same = flags(pc.equal(entries.orders.take(pa.array(alone)), orders.take(pa.array(entries.keys[alone]))))
    own[entries.keys[alone[same]]] = True
    listed = entries.chosen(~own[entries.keys])
    fields = [pa.field("order", orders.type, nullable=False), pa.field("value", entries.values.type)]
    offsets = np.concatenate([[0], np.cumsum(np.where(own, 0, ends - np.concatenate([[0], ends[:-1]])))])
    items = pa.StructArray.from_arrays([listed.orders, listed.values], fields=fields)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, mask=pa.array(own))


def _numbers(*columns: Any) -> list[Ints]:
    """Return numbers from 1 by which the order values of several columns compare; 0 for NULL."""
    known = pa.concat_arrays([column.drop_null() for column in columns])
    numbers = np.unique(ranks(known), return_inverse=True)[1] + 1
    found, start = [], 0
    for column in columns:
        part = np.zeros(len(column), np.int64)
        valid = flags(column.is_valid())
        end = start + int(valid.sum())
        part[valid] = numbers[start:end]
        found.append(part)
        start = end
    return found


def _moved(cleared: Ints, seal: Ints, delete: Ints, floor: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Return what is cleared, the seal that stays, and the deletes and floors that move what is cleared; 0: none."""
    delete, raised = np.where(delete >= cleared, delete, 0), np.where(floor > cleared, floor, 0)
    return cleared, np.where((delete >= seal) | (raised > seal), 0, seal), delete, raised


def _kept_rows(function: MergeFunction, entries: EntryColumns, orders: Ints, places: Ints) -> Ints:
    """Return the rows that can still decide, by key and order value. orders, places: numbers."""
    rows = np.arange(len(orders))
    if not function.counts_null:
        rows = rows[flags(entries.values.is_valid())]
    keys, orders = entries.keys[rows], orders[rows]
    by = [places[rows], orders, keys]
    if function.keeps == BEST:
        worth = _worth(entries.values.take(pa.array(rows)), function.sign)
        by.insert(1, worth)
    sorting = np.arange(len(rows))
    for part in by:
        sorting = then_by(sorting, part)
    rows, keys, orders = rows[sorting], keys[sorting], orders[sorting]
    kept = np.ones(len(rows), np.bool_)
    if function.keeps == BEST and len(rows):
        # From the end, the worth of each key above those of all keys after it, so that one running maximum does.
        above = worth[sorting] + (keys[-1] - keys) * (int(worth.max()) + 1)
        kept[:-1] = above[:-1] > np.maximum.accumulate(above[::-1])[::-1][1:]
    else:
        again = keys[1:] == keys[:-1]
        kept[:-1] = ~(again if function.keeps == NEWEST else again & (orders[1:] == orders[:-1]))
    return rows[kept]


def _worth(values: Any, sign: int) -> Ints:
    """Return numbers from 0 by which values compare, as ``_place`` does; the best is the highest."""
    if pa.types.is_floating(values.type):
        floats = values.cast(pa.float64()).to_numpy()
        bits = np.where(np.isnan(floats), np.nan, floats).view(np.int64)
        found = np.where(bits < 0, bits ^ np.int64(0x7FFF_FFFF_FFFF_FFFF), bits)
    else:
        found = ranks(values)
    numbers = np.unique(found, return_inverse=True)[1]
    return numbers if sign > 0 else int(numbers.max(initial=0)) - numbers


def _alike(values: Any) -> Ints:
    """Return numbers that are equal for equal values."""
    if pa.types.is_nested(values.type):
        values = row_bytes(pa.StructArray.from_arrays([values], ["value"]))
    if pa.types.is_floating(values.type):
        values = values.view(ticks_type(values.type))
    found: Ints = pc.dictionary_encode(values, null_encoding="encode").indices.to_numpy().astype(np.int64)
    return found


def _sealed(function: MergeFunction, entries: EntryColumns, orders: Ints, seals: Ints) -> EntryColumns:
    firsts, under = entries.firsts, orders <= seals[entries.keys]
    if not (under & ~firsts).any():
        return entries
    if function.adds:
        rows = np.flatnonzero(under)
        starts = np.flatnonzero(firsts[rows])
        totals, over = _totals(entries.values.take(pa.array(rows)), starts)
        if over.any():  # those keys keep their entries
            seals = seals.copy()
            seals[entries.keys[rows[starts[over]]]] = 0
            return _sealed(function, entries, orders, seals)
        heads = np.arange(len(orders))
        heads[under & firsts] = len(orders) + np.arange(len(totals))
        entries = entries._replace(values=_joined(entries.values, totals).take(pa.array(heads)))
    return entries.chosen(~under | firsts)


def _totals(values: Any, starts: Ints) -> tuple[Any, Flags]:
    """Add up decimals of 128 bits from each start to the next; return the sums, and which have too many digits.

    Arrow's own sum wraps around. Here the four words of 32 bits are added up each by itself.
    """
    words = np.frombuffer(values.buffers()[1], np.uint32, 4 * len(values), 16 * values.offset).reshape(-1, 4)
    parts = words.astype(np.int64)
    parts[:, 3] = words[:, 3].view(np.int32) if len(words) else 0
    sums = np.add.reduceat(parts, starts, axis=0) if len(starts) else parts[:0]
    for number in range(3):
        sums[:, number + 1] += sums[:, number] >> 32
        sums[:, number] &= 0xFFFF_FFFF
    over = sums[:, 3] != sums[:, 3].astype(np.int32)
    data = pa.py_buffer(np.ascontiguousarray(sums.astype(np.uint32)))
    found = pa.Array.from_buffers(values.type, len(sums), [None, data])
    most = pa.scalar(limits(values.type)[1], values.type)
    return found, over | flags(pc.greater(pc.abs(found), most))


def _array(value: Any, data_type: Any) -> Any:
    return pa.nulls(1, data_type) if value is None else pa.array([value.as_py()], data_type)


def _joined(one: Any, other: Any) -> Any:
    if isinstance(one, np.ndarray):
        return np.concatenate([one, other])
    return pa.concat_arrays([one, other])
