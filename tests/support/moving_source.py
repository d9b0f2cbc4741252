"""A source whose records change their keys, and do not send fields that a change leaves as they are.

The model is a fold in plain Python over all events in the order of the source: nothing here comes from ``mutator``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from tests.support.patch_model import RECORD, TOMBSTONE, WAITING, Mutation, Place

UNSENT = "__debezium_unavailable_value"
TEXTS = ("n", "m")  # long ones, which may not be sent
FIELDS = (*TEXTS, "qty")
SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.string()), ("m", pa.string()), ("qty", pa.int64())])
Row = dict[str, Any]


class Event(NamedTuple):
    """What happens to a record: I (insert), U (update), D (delete), M (move), or T (truncate, of all records).

    given: the fields that are sent. old: the key before a move.
    """

    op: str
    key: int
    order: int
    given: Row
    old: int = 0


def fold(events: Iterable[Event]) -> dict[int, Row]:
    """Return the records of the source after some events."""
    rows: dict[int, Row] = {}
    for one in sorted(events, key=lambda one: one.order):
        if one.op == "T":
            rows = {}
        elif one.op == "D":
            del rows[one.key]
        elif one.op == "M":
            rows[one.key] = {**rows.pop(one.old), **one.given}
        else:
            rows[one.key] = {**rows.get(one.key, {}), **one.given}
    return rows


def story(rng: random.Random, length: int, keys: int = 5, truncates: bool = True) -> list[Event]:
    """Return what happens in a source: records move to keys that no other one has."""
    events, living = [Event("I", 99, 1, {"n": "first", "m": "one", "qty": 7})], {99}
    for order in range(2, length + 2):
        whole = {"n": f"n{order}", "m": rng.choice((None, f"m{order}")), "qty": order}
        given = {name: value for name, value in whole.items() if name not in rng.sample(TEXTS, rng.randint(0, 2))}
        free = sorted({*range(1, keys + 1)} - living)
        op = rng.choice("IUDMMMMT" if truncates and rng.random() < 0.2 else "IIUUDMMMM")
        others = sorted(living - {99})
        if op == "T":
            events.append(Event("T", 0, order, {}))
            living = set()
        elif free and (op == "I" or not others):
            events.append(Event("I", free[0], order, whole))
            living.add(free[0])
        elif op == "M" and free and others:
            old, key = rng.choice(others), rng.choice(free)
            events.append(Event("M", key, order, given, old))
            living = (living - {old}) | {key}
        elif op == "D" and others:
            events.append(Event("D", rng.choice(others), order, {}))
            living.remove(events[-1].key)
        elif others:
            events.append(Event("U", rng.choice(others), order, given))
    return events


class Teller(NamedTuple):
    """How a dialect tells events."""

    say: Callable[[Event], Sequence[Any]]
    settings: Mapping[str, str]
    order: Sequence[str] = ("source.sequence[0]", "source.lsn", "transaction.total_order")
    types: Sequence[str] = ("long", "long", "long")
    truncates: bool = True


def _image(one: Event) -> Row:
    return {"id": one.key, **{name: one.given.get(name, UNSENT) for name in FIELDS}}


def _filled(key: int) -> Row:
    """Return an image before a change, with what Debezium writes in columns that the replica identity lacks."""
    return {"id": key, "n": "", "m": None, "qty": 0}


def debezium(one: Event, halves: bool = True, counted: bool = True) -> list[Any]:
    """Tell an event of PostgreSQL. halves: a move is a delete and an insert. counted: within its transaction."""

    def message(op: str, before: Any, after: Any, number: int = 1) -> Any:
        lsn = one.order * 10
        source = {"connector": "postgresql", "schema": "public", "table": "t", "lsn": lsn, "sequence": f'["1","{lsn}"]'}
        transaction = {"id": f"{lsn}:{lsn}", "total_order": number} if counted else None
        return {"before": before, "after": after, "source": source, "transaction": transaction, "op": op}

    if one.op == "T":
        return [message("t", None, None)]
    if one.op == "D":
        return [message("d", _filled(one.key), None), None]
    if one.op == "M" and halves:
        return [message("d", _filled(one.old), None, 3), None, message("c", None, _image(one), 4)]
    before = _filled(one.old) if one.op == "M" else None
    return [message({"I": "c", "U": "u", "M": "u"}[one.op], before, _image(one))]


def flattened(one: Event) -> list[Any]:
    def row(op: str, image: Row) -> Row:
        return {**image, "__op": op, "__deleted": str(op == "d").lower(), "__lsn": one.order}

    if one.op == "D":
        return [row("d", _filled(one.key))]
    gone = [row("d", _filled(one.old))] if one.op == "M" else []
    return [*gone, row("u" if one.op == "U" else "c", _image(one))]


def ogg(one: Event) -> list[Any]:
    """Tell an event as a compressed update: what is not sent is absent."""
    found: Row = {"table": "d.t", "op_type": {"M": "U"}.get(one.op, one.op), "pos": f"{one.order:020}"}
    if one.op == "T":
        return [found]
    if one.op == "D":
        return [{**found, "before": {"id": one.key}}]
    return [{**found, "before": {"id": one.old or one.key}, "after": {"id": one.key, **one.given}}]


class MovedPlace:
    """What a place has after any deliveries, however late: the model of patches, and what it has of an old key.

    Of earlier runs, it knows what the place shows: a field whose order value is above a move's hides what was there.
    """

    def __init__(self) -> None:
        self.place = Place(FIELDS, "wait")

    def run(self, events: Sequence[Event]) -> list[int]:
        """Merge a run; return the keys of moves that stay incomplete."""
        told: list[tuple[int, Mutation, int]] = []  # order value, mutation, and that of the move that it is of
        incomplete = set()
        floor = [one.order for one in events if one.op == "T"] + [s.mutation.order for s in self.place.truncates]
        for one in sorted(events, key=lambda one: (one.order, one.op != "T")):
            if one.op == "T":
                told.append((one.order, Mutation("T", None, one.order), 0))
                continue
            given = dict(one.given)
            if one.op == "M":
                known, new = self._below(one, [m for _, m, move in told if move != one.order]), self.place.kept(one.key)
                orders = dict(zip(FIELDS, new.orders or (None,) * len(FIELDS), strict=True))
                if new.kind == WAITING:  # those of a delete are none
                    orders = {name: at for name, at in orders.items() if at != new.deleted}
                missing = [name for name in FIELDS if name not in given and orders.get(name) != one.order]
                given |= {name: known[name] for name in missing if name in known}
                grave = new.order if new.kind == TOMBSTONE else new.deleted
                left = [name for name in missing if name not in given and (orders.get(name) or 0) < one.order]
                later = [other for other in events if other.order > one.order]
                for other in later:
                    left = [name for name in left if not _sets(other, one.key, name)]
                if left and (grave or 0) < one.order and not any(at > one.order for at in floor):
                    incomplete.add(one.key)
                told.append((one.order, Mutation("D", one.old, one.order), one.order))
            op = "D" if one.op == "D" else "U" if len(given) == len(FIELDS) else "P"
            told.append((one.order, Mutation(op, one.key, one.order, given), one.order if one.op == "M" else 0))
        self.place.run([mutation for _, mutation, _ in told])
        return sorted(incomplete)

    def rows(self) -> dict[int, Row]:
        """Return the records."""
        return {key: dict(zip(FIELDS, kept.values, strict=True)) for key, kept in self.place.all(RECORD).items()}

    def _below(self, move: Event, told: Sequence[Mutation]) -> Row:
        """Return what is known of the old key's fields just below a move. told: by the run, below it."""
        old = self.place.kept(move.old)
        found: dict[str, tuple[int, Any]] = {}
        for name, at, value in zip(FIELDS, old.orders, old.values, strict=True) if old.orders else ():
            if at is not None and at <= move.order and at != old.deleted:
                found[name] = at, value
        clears = [s.mutation.order for s in self.place.truncates if s.mutation.order < move.order]
        for one in told:
            if one.op == "T":
                clears.append(one.order)
            elif one.key == move.old and one.op == "D":
                found = {name: pair for name, pair in found.items() if pair[0] > one.order}
                clears.append(one.order)
            elif one.key == move.old:
                for name, value in one.given.items():
                    if name not in found or found[name][0] <= one.order:
                        found[name] = one.order, value
        grave = old.order if old.kind == TOMBSTONE else old.deleted
        clears += [grave] if grave is not None and grave < move.order else []
        return {name: value for name, (at, value) in found.items() if at >= max(clears, default=0)}


def _sets(one: Event, key: int, name: str) -> bool:
    """Return whether an event sets or clears a field of a key."""
    return one.old == key or (one.key == key and (one.op == "D" or name in one.given))


_DEBEZIUM = {"feed.dialect": "debezium-json"}
TELLERS: Mapping[str, Teller] = {
    "debezium": Teller(debezium, _DEBEZIUM),
    "debezium without transactions": Teller(lambda one: debezium(one, counted=False), _DEBEZIUM),
    "debezium in one row": Teller(lambda one: debezium(one, halves=False), _DEBEZIUM),
    "debezium by position": Teller(
        debezium, {**_DEBEZIUM, "order_by": "source.lsn", "order_type": "long"}, ("source.lsn",), ("long",)
    ),
    "debezium flattened": Teller(flattened, {"feed.dialect": "debezium-flat"}, ("__lsn",), ("long",), truncates=False),
    "ogg": Teller(ogg, {"feed.dialect": "ogg-json"}, ("message.pos",), ("string",)),
}
