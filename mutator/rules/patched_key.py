"""Patches of one key, in the textbook form: each field is a value and the order value of the mutation that set it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from mutator.rules.merge_functions import counted_type, fold
from mutator.rules.merge_names import NEWEST
from mutator.rules.merged_fields import MergedKey, Merging, as_counted, differs
from mutator.rules.order_columns import to_column, to_value
from mutator.rules.order_values import lowest_order
from mutator.rules.register import NOTHING, RECORD, TOMBSTONE, Folded, KeyMet, Mutation, Old, RowFields
from mutator.rules.truth_table import FLOOR_TABLE, TRUTH_TABLE, WAITED, Decision

INSERTED = TRUTH_TABLE["nothing", "upsert", None, None]
INSERTED_AFTER_PATCHES = INSERTED._replace(reason=WAITED)  # and without a delete before them
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


def fold_patches(fields: RowFields, unknown: str, found: Sequence[Mutation], merging: Merging | None = None) -> Folded:
    """Leave the mutations of one key that set a field which no later one sets, and the last one that sets all.

    unknown: what a patch of an unknown record does. found: by their precedence. With merge functions, the contributions
    that may count and the last delete are left, too.
    """
    keep, missing = {len(found) - 1}, set(range(len(fields.names)))
    if unknown != "insert":
        missing.add(_BASE)
    for at, one in reversed([*enumerate(found)]):
        own = {number for number in missing if (one.unset is None if number == _BASE else sets(one, number))}
        keep |= {at} if own else set()
        missing -= own
    if merging is not None:
        keep |= _contributing(fields, found, merging)
    top = [one for one in found if one.place[:2] == found[-1].place[:2]]
    upserts = any(not one.is_delete for one in found)
    left = tuple(found[at] for at in sorted(keep))
    return Folded(found[-1], len(found), _are_mixed(fields, top), upserts, left)


def _contributing(fields: RowFields, found: Sequence[Mutation], merging: Merging) -> set[int]:
    """Return the numbers of the mutations that fields with merge functions need."""
    delete = max((at for at, one in enumerate(found) if one.is_delete), default=-1)
    keep = {delete} if delete >= 0 else set()
    parts = {at: fields.parts(one.row) for at, one in enumerate(found) if at > delete}
    for one in merging.fields:
        own = [at for at in parts if sets(found[at], one.number)]
        values = as_counted(fields, one, [parts[at][one.number] for at in own])
        sent = [((found[at].order, at), value) for at, value in zip(own, values, strict=True)]
        if one.function.clashes and one.function.keeps != NEWEST:
            counts = [entry for entry in sent if entry[1] is not None or one.function.counts_null]
            alike = {(order, repr(value)): at for (order, at), value in counts}
            keep |= {*alike.values()}
            continue
        for order, value in fold(one.function, sent):
            keep.add(max(at for (own_order, at), mine in sent if own_order == order and not differs(mine, value)))
    return keep


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


class KeyByField:
    """One key: what the place has of it, its mutations, and the decision."""

    def __init__(
        self,
        fields: RowFields,
        order_type: str,
        unknown: str,
        merging: Merging | None,
        folded: Folded | None,
        old: Old,
        floor: Any = None,
    ) -> None:
        """Take what the place has. folded: None: a record may lose fields that are below the floor.

        unknown: what a patch of an unknown record does. merging: None: no field has a merge function.
        """
        self._fields, self._type, self._old, self._floor = fields, order_type, old, floor
        self._waits, self._rejects = unknown == "wait", unknown == "reject"
        self._left = () if folded is None else folded.left
        self._last = None if folded is None else folded.last
        numbers, orders, is_record = range(len(fields.names)), _own_orders(order_type, old), old.kind == RECORD
        known = self._known = None if old.kind == NOTHING else old.order
        self._grave = None if is_record else known  # the order value of the last delete
        self._upsert = orders.get(None, known) if is_record else None  # and of the last upsert
        self._is_there = is_record and (floor is None or _reaches(self._upsert if self._waits else known, floor))
        self._at = [orders.get(name, known) for name in fields.names]
        has_row = is_record or bool(old.row)
        self._values = fields.parts(old.row) if has_row else [fields.null_part(number) for number in numbers]
        self._patched = [is_record or name in orders for name in fields.names]  # since the last delete
        self._merging, self._merged = merging, None
        if merging is not None:
            before = [self._at[one.number] if has_row else None for one in merging.fields]
            kept = [*(as_counted(fields, one, [self._values[one.number]])[0] for one in merging.fields)]
            self._merged = MergedKey(merging, old, before, kept)
        if floor is not None:
            self._known, self._grave = (floor if one is None or one < floor else one for one in (known, self._grave))
            for number in numbers:
                if not _reaches(self._at[number], floor):
                    self._at[number], self._patched[number] = floor, False
                    self._values[number] = fields.null_part(number)

    def decided(self) -> KeyMet:
        """Let the mutations set fields, and decide."""
        self._set_fields()
        last, old, floor = self._last, self._old, self._floor
        older = last is not None and not _reaches(last.order, self._known)
        below = last is not None and floor is not None and last.order < floor
        lives, buried = self._life(older=older)
        own = dict[str | None, Any]()
        if self._waits and not lives:
            found = zip(self._fields.names, self._at, self._patched, strict=True)
            own = {name: mine for name, mine, is_patched in found if is_patched and mine is not None}
        self._merge(kept=lives or bool(own))
        if lives:
            met = self._alive(older=older, below=below)
        else:
            if last is None:
                decision = CLEARED_WHOLLY if own else FLOOR_TABLE["record", False]
            elif below and not self._is_there and old.kind == RECORD:
                decision = LATE_CLEARED_WHOLLY if own else TRUNCATED
            else:
                decision = _dead(old, last, older=older, rejects=self._rejects)
            met = self._buried(decision, buried, own)
        return met if self._merged is None else met._replace(late=self._merged.late, clash=self._merged.tied)

    def _set_fields(self) -> None:
        before = [*zip(self._at, self._values, strict=True)]
        for one in self._left:
            sent = None if one.is_delete else self._fields.parts(one.row)
            for number in range(len(self._at)):
                if sets(one, number) and _reaches(one.order, self._at[number]):
                    self._at[number], self._patched[number] = one.order, sent is not None
                    self._values[number] = self._fields.null_part(number) if sent is None else sent[number]
        merged = set() if self._merging is None else {one.number for one in self._merging.fields}
        self._tied = self._is_there and any(
            then == now and one != other and number not in merged
            for number, ((then, one), now, other) in enumerate(zip(before, self._at, self._values, strict=True))
        )

    def _merge(self, *, kept: bool) -> None:
        """Give fields with merge functions their values. kept: the key has a row."""
        merging, merged = self._merging, self._merged
        if merging is None or merged is None:
            return
        last = max((at for at, one in enumerate(self._left) if one.is_delete), default=-1)
        rows = [(one, self._fields.parts(one.row)) for one in self._left[last + 1 :]]
        sent = []
        for one in merging.fields:
            own = [(mutation, parts[one.number]) for mutation, parts in rows if sets(mutation, one.number)]
            values = as_counted(self._fields, one, [part for _, part in own])
            sent.append(tuple((mutation.order, value) for (mutation, _), value in zip(own, values, strict=True)))
        clears = self._old.floor if self._floor is None else self._floor
        merged.meet(sent, self._left[last].order if last >= 0 else None, clears)
        for one, value in merged.shown(kept=kept):
            shown = pa.array([value], counted_type(one.function, one.type)).cast(one.type)
            self._values[one.number] = self._fields.part(one.number, self._fields.from_values(one.number, shown))

    def _life(self, *, older: bool) -> tuple[bool, Any]:
        """Return whether the key has a record, and else the order value of its tombstone."""
        last, grave, is_there = self._last, self._grave, self._is_there
        base = next((one for one in reversed(self._left) if one.is_delete or one.unset is None), None)
        is_upsert = base is not None and not base.is_delete
        if self._rejects and self._old.kind != RECORD:
            return base is not None and is_upsert and _reaches(base.order, grave), None if last is None else last.order
        if not self._waits:
            lives = is_there if last is None else (is_there and older) or not (last.is_delete or older)
            return lives, grave if last is None else last.order
        is_buried = base is not None and base.is_delete and _reaches(base.order, grave)
        buried = base.order if base is not None and is_buried else grave
        if base is not None and is_upsert and _reaches(base.order, self._upsert):
            self._upsert = base.order
        if is_there:
            return base is None or is_upsert or not _reaches(base.order, self._upsert), buried
        return base is not None and is_upsert and _reaches(base.order, grave), buried

    def _buried(self, decision: Decision, buried: Any, own: Mapping[str | None, Any]) -> KeyMet:
        """Return a decision about a key without a record. own: the order values of the fields that wait."""
        if decision.result not in ("bury", "wait", "touch tombstone"):
            return KeyMet(decision)
        buried, last = lowest_order(self._type) if buried is None else buried, self._last
        tied = self._tied or (self._is_there and last is not None and last.is_delete and self._known == last.order)
        sides = self._sides(own, lives=False) if own else (None,) * (1 + len(self._more))
        row = self._fields.whole(self._values) if own else None
        return KeyMet(decision, row, buried, sides, tied if self._old.kind == RECORD else None)

    def _alive(self, *, older: bool, below: bool) -> KeyMet:
        """Return the decision about a record. older, below: the last mutation is older than it, and below the floor."""
        old, is_record = self._old, self._old.kind == RECORD
        order = max(mine for mine in self._at if mine is not None)
        own: dict[str | None, Any] = {
            name: mine for name, mine in zip(self._fields.names, self._at, strict=True) if mine != order
        }
        if self._waits and self._upsert != order:
            own[None] = self._upsert
        row, sides = self._fields.whole(self._values), self._sides(own, lives=True)
        is_kept = sides == (old.sides or (None,) * len(sides))
        if self._last is None:
            decision = CLEARED if row != old.row else KEPT if is_kept else CLEARED_TOUCH
        elif is_record and row == old.row:
            decision = NO_OP if not older else LATE if is_kept else LATE_TOUCH
        elif self._is_there and below:
            decision = LATE_CLEARED
        elif is_record:
            decision = UPDATED
        else:
            is_first = old.kind == TOMBSTONE and bool(old.row) and old.order in (lowest_order(self._type), self._floor)
            decision = INSERTED_AFTER_PATCHES if is_first else INSERTED
        return KeyMet(decision, row, order, sides, self._tied if is_record else None)

    @property
    def _more(self) -> tuple[Any, ...]:
        return () if self._merging is None else self._merging.side_columns

    def _sides(self, own: Mapping[str | None, Any], *, lives: bool) -> tuple[Any, ...]:
        """Return the values of the side columns."""
        found = (_side(self._type, own),)
        if self._merging is None or self._merged is None:
            return found
        return found + self._merged.sides([self._at[one.number] for one in self._merging.fields], lives=lives)


def _side(order_type: str, orders: Mapping[str | None, Any]) -> list[dict[str, Any]] | None:
    """Return the value of the side column. orders: of fields, and of the last upsert."""
    found = [
        {"field": name, "order": None if order is None else to_column(order_type, [order])[0].as_py()}
        for name, order in orders.items()
    ]
    return found or None


def _own_orders(order_type: str, old: Old) -> dict[str | None, Any]:
    """Return the order values that fields of a record have of their own."""
    found = old.sides[0] if old.sides and old.sides[0] else ()
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
