"""Fields with merge functions, of places whose records get patches: what is kept beside records, and meetings.

Such a field has the order value of the last mutation that sets it, as any other field has. Its value comes from its
entries (``merge_functions``). Beside a record are, of each field, the entries that its row does not imply; and of the
key the order values of the last delete, the seal and the mark, and the time of the mark. Beside a row that waits, the
last delete is that of its tombstone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors import MutatorError, error
from mutator.errors.display import key_text, quoted
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.byte_columns import Flags
from mutator.rules.field_orders import FIELD_ORDERS, ordered, orders_of_fields
from mutator.rules.merge_columns import (
    EntryColumns,
    aged_columns,
    beside,
    bounds_after_columns,
    clashing,
    expanded,
    meet_columns,
    sealed_columns,
    shown_columns,
    span_columns,
)
from mutator.rules.merge_functions import (
    Bounds,
    Entries,
    Mark,
    NotOfType,
    aged,
    bounds_after,
    counted_type,
    entries_type,
    implied,
    limits,
    meet,
    sealed,
    shown,
    span,
)
from mutator.rules.merge_names import MergeFunction
from mutator.rules.order_columns import column_type, encoded_lowest, ranks, to_column, to_value
from mutator.rules.order_values import lowest_order
from mutator.rules.register import RECORD, TOMBSTONE, Old, Olds, RowFields, with_values

CLEARED, SEAL, MARK, MARKED = OF_KEYS = "cleared", "seal", "mark", "marked"  # side columns of keys
ENTRIES = "entries."  # and of fields, before their names


class CannotMerge(ArithmeticError):
    """A sum that its field cannot hold, or a text of the record that is not of the type of the field."""

    def __init__(self, field: MergedField, text: NotOfType | None = None) -> None:
        super().__init__(field, text)
        self.field, self.text = field, text


def cannot_merge(field: MergedField, key: tuple[bytes, ...] | None, text: NotOfType | None = None) -> MutatorError:
    """Return the error for the user. key: of the record; None: it has no mutation, but a truncate changes it."""
    record = "a record that a truncate changes" if key is None else f"the record with the ID {key_text(key)}"
    if text is not None:
        return error("merge.value", field=field.name, record=record, value=quoted(text.value), why=text.why)
    return error("sum.large", field=field.name, type=field.type, record=record)


class MergedField(NamedTuple):
    """A field with a merge function. type: Arrow's, of its values."""

    number: int
    name: str
    function: MergeFunction
    type: Any

    @property
    def adds(self) -> bool:
        """Whether it is a sum."""
        return self.function.adds


@dataclass(frozen=True, eq=False)
class Merging:
    """The fields with merge functions. now, retention: of entries that are sealed, in ms; None: none ever is."""

    fields: tuple[MergedField, ...]
    order_type: str
    now: int = 0
    retention: int | None = None

    @property
    def side_columns(self) -> tuple[Any, ...]:
        """The values of keys, and the entries of each field."""
        order = column_type(self.order_type)
        of_keys = (ordered(pa.field(name, order), self.order_type) for name in (CLEARED, SEAL, MARK))
        of_fields = (
            ordered(pa.field(ENTRIES + one.name, entries_type(one.function, order, one.type)), self.order_type)
            for one in self.fields
        )
        return (*of_keys, pa.field(MARKED, pa.int64()), *of_fields)

    def kept(self, sides: Any) -> list[Any]:
        """Return the side columns of some records. sides: a pa.StructArray of all of their side columns."""
        return [sides.field(sides.type.get_field_index(one.name)) for one in self.side_columns]


