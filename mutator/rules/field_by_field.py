"""Patches of many keys: their fields are decided one by one, in columns.

All order values are in one column, and whatever has an order value has its place there: a mutation, a record, a
tombstone, a field of a record, the floor. Places are compared by the ranks of their values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.rules.byte_columns import Flags, Ints, offsets_of, rows_between
from mutator.rules.field_orders import FIELD_ORDERS, column_of_orders, lists_of
from mutator.rules.merge_columns import EntryColumns
from mutator.rules.merge_functions import NotOfType
from mutator.rules.merged_fields import MergedColumns, MergedField, Merging, cannot_merge
from mutator.rules.order_columns import encoded_lowest, flags, ranks
from mutator.rules.patched_key import (
    BELOW_FLOOR,
    CLEARED,
    CLEARED_TOUCH,
    CLEARED_WHOLLY,
    DELETE_OF_UNKNOWN,
    DELETED,
    INSERTED,
    INSERTED_AFTER_PATCHES,
    LATE,
    LATE_CLEARED,
    LATE_CLEARED_WHOLLY,
    LATE_ON_TOMBSTONE,
    LATE_TOUCH,
    NO_OP,
    NO_OP_ON_TOMBSTONE,
    NO_OP_ON_WAITING,
    REJECTED,
    REJECTED_ON_TOMBSTONE,
    TRUNCATED,
    UPDATED,
    WAITING,
    WAITS,
)
from mutator.rules.register import NOTHING, RECORD, TOMBSTONE, Events, Met, Olds, RowFields
from mutator.rules.truth_table import Decision
from mutator.rules.typed_values import unequal

NEVER = -1  # the place of the order value of what never was


class SetFields:
    """Which fields some mutations set, or clear."""

    def __init__(self, masks: Any, deletes: Flags) -> None:
        """Take the masks, a pa.Array of binary, or of NULLs if all mutations set all fields."""
        self._count, self.patches = len(masks), flags(masks.is_valid()) & ~deletes
        self._rows = np.flatnonzero(self.patches)
        if len(self._rows):
            data = offsets_of(masks.take(pa.array(self._rows)).cast(pa.large_binary()))[1]
            self._bits = np.unpackbits(data.reshape(len(self._rows), -1), axis=1, bitorder="little")

    def field(self, number: int) -> Flags:
        """Return which mutations set a field."""
        found = np.ones(self._count, np.bool_)
        if len(self._rows):
            found[self._rows] = self._bits[:, number] == 0
        return found


def last_of(chosen: Flags, begins: Ints) -> Ints:
    """Return the number of the last chosen row of each key, NEVER without one. begins: the first row of each key."""
    if not len(chosen):
        return np.full(len(begins), NEVER)
    found: Ints = np.maximum.reduceat(np.where(chosen, np.arange(len(chosen)), NEVER), begins)
    return found


def own_orders(olds: Olds) -> Any:
    """Return the order values that fields of records have of their own."""
    return olds.sides.field(olds.sides.type.get_field_index(FIELD_ORDERS))


class FieldByField:
    """Some keys: their mutations, what the place has of them, and what becomes of them."""

    def __init__(
        self,
        fields: RowFields,
        order_type: str,
        unknown: str,
        merging: Merging | None,
        events: Events | None,
        olds: Olds,
        floor: Any,
    ) -> None:
        """Place all order values.

        unknown: what a patch of an unknown record does. merging: None: no field has a merge function. events: None: the
        keys have no mutations, and records below the floor lose fields. floor: as in ``Register.meet``.
        """
        self._fields, self._type, self._olds, self._kind = fields, order_type, olds, olds.kind
        self._merging, self._clears, self._events = merging, olds.floor if floor is None else floor, events
        self._merged: MergedColumns | None = None
        self._over: list[tuple[MergedField, Flags]] = []  # fields, and the keys whose sum is too large
        self._waits, self._rejects = unknown == "wait", unknown == "reject"
        count = len(olds.older)
        self._mutations = 0
        orders, self._begins, self._last = [], np.zeros(count, np.int64), np.full(count, NEVER)
        if events is not None:
            lengths = events.last - events.first + 1
            self._begins = np.cumsum(lengths) - lengths
            self._last = self._begins + lengths - 1
            every = rows_between(events.first, events.last)
            self._mutations = len(every)
            self._deletes, self._rows = events.bag.rows("deletes", every), events.bag.rows("written", every)
            self._set = SetFields(events.bag.rows("unset", every), self._deletes)
            orders.append(events.bag.rows("orders", every))
        self._old, self._floor = np.full(count, NEVER), NEVER
        if self._kind != NOTHING:
            self._old = len(orders[0]) + np.arange(count) if orders else np.arange(count)
            orders.append(olds.orders)
        if floor is not None:
            self._floor = sum(map(len, orders))
            orders.append(pa.array([floor.as_py()], orders[0].type))
        self._at = [self._old.copy() for _ in fields.names]  # of each field
        self._upsert = self._old.copy() if self._kind == RECORD else np.full(count, NEVER)  # of the last upsert
        self._was_waiting = np.zeros(count, np.bool_)
        if olds.sides is not None:
            self._was_waiting = (self._kind == TOMBSTONE) & flags(own_orders(olds).is_valid())
            self._place_fields(own_orders(olds), orders)
        self._orders = pa.concat_arrays([one.cast(orders[0].type) for one in orders])
        self._rank = np.append(ranks(self._orders), np.iinfo(np.int64).min)  # the last is that of NEVER
        self._is_there = np.full(count, self._kind == RECORD)
        self._tied = np.zeros(count, np.bool_)
        # Of fields with merge functions, before the floor.
        self._before = [] if merging is None else [self._at[one.number].copy() for one in merging.fields]
        if self._mutations:
            level = self._rank[self._last] == self._rank[self._old]
            self._tied = self._deletes[self._last] & self._is_there & level
        if floor is not None:
            low = self._rank[self._floor]
            for places in (self._old, *self._at):
                places[self._rank[places] < low] = self._floor
            self._upsert[self._rank[self._upsert] < low] = NEVER
            if self._waits:
                self._is_there &= self._upsert != NEVER
            else:
                self._is_there &= self._old != self._floor

    def _place_fields(self, kept: Any, orders: list[Any]) -> None:
        """Give fields, and the last upsert, the places of their own order values, which are added."""
        entries = kept.flatten()
        keys, base = pc.list_parent_indices(kept).to_numpy(), sum(map(len, orders))
        known = flags(entries.field(1).is_valid())
        orders.append(entries.field(1).drop_null())
        places = np.where(known, base + np.cumsum(known) - 1, NEVER)
        names = entries.field(0).fill_null("")
        for name, own in zip(("", *self._fields.names), (self._upsert, *self._at), strict=True):
            rows = np.flatnonzero(flags(pc.equal(names, name)))
            own[keys[rows]] = places[rows]

    def decided(self) -> Iterator[Met]:
        """Decide about all keys."""
        rank, count = self._rank, len(self._old)
        columns, differ = self._new_fields()
        older = (rank[self._last] < rank[self._old]) if self._mutations else np.zeros(count, np.bool_)
        deletes = self._deletes[self._last] if self._mutations else older
        there, old = self._is_there, self._old
        grave = np.full(count, self._floor) if self._kind == RECORD else old  # of the last delete before
        buried, pending = self._last, np.zeros(count, np.bool_)
        lives = np.where(there, ~deletes | older, ~deletes & ~older)
        if self._waits or (self._rejects and self._kind != RECORD):
            base = self._base()
            is_delete = (base != NEVER) & self._deletes[base] if self._mutations else pending
            is_upsert = (base != NEVER) & ~is_delete
            lives = is_upsert & (rank[base] >= rank[grave])
        if self._waits:
            buried = np.where(is_delete & (rank[base] >= rank[grave]), base, grave)
            self._upsert = np.where(is_upsert & (rank[base] >= rank[self._upsert]), base, self._upsert)
            lives[there] = (~is_delete | (rank[self._upsert] > rank[base]))[there]
            for own in self._at:
                pending = pending | self._is_pending(own, buried)
            pending &= ~lives
        merged = self._merged
        if merged is not None:
            self._check_sums(lives | pending)
        order = self._at[0].copy()  # of the records that live: the highest of their fields
        for own in self._at[1:]:
            higher = rank[own] > rank[order]
            order[higher] = own[higher]
        sides = self._sides(order, lives, buried, pending)
        for decision, keys in self._cases(differ, older, deletes, lives, pending, sides):
            index, result = pa.array(keys), decision.result
            late, clash = (None, None) if merged is None else (merged.late[keys], merged.tied[keys])
            if result in ("keep", "keep tombstone", "drop"):
                yield Met(decision, keys, tied=self._tied[keys], late=late, clash=clash)
                continue
            rows = None
            # A table writes a touched row again if its side columns change.
            if result in ("write", "touch") or (pending[keys].any() and result in ("bury", "wait")):
                rows = self._fields.rows([column.take(index) for column in columns])
            if result in ("bury", "wait", "touch tombstone"):
                rows = None if rows is None else pc.if_else(pa.array(pending[keys]), rows, pa.scalar(None, rows.type))
                places = buried[keys]
            else:
                places = order[keys]
            tied = self._tied[keys]
            yield Met(decision, keys, rows, self._orders_at(places), sides.take(index), tied, late, clash)

    def _base(self) -> Ints:
        """Return the last upsert or delete of each key."""
        return last_of(~self._set.patches, self._begins) if self._mutations else self._last

    def _is_pending(self, own: Ints, buried: Ints) -> Flags:
        """Return of which keys a patch has set a field since the last delete. own: places of its order values."""
        is_set: Flags = (own != NEVER) & (own != buried) & (own != self._floor)
        return is_set & (self._rank[own] >= self._rank[buried])

    def _orders_at(self, places: Ints) -> Any:
        found = self._orders.take(pa.array(places, mask=places == NEVER))
        return found.fill_null(encoded_lowest(self._type)) if found.null_count else found

    def _new_fields(self) -> tuple[list[Any], Flags]:
        """Return the fields that records get, and which records have others; give fields the places of their orders."""
        count = len(self._old)
        news = self._columns(self._rows, ~self._deletes) if self._mutations else None
        rows = self._olds.rows
        olds = None if rows is None else self._columns(rows, flags(rows.is_valid()))
        columns, differ = [], np.zeros(count, np.bool_)
        has_row = self._was_waiting | (self._kind == RECORD)
        merged = self._merge(news, olds, has_row)
        for number, at in enumerate(self._at):
            null = self._fields.null(number)
            parts, source, wins = [null], np.zeros(count, np.int64), np.zeros(count, np.bool_)
            if news is not None:
                top = last_of(self._set.field(number), self._begins)
                wins = (top != NEVER) & (self._rank[top] >= self._rank[at])
                source[wins] = np.where(self._deletes[top[wins]], 0, 1 + top[wins])
                parts.append(news[number])
            if olds is not None:
                stays = np.flatnonzero(~wins & has_row & ((at != self._floor) | (at == NEVER)))
                source[stays] = sum(map(len, parts)) + stays
                parts.append(olds[number])
            taken = merged[number] if number in merged else pa.concat_arrays(parts).take(pa.array(source))
            columns.append(taken)
            if olds is not None and self._kind == RECORD:
                other = unequal(columns[-1], olds[number])
                differ |= other
                if news is not None and number not in merged:
                    self._tied |= wins & other & self._is_there & (self._rank[top] == self._rank[at])
            if news is not None:
                at[wins] = top[wins]
        return columns, differ

    def _merge(self, news: Any, olds: Any, has_row: Flags) -> dict[int, Any]:
        """Return the fields with merge functions that records get. news, olds: those of mutations, and of the place."""
        merging, count = self._merging, len(has_row)
        if merging is None:
            return {}
        fields, known = self._fields, []
        for one, before in zip(merging.fields, self._before, strict=True):
            try:
                values = pa.nulls(count, one.type) if olds is None else fields.values(one.number, olds[one.number])
            except NotOfType as text:
                raise cannot_merge(one, self._id_of(text.row), text) from None
            hidden = ~has_row | (before == NEVER)
            known.append((self._orders.take(pa.array(np.where(hidden, 0, before), mask=hidden)), values))
        self._merged = found = MergedColumns(merging, self._olds, known)
        sent, deletes = None, pa.nulls(count, self._orders.type)
        if news is not None:
            last = last_of(self._deletes, self._begins)
            deletes = self._orders.take(pa.array(np.maximum(last, 0), mask=last == NEVER))
            lengths = self._last - self._begins + 1
            keys, above = np.repeat(np.arange(count), lengths), np.arange(self._mutations) > np.repeat(last, lengths)
            sent = []
            for one in merging.fields:
                rows = np.flatnonzero(above & ~self._deletes & self._set.field(one.number))
                index = pa.array(rows)
                contributed = fields.values(one.number, news[one.number].take(index))
                sent.append(EntryColumns(keys[rows], self._orders.take(index), contributed))
        found.meet(sent, deletes, self._clears)
        shown = {}
        for one, column, over in found.shown(count):
            shown[one.number] = fields.from_values(one.number, column)
            self._over.append((one, over))
        return shown

    def _check_sums(self, kept: Flags) -> None:
        for one, over in self._over:
            keys = np.flatnonzero(over & kept)
            if len(keys):
                raise cannot_merge(one, self._id_of(keys[0]))

    def _id_of(self, key: int) -> tuple[bytes, ...] | None:
        """Return the ID of a key, by its number; None if it has no mutation."""
        if self._events is None:
            return None
        return tuple(column[0].as_py() for column in self._events.bag.keys(self._events.last[[key]]))

    def _columns(self, rows: Any, chosen: Flags) -> list[Any]:
        """Return the fields of rows, NULL where a row is not chosen: there is none, or a delete may lack fields."""
        if chosen.all():
            return self._fields.columns(rows)
        index = pa.array(np.cumsum(chosen) - 1, mask=~chosen)
        found = self._fields.columns(rows.filter(pa.array(chosen)))
        return [column.take(index) for column in found]

    def _cases(
        self, differ: Flags, older: Flags, deletes: Flags, lives: Flags, pending: Flags, sides: Any
    ) -> Iterator[tuple[Decision, Ints]]:
        """Yield decisions, and the keys that they are about. older, deletes: the last mutation is."""
        there, kind = self._is_there, self._kind
        if kind == NOTHING:
            patch = ~lives & ~older & ~deletes
            unknown = REJECTED if self._rejects else WAITS
            cases = [(INSERTED, lives), (BELOW_FLOOR, older), (DELETE_OF_UNKNOWN, ~lives & ~older & deletes)]
            cases.append((unknown, patch))
        elif kind == TOMBSTONE:
            again = ~lives & ~older & deletes
            lowest = flags(pc.equal(self._orders_at(self._old), encoded_lowest(self._type)))
            first = self._was_waiting & (lowest | (self._rank[self._old] == self._rank[self._floor]))
            cases = [
                (INSERTED, lives & ~first),
                (INSERTED_AFTER_PATCHES, lives & first),
                (LATE_ON_TOMBSTONE, ~lives & older),
                (NO_OP_ON_TOMBSTONE, again & ~self._was_waiting),
                (NO_OP_ON_WAITING, again & self._was_waiting),
                (REJECTED_ON_TOMBSTONE if self._rejects else WAITING, ~lives & ~older & ~deletes),
            ]
        elif not self._mutations:
            changed = self._change(np.flatnonzero(there & ~differ), sides)
            cases = [(CLEARED, there & differ), (CLEARED_TOUCH, changed), (CLEARED_WHOLLY, ~there)]
        else:
            same, below = lives & ~differ, np.zeros(len(older), np.bool_)
            if self._floor != NEVER:
                below = self._rank[self._last] < self._rank[self._floor]
            changed = self._change(np.flatnonzero(same & older), sides)
            cases = [
                (UPDATED, lives & differ & ~(there & below)),
                (LATE_CLEARED, lives & there & differ & below),
                (DELETED, ~lives & ~(below & ~there)),
                (NO_OP, same & ~older),
                (LATE, same & older & ~changed),
                (LATE_TOUCH, changed),
                (TRUNCATED, ~lives & ~there & below & ~pending),
                (LATE_CLEARED_WHOLLY, ~lives & ~there & below & pending),
            ]
        for decision, chosen in cases:
            if chosen.any():
                yield decision, np.flatnonzero(chosen)

    def _change(self, keys: Ints, sides: Any) -> Flags:
        """Return which of some records get other side columns."""
        found, index = np.zeros(len(self._old), np.bool_), pa.array(keys)
        own = [self._olds.sides.field(self._olds.sides.type.get_field_index(one.name)) for one in sides.type]
        for column, old in zip(sides.flatten(), own, strict=True):
            found[keys] |= unequal(column.take(index), old.take(index))
        return found

    def _sides(self, order: Ints, lives: Flags, buried: Ints, pending: Flags) -> Any:
        """Return the side columns, a pa.StructArray.

        order: places of the order values of records that live. buried: of the tombstones of others. pending: which of
        these have fields of patches.
        """
        rank, found = self._rank, []
        for number, own in enumerate(self._at):
            keys = np.flatnonzero((lives & (rank[own] != rank[order])) | (pending & self._is_pending(own, buried)))
            found.append(np.stack([keys, np.full(len(keys), number), own[keys]]))
        if self._waits:
            keys = np.flatnonzero(lives & (rank[self._upsert] != rank[order]))
            found.append(np.stack([keys, np.full(len(keys), len(self._at)), self._upsert[keys]]))
        keys, numbers, places = np.concatenate(found, axis=1)
        sort = np.argsort(keys, kind="stable")
        counts = np.bincount(keys, minlength=len(order))
        column = column_of_orders(self._type)
        form = column.type
        names = pa.array([*self._fields.names, None], pa.string()).take(pa.array(numbers[sort]))
        own = self._orders.take(pa.array(places[sort], mask=places[sort] == NEVER)).cast(form.value_type[1].type)
        entries = pa.StructArray.from_arrays([names, own], fields=[*form.value_type])
        columns, fields = [lists_of(entries, counts).cast(form)], [column]
        if self._merging is not None and self._merged is not None:
            at = [self._at[one.number] for one in self._merging.fields]
            orders = [self._orders.take(pa.array(np.maximum(own, 0), mask=own == NEVER)) for own in at]
            columns += self._merged.sides(orders, lives, lives | pending)
            fields += self._merging.side_columns
        return pa.StructArray.from_arrays(columns, fields=fields)
