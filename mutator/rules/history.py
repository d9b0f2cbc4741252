"""History: the versions of records that all their events mean.

An event is a mutation that a table once got. The events of a key, in the order of their order values, say what its
record was at any time, however and whenever they arrived. A version is a stretch without a gap in which the tracked
fields are equal; it has the other fields of its last event.

    upsert    sets all fields
    patch     sets those that it has, and leaves the others as they were since the last delete
    delete    ends the record, and clears all fields
    truncate  is a delete of every key, before the events of its own order value

>>> import numpy as np
>>> orders, deletes, price = pa.array([1, 5, 9]), np.array([False, False, True]), pa.array([80, 82, None])
>>> events = EventColumns(np.array([0, 0, 0]), orders, deletes, pa.nulls(3), [price])
>>> found = versions_of(events, [0])
>>> [column.to_pylist() for column in (found.starts, found.ends, found.field(0))]
[[1, 5], [5, 9], [80, 82]]
>>> found.endings.tolist() == [UPDATED, DELETED]
True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.field_by_field import SetFields
from mutator.rules.order_columns import flags, ranks
from mutator.rules.typed_values import unequal

OPEN, UPDATED, DELETED, TRUNCATED = range(4)  # how a version ended
ENDINGS = ("open", "updated", "deleted", "truncated")
_UPSERT, _PATCH, _DELETE, _TRUNCATE = range(4)


class EventColumns(NamedTuple):
    """Events as columns, sorted by key, order value, and the sequence in which they hold."""

    keys: Ints  # number of each one's key
    orders: Any  # pa.Array of order values
    deletes: Flags
    unset: Any  # the masks of fields that patches leave unset; NULLs without patches
    fields: Sequence[Any]  # a pa.Array for each field; of deletes, any values
    solid: Flags | None = None  # nothing ends the record between an event and the next one of its key; None: it may

    def take(self, rows: Ints) -> EventColumns:
        """Return some events, in their order."""
        index = pa.array(rows)
        orders, unset, *fields = (one.take(index) for one in (self.orders, self.unset, *self.fields))
        solid = None if self.solid is None else self.solid[rows]
        return EventColumns(self.keys[rows], orders, self.deletes[rows], unset, fields, solid)


@dataclass(frozen=True)
class Versions:
    """Versions of records, by key, oldest first."""

    keys: Ints  # number of each one's key
    starts: Any  # order value from which on it holds
    ends: Any  # order value from which on it no longer does; NULL: it is open
    endings: Ints  # OPEN, UPDATED, DELETED or TRUNCATED
    last: Ints  # number of the last event of each, in the events
    _fields: Sequence[Any]
    _sources: Sequence[Ints]  # of each field, the numbers of the events that have its values, negative for NULL

    def take(self, rows: Ints) -> Versions:
        """Return some versions, in their order."""
        index = pa.array(rows)
        starts, ends, sources = self.starts.take(index), self.ends.take(index), [one[rows] for one in self._sources]
        return Versions(self.keys[rows], starts, ends, self.endings[rows], self.last[rows], self._fields, sources)

    def field(self, number: int) -> Any:
        """Return a field, a pa.Array."""
        return _taken(self._fields[number], self._sources[number])


def versions_of(
    events: EventColumns, tracked: Sequence[int], unknown: str = "insert", truncates: Any = None
) -> Versions:
    """Return the versions of records.

    tracked: numbers of the fields of which a change makes a version. unknown: what a patch of an unknown record does:
    with ``wait`` there is no record before an upsert. truncates: pa.Array of order values; None without any.
    """
    steps = _Steps.of(events, truncates)
    points = steps.points
    if not len(points):
        nothing, none = np.zeros(0, np.int64), events.orders[:0]
        return Versions(nothing, none, none, nothing, nothing, events.fields, [nothing] * len(events.fields))
    sources = [steps.sources(number)[points] for number in range(len(events.fields))]
    alive, key = steps.alive(waits=unknown == "wait")[points], steps.keys[points]
    is_next = np.append(False, key[1:] == key[:-1])  # of the same key as the point before
    was_alive = is_next & np.append(False, alive[:-1])
    differs = np.zeros(len(points), np.bool_)
    both = np.flatnonzero(alive & was_alive)
    for number in tracked if len(both) else ():
        rows = both[sources[number][both] != sources[number][both - 1]]
        values = (_taken(events.fields[number], sources[number][some]) for some in (rows, rows - 1))
        differs[rows] |= unequal(*values)
    begins = np.flatnonzero(alive & (~was_alive | differs))
    # The last point of each version: before the next one that begins or that is a gap.
    ends_here = np.append(~alive[1:] | ~is_next[1:] | differs[1:], True)
    last = np.flatnonzero(alive & ends_here)
    after = np.minimum(last + 1, max(len(points) - 1, 0))
    is_closed = np.append(is_next, False)[last + 1]
    ended = np.where(steps.kinds[steps.resets(points[after])] == _TRUNCATE, TRUNCATED, DELETED)
    endings = np.where(is_closed, np.where(alive[after], UPDATED, ended), OPEN) if len(last) else last
    orders = steps.orders
    return Versions(
        key[begins],
        orders.take(pa.array(points[begins])),
        orders.take(pa.array(points[after], mask=~is_closed)),
        endings,
        steps.events[points[last]],
        events.fields,
        [source[last] for source in sources],
    )


def shown_times(keys: Ints, starts: Any, ends: Any) -> tuple[Any, Any]:
    """Return the times of versions as they are shown: none is lower than an earlier one of its key.

    keys: as in ``Versions``. starts, ends: the times of its order values; ends are NULL for open versions.

    >>> [times.to_pylist() for times in shown_times(np.array([0, 0]), pa.array([5, 3]), pa.array([3, None]))]
    [[5, 5], [5, None]]
    """
    is_open = flags(ends.is_null())
    both = pa.concat_arrays([starts, pc.if_else(ends.is_null(), starts, ends)])
    _, first, rank = np.unique(ranks(both), return_index=True, return_inverse=True)
    group = np.cumsum(np.append(False, keys[1:] != keys[:-1])) * (len(first) + 1)
    highest = np.maximum.accumulate((rank.reshape(2, -1) + group).T.ravel()).reshape(-1, 2) - group[:, None]
    shown = both.take(pa.array(first[highest.T.ravel()])) if len(keys) else both
    return shown[: len(keys)], pc.if_else(pa.array(is_open), pa.scalar(None, both.type), shown[len(keys) :])


def still_counting(events: EventColumns) -> Ints:
    """Return the numbers of the events that no later one of their key and order value replaces as a whole."""
    order, replaces = ranks(events.orders), ~flags(events.unset.is_valid()) | events.deletes
    if not len(order):
        return np.zeros(0, np.int64)
    groups = np.cumsum(np.append(True, (np.diff(events.keys) != 0) | (np.diff(order) != 0)))
    last = np.full(groups[-1] + 1, -1)
    own = np.flatnonzero(replaces)
    last[groups[own]] = own  # the last one stays
    return np.flatnonzero(np.arange(len(order)) >= last[groups])


class _Steps:
    """Events and the truncates among them, in the order in which they hold."""

    def __init__(self, keys: Ints, orders: Any, kinds: Ints, events: Ints, sets: SetFields) -> None:
        """kinds: _UPSERT and so on. events: number of each one in the events, negative for a truncate."""
        self.keys, self.orders, self.kinds, self.events, self._sets = keys, orders, kinds, events, sets
        self._resets: Flags = (kinds == _DELETE) | (kinds == _TRUNCATE)
        rank = ranks(orders)
        is_last = (keys[1:] != keys[:-1]) | (rank[1:] != rank[:-1])
        self.points = np.flatnonzero(np.append(is_last, True)) if len(keys) else np.zeros(0, np.int64)
        self._begins = np.maximum.accumulate(np.where(np.append(True, keys[1:] != keys[:-1]), np.arange(len(keys)), 0))

    @classmethod
    def of(cls, events: EventColumns, truncates: Any) -> _Steps:
        """Put the first truncate after each event before the next event of the key: others find nothing."""
        keys, orders, count = events.keys, events.orders, len(events.keys)
        sets = SetFields(events.unset, events.deletes)
        kinds = np.where(events.deletes, _DELETE, np.where(sets.patches, _PATCH, _UPSERT))
        numbers = np.arange(count)
        if truncates is None or not len(truncates) or not count:
            return cls(keys, orders, kinds, numbers, sets)
        whole = pa.concat_arrays([orders, truncates.cast(orders.type)])
        rank = ranks(whole)
        cuts = np.unique(rank[count:])
        own, cut = numbers, np.searchsorted(cuts, rank[:count], "right")
        is_followed = np.append(keys[1:] == keys[:-1], False)
        until = np.where(is_followed, np.append(rank[1:count], 0), np.iinfo(np.int64).max)
        is_cut = (cut < len(cuts)) & (cuts[np.minimum(cut, len(cuts) - 1)] <= until)
        chosen = np.flatnonzero(is_cut if events.solid is None else is_cut & ~events.solid)
        own, cut = own[chosen], cut[chosen]
        places = {int(value): count + number for number, value in enumerate(rank[count:].tolist())}
        at = np.array([places[value] for value in cuts.tolist()], np.int64)
        every = np.concatenate((numbers, at[cut]))  # in the orders
        owner = np.concatenate((keys, keys[own]))
        is_event = np.append(np.ones(count, np.bool_), np.zeros(len(own), np.bool_))
        order = np.lexsort((np.arange(len(every)), is_event, rank[every], owner))
        kind = np.concatenate((kinds, np.full(len(own), _TRUNCATE)))[order]
        event = np.where(is_event, every, -1)[order]
        return cls(owner[order], whole.take(pa.array(every[order])), kind, event, sets)

    def _since(self, chosen: Flags) -> Ints:
        """Return the number of the last chosen step up to each one, of the same key; negative without one."""
        found: Ints = np.maximum.accumulate(np.where(chosen, np.arange(len(chosen)), -1))
        since: Ints = np.where(found < self._begins, -1, found)
        return since

    def resets(self, chosen: Ints) -> Ints:
        """Return the last delete or truncate up to some steps; negative without one."""
        return self._since(self._resets)[chosen]

    def alive(self, *, waits: bool) -> Flags:
        """Return whether there is a record after each step."""
        if not waits or not (self.kinds == _PATCH).any():
            return ~self._resets
        alive: Flags = self._since(self.kinds == _UPSERT) > self._since(self._resets)
        return alive

    def sources(self, number: int) -> Ints:
        """Return the events that give a field its value after each step; negative where it has none."""
        found = self._since((self.events < 0) | self._sets.field(number)[self.events])
        sources: Ints = np.where((found >= 0) & ~self._resets[found], self.events[found], -1)
        return sources


def _taken(column: Any, sources: Ints) -> Any:
    """Return elements of a column, NULL for negative numbers."""
    if len(sources) and (sources < 0).any():
        return column.take(pa.array(np.maximum(sources, 0), mask=sources < 0))
    return column.take(pa.array(sources))