class MergedColumns:
    """The fields with merge functions of many keys."""

    def __init__(self, merging: Merging, olds: Olds, known: Sequence[tuple[Any, Any]]) -> None:
        """Take what the place has of the keys.

        known: the order values, NULL where there is no row, and the values of each field in the rows of the place.
        """
        self._merging, count = merging, len(olds.older)
        none = pa.nulls(count, column_type(merging.order_type))
        kept = [pa.nulls(count, one.type) for one in merging.side_columns]
        if olds.sides is not None:
            kept = merging.kept(olds.sides)
        cleared, seal, mark, marked, *lists = kept
        if olds.kind != RECORD:
            cleared = none
        if olds.kind == TOMBSTONE:
            lowest = pa.scalar(encoded_lowest(merging.order_type), none.type)
            cleared = pc.if_else(pc.equal(olds.orders, lowest), pa.scalar(None, none.type), olds.orders)
        self._bounds, self._marks = (cleared, seal), (mark, marked)
        self._entries = [
            expanded(one.function, own, order, value)
            for one, own, (order, value) in zip(merging.fields, lists, known, strict=True)
        ]
        self.late = np.zeros(count, np.bool_)  # some contribution or delete came late after the seal
        self.tied = np.zeros(count, np.bool_)  # two contributions of a field have one order value

    def meet(self, sent: Sequence[EntryColumns] | None, deletes: Any, floor: Any) -> None:
        """Add contributions. deletes: the order value of the last one of each key, NULL without one."""
        merging, bounds = self._merging, self._bounds
        self._bounds = bounds_after_columns(bounds, deletes, floor)
        for number, (one, old) in enumerate(zip(merging.fields, self._entries, strict=True)):
            new = old.chosen(np.zeros(len(old.keys), np.bool_)) if sent is None else counted(one, sent[number])
            self._entries[number], late, spared = meet_columns(one.function, old, new, bounds, deletes, floor)
            self.tied |= clashing(one.function, old, new.chosen(~late), len(deletes))
            self.late |= spared
            self.late[new.keys[late]] = True
        if merging.retention is None:
            return
        spans = [span_columns(entries, len(deletes)) for entries in self._entries]
        none = pa.nulls(len(deletes), bounds[0].type)  # if the rows have none of the fields
        second = pc.min_element_wise(none, *(one for one, _ in spans))
        highest = pc.max_element_wise(none, *(one for _, one in spans))
        seals, self._marks = aged_columns(self._marks, second, highest, merging.now, merging.retention)
        self._bounds = self._bounds[0], pc.coalesce(seals, self._bounds[1])
        self._entries = [
            sealed_columns(one.function, entries, seals)
            for one, entries in zip(merging.fields, self._entries, strict=True)
        ]

    def shown(self, count: int) -> Iterator[tuple[MergedField, Any, Flags]]:
        """Yield fields, their values, and the keys whose sum the field cannot hold."""
        for one, entries in zip(self._merging.fields, self._entries, strict=True):
            yield one, *shown_columns(one.function, entries, count, one.type)

    def sides(self, orders: Sequence[Any], lives: Flags, kept: Flags) -> list[Any]:
        """Return the side columns. orders: of each field now. kept: which keys have a row, which of some waits."""
        cleared, of_seals = (pa.array(~which) for which in (lives, kept))
        found = [
            pc.if_else(hidden, pa.scalar(None, column.type), column)
            for hidden, column in zip(
                (cleared, of_seals, of_seals, of_seals), (*self._bounds, *self._marks), strict=True
            )
        ]
        for one, entries, own in zip(self._merging.fields, self._entries, orders, strict=True):
            column = beside(one.function, entries, own)
            found.append(pc.if_else(of_seals, pa.scalar(None, column.type), column))
        return found


def counted(one: MergedField, sent: EntryColumns) -> EntryColumns:
    """Return contributions with values as entries have them."""
    wanted = counted_type(one.function, one.type)
    return sent if sent.values.type == wanted else sent._replace(values=sent.values.cast(wanted))


def as_counted(fields: RowFields, one: MergedField, parts: Sequence[Any]) -> list[Any]:
    """Return the values of a field of several rows, as entries have them. Raises CannotMerge."""
    if not parts:
        return []
    try:
        values = fields.values(one.number, fields.column(one.number, parts))
    except NotOfType as text:
        raise CannotMerge(one, text) from None
    found: list[Any] = values.cast(counted_type(one.function, one.type)).to_pylist()
    return found


