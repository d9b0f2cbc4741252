"""The reduce step: walk the sorted elements of one bucket, decide each key by the register, count everything.

Plain functions over iterators, in constant memory: no Spark, no storage.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, groupby
from types import MappingProxyType
from typing import Any

from mutator.engine.receipts import Key, LateOrders
from mutator.engine.records import read_records
from mutator.engine.records.read_records import MASTER, Element
from mutator.engine.records.record_spellings import SortedSpellings
from mutator.engine.tally import MET_IN_PART, Tally
from mutator.rules.absences import met_order
from mutator.rules.key_moves import LowsOfKey
from mutator.rules.last_wins import LAST_WINS
from mutator.rules.merged_fields import CannotMerge, cannot_merge
from mutator.rules.register import NOTHING, RECORD, TOMBSTONE, Folded, Mutation, Old, Register
from mutator.rules.truth_table import MOVED_ONTO, REVIVED, SEALED, Decision

# Key, order value, commit time in ms, values beside it
Tombstone = tuple[Key, Any, int, tuple[Any, ...]]
Precedence = tuple[Any, ...]

_CHANGES = ("write", "bury", "bury record", "drop", "wait")  # results that change a row
SURVIVOR, INSERTED = 0, 1  # first part of a row's position in its file
_NO_OLD = Old(NOTHING)


def merge_bucket(
    elements: Iterable[Element],
    tally: Tally,
    bury: Callable[[Tombstone], None],
    changed: Callable[[bytes | None, bytes | None], None] | None = None,
    won: Callable[[str, Precedence], None] | None = None,
    rejected: Callable[[Mutation, str], None] | None = None,
    *,
    now: int,
    register: Register = LAST_WINS,
    horizon: Any = None,
    expire_before: int | None = None,
    spellings: SortedSpellings | None = None,
    absences: Mapping[int, Any] = MappingProxyType({}),
    floor: Any = None,
    truncates: bool = False,
    known_floor: Any = None,
    as_of: Any = None,
    no_sides: tuple[None, ...] = (),
    stays: Callable[[bytes], bool] | None = None,
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Yield ``(position, (row, order value, value of a side column, …))`` for each record that is left; fill the tally.

    elements: sorted by (key, side, precedence). bury: called with each tombstone that the bucket has afterwards, by
    key. changed: called with each row that changes, before and after, or None. won: called with the outcome and the
    precedence of each winner. rejected: called with each winner that is rejected, and why. horizon, expire_before: None
    where tombstones never expire. spellings: gets the keys of records, and those that are inserted. absences: by which
    the feed meets tombstones, unless it is a full snapshot. floor: the highest truncate. truncates: the run raised it.
    known_floor, as_of: as in ``Plan``. no_sides: a NULL for each side column. stays: returns whether a record
    stays that a full snapshot lacks.

    Rows sorted by position are in the order of the output file: survivors and updated rows by their position in the
    master, then inserted rows by key.
    """
    decided = Counter[Decision]()
    for key, group in _by_order(elements) if register.by_order else groupby(elements, key=_key):
        lows = LowsOfKey()
        record, tombstone, folded, duplicates = _collect(group, tally.counts, register, lows)
        own = folded
        if as_of is not None and folded is not None:
            folded = raised(folded, as_of)
        old = _NO_OLD
        if record is not None:
            order = record[0][0] if known_floor is None else max(record[0][0], known_floor)
            old = Old(RECORD, order, record[1], record[2], known_floor)
        elif tombstone is not None:
            order = tombstone[0] if register.full else met_order(tombstone[0], tombstone[1], absences)
            order = order if floor is None else max(order, floor)
            _, _, *beside = tombstone
            old = Old(TOMBSTONE, order, beside[0], tuple(beside[1:])) if any(beside) else Old(TOMBSTONE, order)
        met_floor = floor if truncates or record is None else None  # as in ``floor_of``
        by = register
        if record is not None and stays is not None:
            is_outside = stays(old.row)
            by = LAST_WINS if folded is None and is_outside else register
            tally.counts[MET_IN_PART] += folded is not None and not is_outside
        try:
            met = by.meet_key(folded, old, met_floor)
        except CannotMerge as fault:
            raise cannot_merge(fault.field, key, fault.text) from None
        decision, new_row, new_order, new_sides, tied, is_sealed, clashes = met
        folded = folded._replace(mixed=True) if clashes and folded is not None else folded
        winner = None if folded is None else folded.last
        if folded is not None:
            _note_winner(tally, key, folded, old, decision, tied, horizon, rejected)
            if won is not None:
                for one in folded.left[:-1]:
                    won("rejected" if decision.winner == "rejected" else "combined", one.place)
            lives = old.kind == RECORD and (met_floor is None or old.order >= met_floor)
            if is_sealed:
                tally.note(SEALED, key)
            if lows.moved_onto(old.order if lives else None):
                tally.note(MOVED_ONTO, key)
        elif decision.master == "deleted by absence" and register.full:
            tally.note_absent([(old.order, key)])
        elif decision.master == "deleted by absence":
            tally.high(old.order)
        elif decision.master == "truncated":
            tally.orders.add(old.order)
        is_late = decision.winner == "late" and old.kind == RECORD and decision.result in ("write", "wait")
        if is_late or (folded is None and decision.result in ("write", "touch", "wait")):
            tally.note("partly cleared", key)
        decided[decision] += 1
        if spellings is not None and record is not None and decision.master not in ("removed", "truncated"):
            spellings.record(key)
        elif spellings is not None and decision.winner == "inserted":
            spellings.insert(key)
        if won is not None and winner is not None and decision.winner is not None:
            won(decision.winner, winner.place)
        result = decision.result
        if duplicates:
            tally.note("duplicate IDs", key)
        if folded is not None:
            new_row = folded.last.row if new_row is None else new_row
            new_order = own.last.order if new_order is None and own is not None else new_order
        if changed is not None and result in _CHANGES and (record or result == "write"):
            before = None if record is None else old.row
            changed(before, new_row if result == "write" else None)
        if result in ("keep", "touch", "write", "rewrite"):
            # An updated row replaces its record where the record is.
            place = (new_order,) if register.by_order else ()
            position = (INSERTED, key, *place) if record is None else (SURVIVOR, *record[0][2:4], *record[0][5:])
            row = new_row if result in ("write", "rewrite") else old.row
            assert row is not None
            if result == "keep" or (result == "touch" and register.side_columns and not new_sides):
                new_sides = old.sides
            own_order = record[0][0] if record is not None and result == "keep" else new_order
            yield position, (row, own_order, *(new_sides or no_sides))
            continue
        if result == "drop":
            continue
        order, committed = _buried(result, tombstone, old.order, new_order, now)
        waiting: tuple[Any, ...] = ()
        if result == "keep tombstone" and old.row:
            waiting = old.row, *old.sides
        elif result in ("bury", "wait") and met.row is not None:
            waiting = met.row, *new_sides
        if expire_before is not None and committed < expire_before and not waiting:
            tally.expire(1, met_order(order, committed, absences))
        else:
            bury((key, order, committed, waiting))
    for decision, count in decided.items():
        tally.count(decision, count)


