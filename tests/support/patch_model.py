"""The reference model of patches and merge functions: the rules of `reference/semantics.md`, slowly and obviously.

It keeps every mutation that was ever delivered, and computes the state from all of them by definition: nothing is
folded, and nothing is forgotten. The tests compare the program with it, so nothing here may come from ``mutator``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

NEVER: tuple[Any, ...] = ()  # lower than every place
RECORD, TOMBSTONE, WAITING, NOTHING = "record", "tombstone", "waiting", "nothing"
NO_VALUES: Mapping[str, Any] = {}
NO_FUNCTIONS: Mapping[str, str] = {}  # field -> merge function


class Mutation(NamedTuple):
    """One mutation: U (upsert), P (patch), D (delete), or T (truncate), which has no key."""

    op: str
    key: Any
    order: Any
    given: Mapping[str, Any] = NO_VALUES  # the provided fields; None is NULL. An upsert provides all.


class Seen(NamedTuple):
    """A mutation and its place: order value, run, position in the run. Of one order value, the later run wins.

    A truncate is a delete of every key, and the lowest of its order value: its run is -1.
    """

    place: tuple[Any, ...]
    mutation: Mutation


class Kept(NamedTuple):
    """The state of a key. order: of the row; of a tombstone, that of its delete."""

    kind: str
    order: Any = None
    values: tuple[Any, ...] = ()  # of the fields; None is NULL, or a field that nobody provided
    orders: tuple[Any, ...] = ()  # of the fields; None: nobody provided or cleared it
    full: Any = None  # with `wait`, the order value of the highest full upsert of a record
    deleted: Any = None  # the order value of the last delete of an entry that waits
    entries: tuple[Any, ...] = ()  # of the fields with functions: name, and tuples of order value and value
    cleared: Any = None  # the order value of the last delete of a record, if it is above the floor


def registers(fields: Sequence[str], seen: Sequence[Seen]) -> list[tuple[tuple[Any, ...], Any]]:
    """Return the highest place that sets each field, and the value: a delete sets all to NULL (rule 1)."""
    found = []
    for name in fields:
        sets = [
            (s.place, s.mutation.given.get(name)) for s in seen if name in s.mutation.given or s.mutation.op in "DT"
        ]
        found.append(max(sets, key=lambda pair: pair[0], default=(NEVER, None)))
    return found


def highest(seen: Sequence[Seen], ops: str) -> tuple[Any, ...]:
    return max((s.place for s in seen if s.mutation.op in ops), default=NEVER)


def contributions(name: str, function: str, seen: Sequence[Seen]) -> list[tuple[tuple[Any, ...], Any]]:
    """Return what the mutations above the last delete provide of a field with a function, by place."""
    deleted = highest(seen, "DT")
    found = [(s.place, s.mutation.given[name]) for s in seen if s.place > deleted and name in s.mutation.given]
    return sorted((one for one in found if one[1] is not None or function in ("last", "first")), key=lambda one: one[0])


def worth(value: Any) -> Any:
    """Return what a value compares by: NaN is above all numbers, and -0.0 below 0.0."""
    if not isinstance(value, float):
        return value
    return (1, 0.0, 0.0) if math.isnan(value) else (0, value, math.copysign(1, value))


def deciding(function: str, sent: Sequence[tuple[tuple[Any, ...], Any]]) -> list[tuple[tuple[Any, ...], Any]]:
    """Return the contributions that may still count once others are cleared, one of each order value."""
    if function.startswith("last"):
        return [*sent[-1:]]
    if function in ("min", "max"):
        sign = min if function == "min" else max
        better = [
            (place, value)
            for place, value in sent
            if worth(value) == sign(worth(other) for at, other in sent if at[0] >= place[0])
            and all(worth(other) != worth(value) for at, other in sent if at[0] > place[0])
        ]
        return [*{place[0]: (place, value) for place, value in better}.values()]
    return [*{place[0]: (place, value) for place, value in sent}.values()]


def merged(function: str, sent: Sequence[tuple[tuple[Any, ...], Any]]) -> Any:
    """Return the value of a field: NULL without contributions."""
    values = [value for _, value in deciding(function, sent)]
    if not values:
        return None
    if function in ("min", "max"):
        return {"min": min, "max": max}[function](values, key=worth)
    return sum(values) if function == "sum" else values[0 if function.startswith("first") else -1]


def state_of(
    fields: Sequence[str], seen: Sequence[Seen], unknown: str, functions: Mapping[str, str] = NO_FUNCTIONS
) -> Kept:
    """Return what all mutations of a key mean. unknown: insert or wait."""
    deleted, row, full, floor = (highest(seen, ops) for ops in ("DT", "UP", "U", "T"))
    if not seen or (row < deleted and deleted[:1] == floor[:1]):
        return Kept(NOTHING)  # or a tombstone that the floor covers
    if row < deleted:
        return Kept(TOMBSTONE, deleted[0])
    places, values = zip(*registers(fields, seen), strict=True)
    orders = tuple(place[0] if place else None for place in places)
    sent = {name: contributions(name, function, seen) for name, function in functions.items()}
    own = {name: merged(functions[name], found) for name, found in sent.items()}
    values = tuple(own.get(name, value) for name, value in zip(fields, values, strict=True))
    entries = tuple(
        (name, tuple((place[0], value) for place, value in deciding(functions[name], found)))
        for name, found in sent.items()
    )
    if unknown != "insert" and full <= deleted:
        return Kept(WAITING, row[0], values, orders, deleted=deleted[0] if deleted else None, entries=entries)
    cleared = highest(seen, "D")[:1]
    return Kept(
        RECORD,
        row[0],
        values,
        orders,
        full=None if unknown == "insert" else full[0],
        entries=entries,
        cleared=cleared[0] if functions and cleared > floor[:1] else None,
    )


def outcome(before: Kept, after: Kept, op: str, order: Any, order_in_row: bool) -> str:
    """Return the outcome of the highest mutation of a key (rule 6). op, order: its own."""
    late_or_same = "late" if before.order is not None and order < before.order else "no-op"
    if after.kind == RECORD and before.kind != RECORD:
        return "inserted"
    if after.kind == RECORD:
        same = after.values == before.values and (after.order == before.order or not order_in_row)
        return late_or_same if same else "updated"
    if before.kind == RECORD:
        return "deleted"
    if after.kind == WAITING and before.kind == NOTHING:
        return "patch of unknown"
    if after.kind == WAITING:
        buried = before.order if before.kind == TOMBSTONE else before.deleted
        return "late" if buried is not None and order < buried else "no-op" if op == "D" else "waiting"
    return "delete of unknown" if before.kind == NOTHING else late_or_same


@dataclass
class Place:
    """A master or a table: every mutation that it was given. counts: of each run; notes are among them."""

    fields: Sequence[str]
    unknown: str = "insert"  # insert, wait or reject
    order_in_row: bool = False
    functions: Mapping[str, str] = field(default_factory=dict)
    seen: dict[Any, list[Seen]] = field(default_factory=dict)
    truncates: list[Seen] = field(default_factory=list)
    counts: list[Counter[str]] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)  # of the last run, on keys that are inserted

    def kept(self, key: Any) -> Kept:
        seen = [*self.seen.get(key, ()), *self.truncates]
        return state_of(self.fields, seen, "wait" if self.unknown == "wait" else "insert", self.functions)

    def run(self, mutations: Sequence[Mutation]) -> Counter[str]:
        """Merge a run. mutations: by their precedence among those of one order value."""
        number, counts, self.notes = len(self.counts), Counter[str](), Counter()
        truncates = [Seen((m.order, -1, number, at), m) for at, m in enumerate(mutations) if m.op == "T"]
        keys = {one.key for one in mutations if one.op != "T"}
        known = {key: self.kept(key) for key in keys}
        counts.update(self._truncated(truncates))
        for key in keys:
            here = [Seen((m.order, number, at), m) for at, m in enumerate(mutations) if m.op != "T" and m.key == key]
            before = known[key]
            with_all = state_of(self.fields, [*self.seen.get(key, ()), *self.truncates, *here], "wait")
            if self.unknown == "reject" and before.kind != RECORD and with_all.kind == WAITING:
                left = {place for place, _ in registers(self.fields, here)} | {max(here).place, highest(here, "UD")}
                rejected = sum(s.place in left for s in here)  # also a delete that the patch needs
                counts += Counter({"rejected": rejected, "superseded": len(here) - rejected})
                here = []
            if here:
                self.seen[key] = [*self.seen.get(key, ()), *here]
                counts.update(self._counted(before, self.kept(key), here))
        self.counts.append(counts)
        return counts

    def _truncated(self, found: Sequence[Seen]) -> Counter[str]:
        floor, last = (highest(seen, "T")[:1] for seen in (self.truncates, found))
        self.truncates += found
        outcomes = ["truncate" if last > floor else "no-op" if last == floor else "late"]
        return Counter((outcomes + ["superseded"] * len(found))[: len(found)])

    def _counted(self, before: Kept, after: Kept, here: Sequence[Seen]) -> Counter[str]:
        last = max(here)
        holders = {place for place, _ in registers(self.fields, here)}
        if self.unknown != "insert":
            holders.add(highest(here, "UD"))
        holders |= self._counting(here)
        below = last.place[:1] < highest(self.truncates, "T")[:1]
        found = outcome(before, after, last.mutation.op, last.mutation.order, self.order_in_row)
        found = "late" if below else found
        if after.kind == RECORD and before.kind in (TOMBSTONE, WAITING):
            floor = highest(self.truncates, "T")[:1]  # which is no delete of the key
            is_alone = before.kind == WAITING and (before.deleted is None or (before.deleted,) <= floor)
            self.notes["waited" if is_alone else "revived"] += 1
        counts = Counter({found: 1})
        counts.update("combined" if s.place in holders else "superseded" for s in here if s is not last)
        if found == "updated" and last.mutation.order < before.order:
            counts["out of order"] += 1
        return counts

    def _counting(self, here: Sequence[Seen]) -> set[tuple[Any, ...]]:
        """Return the places of the mutations of a run that fields with functions need."""
        found = {highest(here, "D")} if self.functions else set()
        for name, function in self.functions.items():
            sent = contributions(name, function, here)
            left = deciding(function, sent)
            if function in ("min", "max"):  # of those with one order value and value, the last
                left = [
                    max(one for one in sent if one[0][0] == at[0] and worth(one[1]) == worth(value))
                    for at, value in left
                ]
            elif not function.startswith("last"):  # two values of one order value are a tie
                left = [*{(place[0], repr(value)): (place, value) for place, value in sent}.values()]
            found |= {place for place, _ in left}
        return found

    def all(self, kind: str) -> dict[Any, Kept]:
        """Return the records, the tombstones, or the entries that wait, by key."""
        found = {key: self.kept(key) for key in self.seen}
        return {key: kept for key, kept in sorted(found.items()) if kept.kind == kind}
