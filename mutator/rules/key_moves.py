"""Records that moved onto a living record, as a statement that shifts or swaps keys has it in the order of the log.

A change of a key is a delete of the old key, and an upsert of the new one: an arrival. If the new key still has a
record then, one of the two is lost: of 1 -> 2 and 2 -> 3, in this order, the second change deletes what the first one
brought. The log does not say which of both a later mutation means, so such a key is noted.

For that, three order values of a key's mutations are kept, in a column of structs: the lowest one of its arrivals, of
its deletes and of its other upserts. They are minima, so mutations may be folded in any grouping, and the same ones
again change nothing. A mutation that was not folded and is no arrival needs none: NULL.

A key is noted if a record was there below its first arrival, in the place or by an upsert of the feed, and no delete
not above it. Order values alone decide, so a delete of the same order value frees the key; such mutations are tied.

>>> lows = lows_of(pa.array([1, 2, 3]), arrive=np.array([True, False, False]))  # 1 -> 2 at 1; then an update, 2 -> 3
>>> folded = lowest(lows, pa.array([1, 2, 3]), np.array([False, False, True]), np.array([0]))
>>> folded.to_pylist()
[{'arrival': 1, 'delete': 3, 'upsert': 2}]
>>> landed = Landed.of(folded)
>>> landed.meet(np.array([0]), pa.array([0]))
>>> landed.numbers.tolist()
[0]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.order_columns import column_type, flags, ranks

_NAMES = ("arrival", "delete", "upsert")

Mutations = Iterable[tuple[tuple[Any, ...], tuple[Any, ...]]]  # as the records engine has them


def no_lows(count: int, order_type: str | None) -> Any:
    """Return the column of mutations of which nothing is known. order_type: None: nothing ever will be."""
    return pa.nulls(count, pa.null() if order_type is None else _type(column_type(order_type)))


def _type(orders: Any) -> Any:
    return pa.struct([(name, orders) for name in _NAMES])


def arrivals(offsets: Ints, deletes: Flags) -> Flags:
    """Return which mutations are arrivals: upserts after a delete that the same row of a file says.

    >>> arrivals(np.array([0, 0, 50, 90]), np.array([True, False, True, False])).tolist()
    [False, True, False, False]
    """
    found = ~deletes
    found[:1] = False
    found[1:] &= deletes[:-1] & (offsets[1:] == offsets[:-1])
    return found


def lows_of(orders: Any, arrive: Flags) -> Any:
    """Return the column of mutations that were not folded. orders: their order values. arrive: which are arrivals."""
    none = pa.nulls(len(orders), orders.type)
    fields = [*_type(orders.type)]
    return pa.StructArray.from_arrays([orders, none, none], fields=fields, mask=pa.array(~arrive))


def has_arrivals(lows: Any) -> bool:
    """Return whether any mutation of a column is, or was folded of, an arrival."""
    if pa.types.is_null(lows.type) or lows.null_count == len(lows):
        return False
    arrival, _, _ = lows.flatten()
    return bool(arrival.null_count < len(arrival))


def lowest(lows: Any, orders: Any, deletes: Flags, begins: Ints) -> Any:
    """Return the column of folded mutations, one for each key.

    lows, orders, deletes: of mutations; those of a key follow each other, by their order values. begins: the number of
    the first one of each key.
    """
    arrival, delete, upsert = lows.flatten()
    alone = flags(lows.is_null())
    columns = [
        _least(arrival, orders, np.zeros(len(orders), np.bool_), begins),
        _least(delete, orders, alone & deletes, begins),
        _least(upsert, orders, alone & ~deletes, begins),
    ]
    return pa.StructArray.from_arrays(columns, fields=[*_type(orders.type)])


def _least(known: Any, orders: Any, own: Flags, begins: Ints) -> Any:
    """Return the lowest value of each key, NULL without any. own: which order values count beside the known ones."""
    first = np.minimum.reduceat(np.where(own, np.arange(len(own)), len(own)), begins)
    none = first == len(own)
    if known.null_count == len(known):
        return orders.take(pa.array(np.where(none, 0, first), mask=none))
    rows = np.flatnonzero(flags(known.is_valid()))
    values = pa.concat_arrays([orders.take(pa.array(first[~none])), known.take(pa.array(rows))])
    keys = np.concatenate((np.flatnonzero(~none), np.searchsorted(begins, rows, side="right") - 1))
    order = np.lexsort((ranks(values), keys))
    found, at = np.unique(keys[order], return_index=True)
    places, none = np.zeros(len(begins), np.int64), np.ones(len(begins), np.bool_)
    places[found], none[found] = order[at], False
    return values.take(pa.array(places, mask=none))


@dataclass(frozen=True)
class Landed:
    """The folded mutations with an arrival on a key that no delete of the feed had freed."""

    orders: Any  # of the arrival of each mutation; NULL where there is none
    living: Flags  # a record was there

    @classmethod
    def of(cls, lows: Any) -> Self | None:
        """Return those of a column; None if there are none."""
        if not has_arrivals(lows):
            return None
        arrival, delete, upsert = lows.flatten()
        free = pc.fill_null(pc.less_equal(delete, arrival), False)
        orders = pc.if_else(free, pa.scalar(None, arrival.type), arrival)
        return cls(orders, flags(pc.fill_null(pc.less(upsert, orders), False)))

    def wait(self, numbers: Ints) -> Flags:
        """Return which of some mutations have an arrival, and met no record yet."""
        return flags(self.orders.take(pa.array(numbers)).is_valid()) & ~self.living[numbers]

    def meet(self, numbers: Ints, old_orders: Any, floor: Any = None) -> None:
        """Note the records of a place that mutations met. numbers: of the mutations. floor: a truncate of the run."""
        found = pc.less(old_orders, self.orders.take(pa.array(numbers)))
        if floor is not None:
            found = pc.and_(found, pc.greater_equal(old_orders, floor))
        self.living[numbers] |= flags(pc.fill_null(found, False))

    @property
    def numbers(self) -> Ints:
        """The mutations whose keys are noted."""
        return np.flatnonzero(self.living)


class LowsOfKey:
    """The same of one key, in the textbook form."""

    def __init__(self) -> None:
        """Begin without mutations."""
        self._lows: dict[str, Any] = {}

    def watched(self, mutations: Mutations) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        """Yield the mutations of a key, in the order of their precedence; arrivals are marked by a fourth value."""
        for place, (is_delete, row, *more) in mutations:
            arrives = len(more) > 1 and more[1]
            self._lows.setdefault("arrival" if arrives else "delete" if is_delete else "upsert", place[0])
            yield place, (is_delete, row, more[0] if more else None)

    def moved_onto(self, old_order: Any) -> bool:
        """Return whether the key is noted. old_order: of the record that the place has; None without one."""
        arrival, delete, upsert = map(self._lows.get, _NAMES)
        if arrival is None or (delete is not None and delete <= arrival):
            return False
        return any(one is not None and one < arrival for one in (upsert, old_order))
