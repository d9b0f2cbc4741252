"""Patches of one key, in the textbook form: each field is a value and the order value of the mutation that set it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from mutator.rules.order_columns import to_column, to_value
from mutator.rules.register import NOTHING, RECORD, TOMBSTONE, Folded, KeyMet, Mutation, Old
from mutator.rules.truth_table import FLOOR_TABLE, TRUTH_TABLE, Decision

INSERTED = TRUTH_TABLE["nothing", "upsert", None, None]
DELETE_OF_UNKNOWN = TRUTH_TABLE["nothing", "delete", None, None]
UPDATED = TRUTH_TABLE["record", "upsert", False, False]
DELETED = TRUTH_TABLE["record", "delete", False, None]
NO_OP = TRUTH_TABLE["record", "upsert", False, True]
LATE = TRUTH_TABLE["record", "upsert", True, None]
LATE_TOUCH = LATE._replace(result="touch")  # it sets the order values of fields, and no other values
LATE_ON_TOMBSTONE = TRUTH_TABLE["tombstone", "delete", True, None]
NO_OP_ON_TOMBSTONE = TRUTH_TABLE["tombstone", "delete", False, None]
BELOW_FLOOR = FLOOR_TABLE["nothing", True]
TRUNCATED = FLOOR_TABLE["record", True]


class RowFields(Protocol):
    """The fields of written rows. Immutable, and the same in every process."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields; of delimited text, their ordinals."""

    def columns(self, rows: Any) -> list[Any]:
        """Return a pa.Array for each field. rows: pa.Array."""

    def rows(self, columns: Sequence[Any]) -> Any:
        """Return the rows, a pa.Array, that have these fields."""

    def null(self, number: int) -> Any:
        """Return NULL as a field has it, a pa.Array of one element."""

    def parts(self, row: bytes) -> list[Any]:
        """Return the fields of one row, for the records engine."""

    def whole(self, parts: Sequence[Any]) -> bytes:
        """Return the row that has these fields."""

    def null_part(self, number: int) -> Any:
        """Return NULL as a field of one row has it."""


def sets(mutation: Mutation, number: int) -> bool:
    """Return whether a mutation sets a field, or clears it.

    >>> patch = Mutation((3,), False, b"a,3,~", b"\\x04")
    >>> [sets(patch, number) for number in range(3)]
    [True, True, False]
    """
    unset = mutation.unset
    return unset is None or mutation.is_delete or not unset[number >> 3] >> (number & 7) & 1


def fold_patches(fields: RowFields, found: Sequence[Mutation]) -> Folded:
    """Leave the mutations of one key that set a field which no later one sets. found: by their precedence."""
    left, missing = list[Mutation](), set(range(len(fields.names)))
    for one in reversed(found):
        own = {number for number in missing if sets(one, number)}
        left[:0] = [one] if own or one is found[-1] else []
        missing -= own
    top = [one for one in found if one.place[:2] == found[-1].place[:2]]
    upserts = any(not one.is_delete for one in found)
    return Folded(found[-1], len(found), _are_mixed(fields, top), upserts, tuple(left))


def _are_mixed(fields: RowFields, top: Sequence[Mutation]) -> bool:
    """Return whether mutations are both deletes and upserts, or set a field to different values."""
    rows = [(one, fields.parts(one.row)) for one in top if not one.is_delete]
    if 0 < len(rows) < len(top):
        return True
    for number in range(len(fields.names)):
        values = [parts[number] for one, parts in rows if sets(one, number)]
        if any(value != values[0] for value in values):
            return True
    return False


def met_by_field(fields: RowFields, order_type: str, folded: Folded, old: Old, floor: Any = None) -> KeyMet:
    """Decide about each field of one key."""
    last, numbers = folded.last, range(len(fields.names))
    known = None if old.kind == NOTHING else old.order
    is_there = old.kind == RECORD and (floor is None or old.order >= floor)
    values = fields.parts(old.row) if is_there else [fields.null_part(number) for number in numbers]
    orders = _own_orders(order_type, old)
    at = [orders.get(name, known) for name in fields.names]
    if floor is not None:
        known = floor if known is None else max(known, floor)
        for number in numbers:
            if not _reaches(at[number], floor):
                at[number], values[number] = floor, fields.null_part(number)
    before = [*zip(at, values, strict=True)]
    for one in folded.left:
        sent = None if one.is_delete else fields.parts(one.row)
        for number in numbers:
            if sets(one, number) and _reaches(one.order, at[number]):
                at[number] = one.order
                values[number] = fields.null_part(number) if sent is None else sent[number]
    older = not _reaches(last.order, known)
    if last.is_delete or older if not is_there else last.is_delete and not older:
        return KeyMet(_dead(old.kind, older=older, is_there=is_there), tied=is_there and known == last.order)
    order = known if is_there and older else last.order
    sides = [
        {"field": name, "order": None if own is None else to_column(order_type, [own])[0].as_py()}
        for name, own in zip(fields.names, at, strict=True)
        if own != order
    ]
    row = fields.whole(values)
    if is_there and row == old.row:
        is_kept = sides == ((old.sides[0] if any(old.sides) else None) or [])
        decision = NO_OP if not older else LATE if is_kept else LATE_TOUCH
    else:
        decision = UPDATED if old.kind == RECORD else INSERTED
    pairs = zip(before, at, values, strict=True)
    tied = is_there and any(then == now and one != other for (then, one), now, other in pairs)
    return KeyMet(decision, row, order, (sides or None,), tied)


def _own_orders(order_type: str, old: Old) -> dict[str, Any]:
    """Return the order values that fields of a record have of their own."""
    found = old.sides[0] if any(old.sides) else ()
    return {one["field"]: None if one["order"] is None else to_value(order_type, one["order"]) for one in found}


def _dead(kind: str, *, older: bool, is_there: bool) -> Decision:
    """Return the decision about a key that has no record afterwards. older: the last mutation is."""
    if kind == TOMBSTONE:
        return LATE_ON_TOMBSTONE if older else NO_OP_ON_TOMBSTONE
    if kind == NOTHING:
        return BELOW_FLOOR if older else DELETE_OF_UNKNOWN
    return TRUNCATED if older and not is_there else DELETED


def _reaches(order: Any, other: Any) -> bool:
    """Return whether an order value is not lower than another; None is the lowest."""
    return other is None or (order is not None and order >= other)
