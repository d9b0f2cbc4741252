"""Patches: mutations that set some fields of a record and say nothing of the others.

Each field is a register of its own: it has the value of the last mutation that sets it, and that mutation's order
value. An upsert sets all fields, a delete clears them (to NULL), a patch sets those that it has. A mask says which
fields a mutation leaves unset: a bit for each field, by its position, the lowest bit of the first byte first.

    field    of the mutation with the highest precedence that sets it; of the record, if its order value is higher
    order    of the record: that of its highest upsert or patch
    lives    a record whose order is above that of the last delete

Beside each row is the order value of every field that differs from the record's, NULL where no mutation has set it. So
a late patch sets the fields that no newer mutation has set, a late delete clears the fields that are older, and any cut
of a feed into runs leaves the same records and tombstones.

A patch of an unknown record inserts it, is a reject, or waits for an upsert, by ``unknown``. What waits is kept beside
a tombstone: the row, and the order values of the fields that patches have set since the last delete. The tombstone has
the order value of that delete, or the lowest one. A record that lives keeps the order value of its last upsert, too.

A fold leaves the mutations that set a field which no later one sets, and the last one that sets all fields. All of them
but the last are *combined*. ``patched_key`` has the same rules in their textbook form, ``field_by_field`` in columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.byte_columns import Flags, Ints, exchanged, rows_between
from mutator.rules.field_by_field import NEVER, FieldByField, SetFields, last_of, own_orders
from mutator.rules.field_orders import FIELD_ORDERS, column_of_orders, orders_of_fields
from mutator.rules.last_wins import LAST_WINS, REPLACED, SNAPSHOT, Competing, LastWins, competing, folded, folded_lows
from mutator.rules.merge_columns import EntryColumns, left_columns
from mutator.rules.merged_fields import CLEARED, Merging, counted, has_own
from mutator.rules.order_columns import flags, to_column
from mutator.rules.patched_key import (
    DELETED,
    LATE_ON_TOMBSTONE,
    LATE_TOUCH,
    UPDATED,
    WAITING,
    WAITS,
    KeyByField,
    fold_patches,
)
from mutator.rules.register import (
    RECORD,
    Bag,
    Events,
    Folded,
    KeyMet,
    Met,
    Mutation,
    Old,
    Olds,
    Register,
    RowFields,
    no_sides,
)
from mutator.rules.truth_table import Decision
from mutator.rules.typed_values import unequal


def masks_of(unset: Sequence[Flags]) -> Any:
    """Return the masks of rows, a pa.Array of binary; NULL where a row sets all fields. unset: an array for each field.

    >>> masks_of([np.array([False, True]), np.array([False, False])]).to_pylist()
    [None, b'\\x01']
    """
    are_patches = np.logical_or.reduce(unset)
    return pc.if_else(pa.array(are_patches), packed_masks(unset), pa.scalar(None, pa.binary()))


def packed_masks(unset: Sequence[Flags]) -> Any:
    """Return the masks of patches, also of those that set all fields, a pa.Array of binary. unset: as of ``masks_of``.

    >>> packed_masks([np.array([False, True]), np.array([False, False])]).to_pylist()
    [b'\\x00', b'\\x01']
    """
    bits = np.packbits(np.stack(unset, axis=1), axis=1, bitorder="little")
    count, width = bits.shape
    values = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), count, [None, pa.py_buffer(bits.tobytes())])
    return values.cast(pa.binary())


@dataclass(frozen=True, eq=False)
class Patches(Register):
    """The register of places whose records get patches."""

    fields: RowFields
    order_type: str
    full: bool = False
    unknown: str = "wait"  # what a patch of an unknown record does: wait | insert | reject
    merging: Merging | None = None  # None: no field has a merge function

    leaves_one = False
    reads_rows = compares_rows = True

    @property
    def side_columns(self) -> tuple[Any, ...]:  # type: ignore[override]
        """The order values of fields that differ from the record's, and what merge functions keep."""
        return (column_of_orders(self.order_type), *(() if self.merging is None else self.merging.side_columns))

    def settled(self, beside: Any) -> Any:
        """Return side columns without the order values of fields that the rows lack now."""
        at = beside.schema.get_field_index(FIELD_ORDERS)
        orders = orders_of_fields(beside.column(at).combine_chunks(), self.fields.names)
        return beside.set_column(at, beside.schema.field(at), orders)

    @property
    def buries_rows(self) -> bool:  # type: ignore[override]
        """Whether what waits is kept beside tombstones."""
        return self.unknown == "wait"

    @property
    def replacing(self) -> Register:
        """The register of replaced partitions, whose rows set all fields."""
        if self.merging is None:
            return REPLACED
        return ReplacedRecords(REPLACED.table, place=REPLACED.place, order_type=self.order_type, kept=self.side_columns)

    @property
    def whole(self) -> Register:
        """The register of mutations that set all fields of records whose fields share one order value."""
        return SNAPSHOT if self.full else LAST_WINS

    @property
    def buries_absent(self) -> bool:
        """Whether a record that has no mutation is deleted by absence."""
        return self.whole.buries_absent

    def fold(self, bag: Bag) -> tuple[Ints, dict[str, Any]]:
        """Return the mutations that set a field which no later one of their key sets: the last ones without patches."""
        masks = bag.column("unset")
        is_whole = self.merging is None and masks.null_count == len(masks)
        return self.whole.fold(bag) if is_whole else folded(bag, self._left)

    def _left(self, bag: Bag, rows: Ints) -> tuple[Ints, dict[str, Any]]:
        """Return the mutations that are left of some keys, and their columns counts, mixed and upserts."""
        rows, begins, last, top = found = competing(bag, rows)
        key, deletes = found.key, bag.rows("deletes", rows)
        sets = SetFields(bag.rows("unset", rows), deletes)
        rivals = top & (np.bincount(key[top], minlength=len(begins)) > 1)[key]
        mixed = (bag.rows("mixed", rows) & top) | (rivals & (deletes != deletes[last[key]]))
        whole = rivals & ~deletes  # a delete may lack fields
        columns = self.fields.columns(bag.rows("written", rows[whole])) if whole.any() else []
        of_whole = np.cumsum(whole) - 1
        keep = np.zeros(len(rows), np.bool_)
        keep[last] = True
        if self.unknown != "insert":
            base = last_of(~sets.patches, begins)
            keep[base[base != NEVER]] = True
        for number in range(len(self.fields.names)):
            own = sets.field(number)
            tops = last
            if not own.all():
                tops = last_of(own, begins)
                keep[tops[tops != NEVER]] = True
            compared = np.flatnonzero(whole & own)
            others = tops[key[compared]]
            compared, others = compared[~deletes[others]], others[~deletes[others]]
            if len(compared):
                one, other = (columns[number].take(pa.array(of_whole[some])) for some in (compared, others))
                mixed[compared] |= unequal(one, other)
        if self.merging is not None:
            self._keep_contributing(self.merging, bag, found, sets, keep)
        counts = bag.rows("counts", rows).copy()
        counts[last] += np.add.reduceat(np.where(keep, 0, counts), begins)
        upserts = bag.rows("upserts", rows).copy()
        for column in (mixed, upserts):
            column[last] = np.logical_or.reduceat(column, begins)
        lows = {name: exchanged(bag.rows(name, rows), [(last, own)]) for name, own in folded_lows(bag, found).items()}
        lows = {name: column.filter(pa.array(keep)) for name, column in lows.items()}
        return rows[keep], {**lows, "counts": counts[keep], "mixed": mixed[keep], "upserts": upserts[keep]}

    def _keep_contributing(self, merging: Merging, bag: Bag, found: Competing, sets: SetFields, keep: Flags) -> None:
        """Keep the last delete of each key, and the contributions to fields with merge functions that may count."""
        rows, key, deletes = found.rows, found.key, bag.rows("deletes", found.rows)
        delete = last_of(deletes, found.begins)
        keep[delete[delete != NEVER]] = True
        orders, upserts = bag.rows("orders", rows), np.flatnonzero(~deletes)
        columns = self.fields.columns(bag.rows("written", rows[upserts])) if len(upserts) else []
        for one in merging.fields if len(upserts) else ():
            own = np.flatnonzero(sets.field(one.number)[upserts])
            some = upserts[own]
            values = self.fields.values(one.number, columns[one.number].take(pa.array(own)))
            sent = counted(one, EntryColumns(key[some], orders.take(pa.array(some)), values))
            keep[some[left_columns(one.function, sent, some, delete)]] = True

    def reads(self, events: Events, beside: Flags, newer: Flags) -> Flags:
        """Return which keys have a patch, several mutations, or a field of its own order that may outlive the last one.

        No field has a higher order value than its record. Those of fields with merge functions need what was there.
        """
        if self.merging is not None:
            return np.ones(len(beside), np.bool_)
        found: Flags = (beside & ~newer) | (events.first != events.last)
        return found | flags(events.bag.rows("unset", events.last).is_valid())

    def unread(self, events: Events, orders: Any) -> Sequence[str]:
        """Return the fields that the mutations of every key set, if all of them are newer than the records."""
        if not flags(pc.less(orders, events.bag.rows("orders", events.first))).all():
            return ()
        every, ends = rows_between(events.first, events.last), np.cumsum(events.last - events.first + 1)
        sets = SetFields(events.bag.rows("unset", every), events.bag.rows("deletes", every))
        begins, merged = np.append(0, ends[:-1]), self.merging.fields if self.merging is not None else ()
        numbers = {*range(len(self.fields.names))} - {one.number for one in merged}  # of these, older values count
        return [self.fields.names[one] for one in sorted(numbers) if (last_of(sets.field(one), begins) != NEVER).all()]

    def moves_by_record(self, events: Events) -> Flags:
        """Return which keys have a patch, a delete or several mutations. Partition fields have no merge functions."""
        found: Flags = events.deletes | (events.first != events.last)
        return found | flags(events.bag.rows("unset", events.last).is_valid())

    def meet(self, events: Events, olds: Olds, floor: Any = None) -> Iterator[Met]:
        """Decide field by field about keys with a patch, or with a field that has an order value of its own."""
        beside = newer = np.zeros(len(events.last), np.bool_)
        if olds.sides is not None:
            beside = flags(own_orders(olds).is_valid())
        if olds.kind == RECORD and olds.orders is not None:
            newer = flags(pc.less(olds.orders, events.bag.rows("orders", events.last)))
        by_field = self.reads(events, beside, newer)
        usual, rest = np.flatnonzero(~by_field), np.flatnonzero(by_field)
        for met in self.whole.meet(events.chosen(usual), olds._replace(rows=None, sides=None).chosen(usual), floor):
            keys = usual[met.keys]
            if met.decision.result == "touch" and beside[keys].any():  # all fields have the order value of the row now
                met = met._replace(sides=no_sides(len(keys), self.side_columns))
            yield met._replace(keys=keys)
        if len(rest):
            own = olds.chosen(rest) if len(usual) else olds
            for met in self._by_field(events.chosen(rest), own, floor).decided():
                yield met._replace(keys=rest[met.keys])

    def truncated(self, olds: Olds, floor: Any) -> Iterator[Met]:
        """Decide about records that have no mutation, and fields below the floor."""
        keys = np.flatnonzero(flags(own_orders(olds).is_valid()) | has_own(self.merging, olds.sides))
        if len(keys):
            for met in self._by_field(None, olds.chosen(keys), floor).decided():
                yield met._replace(keys=keys[met.keys])

    def _by_field(self, events: Events | None, olds: Olds, floor: Any) -> FieldByField:
        return FieldByField(self.fields, self.order_type, self.unknown, self.merging, events, olds, floor)

    def fold_key(self, mutations: Iterable[tuple[tuple[Any, ...], tuple[Any, ...]]]) -> Folded:
        """Leave the mutations of one key that set a field which no later one sets."""
        found = [Mutation(place, *value) for place, value in mutations]
        return fold_patches(self.fields, self.unknown, found, self.merging)

    def meet_key(self, folded: Folded | None, old: Old, floor: Any = None) -> KeyMet:
        """Decide about one key."""
        is_truncated = folded is None and floor is not None and old.kind == RECORD and any(old.sides)
        if not is_truncated and (folded is None or self._is_whole(folded, old)):
            return self.whole.meet_key(folded, old, floor)
        return KeyByField(self.fields, self.order_type, self.unknown, self.merging, folded, old, floor).decided()

    def line(self, folded: Folded | None, old: Old, floor: Any = None) -> str:
        """Return the rule that decided about one key."""
        is_whole = folded is None or self._is_whole(folded, old)
        return self.whole.line(folded, old, floor) if is_whole else "field by field"

    def _is_whole(self, folded: Folded, old: Old) -> bool:
        is_last = len(folded.left) < 2 and folded.last.unset is None
        return self.merging is None and is_last and not any(old.sides)

    def decisions(self, kind: str) -> Iterator[Decision]:
        """Yield the decisions about an upsert, or about a delete."""
        yield from self.whole.decisions(kind)
        yield from (
            (UPDATED, LATE_TOUCH) if kind == "delete" else (LATE_TOUCH, LATE_ON_TOMBSTONE, WAITS, WAITING, DELETED)
        )


