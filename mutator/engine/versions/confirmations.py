"""Confirmations: events that change nothing, kept as a list of order values beside the row that they confirm.

A snapshot confirms nearly all records, with one order value. So the lists of most rows are the same, and each list is
kept once: the side column is a dictionary. The order values are needed, because a late event may fall between two of
them. Where none does, a row and the last value of its list stand for all: nothing ends the record in between.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.history import EventColumns, Versions
from mutator.rules.order_columns import column_type, converted_orders, flags, ranks
from mutator.rules.typed_values import unequal

FIELD = pa.field("confirmed", pa.dictionary(pa.int32(), pa.binary()))  # the side column
_LONG, _BYTES = b"l", b"b"  # before the packed values: 64-bit numbers, or texts with their lengths
_LENGTH = np.dtype("<u4")


class OrderLists:
    """Lists of order values, each kept once, by their numbers. That of number 0 is empty."""

    def __init__(self, order_type: str) -> None:
        """Have no other list yet."""
        self._type = order_type
        self._lists: list[tuple[Any, ...]] = [()]
        self._numbers: dict[tuple[Any, ...], int] = {(): 0}

    def _number(self, values: tuple[Any, ...]) -> int:
        number = self._numbers.setdefault(values, len(self._lists))
        if number == len(self._lists):
            self._lists.append(values)
        return number

    def read(self, column: Any) -> Ints:
        """Return the number of the list of each row. column: as ``column`` returns it."""
        found = np.zeros(len(column), np.int64)
        if column.null_count == len(column):
            return found
        numbers = np.array([self._number(self._unpacked(one)) for one in column.dictionary.to_pylist()], np.int64)
        valid = flags(column.is_valid())
        found[valid] = numbers[column.indices.drop_null().to_numpy()]
        return found

    def column(self, numbers: Ints) -> Any:
        """Return the side column of rows, given the numbers of their lists."""
        used, codes = np.unique(numbers, return_inverse=True)
        packed = pa.array([self._packed(self._lists[one]) for one in used.tolist()], pa.binary())
        indices = pa.array(codes.astype(np.int32), mask=numbers == 0)
        return pa.DictionaryArray.from_arrays(indices, packed)

    def values(self, numbers: Ints) -> tuple[Any, Ints]:
        """Return (the order values of lists one after the other, a pa.Array, the length of each list)."""
        found = [self._lists[one] for one in numbers.tolist()]
        whole = [value for one in found for value in one]
        return pa.array(whole, column_type(self._type)), np.array([*map(len, found)], np.int64)

    def extended(self, numbers: Ints, orders: Any) -> Ints:
        """Return the numbers of lists with another value at the end of each."""
        coded = orders.dictionary_encode()
        values, codes = coded.dictionary.to_pylist(), coded.indices.to_numpy()
        pairs, inverse = np.unique(np.stack((numbers, codes)), axis=1, return_inverse=True)
        made = [self._number((*self._lists[one], values[code])) for one, code in pairs.T.tolist()]
        return np.array(made, np.int64)[inverse.ravel()]

    def joined(self, numbers: Ints, others: Ints) -> Ints:
        """Return the numbers of lists with the values of other ones at their ends."""
        pairs, inverse = np.unique(np.stack((numbers, others)), axis=1, return_inverse=True)
        made = [self._number((*self._lists[one], *self._lists[other])) for one, other in pairs.T.tolist()]
        return np.array(made, np.int64)[inverse.ravel()]

    def _packed(self, values: tuple[Any, ...]) -> bytes:
        if column_type(self._type) == pa.int64():
            return _LONG + np.array(values, "<i8").tobytes()
        return _BYTES + b"".join(len(one).to_bytes(4, "little") + one for one in values)

    def _unpacked(self, packed: bytes) -> tuple[Any, ...]:
        if packed[:1] == _LONG:
            numbers = pa.array(np.frombuffer(packed[1:], "<i8"))
            return tuple(
                converted_orders("long", numbers, self._type).to_pylist() if self._is_wider else numbers.to_pylist()
            )
        found, at = list[bytes](), 1
        while at < len(packed):
            end = at + 4 + int.from_bytes(packed[at : at + 4], "little")
            found.append(packed[at + 4 : end])
            at = end
        return tuple(found)

    @property
    def _is_wider(self) -> bool:
        """Whether order values are no longer 64-bit numbers."""
        return bool(column_type(self._type) != pa.int64())


class Expanded(NamedTuple):
    """Events, with those that lists stand for."""

    of_row: Ints  # the number of each event's row
    orders: Any
    solid: Flags  # nothing ends the record between the event and the next one of its key
    lists: Ints  # of an event that stands for a list, the number of it; else 0


def expanded(
    lists: OrderLists, numbers: Ints, hashes: Ints, orders: Any, is_later: Flags, truncates: Any, *, whole: bool
) -> Expanded:
    """Return the events of rows with lists.

    numbers: of the list of each row. is_later: rows of events that the lists do not know. A list is taken apart where
    one of these, of the same key, has at most its last value, or where a truncate that is not in the list falls within
    it; whole: each list is.
    """
    count, rows = len(numbers), np.flatnonzero(numbers)
    if not len(rows):
        return Expanded(np.arange(count), orders, np.zeros(count, np.bool_), np.zeros(count, np.int64))
    used, own = np.unique(numbers[rows], return_inverse=True)
    values, lengths = lists.values(used)
    ends = np.cumsum(lengths)
    cuts = values[:0] if truncates is None else truncates.cast(values.type)
    rank = ranks(pa.concat_arrays([orders.cast(values.type), values, cuts]))
    of_rows, of_values, of_cuts = (
        rank[:count],
        rank[count : count + len(values)],
        np.unique(rank[count + len(values) :]),
    )
    last = of_values[ends - 1][own]
    apart = np.full(len(rows), whole)
    later, lowest = _lowest(hashes[is_later], of_rows[is_later])
    if len(later):
        at = np.minimum(np.searchsorted(later, hashes[rows]), len(later) - 1)
        apart |= (later[at] == hashes[rows]) & (lowest[at] <= last)
    between = np.searchsorted(of_cuts, last, "right") - np.searchsorted(of_cuts, of_rows[rows], "right")
    is_cut = np.add.reduceat(np.isin(of_values, of_cuts).astype(np.int64), ends - lengths)
    apart |= between != is_cut[own]
    more = np.where(apart, lengths[own], 1)
    counts = np.ones(count, np.int64)
    counts[rows] += more
    index = np.repeat(np.arange(count), counts)
    begins = np.cumsum(counts) - counts
    solid, marks = np.zeros(len(index), np.bool_), np.zeros(len(index), np.int64)
    joined = np.flatnonzero(~apart)
    solid[begins[rows[joined]]] = True
    marks[begins[rows[joined]] + 1] = numbers[rows[joined]]
    source = np.repeat(np.arange(count), counts)  # in orders, then in values
    first = np.where(apart, ends[own] - lengths[own], ends[own] - 1)
    places = np.repeat(begins[rows] + 1, more) + _counting(more)
    source[places] = count + np.repeat(first, more) + _counting(more)
    found = pa.concat_arrays([orders.cast(values.type), values]).take(pa.array(source))
    return Expanded(index, found, solid, marks)


def _lowest(hashes: Ints, numbers: Ints) -> tuple[Ints, Ints]:
    """Return hashes, ascending and each once, and the lowest number of each."""
    order = np.lexsort((numbers, hashes))
    hashes, numbers = hashes[order], numbers[order]
    begins = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1])) if len(hashes) else np.zeros(0, np.int64)
    return hashes[begins], numbers[begins]


def _counting(lengths: Ints) -> Ints:
    """Return 0, 1, … for each length, one after the other."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


