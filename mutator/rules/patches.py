"""Patches: mutations that set some fields of a record and say nothing of the others.

Each field is a register of its own: it has the value of the last mutation that sets it, and that mutation's order
value. An upsert sets all fields, a delete clears them (to NULL), a patch sets those that it has. A mask says which
fields a mutation leaves unset: a bit for each field, by its position, the lowest bit of the first byte first.

    field    of the mutation with the highest precedence that sets it; of the record, if its order value is higher
    order    of the record: that of its highest upsert or patch
    lives    a record whose order is above that of the last delete

Beside each row is the order value of every field that differs from the record's, NULL where no mutation has set it. So
a late patch sets the fields that no newer mutation has set, a late delete clears the fields that are older, and any cut
of a feed into runs leaves the same records and tombstones. A patch of an unknown record inserts it.

A fold leaves the mutations that set a field which no later one sets. All of them but the last are *combined*.
``patched_key`` has the same rules in their textbook form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.rules.byte_columns import Flags, Ints, offsets_of
from mutator.rules.last_wins import LAST_WINS, REPLACED, SNAPSHOT, competing, folded
from mutator.rules.order_columns import column_type, flags, ranks
from mutator.rules.patched_key import (
    BELOW_FLOOR,
    DELETE_OF_UNKNOWN,
    DELETED,
    INSERTED,
    LATE,
    LATE_ON_TOMBSTONE,
    LATE_TOUCH,
    NO_OP,
    NO_OP_ON_TOMBSTONE,
    TRUNCATED,
    UPDATED,
    RowFields,
    fold_patches,
    met_by_field,
)
from mutator.rules.register import (
    NOTHING,
    RECORD,
    TOMBSTONE,
    Bag,
    Events,
    Folded,
    KeyMet,
    Met,
    Mutation,
    Old,
    Olds,
    Register,
)
from mutator.rules.truth_table import Decision
from mutator.rules.typed_values import unequal

FIELD_ORDERS = "field_orders"  # the side column
_NEVER = -1  # the place of the order value of a field that no mutation has set


def masks_of(unset: Sequence[Flags]) -> Any:
    """Return the masks of rows, a pa.Array of binary; NULL where a row sets all fields. unset: an array for each field.

    >>> masks_of([np.array([False, True]), np.array([False, False])]).to_pylist()
    [None, b'\\x01']
    """
    bits = np.packbits(np.stack(unset, axis=1), axis=1, bitorder="little")
    count, width = bits.shape
    values = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), count, [None, pa.py_buffer(bits.tobytes())])
    return pc.if_else(pa.array(bits.any(axis=1)), values.cast(pa.binary()), pa.scalar(None, pa.binary()))


class _Set:
    """Which fields some mutations set, or clear."""

    def __init__(self, masks: Any, deletes: Flags) -> None:
        """Take the masks, a pa.Array of binary, or of NULLs if all mutations set all fields."""
        self._count, self._rows = len(masks), np.flatnonzero(flags(masks.is_valid()) & ~deletes)
        if len(self._rows):
            data = offsets_of(masks.take(pa.array(self._rows)).cast(pa.large_binary()))[1]
            self._bits = np.unpackbits(data.reshape(len(self._rows), -1), axis=1, bitorder="little")

    def field(self, number: int) -> Flags:
        """Return which mutations set a field."""
        found = np.ones(self._count, np.bool_)
        if len(self._rows):
            found[self._rows] = self._bits[:, number] == 0
        return found


@dataclass(frozen=True, eq=False)
class Patches(Register):
    """The register of places whose records get patches."""

    fields: RowFields
    order_type: str
    full: bool = False

    leaves_one = False
    reads_rows = True

    @property
    def side_columns(self) -> tuple[Any, ...]:  # type: ignore[override]
        """The order values of fields that differ from the record's."""
        one = pa.struct([pa.field("field", pa.string()), pa.field("order", column_type(self.order_type))])
        return (pa.field(FIELD_ORDERS, pa.list_(one)),)

    @property
    def replacing(self) -> Register:
        """The register of replaced partitions, whose rows set all fields."""
        return REPLACED

    @property
    def whole(self) -> Register:
        """The register of mutations that set all fields of records whose fields share one order value."""
        return SNAPSHOT if self.full else LAST_WINS

    @property
    def buries_absent(self) -> bool:
        """Whether a record that has no mutation is deleted by absence."""
        return self.whole.buries_absent

    def fold(self, bag: Bag) -> tuple[Ints, dict[str, Any]]:
        """Return the mutations that set a field which no later one of their key sets."""
        return folded(bag, self._left)

    def _left(self, bag: Bag, rows: Ints) -> tuple[Ints, dict[str, Any]]:
        """Return the mutations that are left of some keys, and their columns counts, mixed and upserts."""
        rows, begins, last, top = found = competing(bag, rows)
        key, deletes = found.key, bag.rows("deletes", rows)
        sets = _Set(bag.rows("unset", rows), deletes)
        rivals = top & (np.bincount(key[top], minlength=len(begins)) > 1)[key]
        mixed = (bag.rows("mixed", rows) & top) | (rivals & (deletes != deletes[last[key]]))
        columns = self.fields.columns(bag.rows("written", rows[rivals])) if rivals.any() else []
        of_rivals = np.cumsum(rivals) - 1
        keep = np.zeros(len(rows), np.bool_)
        keep[last] = True
        for number in range(len(self.fields.names)):
            own = sets.field(number)
            tops = last
            if not own.all():
                tops = np.maximum.reduceat(np.where(own, np.arange(len(rows)), _NEVER), begins)
                keep[tops[tops >= 0]] = True
            compared = np.flatnonzero(rivals & own & ~deletes)
            others = tops[key[compared]]
            compared, others = compared[~deletes[others]], others[~deletes[others]]
            if len(compared):
                one, other = (columns[number].take(pa.array(of_rivals[some])) for some in (compared, others))
                mixed[compared] |= unequal(one, other)
        counts = bag.rows("counts", rows).copy()
        counts[last] += np.add.reduceat(np.where(keep, 0, counts), begins)
        upserts = bag.rows("upserts", rows).copy()
        for column in (mixed, upserts):
            column[last] = np.logical_or.reduceat(column, begins)
        return rows[keep], {"counts": counts[keep], "mixed": mixed[keep], "upserts": upserts[keep]}

    def meet(self, events: Events, olds: Olds, floor: Any = None) -> Iterator[Met]:
        """Decide field by field about keys with a patch, or with a field that has an order value of its own."""
        by_field = (events.first != events.last) | flags(events.bag.rows("unset", events.last).is_valid())
        if olds.kind == RECORD:
            by_field |= flags(_own_orders(olds).is_valid())
        usual, rest = np.flatnonzero(~by_field), np.flatnonzero(by_field)
        for met in self.whole.meet(events.chosen(usual), olds.chosen(usual), floor):
            yield met._replace(keys=usual[met.keys])
        if len(rest):
            meeting = _FieldByField(self, events.chosen(rest), olds.chosen(rest), floor)
            for met in meeting.decided():
                yield met._replace(keys=rest[met.keys])

    def fold_key(self, mutations: Iterable[tuple[tuple[Any, ...], tuple[Any, ...]]]) -> Folded:
        """Leave the mutations of one key that set a field which no later one sets."""
        return fold_patches(self.fields, [Mutation(place, *value) for place, value in mutations])

    def meet_key(self, folded: Folded | None, old: Old, floor: Any = None) -> KeyMet:
        """Decide about one key."""
        if folded is None or self._is_whole(folded, old):
            return self.whole.meet_key(folded, old, floor)
        return met_by_field(self.fields, self.order_type, folded, old, floor)

    def line(self, folded: Folded | None, old: Old, floor: Any = None) -> str:
        """Return the rule that decided about one key."""
        is_whole = folded is None or self._is_whole(folded, old)
        return self.whole.line(folded, old, floor) if is_whole else "field by field"

    def _is_whole(self, folded: Folded, old: Old) -> bool:
        return len(folded.left) < 2 and folded.last.unset is None and not any(old.sides)

    def decisions(self, kind: str) -> Iterator[Decision]:
        """Yield the decisions about an upsert, or about a delete."""
        yield from self.whole.decisions(kind)
        yield from (UPDATED, LATE_TOUCH) if kind == "delete" else (LATE_TOUCH, LATE_ON_TOMBSTONE)


