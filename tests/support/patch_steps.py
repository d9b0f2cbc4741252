"""The rules of patches, step by step: a fold of the mutations of a run, and a state that knows nothing older.

The state is minimal: the row, its order value and those of its fields; a tombstone has one order value. Here a place
is (order value, 0) of what the store has, and (order value, 1, position) of a mutation: of one order value the mutation
wins, and within the run the position decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tests.support.patch_model import NEVER, NOTHING, RECORD, TOMBSTONE, WAITING, Kept, Mutation

Place = tuple[Any, ...]
Register = tuple[Place, Any]


class Fold(NamedTuple):
    """What is left of some mutations of a key. Associative and commutative: each part is a maximum."""

    registers: tuple[Register, ...]  # of the fields
    deleted: Place = NEVER  # the highest delete
    row: Place = NEVER  # the highest upsert or patch
    full: Place = NEVER  # the highest upsert
    mutations: int = 0


def fold_of(fields: Sequence[str], at: int, one: Mutation) -> Fold:
    """Return the fold of one mutation. at: its position in the run."""
    place = (one.order, 1, at)
    if one.op == "D":
        return Fold(tuple((place, None) for _ in fields), deleted=place, mutations=1)
    registers = tuple((place, one.given[name]) if name in one.given else (NEVER, None) for name in fields)
    return Fold(registers, row=place, full=place if one.op == "U" else NEVER, mutations=1)


def combined(one: Fold, other: Fold) -> Fold:
    registers = tuple(map(max, one.registers, other.registers))
    return Fold(registers, *map(max, one[1:4], other[1:4]), one.mutations + other.mutations)


def folded(fields: Sequence[str], run: Iterable[Mutation]) -> Fold:
    """Return the fold of the mutations of a run, all of one key; there is at least one."""
    first, *others = (fold_of(fields, at, one) for at, one in enumerate(run))
    for other in others:
        first = combined(first, other)
    return first


def meet(old: Kept, fold: Fold, unknown: str) -> Kept:
    """Return the state after a run."""
    row, deleted, full = _placed(old.order), _placed(old.deleted), _placed(old.full)
    known = tuple((_placed(at), value) for at, value in zip(old.orders, old.values, strict=True))
    if old.kind == TOMBSTONE:
        row, deleted, known = NEVER, row, ((row, None),) * len(fold.registers)
    known = known or ((NEVER, None),) * len(fold.registers)
    row, deleted, full = max(row, fold.row), max(deleted, fold.deleted), max(full, fold.full)
    if row < deleted:
        return Kept(TOMBSTONE, deleted[0])
    registers = [
        max(have, got, key=lambda register: register[0]) for have, got in zip(known, fold.registers, strict=True)
    ]
    values = tuple(value for _, value in registers)
    orders = tuple(_order(place) for place, _ in registers)
    if unknown == "insert":
        return Kept(RECORD, row[0], values, orders)
    if full > deleted:
        return Kept(RECORD, row[0], values, orders, full=full[0])
    return Kept(WAITING, row[0], values, orders, deleted=_order(deleted))


def outcomes(old: Kept, fold: Fold, new: Kept, unknown: str) -> Counter[str]:
    """Return the counts of a run: the highest mutation by what the key was and is, the others by the fold."""
    last = max(fold.row, fold.deleted)
    base = NEVER if unknown == "insert" else max(fold.full, fold.deleted)  # the last one that sets all fields
    holders = {base, *(place for place, _ in fold.registers)} - {NEVER, last}
    counts = Counter({"combined": len(holders), "superseded": fold.mutations - 1 - len(holders)})
    known = old.deleted if old.kind == WAITING else old.order
    below = known is not None and last[0] < known
    found = _OUTCOMES[old.kind, new.kind]
    if found == "waiting" and (below or last == fold.deleted):
        found = ""
    counts[found or ("late" if below else "no-op")] += 1
    if old.kind == new.kind == RECORD and old.values != new.values:
        counts -= Counter({"late" if below else "no-op": 1})
        counts.update({"updated": 1, "out of order": below})
    return +counts


_OUTCOMES = {
    (NOTHING, RECORD): "inserted",
    (TOMBSTONE, RECORD): "inserted",
    (WAITING, RECORD): "inserted",
    (RECORD, RECORD): "",
    (RECORD, TOMBSTONE): "deleted",
    (RECORD, WAITING): "deleted",
    (NOTHING, TOMBSTONE): "delete of unknown",
    (TOMBSTONE, TOMBSTONE): "",
    (WAITING, TOMBSTONE): "",
    (NOTHING, WAITING): "patch of unknown",
    (TOMBSTONE, WAITING): "waiting",
    (WAITING, WAITING): "waiting",
}


def _placed(order: Any) -> Place:
    return NEVER if order is None else (order, 0)


def _order(place: Place) -> Any:
    return place[0] if place else None
