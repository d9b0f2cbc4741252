"""Last wins: of each key's mutations the one with the highest precedence is left, and the truth table decides about it.

The fold is a semigroup: mutations may be folded in any grouping, in the map task and again in the reducer, with the
same winners, counts and notes. Tied, for example, combines as (top, winner, mixed): of two folds of one key the higher
top wins; where the tops are equal, the key is mixed if either fold is mixed or their winners differ.

>>> upsert, old = ((5, -1, 0, 0, b"k,new"), (False, b"k,new")), Old(RECORD, 4, b"k,old")
>>> LAST_WINS.meet_key(LAST_WINS.fold_key([upsert]), old).decision.winner
'updated'
>>> [one.meet_key(None, old).decision.master for one in (LAST_WINS, SNAPSHOT, REPLACED)]
['kept', 'deleted by absence', 'deleted by absence']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.key_hash import Hashes
from mutator.rules.key_moves import lowest
from mutator.rules.order_columns import flags
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
from mutator.rules.sort_order import hash_order
from mutator.rules.truth_table import FLOOR_TABLE, REPLACED_TABLE, TRUTH_TABLE, Case, Decision, case_name, case_of

_COMPARED = 1 << 17  # mutations whose keys and precedence are compared at a time


@dataclass(frozen=True, eq=False)
class LastWins(Register):
    """The register that leaves the last mutation of each key. A truth table decides about it."""

    table: Mapping[Case, Decision]
    full: bool = False
    place: str = ""  # where it decides, for people

    @property
    def replacing(self) -> Register:
        """The register of replaced partitions."""
        return REPLACED

    @property
    def buries_absent(self) -> bool:
        """Whether a record that has no mutation is deleted by absence."""
        return self.meet_key(None, Old(RECORD)).decision.master != "kept"

    def __reduce__(self) -> Any:
        return next(name for name, register in globals().items() if register is self)

    def fold(self, bag: Bag) -> tuple[Ints, dict[str, Any]]:
        """Return the winner of each key."""
        return folded(bag, _last_of_several)

    def meet(self, events: Events, olds: Olds, floor: Any = None) -> Iterator[Met]:
        """Look up each case of the truth table that occurs once; it decides about all of its keys."""
        if floor is not None and olds.kind != TOMBSTONE and not self.place:
            below = flags(pc.less(events.bag.rows("orders", events.last), floor))
            if olds.kind == RECORD:
                below &= flags(pc.less(olds.orders, floor))
            yield Met(FLOOR_TABLE[olds.kind, True], np.flatnonzero(below))
            keys = np.flatnonzero(~below)
            for met in self.meet(events.chosen(keys), olds.chosen(keys)):
                yield met._replace(keys=keys[met.keys])
            return
        codes = events.deletes.astype(np.int8) | olds.older.astype(np.int8) << 1 | olds.same.astype(np.int8) << 2
        for code in np.unique(codes):
            winner = "delete" if code & 1 else "upsert"
            case = case_of(self.table, olds.kind, winner, older=bool(code & 2), same=bool(code & 4))
            yield Met(self.table[case], np.flatnonzero(codes == code))

    def fold_key(self, mutations: Iterable[tuple[tuple[Any, ...], tuple[Any, ...]]]) -> Folded:
        """Leave the last mutation of one key."""
        place: tuple[Any, ...] = ()
        content: tuple[Any, ...] = False, b""
        count, mixed, upserts = 0, False, False
        for one, value in mutations:
            if one[:2] != place[:2]:
                mixed = False
            elif value != content:
                mixed = True
            place, content, count, upserts = one, value, count + 1, upserts or not value[0]
        return Folded(Mutation(place, *content), count, mixed, upserts)

    def meet_key(self, folded: Folded | None, old: Old, floor: Any = None) -> KeyMet:
        """Look up one key in the truth table."""
        if (old.kind, folded is not None) in FLOOR_TABLE and self._is_below(folded, old, floor):
            return KeyMet(FLOOR_TABLE[old.kind, folded is not None])
        return self._unmet[old.kind] if folded is None else KeyMet(self.table[self._case(folded, old)])

    @cached_property
    def _unmet(self) -> dict[str, KeyMet]:
        """The decision about a key without a mutation, by kind."""
        return {kind: KeyMet(self.table[self._case(None, Old(kind))]) for kind in (RECORD, TOMBSTONE)}

    def _is_below(self, folded: Folded | None, old: Old, floor: Any) -> bool:
        """Return whether all that is known of a key is older than the floor."""
        known = [] if old.kind == NOTHING else [old.order]
        orders = (*known, *([] if folded is None else [folded.last.order]))
        return floor is not None and not self.place and all(order < floor for order in orders)

    def line(self, folded: Folded | None, old: Old, floor: Any = None) -> str:
        """Return the name of the line of the truth table that decided."""
        if self._is_below(folded, old, floor):
            return "below the floor"
        known, winner, older, same = self._case(folded, old)
        return self.place + case_name((known, winner, None if self.place else older, same))

    def _case(self, folded: Folded | None, old: Old) -> Case:
        if folded is None:
            return case_of(self.table, old.kind, "absent" if self.full else "none", older=False, same=False)
        last = folded.last
        older = old.kind != NOTHING and old.order > last.order
        same = old.kind == RECORD and not last.is_delete and old.row == last.row
        return case_of(self.table, old.kind, "delete" if last.is_delete else "upsert", older=older, same=same)

    def decisions(self, kind: str) -> Iterator[Decision]:
        """Yield the decisions of the truth table about an upsert, or about a delete."""
        return (decision for (_, winner, _, _), decision in self.table.items() if winner == kind)


LAST_WINS = LastWins(TRUTH_TABLE)
SNAPSHOT = LastWins(TRUTH_TABLE, full=True)
REPLACED = LastWins(REPLACED_TABLE, place="replaced partition: ")


def folded(bag: Bag, several: Callable[[Bag, Ints], tuple[Ints, dict[str, Any]]]) -> tuple[Ints, dict[str, Any]]:
    """Return the mutations that are left of each key, as ``Register.fold`` does.

    Rows are sorted by the 64-bit hash of their key; keys are compared only where hashes are equal. several: returns the
    same of mutations whose hashes are not alone, in the order of their hashes.
    """
    hashes = bag.column("hashes")
    order = hash_order(hashes)
    again = np.zeros(len(order) + 1, np.bool_)
    again[1:-1] = hashes[order[1:]] == hashes[order[:-1]]
    shared = again[1:] | again[:-1]
    if not shared.any():
        return order, {}
    alone, rest = order[~shared], order[shared]
    found = [several(bag, rest[part]) for part in _slices(hashes[rest])]
    left = np.concatenate([alone, *(rows for rows, _ in found)])
    order = hash_order(hashes[left])
    changed = {name: _taken([bag.rows(name, alone), *(part[name] for _, part in found)], order) for name in found[0][1]}
    return left[order], changed


def _slices(hashes: Hashes) -> Iterator[slice]:
    """Cut sorted hashes between two that differ, so that few mutations are compared at a time."""
    start = 0
    while start < len(hashes):
        last = min(start + _COMPARED, len(hashes)) - 1
        end = int(np.searchsorted(hashes, hashes[last], side="right"))
        yield slice(start, end)
        start = end


class Competing(NamedTuple):
    """Mutations of some keys, by key and precedence."""

    rows: Ints
    begins: Ints  # positions in ``rows`` of the first one of each key
    last: Ints  # and of the last one
    top: Flags  # whether a mutation has the order value and sequence of its key's last one

    @property
    def key(self) -> Ints:
        """The number of each mutation's key."""
        found: Ints = np.repeat(np.arange(len(self.begins)), self.last - self.begins + 1)
        return found