def raised(folded: Folded, order: Any) -> Folded:
    """Return the mutations of a key in a snapshot: they count as not older than what the snapshot is as of."""
    every = (folded.last, *folded.left)
    last, *left = (one if one.order >= order else one._replace(place=(order, *one.place[1:])) for one in every)
    return folded._replace(last=last, left=tuple(left))


def _collect(
    group: Iterator[Element], counts: Counter[str], register: Register, lows: LowsOfKey
) -> tuple[tuple[Precedence, bytes, tuple[Any, ...]] | None, tuple[Any, ...] | None, Folded | None, bool]:
    """Return what a key's sorted elements are; count those of the master.

    Returns the precedence, the row and the sides of the master's record, the order value and commit time of the
    tombstone, the folded mutations, and whether the master has several rows. lows: watches the mutations.
    """
    record: tuple[Precedence, bytes, tuple[Any, ...]] | None = None
    tombstone: tuple[Any, ...] | None = None
    duplicates = False
    for element in group:
        (_, _, side, precedence), value = element
        if side == MASTER:
            if record is not None:
                counts["master duplicate"] += 1
                duplicates = True
            record = precedence, value[1], value[2:]
        elif side == read_records.TOMBSTONE:
            tombstone = value
            counts["tombstones in"] += 1
        else:  # the mutations come last
            mutations = ((place, value) for (_, _, _, place), value in chain([element], group))
            return record, tombstone, register.fold_key(lows.watched(mutations)), duplicates
    return record, tombstone, None, duplicates


