"""The reduce step: walk the sorted elements of one bucket, decide each key by the truth table, count everything.

Plain functions over iterators, in constant memory: no Spark, no storage.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from types import MappingProxyType
from typing import Any, NamedTuple

from mutator.engine.receipts import Key, LateOrders
from mutator.engine.records.read_records import MASTER, TOMBSTONE, Element
from mutator.engine.records.record_spellings import SortedSpellings
from mutator.engine.tally import Tally
from mutator.rules.absences import met_order
from mutator.rules.truth_table import Decision, decide, decide_replaced

Tombstone = tuple[Key, Any, int]  # key, order value, commit time in ms
Precedence = tuple[Any, ...]

SURVIVOR, INSERTED = 0, 1  # first part of a row's position in its file


def merge_bucket(
    elements: Iterable[Element],
    tally: Tally,
    bury: Callable[[Tombstone], None],
    changed: Callable[[bytes | None, bytes | None], None] | None = None,
    won: Callable[[str, Precedence], None] | None = None,
    *,
    now: int,
    full: bool,
    replaced: bool = False,
    horizon: Any = None,
    expire_before: int | None = None,
    spellings: SortedSpellings | None = None,
    absences: Mapping[int, Any] = MappingProxyType({}),
) -> Iterator[tuple[tuple[Any, ...], tuple[bytes, Any]]]:
    """Yield ``(position, (row, order value))`` for each record that survives or is inserted; fill the tally.

    elements: sorted by (key, side, precedence). bury: called with each tombstone that the bucket has afterwards, by
    key. changed: called with each row that changes, before and after, or None. won: called with the
    outcome and the precedence of each winner. full: the feed is a full snapshot. replaced: the feed replaces all
    records. horizon, expire_before: None where tombstones never expire. spellings: gets the keys of records, and those
    that are inserted. absences: by which the feed meets tombstones, unless it is a full snapshot.

    Rows sorted by position are in the order of the output file: survivors and updated rows by their position in the
    master, then inserted rows by key.
    """
    counts, decided = tally.counts, Counter[Decision]()
    without_winner = "absent" if full else "none"
    decided_by = decide_replaced if replaced else decide
    for key, group in groupby(elements, key=_key):
        record, record_row, tombstone, winner, duplicates = _collect(group, counts)
        known = "record" if record is not None else "tombstone" if tombstone is not None else "nothing"
        order = record[0] if record is not None else None
        if tombstone is not None and record is None:
            order = tombstone[0] if full else met_order(*tombstone, absences)
        if winner is None:
            decision = decided_by(known, without_winner, older=False, same=False)
            if replaced and record is not None:
                tally.high(order)
            if full and record is not None:
                tally.note_absent([(order, key)])
        else:
            older = known != "nothing" and order > winner.order
            if known != "nothing":
                tally.orders.add(order)
            if older and not replaced:
                tally.note_late(LateOrders(winner.order, winner.order, order, order))
            same = record is not None and not winner.is_delete and record_row == winner.row
            kind = "delete" if winner.is_delete else "upsert"
            decision = decided_by(known, kind, older=older, same=same)
            tied = order == winner.order and (not winner.is_delete if record is None else not same)
            _note_winner(tally, key, winner, decision.winner, known, known != "nothing" and tied, horizon)
        decided[decision] += 1
        if spellings is not None and record is not None and decision.master != "removed":
            spellings.record(key)
        elif spellings is not None and decision.winner == "inserted":
            spellings.insert(key)
        if won is not None and winner is not None and decision.winner is not None:
            won(decision.winner, winner.place)
        result = decision.result
        if duplicates:
            tally.note("duplicate IDs", key)
        if changed is not None and result in ("write", "bury", "bury record") and (record or result == "write"):
            before = record_row if record is not None else None
            changed(before, winner.row if result == "write" else None)  # type: ignore[union-attr]
        if result in ("keep", "touch", "write"):
            # An updated row replaces its record where the record is.
            position = (SURVIVOR, *record[2:4], *record[5:]) if record is not None else (INSERTED, key)
            row = winner.row if result == "write" else record_row  # type: ignore[union-attr]
            yield position, (row, order if result == "keep" else winner.order)  # type: ignore[union-attr]
            continue
        order, committed = _buried(result, tombstone, order, winner, now)
        if expire_before is not None and committed < expire_before:
            tally.expire(1, met_order(order, committed, absences))
        else:
            bury((key, order, committed))
    for decision, count in decided.items():
        tally.count(decision, count)


class _Winner(NamedTuple):
    """The mutation of a key with the highest precedence, and remarks on the others."""

    order: Any
    place: Precedence
    is_delete: bool
    row: bytes
    mutations: int
    mixed: bool  # those with the winner's order value and sequence are not all the same
    upserts: bool  # one of them is an upsert


def _collect(
    group: Iterable[Element], counts: Counter[str]
) -> tuple[Precedence | None, bytes, tuple[Any, int] | None, _Winner | None, bool]:
    """Return the result of a key's sorted elements; count those of the master.

    Returns the precedence and the row of the master's record, the order value and commit time of the tombstone, the
    winner, and whether the master has several rows.
    """
    record: Precedence | None = None
    record_row = b""
    tombstone: tuple[Any, int] | None = None
    winner: Precedence | None = None
    content: tuple[Any, ...] = (False, b"")
    mutations = 0
    mixed = upserts = duplicates = False
    for (_, _, side, precedence), value in group:
        if side == MASTER:
            if record is not None:
                counts["master duplicate"] += 1
                duplicates = True
            record, record_row = precedence, value[1]
        elif side == TOMBSTONE:
            tombstone = (value[0], value[1])
            counts["tombstones in"] += 1
        else:
            if winner is None or precedence[:2] != winner[:2]:
                mixed = False
            elif value != content:
                mixed = True
            winner, content = precedence, value
            mutations += 1
            upserts = upserts or not value[0]
    last = None if winner is None else _Winner(winner[0], winner, content[0], content[1], mutations, mixed, upserts)
    return record, record_row, tombstone, last, duplicates


def _note_winner(
    tally: Tally, key: Key, winner: _Winner, outcome: str | None, known: str, tied: bool, horizon: Any
) -> None:
    """Note the remarks on the mutations of a key.

    outcome: of the winner. known: "record", "tombstone" or "nothing". tied: the winner has the order value of the
    record or tombstone, and another content.
    """
    tally.counts["feed superseded"] += winner.mutations - 1
    tally.high(winner.order)
    if tied or winner.mixed:
        tally.note("tied", key)
    if outcome == "delete of unknown" and winner.upserts:
        tally.note("inserted and deleted", key)
    if outcome == "inserted":
        if known == "tombstone":
            tally.note("revived", key)
        # Also where a tombstone is forgotten: a newer one of the same key may have expired before.
        if horizon is not None and winner.order < horizon:
            tally.note("below horizon", key)


def _buried(
    result: str, tombstone: tuple[Any, int] | None, order: Any, winner: _Winner | None, now: int
) -> tuple[Any, int]:
    """Return the order value and commit time of a key's tombstone. order: of the record or tombstone it had before."""
    if result == "bury record":
        return order, now
    if result == "keep tombstone":
        assert tombstone is not None
        return tombstone
    assert winner is not None
    if result == "bury":
        return winner.order, now
    assert tombstone is not None
    # The same delete again changes nothing, so it does not make the tombstone newer.
    return winner.order, now if winner.order > tombstone[0] else tombstone[1]


def _key(element: Element) -> Key:
    return element[0][1]