def competing(bag: Bag, rows: Ints) -> Competing:
    """Sort mutations by key and precedence. rows: in the order of their hashes; so are the keys."""
    by = [*bag.precedence(rows), groups_of_keys(bag.rows("hashes", rows), bag.keys(rows))]
    sort = np.lexsort(by)
    equal = np.ones(len(sort) - 1, np.bool_)
    for column in by:
        equal &= column[sort[1:]] == column[sort[:-1]]
    if equal.any():  # files of one name in several directories, or rows of a table: the row's bytes decide
        # Equal rows are one mutation, of the last file: which one decides nothing but the outcomes by file.
        contents = np.zeros(len(rows), np.int64)
        tied = sort[np.append(equal, False) | np.append(False, equal)]
        contents[tied] = bag.content_ranks(rows[tied])
        sort = np.lexsort([bag.rows("inputs", rows), contents, *by])
    *_, sequence, order, key = (column[sort] for column in by)
    begins = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    lengths = np.diff(np.append(begins, len(sort)))
    last = begins + lengths - 1
    winner = np.repeat(last, lengths)
    return Competing(rows[sort], begins, last, (order == order[winner]) & (sequence == sequence[winner]))


def folded_lows(bag: Bag, found: Competing) -> dict[str, Any]:
    """Return the column lows of each key, as a part of what a fold returns; nothing where no row changes a key."""
    lows = bag.rows("lows", found.rows)
    if pa.types.is_null(lows.type):
        return {}
    return {"lows": lowest(lows, bag.rows("orders", found.rows), bag.rows("deletes", found.rows), found.begins)}