def _note_winner(
    tally: Tally,
    key: Key,
    folded: Folded,
    old: Old,
    decision: Decision,
    tied: bool | None,
    horizon: Any,
    rejected: Callable[[Mutation, str], None] | None,
) -> None:
    """Note the remarks on the mutations of a key."""
    winner, outcome = folded.last, decision.winner
    others = folded.left[:-1]
    tally.counts["feed superseded"] += folded.mutations - 1 - len(others)
    tally.counts["feed rejected" if outcome == "rejected" else "feed combined"] += len(others)
    tally.high(winner.order)
    if old.kind != NOTHING:
        tally.orders.add(old.order)
    is_other = winner.row != old.row or winner.is_delete if old.kind == RECORD else not winner.is_delete
    by_field = tied is not None
    if by_field and outcome == "updated" and old.order > winner.order:
        tally.note("out of order", key)
    if tied is None:
        tied = old.kind != NOTHING and old.order == winner.order and is_other
    if folded.mixed or tied:
        tally.note("tied", key)
    # Also where a tombstone is forgotten: a newer one of the same key may have expired before.
    sets = outcome == "inserted" or decision.result == "wait" or (by_field and decision.result in ("write", "touch"))
    if horizon is not None and sets and min(one.order for one in folded.left or (winner,)) < horizon:
        tally.note("below horizon", key)
    if outcome == "inserted":
        if old.kind == TOMBSTONE:
            tally.note(decision.reason or REVIVED, key)
    elif outcome == "late":
        if old.kind != NOTHING and old.order > winner.order:  # else the floor is higher
            tally.note_late(LateOrders(winner.order, winner.order, old.order, old.order))
    elif outcome == "delete of unknown":
        if folded.upserts:
            tally.note("inserted and deleted", key)
    elif outcome == "rejected" and rejected is not None:
        for one in (*others, winner):  # all mutations that are left of a key are rejects, as its last one is
            rejected(one, decision.reason)


def _buried(
    result: str, tombstone: tuple[Any, ...] | None, old_order: Any, new_order: Any, now: int
) -> tuple[Any, int]:
    """Return the order value and commit time of a key's tombstone.

    old_order: of the record or tombstone that it had before. new_order: of the decision.
    """
    if result == "bury record":
        return old_order, now
    if result in ("bury", "wait"):
        return new_order, now
    assert tombstone is not None
    if result == "keep tombstone":
        return tombstone[0], tombstone[1]
    # The same delete again changes nothing, so it does not make the tombstone newer.
    return new_order, now if new_order > tombstone[0] else tombstone[1]


def _by_order(elements: Iterable[Element]) -> Iterator[tuple[Key, Iterator[Element]]]:
    """Yield the elements of each key that have one order value."""

    def order(element: Element) -> Any:
        (_, _, side, precedence), value = element
        return value[0] if side == read_records.TOMBSTONE else precedence[0]

    for key, group in groupby(elements, key=_key):
        for _, found in groupby(sorted(group, key=order), key=order):
            yield key, found


def _key(element: Element) -> Key:
    return element[0][1]
