"""Patches of one key, in the textbook form: each field is a value and the order value of the mutation that set it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from mutator.rules.order_columns import to_column, to_value
from mutator.rules.order_values import lowest_order
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
# A patch of an unknown record: it waits, after others or a delete; or it is a reject.
WAITS, WAITING = Decision("wait", "patch of unknown", None), Decision("wait", "waiting", None)
NO_OP_ON_WAITING = Decision("wait", "no-op", None)
_UNKNOWN = "sets some fields of a record that is not there, and patch.unknown is reject"
REJECTED = Decision("drop", "rejected", None, _UNKNOWN)
REJECTED_ON_TOMBSTONE = Decision("keep tombstone", "rejected", None, _UNKNOWN)
# A record without a mutation, some of whose fields are below the floor; or all that its last upsert has set.
CLEARED, CLEARED_TOUCH = Decision("write", None, "kept"), Decision("touch", None, "kept")
KEPT = TRUTH_TABLE["record", "none", None, None]
CLEARED_WHOLLY = Decision("wait", None, "truncated")
# The same of a record whose last mutation is below the floor, too.
LATE_CLEARED, LATE_CLEARED_WHOLLY = LATE._replace(result="write"), TRUNCATED._replace(result="wait")


_BASE = -1  # the number of no field: that of being an upsert or a delete


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
    return mutation.unset is None or mutation.is_delete or not is_unset(mutation.unset, number)


def is_unset(mask: bytes, number: int) -> bool:
    """Return whether a mask leaves a field unset."""
    return bool(mask[number >> 3] >> (number & 7) & 1)


def fold_patches(fields: RowFields, unknown: str, found: Sequence[Mutation]) -> Folded:
    """Leave the mutations of one key that set a field which no later one sets, and the last one that sets all.

    unknown: what a patch of an unknown record does. found: by their precedence.
    """
    left, missing = list[Mutation](), set(range(len(fields.names)))
    if unknown != "insert":
        missing.add(_BASE)
    for one in reversed(found):
        own = {number for number in missing if (one.unset is None if number == _BASE else sets(one, number))}
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


def met_by_field(
    fields: RowFields, order_type: str, unknown: str, folded: Folded | None, old: Old, floor: Any = None
) -> KeyMet:
    """Decide about each field of one key. folded: None: a record may lose fields that are below the floor."""
    numbers, null = range(len(fields.names)), fields.null_part
    left = () if folded is None else folded.left
    last = None if folded is None else folded.last
    orders = _own_orders(order_type, old)
    known = None if old.kind == NOTHING else old.order
    grave = None if old.kind == RECORD else known  # the order value of the last delete
    upsert = orders.get(None, known) if old.kind == RECORD else None  # and of the last upsert
    is_there = old.kind == RECORD and (floor is None or _reaches(upsert if unknown == "wait" else known, floor))
    at = [orders.get(name, known) for name in fields.names]
    values = fields.parts(old.row) if is_there or old.row else [null(number) for number in numbers]
    patched = [old.kind == RECORD or name in orders for name in fields.names]  # since the last delete
    if floor is not None:
        known, grave = (floor if one is None or one < floor else one for one in (known, grave))
        for number in numbers:
            if not _reaches(at[number], floor):
                at[number], values[number], patched[number] = floor, null(number), False
    before = [*zip(at, values, strict=True)]
    for one in left:
        sent = None if one.is_delete else fields.parts(one.row)
        for number in numbers:
            if sets(one, number) and _reaches(one.order, at[number]):
                at[number], values[number] = one.order, null(number) if sent is None else sent[number]
                patched[number] = sent is not None
    older = last is not None and not _reaches(last.order, known)
    below = last is not None and floor is not None and last.order < floor
    tied = is_there and any(
        then == now and one != other for (then, one), now, other in zip(before, at, values, strict=True)
    )
    base = next((one for one in reversed(left) if one.is_delete or one.unset is None), None)
    buried = grave if last is None else last.order
    lives = is_there if last is None else (is_there and older) or not (last.is_delete or older)
    if unknown == "reject" and old.kind != RECORD:
        lives = base is not None and not base.is_delete and _reaches(base.order, grave)
    if unknown == "wait":
        is_upsert = base is not None and not base.is_delete
        is_buried = base is not None and base.is_delete and _reaches(base.order, grave)
        buried = base.order if base is not None and is_buried else grave
        if base is not None and is_upsert and _reaches(base.order, upsert):
            upsert = base.order
        lives = base is not None and is_upsert and _reaches(base.order, grave)
        if is_there:
            lives = base is None or is_upsert or not _reaches(base.order, upsert)
    if not lives:
        own = dict[str | None, Any]()
        if unknown == "wait":
            found = zip(fields.names, at, patched, strict=True)
            own = {name: mine for name, mine, is_patched in found if is_patched and mine is not None}
        if last is None:
            decision = CLEARED_WHOLLY if own else FLOOR_TABLE["record", False]
        elif below and not is_there and old.kind == RECORD:
            decision = LATE_CLEARED_WHOLLY if own else TRUNCATED
        else:
            decision = _dead(old, last, older=older, rejects=unknown == "reject")
        if decision.result not in ("bury", "wait", "touch tombstone"):
            return KeyMet(decision)
        buried = lowest_order(order_type) if buried is None else buried
        tied |= is_there and last is not None and last.is_delete and known == last.order
        row = fields.whole(values) if own else None
        return KeyMet(decision, row, buried, (_side(order_type, own),), tied if old.kind == RECORD else None)
    order = max(mine for mine in at if mine is not None)
    own = {name: mine for name, mine in zip(fields.names, at, strict=True) if mine != order}
    if unknown == "wait" and upsert != order:
        own[None] = upsert
    row, side = fields.whole(values), _side(order_type, own)
    is_kept = side == (old.sides[0] if old.sides else None)
    if last is None:
        decision = CLEARED if row != old.row else KEPT if is_kept else CLEARED_TOUCH
    elif old.kind == RECORD and row == old.row:
        decision = NO_OP if not older else LATE if is_kept else LATE_TOUCH
    elif is_there and below:
        decision = LATE_CLEARED
    else:
        decision = UPDATED if old.kind == RECORD else INSERTED
    return KeyMet(decision, row, order, (side,), tied if old.kind == RECORD else None)


def _side(order_type: str, orders: Mapping[str | None, Any]) -> list[dict[str, Any]] | None:
    """Return the value of the side column. orders: of fields, and of the last upsert."""
    found = [
        {"field": name, "order": None if order is None else to_column(order_type, [order])[0].as_py()}
        for name, order in orders.items()
    ]
    return found or None


def _own_orders(order_type: str, old: Old) -> dict[str | None, Any]:
    """Return the order values that fields of a record have of their own."""
    found = old.sides[0] if any(old.sides) else ()
    return {one["field"]: None if one["order"] is None else to_value(order_type, one["order"]) for one in found}


def _dead(old: Old, last: Mutation, *, older: bool, rejects: bool) -> Decision:
    """Return the decision about a key that has no record afterwards. older: the last mutation is."""
    if old.kind == TOMBSTONE:
        if older:
            return LATE_ON_TOMBSTONE
        if last.is_delete:
            return NO_OP_ON_WAITING if any(old.sides) else NO_OP_ON_TOMBSTONE
        return REJECTED_ON_TOMBSTONE if rejects else WAITING
    if old.kind == NOTHING:
        if older or last.is_delete:
            return BELOW_FLOOR if older else DELETE_OF_UNKNOWN
        return REJECTED if rejects else WAITS
    return DELETED


def _reaches(order: Any, other: Any) -> bool:
    """Return whether an order value is not lower than another; None is the lowest."""
    return other is None or (order is not None and order >= other)