def _last_of_several(bag: Bag, rows: Ints) -> tuple[Ints, dict[str, Any]]:
    """Return the winner of each key, one of the rows, and its columns counts, mixed and upserts.

    rows: mutations in the order of their hashes; so are the winners.
    """
    found = competing(bag, rows)
    return found.rows[found.last], folded_columns(bag, found, found.begins)


def folded_columns(bag: Bag, found: Competing, begins: Ints) -> dict[str, Any]:
    """Return the columns counts, mixed, upserts and lows of groups of mutations. begins: of the groups."""
    rows, winner = found.rows, found.last[found.key]
    mixed = bag.rows("mixed", rows) & found.top
    # Contents are compared only with those that have the winner's order value and sequence.
    rivals = np.flatnonzero(found.top & (winner != np.arange(len(rows))))
    if len(rivals):
        mixed[rivals] |= bag.differ(rows[rivals], rows[winner[rivals]])
    return {
        **folded_lows(bag, found._replace(begins=begins)),
        "counts": np.add.reduceat(bag.rows("counts", rows), begins),
        "mixed": np.logical_or.reduceat(mixed, begins),
        "upserts": np.logical_or.reduceat(bag.rows("upserts", rows), begins),
    }


def _taken(columns: Sequence[Any], order: Ints) -> Any:
    """Return some rows of columns that are joined."""
    if isinstance(columns[0], np.ndarray):
        return np.concatenate(columns)[order]
    return pa.concat_arrays(columns).take(pa.array(order))


def groups_of_keys(hashes: Hashes, keys: Sequence[Any]) -> Ints:
    """Return a number for each row, equal for equal keys and ascending with the hash. hashes: sorted."""
    begins = np.zeros(len(hashes), np.bool_)
    begins[1:] = hashes[1:] != hashes[:-1]
    number: Ints = np.cumsum(begins)
    differ = np.zeros(max(len(hashes) - 1, 0), np.bool_)
    for column in keys:
        differ |= flags(pc.not_equal(column[1:], column[:-1]))
    differ &= ~begins[1:]
    if not differ.any():
        return number
    # Two keys with one hash: nearly impossible by chance, but they may have been constructed.
    known: dict[tuple[Any, ...], int] = {}
    values = zip(number.tolist(), *(column.to_pylist() for column in keys), strict=True)
    return np.array([known.setdefault(value, len(known)) for value in values], np.int64)
