"""The reduce step: walk the sorted elements of one bucket, decide each key by the truth table, count everything.

Plain functions over iterators, in constant memory: no Spark, no storage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

from mutator.engine.records.read import MASTER, TOMBSTONE, Element
from mutator.engine.tally import Tally
from mutator.rules.outcome import decide

__all__ = ["Tombstone", "merge_bucket"]

Tombstone = tuple[tuple[bytes, ...], Any, int]  # key, order value, commit time in ms

SURVIVOR, INSERTED = 0, 1  # first part of a row's place in its file


def merge_bucket(
    elements: Iterable[Element],
    tally: Tally,
    bury: Callable[[Tombstone], None],
    *,
    now: int,
    full: bool,
    horizon: Any = None,
    expire_before: int | None = None,
) -> Iterator[tuple[tuple[Any, ...], bytes, Any]]:
    """Yield ``(place, row, order value)`` for each record that lives on; fill the tally.

    elements: sorted by (key, side, precedence). bury: takes each tombstone that the bucket has afterwards, by key.
    place: sorts the rows of the output file: survivors and updated rows at the place they had in the master, then the
    inserted ones by key.
    """
    counts = tally.counts
    for key, group in groupby(elements, key=_key):
        # -- what is held, and the winner
        tombstone: tuple[Any, int] | None = None
        held: tuple[Any, ...] | None = None  # precedence of the master's record
        held_row = b""
        winner: tuple[Any, ...] | None = None
        is_delete, row = content = (False, b"")
        mutations = 0
        mixed = upserts = duplicates = False
        for (_, _, side, precedence), value in group:
            if side == MASTER:
                if held is not None:
                    counts["master duplicate"] += 1
                    duplicates = True
                held, held_row = precedence, value[1]
            elif side == TOMBSTONE:
                tombstone = (value[0], value[1])
                counts["tombstones in"] += 1
            else:
                # Tied: the mutations with the winner's order value and sequence are not all the same.
                if winner is None or precedence[:2] != winner[:2]:
                    mixed = False
                elif value != content:
                    mixed = True
                winner, content = precedence, value
                mutations += 1
                upserts = upserts or not value[0]
        is_delete, row = content

        # -- the truth table
        kind = "record" if held is not None else "tombstone" if tombstone is not None else "nothing"
        held_order = held[0] if held is not None else tombstone[0] if tombstone is not None else None
        if winner is None:
            decision = decide(kind, "absent" if full else "none", late=False, same=False)
        else:
            order = winner[0]
            late = kind != "nothing" and held_order > order
            same = held is not None and not is_delete and held_row == row
            decision = decide(kind, "delete" if is_delete else "upsert", late=late, same=same)
            counts[f"feed {decision.winner}"] += 1
            counts["feed superseded"] += mutations - 1
            if tally.highest is None or order > tally.highest:
                tally.highest = order
            if (kind == "record" and held_order == order and not same) or (
                kind == "tombstone" and held_order == order and not is_delete
            ):
                mixed = True
            if mixed:
                tally.note("tied", key)
            if decision.winner == "delete of unknown" and upserts:
                tally.note("inserted and deleted", key)
            if decision.winner == "inserted":
                if kind == "tombstone":
                    tally.note("revived", key)
                # Also where a tombstone is forgotten: a younger one of the same key may have expired before it came.
                if horizon is not None and order < horizon:
                    tally.note("below horizon", key)
        if duplicates:
            tally.note("duplicate IDs", key)
        if decision.master is not None:
            counts[f"master {decision.master}"] += 1

        # -- the result
        result = decision.result
        if result in ("keep", "touch", "write"):
            order = held_order if result == "keep" else winner[0]  # type: ignore[index]
            # Updated rows take the place of the record that they replace.
            place = (SURVIVOR, held[2], held[3]) if held is not None else (INSERTED, key)
            yield place, row if result == "write" else held_row, order
        elif result == "bury":
            assert winner is not None
            bury((key, winner[0], now))
        elif result == "bury record":
            bury((key, held_order, now))
        else:
            assert tombstone is not None
            order, committed = tombstone
            if result == "touch tombstone":
                assert winner is not None
                # The same delete again tells nothing new, so it does not make the tombstone younger.
                order, committed = winner[0], now if winner[0] > order else committed
            if expire_before is not None and committed < expire_before:
                counts["expired"] += 1
                if tally.expired is None or order > tally.expired:
                    tally.expired = order
            else:
                bury((key, order, committed))


def _key(element: Element) -> tuple[bytes, ...]:
    return element[0][1]
