"""Toy registers, which show that the contract of registers is wide enough: of two fields, of all events, of rejects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.rules.byte_columns import Ints
from mutator.rules.last_wins import REPLACED, LastWins, groups_of_keys
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
from mutator.rules.truth_table import TRUTH_TABLE, Decision

UNSET = "~"
FIELDS = (0, 1)
LOWEST = -1


class History(LastWins):
    """Keeps all events of a key: a record or a tombstone for each order value, of which the last mutation wins."""

    by_order = True

    def __init__(self) -> None:
        super().__init__(TRUTH_TABLE)

    def __reduce__(self) -> Any:
        return History, ()

    def fold(self, bag: Bag) -> tuple[Ints, dict[str, Any]]:
        return super().fold(ByOrder(bag))


class ByOrder:
    """A bag whose order values are a part of the keys."""

    def __init__(self, bag: Bag) -> None:
        self._bag = bag

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bag, name)

    def keys(self, rows: Ints) -> Sequence[Any]:
        return [*self._bag.keys(rows), self._bag.rows("orders", rows)]


LATE, UNWANTED = "is older than the record", "has the ID d"  # reasons of rejects
_REJECTED = Decision("drop", "rejected", None, UNWANTED)


class Rejecting(LastWins):
    """Last wins, but late mutations are rejects, and so is every mutation of the key ``d``, which has no record."""

    def __init__(self) -> None:
        late = {case: decision for case, decision in TRUTH_TABLE.items() if decision.winner == "late"}
        strict = {case: decision._replace(winner="rejected", reason=LATE) for case, decision in late.items()}
        super().__init__(TRUTH_TABLE | strict)

    def __reduce__(self) -> Any:
        return Rejecting, ()

    def meet(self, events: Events, olds: Olds, floor: Any = None) -> Iterator[Met]:
        for met in super().meet(events, olds, floor):
            keys = events.bag.keys(events.last[met.keys])[0].to_pylist()
            unwanted = np.array([olds.kind == NOTHING and key == b"d" for key in keys], np.bool_)
            yield Met(_REJECTED, met.keys[unwanted])
            yield met._replace(keys=met.keys[~unwanted])

    def meet_key(self, folded: Folded | None, old: Old, floor: Any = None) -> KeyMet:
        if folded is not None and old.kind == NOTHING and folded.last.row.startswith(b"d,"):
            return KeyMet(_REJECTED)
        return super().meet_key(folded, old, floor)


class Changed(LastWins):
    """Last wins, and the order value of the last change of each row is kept beside it."""

    reads_rows = True
    side_columns = (pa.field("changed", pa.int64()),)

    def __init__(self) -> None:
        super().__init__(TRUTH_TABLE)

    def __reduce__(self) -> Any:
        return Changed, ()

    def meet(self, events: Events, olds: Olds, floor: Any = None) -> Iterator[Met]:
        for met in super().meet(events, olds, floor):
            orders = events.bag.rows("orders", events.last[met.keys])
            sides = pa.StructArray.from_arrays([orders], fields=[*self.side_columns])
            yield met._replace(sides=sides) if met.decision.result == "write" else met

    def meet_key(self, folded: Folded | None, old: Old, floor: Any = None) -> KeyMet:
        met = super().meet_key(folded, old, floor)
        is_written = folded is not None and met.decision.result == "write"
        return met._replace(sides=(folded.last.order,)) if is_written else met


class Joining(LastWins):
    """Last wins, but the first field has the texts of all mutations of a record that were the last of their runs."""

    reads_rows = True

    def __init__(self) -> None:
        super().__init__(TRUTH_TABLE)

    def __reduce__(self) -> Any:
        return Joining, ()

    def meet(self, events: Events, olds: Olds, floor: Any = None) -> Iterator[Met]:
        for met in super().meet(events, olds, floor):
            if olds.kind == RECORD and met.decision.result == "write":
                last = events.last[met.keys]
                form, orders = events.bag.rows("written", last).type, events.bag.rows("orders", last)
                pairs = zip(texts_of(olds.rows.take(met.keys)), texts_of(events.bag.rows("written", last)), strict=True)
                rows = [_joined(old.split(b","), new.split(b",")) for old, new in pairs]
                met = met._replace(rows=rows_of(rows, form), orders=orders)
            yield met


def _joined(old: list[bytes], new: list[bytes]) -> bytes:
    return b",".join([*new[:2], old[2] + new[2], *new[3:]])


class TwoFields(Register):
    """Each mutation sets one of two fields, or both, and each field has the value of the last one that set it.

    A row is ``key,order,first,second,order of the first,order of the second``; a ``~`` is an unset field. A delete
    clears both. A patch of an unknown record inserts it. The last two fields may also be kept beside the row.
    """

    leaves_one = False
    reads_rows = True

    def __init__(self, beside: bool = False) -> None:
        self.side_columns = tuple(pa.field(name, pa.int64()) for name in ("at1", "at2")) if beside else ()

    def __reduce__(self) -> Any:
        return TwoFields, (bool(self.side_columns),)

    @property
    def replacing(self) -> Register:
        return REPLACED

    @property
    def buries_absent(self) -> bool:
        return False

    def line(self, folded: Folded | None, old: Old, floor: Any = None) -> str:
        return "two fields"

    def decisions(self, kind: str) -> Iterator[Decision]:
        return iter(())

    def fold(self, bag: Bag) -> tuple[Ints, dict[str, Any]]:
        hashes = bag.column("hashes")
        order = hash_order(hashes)
        by = [*bag.precedence(order), groups_of_keys(hashes[order], bag.keys(order))]
        order, key = order[np.lexsort([bag.content_ranks(order), *by])], np.sort(by[-1])
        counts, found, left = bag.column("counts").copy(), [], 0
        deletes, rows = bag.rows("deletes", order), texts_of(bag.rows("written", order))
        for start, end in _runs(key):
            kept = [start + number for number in _kept(deletes[start:end], rows[start:end])]
            others = [number for number in range(start, end) if number not in kept]
            counts[order[end - 1]] += counts[order[others]].sum()
            left += len(others)
            found += kept
        chosen = order[found]
        return chosen, {"counts": counts[chosen]} if left else {}

    def meet(self, events: Events, olds: Olds, floor: Any = None) -> Iterator[Met]:
        found: dict[Decision, list[Any]] = {}
        rows = [None] * len(events.last) if olds.rows is None else texts_of(olds.rows)
        before = rows
        form = events.bag.rows("written", events.last[:1]).type
        orders = [None] * len(events.last) if olds.orders is None else olds.orders.to_pylist()
        if olds.sides is not None and self.side_columns:
            _, *kept = (column.to_pylist() for column in olds.sides.flatten())
            rows = [whole(row, orders) for row, *orders in zip(rows, *kept, strict=True)]
        for number, (first, last) in enumerate(zip(events.first.tolist(), events.last.tolist(), strict=True)):
            every = np.arange(first, last + 1)
            written, own = texts_of(events.bag.rows("written", every)), events.bag.rows("orders", every).to_pylist()
            columns = zip(own, events.bag.rows("deletes", every).tolist(), written, strict=True)
            mutations = [Mutation((at,), is_delete, text) for at, is_delete, text in columns]
            decision, row, order = decided(olds.kind, orders[number], rows[number], mutations)
            row, sides = self._parted(row)
            decision = touching(decision, before[number], row)
            found.setdefault(decision, []).append((number, row or written[-1], order, *sides))
        for decision, results in found.items():
            numbers, new_rows, new_orders, *columns = zip(*results, strict=True)
            arrays = [pa.array(column, pa.int64()) for column in columns]
            sides = pa.StructArray.from_arrays(arrays, fields=list(self.side_columns)) if arrays else None
            yield Met(decision, np.array(numbers), rows_of(new_rows, form), pa.array(new_orders, pa.int64()), sides)

    def _parted(self, row: bytes | None) -> tuple[bytes | None, tuple[Any, ...]]:
        """Return a row as it is written, and what is kept beside it."""
        if row is None or not self.side_columns:
            return row, (None,) * len(self.side_columns)
        body, *orders = row.rstrip(b"\n").rsplit(b",", 2)
        return body + row[len(row.rstrip(b"\n")) :], tuple(map(int, orders))

    def fold_key(self, mutations: Iterable[tuple[tuple[Any, ...], tuple[bool, bytes]]]) -> Folded:
        found = [Mutation(place, *value) for place, value in mutations]
        kept = _kept([one.is_delete for one in found], [one.row for one in found])
        upserts = any(not one.is_delete for one in found)
        return Folded(found[-1], len(found), False, upserts, tuple(found[number] for number in kept))

    def meet_key(self, folded: Folded | None, old: Old, floor: Any = None) -> KeyMet:
        if folded is None:
            result = Decision("keep", None, "kept") if old.kind == RECORD else Decision("keep tombstone", None, None)
            return KeyMet(result)
        row = whole(old.row, old.sides) if old.kind == RECORD and self.side_columns else old.row
        decision, new_row, order = decided(old.kind, old.order, row, folded.left)
        new_row, sides = self._parted(new_row)
        decision = touching(decision, old.row, new_row)
        return KeyMet(decision, new_row, order, sides)


def touching(decision: Decision, before: bytes | None, row: bytes | None) -> Decision:
    """Return a decision that touches a record, if only what is kept beside its row changes."""
    return decision._replace(result="touch") if decision.result == "write" and row == before else decision


def whole(row: bytes, orders: Sequence[Any]) -> bytes:
    """Return a row with the orders of its fields; those of a row that no run wrote are the order of the row."""
    body = row.rstrip(b"\n")
    own = [body.split(b",")[1] if order is None else b"%d" % order for order in orders]
    return b",".join([body, *own]) + row[len(body) :]


def texts_of(rows: Any) -> list[bytes]:
    """Return rows of a block as delimited text."""
    found = rows.to_pylist()
    if not pa.types.is_struct(rows.type):
        return found
    return [",".join(value or "" for value in row.values()).encode() for row in found]


def rows_of(texts: Sequence[bytes], form: Any) -> Any:
    """Return rows of a type, given their text."""
    if not pa.types.is_struct(form):
        return pa.array(texts, form)
    names = [field.name for field in form]
    return pa.array([dict(zip(names, text.decode().split(","), strict=True)) for text in texts], form)


def decided(
    kind: str, order: Any, row: bytes | None, mutations: Sequence[Mutation]
) -> tuple[Decision, bytes | None, Any]:
    """Return the decision about a key, the row and the order value that it leaves. mutations: by their precedence."""
    key = (row or mutations[0].row).split(b",")[0].decode()
    before: tuple[Any, ...] | None = None
    fields, alive, last = [(LOWEST, ""), (LOWEST, "")], kind == RECORD, LOWEST
    if kind == RECORD:
        assert row is not None
        values = row.decode().rstrip("\n").split(",")
        fields = [(int(values[4 + number]), values[2 + number]) for number in FIELDS]
        last, before = order, (*(value for _, value in fields),)
    elif kind == TOMBSTONE:
        fields, last = [(order, "")] * 2, order
    known = fields[:]
    for one in mutations:
        values = one.row.decode().rstrip("\n").split(",")
        now = one.order
        if not alive and kind != NOTHING and now < last:
            continue
        sent = [""] * 2 if one.is_delete else values[2:4]
        for number in FIELDS:
            if sent[number] != UNSET and now >= fields[number][0]:
                fields[number] = now, sent[number]
        alive = alive and now < last if one.is_delete else True
        last, kind = max(last, now), RECORD if alive else TOMBSTONE
    after = (*(value for _, value in fields),) if alive else None
    late = mutations[-1].order < (LOWEST if order is None else order)
    was = RECORD if before is not None else NOTHING if order is None else TOMBSTONE
    line = ",".join([key, str(last), *(value for _, value in fields), *(str(at) for at, _ in fields)])
    new_row = line.encode() + (b"\n" if mutations[0].row.endswith(b"\n") else b"")
    if was == RECORD and alive:
        if after != before:
            return Decision("write", "updated", "replaced"), new_row, last
        outcome = "late" if late else "no-op"
        if fields == known and last == order:
            return Decision("keep", outcome, "kept"), None, last
        return Decision("write", outcome, "kept"), new_row, last
    if was == RECORD:
        return Decision("bury", "deleted", "removed"), None, last
    if alive:
        return Decision("write", "inserted", None), new_row, last
    if was == NOTHING:
        return Decision("bury", "delete of unknown", None), None, last
    return Decision("keep tombstone" if late else "touch tombstone", "late" if late else "no-op", None), None, last


def _kept(deletes: Sequence[bool], rows: Sequence[bytes]) -> list[int]:
    """Return the numbers of the mutations of a key that still decide about a field, or are the last of their kind."""
    kept = set()
    for number in reversed(range(len(rows))):
        sent = rows[number].rstrip(b"\n").split(b",")[2:4]
        parts = {"delete", *FIELDS} if deletes[number] else {"row", *(f for f in FIELDS if sent[f] != UNSET.encode())}
        if parts - {part for one in kept for part in one[1]}:
            kept.add((number, frozenset(parts)))
    return sorted(number for number, _ in kept)


def _runs(key: Ints) -> Iterator[tuple[int, int]]:
    begins = np.flatnonzero(np.concatenate((np.ones(min(1, len(key)), np.bool_), key[1:] != key[:-1])))
    return zip(begins.tolist(), [*begins[1:].tolist(), len(key)], strict=True)