class Compressed(NamedTuple):
    """Events without confirmations."""

    rows: Ints  # numbers of the events that stay
    lists: Ints  # of each of them, the number of its list
    last: Ints  # of each version, the number of its last event among those that stay


def compressed(lists: OrderLists, events: EventColumns, marks: Ints, found: Versions) -> Compressed:
    """Return events whose confirmations are lists. marks: as in ``Expanded``. found: the versions of the events."""
    confirms = _confirmations(events, found) | (marks > 0)
    rows = np.flatnonzero(~confirms)
    place = np.cumsum(~confirms) - 1  # of each event, the row that it is or confirms
    numbers = np.zeros(len(rows), np.int64)
    own = np.flatnonzero(confirms)
    turn = own - rows[place[own]]  # first, second, … confirmation of a row
    for step in np.unique(turn).tolist():
        some = own[turn == step]
        at, is_list = place[some], marks[some] > 0
        numbers[at[is_list]] = lists.joined(numbers[at[is_list]], marks[some[is_list]])
        others = some[~is_list]
        numbers[place[others]] = lists.extended(numbers[place[others]], events.orders.take(pa.array(others)))
    return Compressed(rows, numbers, place[found.last])


def _confirmations(events: EventColumns, found: Versions) -> Flags:
    """Return which events are upserts with all values of the upsert before them, in its version."""
    count = len(events.keys)
    if count < 2:
        return np.zeros(count, np.bool_)
    order, upserts = ranks(events.orders), ~events.deletes & flags(events.unset.is_null())
    is_next = events.keys[1:] == events.keys[:-1]
    is_tied = is_next & (order[1:] == order[:-1])
    alone = ~(np.append(False, is_tied) | np.append(is_tied, False))
    version = np.searchsorted(found.last, np.arange(count))
    usual = upserts & alone
    may = np.flatnonzero(is_next & usual[1:] & usual[:-1] & (version[1:] == version[:-1])) + 1
    for column in events.fields:
        if not len(may):
            break
        differs = unequal(*(column.take(pa.array(rows)) for rows in (may, may - 1)))
        may = may[~differs]
    confirms = np.zeros(count, np.bool_)
    confirms[may] = True
    return confirms