@dataclass(frozen=True, eq=False)
class ReplacedRecords(LastWins):
    """The register of replaced partitions of a place with merge functions: what is older than a row counts no more."""

    order_type: str = ""
    kept: tuple[Any, ...] = ()  # the side columns of the place

    def __reduce__(self) -> Any:
        return type(self), (self.table, self.full, self.place, self.order_type, self.kept)

    def meet(self, events: Events, olds: Olds, floor: Any = None) -> Iterator[Met]:
        """Decide as ``REPLACED`` does, and give each row its own order value as that of the last delete."""
        for met in super().meet(events, olds, floor):
            if met.decision.result in ("write", "touch"):
                orders = events.bag.rows("orders", events.last[met.keys])
                columns = [orders if one.name == CLEARED else pa.nulls(len(orders), one.type) for one in self.kept]
                met = met._replace(sides=pa.StructArray.from_arrays(columns, fields=list(self.kept)))
            yield met

    def meet_key(self, folded: Folded | None, old: Old, floor: Any = None) -> KeyMet:
        """Decide about one key, as ``meet`` does."""
        met = super().meet_key(folded, old, floor)
        if folded is None or met.decision.result not in ("write", "touch"):
            return met
        order = to_column(self.order_type, [folded.last.order])[0].as_py()
        return met._replace(sides=tuple(order if one.name == CLEARED else None for one in self.kept))