class MergedKey:
    """The fields with merge functions of one key, in the textbook form."""

    def __init__(self, merging: Merging, old: Old, orders: Sequence[Any], values: Sequence[Any]) -> None:
        """Take what the place has of the key.

        orders, values: of each field in the row of the place, in values as entries have them; None for no row.
        """
        self._merging, self._type = merging, merging.order_type
        cleared, seal, mark, marked, *lists = old.sides[1:] if old.sides else (None,) * len(merging.side_columns)
        if old.kind == TOMBSTONE:
            self._bounds = Bounds(None if old.order == lowest_order(self._type) else old.order, self._value(seal))
        else:
            self._bounds = Bounds(self._value(cleared), self._value(seal))
        self._mark = None if mark is None or marked is None else Mark(self._value(mark), marked)
        self.entries = [
            tuple((self._value(entry["order"]), entry["value"]) for entry in own)
            if own is not None
            else ()
            if order is None
            else implied(one.function, order, value)
            for one, own, order, value in zip(merging.fields, lists, orders, values, strict=True)
        ]
        self.late = self.tied = False

    def _value(self, order: Any) -> Any:
        return None if order is None else to_value(self._type, order)

    def meet(self, sent: Sequence[Entries], delete: Any, floor: Any) -> None:
        """Add contributions. delete: the order value of the last one."""
        merging, bounds = self._merging, self._bounds
        self._bounds = bounds_after(bounds, delete, floor)
        for number, one in enumerate(merging.fields):
            met = meet(one.function, self.entries[number], bounds, sent[number], delete, floor)
            new = [entry for entry in sent[number] if entry not in met.late]
            self.tied |= clashes(one.function, self.entries[number], new)
            self.entries[number] = met.entries
            self.late |= met.spared or bool(met.late)
        if merging.retention is None:
            return
        seal, self._mark = aged(self._mark, *span(self.entries), merging.now, merging.retention)
        if seal is not None:
            self._bounds = self._bounds._replace(seal=seal)
            self.entries = [
                sealed(one.function, entries, seal) for one, entries in zip(merging.fields, self.entries, strict=True)
            ]

    def shown(self, *, kept: bool) -> Iterator[tuple[MergedField, Any]]:
        """Yield fields and their values. Raises CannotMerge. kept: the key has a row."""
        for one, entries in zip(self._merging.fields, self.entries, strict=True):
            value = shown(one.function, entries)
            if one.adds and value is not None:
                least, most = limits(one.type)
                if not least <= value <= most:
                    if kept:
                        raise CannotMerge(one)
                    value = None
            yield one, value

    def sides(self, orders: Sequence[Any], *, lives: bool) -> tuple[Any, ...]:
        """Return the values of the side columns. orders: of each field now."""
        cleared = self._bounds.cleared if lives else None
        mark, marked = (None, None) if self._mark is None else self._mark
        lists = []
        for one, entries, order in zip(self._merging.fields, self.entries, orders, strict=True):
            is_implied = not one.function.counts_null if not entries else len(entries) == 1 and entries[0][0] == order
            lists.append(
                None if is_implied else [{"order": self._encoded(at), "value": value} for at, value in entries]
            )
        return (self._encoded(cleared), self._encoded(self._bounds.seal), self._encoded(mark), marked, *lists)

    def _encoded(self, order: Any) -> Any:
        return None if order is None else to_column(self._type, [order])[0].as_py()


def clashes(function: MergeFunction, old: Entries, new: Sequence[Any]) -> bool:
    """Return whether two contributions of a key have one order value, and other values."""
    if not function.clashes:
        return False
    known = dict(old)
    counts = [one for one in new if one[1] is not None or function.counts_null]
    return any(differs(known.setdefault(order, value), value) for order, value in counts)


def differs(one: Any, other: Any) -> bool:
    """Return whether two values are not the same; NaN is."""
    return bool(one != other and not (one != one and other != other))


def entry_orders(merging: Merging, sides: Sequence[Any], number: int) -> list[Any] | None:
    """Return the order values of the entries of a field beside a record, the newest first; None: its row implies them.

    sides: the values of the side columns of the register. number: of the field.
    """
    names = [one.name for one in merging.side_columns]
    own = [names.index(ENTRIES + one.name) for one in merging.fields if one.number == number]
    entries = sides[1 + own[0]] if own and len(sides) > 1 else None
    return None if entries is None else [to_value(merging.order_type, one["order"]) for one in reversed(entries)]


def wrong_entries(entries: Any, of_rows: Any) -> str | None:
    """Return what is wrong with the entries of a field beside some rows, a pa.ListArray; None if nothing is.

    of_rows: the order values of the rows, a pa.Array; None if they are not known.

    >>> from mutator.rules.merge_names import merge_function
    >>> form = entries_type(merge_function("max"), pa.int64(), pa.int64())
    >>> wrong_entries(pa.array([[{"order": 1, "value": 7}, {"order": 3, "value": 5}], None], form), pa.array([3, 1]))
    >>> wrong_entries(pa.array([[{"order": 4, "value": 7}]], form), pa.array([3]))
    'has a value of a merge function whose order value is higher than that of its row'
    """
    rows, orders = pc.list_parent_indices(entries), entries.flatten().field("order")
    if of_rows is not None and pc.any(pc.greater(orders, of_rows.take(rows))).as_py():
        return "has a value of a merge function whose order value is higher than that of its row"
    again, numbers = np.diff(rows.to_numpy()) == 0, ranks(orders)
    if (again & (np.diff(numbers) <= 0)).any():
        return "has values of a merge function that are not in the order of their order values"
    return None


def of_fields(one: Any, column: Any, names: Collection[str]) -> Any:
    """Return a side column, of a pa.Field, without what it has of other fields than those of some names."""
    if one.name == FIELD_ORDERS:
        return orders_of_fields(column, names)
    is_other = one.name.startswith(ENTRIES) and one.name.removeprefix(ENTRIES) not in names
    return pa.nulls(len(column), column.type) if is_other else column


def has_own(merging: Merging | None, sides: Any) -> Flags:
    """Return which records have something of merge functions beside them."""
    if merging is None:
        return np.zeros(len(sides), np.bool_)
    return with_values(pa.StructArray.from_arrays(merging.kept(sides), fields=list(merging.side_columns)))
