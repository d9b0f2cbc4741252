"""Fields that a change of a key carries: the row with the new key does not send them, and the old key's row has them.

An *arrival* is an upsert with a new key that leaves fields unset. They are filled with those of the old key's row just
below the change: the mutations of the old key below its delete, in the feed, are folded onto what the place has, as
``patches`` does it. One may carry what another one brought, which is filled before it.

    old key's mutation     counts below the precedence of the delete that the change says; other copies of this delete,
                           which are told by what both halves of a change share, do not count
    what the place has     counts as far as its order value is not above the delete's: of a record that is newer, the
                           fields that are not; of a tombstone and what waits beside it, what is below it
    a truncate             clears what is below it, if it is below the change itself

Of a field with a merge function, a change carries the value of all that counts, which is a contribution of the new key.
Where the place has anything of the old key that is newer than the change, older contributions cannot be told from it:
such a field is not carried.

What the place has of the new key matters, too. A field with the change's own order value was filled before, perhaps by
a run that saw more of the old key: it stays. A newer field, and a newer tombstone, need no value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.merged_fields import OF_KEYS, CannotMerge, cannot_merge, entry_orders
from mutator.rules.order_columns import to_value
from mutator.rules.order_values import lowest_order
from mutator.rules.patched_key import is_unset, sets
from mutator.rules.patches import Patches
from mutator.rules.register import NOTHING, RECORD, TOMBSTONE, KeyMet, Mutation, Old

Key = tuple[bytes, ...]
Change = Any  # what both halves of a changed key share, and no other change has; None: not known
Place = tuple[int, int]  # number of the file, offset of the row


class FedMutation(NamedTuple):
    """A mutation of the feed."""

    key: Key
    mutation: Mutation
    change: Change
    where: Place


class Arrival(NamedTuple):
    """An upsert with a new key that leaves fields unset."""

    fed: FedMutation
    old_key: Key | None  # None: no delete of the feed is the other half
    below: tuple[Any, ...] = ()  # precedence of that delete


class Filled(NamedTuple):
    """What arrivals carry."""

    parts: Mapping[Place, Mapping[int, Any]]  # of an arrival, by field: as of ``RowFields.parts``
    incomplete: Sequence[Key]  # of the arrivals that still leave a field unset which nothing else has


@dataclass(frozen=True)
class CarriedValues:
    """What the arrivals of one file carry, as columns."""

    offsets: Mapping[str, Ints]  # by field: of the rows that carry it, ascending
    values: Mapping[str, Any]  # a pa.Array for each, with the types of the result

    def in_rows(self, offsets: Ints, unset: Mapping[str, Flags], deletes: Flags) -> dict[str, tuple[Ints, Any]]:
        """Return the rows of a batch that carry a field, and their values, by field.

        offsets: of the rows. unset: which rows leave a field unset.

        >>> own = CarriedValues({"n": np.array([30])}, {"n": pa.array(["x"])})
        >>> found = own.in_rows(np.array([0, 30]), {"n": np.array([True, True])}, np.array([False, False]))
        >>> {name: (rows.tolist(), values.to_pylist()) for name, (rows, values) in found.items()}
        {'n': ([1], ['x'])}
        """
        found = dict[str, tuple[Ints, Any]]()
        for name in self.offsets.keys() & unset.keys():
            known, rows = self.offsets[name], np.flatnonzero(unset[name] & ~deletes)
            at = np.minimum(np.searchsorted(known, offsets[rows]), len(known) - 1)
            same = known[at] == offsets[rows]
            if same.any():
                found[name] = rows[same], self.values[name].take(pa.array(at[same]))
        return found


def filled(
    register: Patches,
    arrivals: Sequence[Arrival],
    fed: Mapping[Key, Sequence[FedMutation]],
    olds: Mapping[Key, Old],
    truncates: Sequence[Any] = (),
) -> Filled:
    """Fill arrivals.

    fed: all mutations of their old and new keys. olds: what the place has of these. truncates: order values of the
    feed's truncates, and of the place's floor.
    """
    filling = _Filling(replace(register, unknown="wait", full=False), fed, olds, truncates)
    return filling.of(sorted(arrivals, key=lambda one: one.fed.mutation.place))


class _Filling:
    """The arrivals of a run, filled one after the other."""

    def __init__(
        self,
        register: Patches,
        fed: Mapping[Key, Sequence[FedMutation]],
        olds: Mapping[Key, Old],
        truncates: Sequence[Any],
    ) -> None:
        self._register, self._olds, self._truncates = register, olds, truncates
        self._known = defaultdict[Key, dict[Any, FedMutation]](dict)
        for key, every in fed.items():
            self._known[key] = {_name(one): one for one in every}
        self._left = dict[Any, Arrival]()  # that are not filled yet
        self._parts = dict[Place, Mapping[int, Any]]()
        self._unset = list[tuple[FedMutation, set[int]]]()  # those that nothing fills

    def of(self, arrivals: Sequence[Arrival]) -> Filled:
        """Fill arrivals. Mostly, those that others need come before them."""
        self._left = {_name(one.fed): one for one in arrivals}
        for one in arrivals:
            if _name(one.fed) in self._left:
                self._fill(one)
        return Filled(self._parts, [one.key for one, numbers in self._unset if self._needs(one, numbers)])

    def _fill(self, arrival: Arrival) -> None:
        one, register = self._left.pop(_name(arrival.fed)).fed, self._register
        mask = one.mutation.unset or b""
        missing = {number for number in range(len(register.fields.names)) if is_unset(mask, number)}
        new = self._olds.get(one.key, Old(NOTHING))
        missing -= {number for number in missing if one.mutation.order in _orders_of(register, new, number)}
        own = {number: value for number, value in self._values(arrival).items() if number in missing} if missing else {}
        if own:
            self._parts[one.where] = own
            unset = {number for number in range(len(register.fields.names)) if is_unset(mask, number)} - own.keys()
            self._known[one.key][_name(one)] = one._replace(mutation=_with(register, one.mutation, own, unset))
        self._unset.append((one, missing - own.keys()))

    def _values(self, arrival: Arrival) -> Mapping[int, Any]:
        """Return the fields of the old key just below a change."""
        if arrival.old_key is None:
            return {}
        change, below = arrival.fed.change, list[Mutation]()
        for name, other in [*self._known[arrival.old_key].items()]:
            if other.mutation.place < arrival.below and (change is None or other.change != change):
                if name in self._left:
                    self._fill(self._left[name])
                below.append(self._known[arrival.old_key][name].mutation)
        old = self._olds.get(arrival.old_key, Old(NOTHING))
        try:
            return _values_below(self._register, below, old, arrival.below[0], self._truncates)
        except CannotMerge as fault:
            raise cannot_merge(fault.field, arrival.old_key, fault.text) from None

    def _needs(self, one: FedMutation, numbers: set[int]) -> bool:
        """Return whether fields that an arrival leaves unset have no newer value."""
        new, order = self._olds.get(one.key, Old(NOTHING)), one.mutation.order
        later = [other.mutation for other in self._known[one.key].values() if other.mutation.place > one.mutation.place]
        return not any(other > order for other in self._truncates) and not all(
            _is_newer(self._register, new, number, one) or any(sets(other, number) for other in later)
            for number in numbers
        )


def _name(one: FedMutation) -> Any:
    return one.where, one.mutation.place


def _with(register: Patches, one: Mutation, own: Mapping[int, Any], missing: set[int]) -> Mutation:
    """Return a mutation that sets more fields. missing: those that it still leaves unset."""
    values = register.fields.parts(one.row)
    row = register.fields.whole([own.get(number, value) for number, value in enumerate(values)])
    mask = sum(1 << number for number in missing)
    return one._replace(row=row, unset=mask.to_bytes((len(values) + 7) // 8, "little") if mask else None)


def _values_below(
    register: Patches, mutations: Sequence[Mutation], old: Old, order: Any, truncates: Sequence[Any]
) -> Mapping[int, Any]:
    """Return the fields of a key just below a change. order: of the delete that the change says."""
    floor = max((one for one in truncates if one < order), default=None)
    then = _at(register, old, order, floor)
    hidden = set[int]()
    if then is not old and register.merging is not None and (old.kind == RECORD or any(old.sides)):
        hidden = {one.number for one in register.merging.fields}
    if not mutations:
        if then.kind == RECORD and floor is not None and then.order < floor:
            return {}
        found = _known(register, then.kind == RECORD, then.row, then.sides)
        found = {number: value for number, value in found.items() if not _is_below(register, then, number, floor)}
    else:
        folded = register.fold_key((one.place, one[1:]) for one in sorted(mutations, key=lambda one: one.place))
        found = _met(register, register.meet_key(folded, then, floor), then, folded.last)
    return {number: value for number, value in found.items() if number not in hidden}


def _met(register: Patches, met: KeyMet, old: Old, last: Mutation) -> Mapping[int, Any]:
    """Return the fields that a decision leaves."""
    result, row = met.decision.result, met.row
    if result in ("keep", "keep tombstone") or (result in ("touch", "touch tombstone") and row is None):
        return _known(register, old.kind == RECORD, old.row, old.sides)
    if result in ("write", "touch"):
        return _known(register, True, last.row if row is None else row, met.sides)
    return {} if row is None else _known(register, False, row, met.sides)


def _known(register: Patches, lives: bool, row: bytes, sides: tuple[Any, ...]) -> Mapping[int, Any]:
    """Return the fields of a row that mutations have set: of one that waits, those with an order value."""
    if not row:
        return {}
    own = _own_orders(sides)
    values, names = register.fields.parts(row), register.fields.names
    return {
        number: value
        for number, (name, value) in enumerate(zip(names, values, strict=True))
        if (own.get(name) is not None if name in own else lives)
    }


def _at(register: Patches, old: Old, order: Any, floor: Any) -> Old:
    """Return what a place had of a key before a change, as far as what it has now shows it. floor: below the change."""
    if old.kind == NOTHING or (old.kind == RECORD and old.order <= order):
        return old

    def is_below(one: Any) -> bool:
        at = None if one is None else to_value(register.order_type, one)
        return at is not None and at <= order and (floor is None or at >= floor)

    grave = old.order if old.kind == TOMBSTONE and old.order < order else None
    own = {name: at for name, at in _own_orders(old.sides).items() if name is not None}
    sides = [{"field": name, "order": at} for name, at in own.items() if is_below(at)]
    if grave is not None and len(sides) == len(own):
        return old
    if grave is None and not sides:
        return Old(NOTHING)
    grave = lowest_order(register.order_type) if grave is None else grave
    others: list[Any] = [None if one.name in OF_KEYS else [] for one in register.side_columns[1:]]
    return Old(TOMBSTONE, grave, old.row, (sides, *others)) if sides else Old(TOMBSTONE, grave)


def _own_orders(sides: Sequence[Any]) -> dict[str | None, Any]:
    """Return the order values that fields have of their own, as side columns have them."""
    return {one["field"]: one["order"] for one in (sides[0] if sides and sides[0] else ())}


def _order_of(register: Patches, old: Old, number: int) -> Any:
    """Return the order value of a field that a place has; None if it has none."""
    own = _own_orders(old.sides)
    name = register.fields.names[number]
    if name in own:
        return None if own[name] is None else to_value(register.order_type, own[name])
    return old.order if old.kind == RECORD else None


def _orders_of(register: Patches, old: Old, number: int) -> list[Any]:
    """Return the order value of a field that a place has, and those of its entries."""
    merging = register.merging
    entries = None if merging is None else entry_orders(merging, old.sides, number)
    return [_order_of(register, old, number), *(entries or ())]


def _is_below(register: Patches, old: Old, number: int, floor: Any) -> bool:
    """Return whether a truncate clears a field of a record."""
    return old.kind == RECORD and floor is not None and _order_of(register, old, number) < floor


def _is_newer(register: Patches, old: Old, number: int, one: FedMutation) -> bool:
    """Return whether a place needs no value of an arrival for a field."""
    found, order = _order_of(register, old, number), one.mutation.order
    return (found is not None and found > order) or (old.kind == TOMBSTONE and old.order >= order)