def _own_orders(olds: Olds) -> Any:
    """Return the order values that fields of records have of their own."""
    return olds.sides.field(olds.sides.type.get_field_index(FIELD_ORDERS))


class _FieldByField:
    """The mutations and the records of some keys, whose fields are decided one by one.

    All order values are in one column. What has one has its place there.
    """

    def __init__(self, register: Patches, events: Events, olds: Olds, floor: Any) -> None:
        self._register, self._fields, self._olds = register, register.fields, olds
        lengths = events.last - events.first + 1
        self._begins = np.cumsum(lengths) - lengths
        self._last = self._begins + lengths - 1
        every = np.repeat(events.first - self._begins, lengths) + np.arange(int(lengths.sum()))
        self._deletes, self._rows = events.bag.rows("deletes", every), events.bag.rows("written", every)
        self._set = _Set(events.bag.rows("unset", every), self._deletes)
        orders = [events.bag.rows("orders", every)]
        count = len(lengths)
        self._old, self._floor = np.full(count, _NEVER), _NEVER
        if olds.kind != NOTHING:
            self._old = len(every) + np.arange(count)
            orders.append(olds.orders)
        if floor is not None:
            self._floor = sum(map(len, orders))
            orders.append(pa.array([floor.as_py()], orders[0].type))
        self._at = [self._old.copy() for _ in self._fields.names]  # of each field
        if olds.kind == RECORD:
            self._place_fields(_own_orders(olds), orders)
        self._orders = pa.concat_arrays([one.cast(orders[0].type) for one in orders])
        self._rank = np.append(ranks(self._orders), np.iinfo(np.int64).min)  # the last is that of _NEVER
        self._is_there = np.full(count, olds.kind == RECORD)
        deletes = self._deletes[self._last] & self._is_there
        self._tied = deletes & (self._rank[self._last] == self._rank[self._old])
        if floor is not None:
            self._is_there &= self._rank[self._old] >= self._rank[self._floor]
            for places in (self._old, *self._at):
                places[self._rank[places] < self._rank[self._floor]] = self._floor

    def _place_fields(self, kept: Any, orders: list[Any]) -> None:
        """Give fields the places of their own order values, which are added."""
        entries = kept.flatten()
        keys, base = pc.list_parent_indices(kept).to_numpy(), sum(map(len, orders))
        known = flags(entries.field(1).is_valid())
        orders.append(entries.field(1).drop_null())
        places = np.where(known, base + np.cumsum(known) - 1, _NEVER)
        for name, own in zip(self._fields.names, self._at, strict=True):
            rows = np.flatnonzero(flags(pc.equal(entries.field(0), name)))
            own[keys[rows]] = places[rows]

    def decided(self) -> Iterator[Met]:
        """Decide about all keys."""
        columns, differ = self._new_fields()
        older = self._rank[self._last] < self._rank[self._old]
        deletes, there = self._deletes[self._last], self._is_there
        lives = np.where(there, ~deletes | older, ~deletes & ~older)
        order = np.where(there & older, self._old, self._last)  # of the records that live
        sides = self._sides(order, lives)
        for decision, keys in self._cases(differ, older, lives, sides):
            index = pa.array(keys)
            rows = self._fields.rows([column.take(index) for column in columns]) if decision.result == "write" else None
            if decision.result in ("write", "touch"):
                orders, own = self._orders.take(pa.array(order[keys])), sides.take(index)
                yield Met(decision, keys, rows, orders, own, self._tied[keys])
            else:
                yield Met(decision, keys, tied=self._tied[keys])

    def _new_fields(self) -> tuple[list[Any], Flags]:
        """Return the fields that records get, and which records have others; give fields the places of their orders."""
        news, count = self._fields.columns(self._rows), len(self._last)
        olds = self._fields.columns(self._olds.rows) if self._olds.kind == RECORD else []
        columns, differ = [], np.zeros(count, np.bool_)
        for number, (new, at) in enumerate(zip(news, self._at, strict=True)):
            top = np.where(self._set.field(number), np.arange(len(new)), _NEVER)
            top = np.maximum.reduceat(top, self._begins)
            wins = (top >= 0) & (self._rank[top] >= self._rank[at])
            source = np.full(count, len(new))  # NULL
            source[wins] = np.where(self._deletes[top[wins]], len(new), top[wins])
            parts = [new, self._fields.null(number)]
            if olds:
                stays = np.flatnonzero(~wins & self._is_there & ((at != self._floor) | (at == _NEVER)))
                source[stays] = len(new) + 1 + stays
                parts.append(olds[number])
            columns.append(pa.concat_arrays(parts).take(pa.array(source)))
            if olds:
                other = unequal(columns[-1], olds[number])
                differ |= other
                self._tied |= wins & other & self._is_there & (self._rank[top] == self._rank[at])
            at[wins] = top[wins]
        return columns, differ

    def _cases(self, differ: Flags, older: Flags, lives: Flags, sides: Any) -> Iterator[tuple[Decision, Ints]]:
        """Yield decisions, and the keys that they are about. older: the last mutation is."""
        there, kind = self._is_there, self._olds.kind
        if kind == TOMBSTONE:
            cases = [(INSERTED, lives), (LATE_ON_TOMBSTONE, older), (NO_OP_ON_TOMBSTONE, ~lives & ~older)]
        elif kind == NOTHING:
            cases = [(INSERTED, lives), (BELOW_FLOOR, older), (DELETE_OF_UNKNOWN, ~lives & ~older)]
        else:
            late, changed = there & lives & ~differ & older, np.zeros(len(older), np.bool_)
            rows = np.flatnonzero(late)
            index = pa.array(rows)
            changed[rows] = unequal(sides.field(0).take(index), _own_orders(self._olds).take(index))
            cases = [
                (UPDATED, lives & (differ | ~there)),
                (DELETED, ~lives & ~(older & ~there)),
                (NO_OP, there & lives & ~differ & ~older),
                (LATE, late & ~changed),
                (LATE_TOUCH, late & changed),
                (TRUNCATED, ~there & older),
            ]
        for decision, chosen in cases:
            if chosen.any():
                yield decision, np.flatnonzero(chosen)

    def _sides(self, order: Ints, lives: Flags) -> Any:
        """Return the side column, a pa.StructArray. order: places of the order values of records."""
        rank, found = self._rank, []
        for number, own in enumerate(self._at):
            keys = np.flatnonzero(lives & (rank[own] != rank[order]))
            found.append(np.stack([keys, np.full(len(keys), number), own[keys]]))
        keys, numbers, places = np.concatenate(found, axis=1)
        sort = np.argsort(keys, kind="stable")
        counts = np.bincount(keys, minlength=len(order))
        (column,) = self._register.side_columns
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        names = pa.array(self._fields.names, pa.string()).take(pa.array(numbers[sort]))
        own = self._orders.take(pa.array(places[sort], mask=places[sort] == _NEVER)).cast(
            column.type.value_type[1].type
        )
        entries = pa.StructArray.from_arrays([names, own], fields=[*column.type.value_type])
        lists = pa.ListArray.from_arrays(pa.array(offsets, mask=np.append(counts == 0, False)), entries)
        return pa.StructArray.from_arrays([lists.cast(column.type)], fields=[column])
