"""The reference model of patches: the rules of `reference/semantics.md`, slowly and obviously.

It keeps every mutation that was ever delivered, and computes the state from all of them by definition: nothing is
folded, and nothing is forgotten. The tests compare the program with it, so nothing here may come from ``mutator``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

NEVER: tuple[Any, ...] = ()  # lower than every place
RECORD, TOMBSTONE, WAITING, NOTHING = "record", "tombstone", "waiting", "nothing"
NO_VALUES: Mapping[str, Any] = {}


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


def state_of(fields: Sequence[str], seen: Sequence[Seen], unknown: str) -> Kept:
    """Return what all mutations of a key mean. unknown: insert or wait."""
    deleted, row, full, floor = (highest(seen, ops) for ops in ("DT", "UP", "U", "T"))
    if not seen or (row < deleted and deleted[:1] == floor[:1]):
        return Kept(NOTHING)  # or a tombstone that the floor covers
    if row < deleted:
        return Kept(TOMBSTONE, deleted[0])
    places, values = zip(*registers(fields, seen), strict=True)
    orders = tuple(place[0] if place else None for place in places)
    if unknown == "insert":
        return Kept(RECORD, row[0], values, orders)
    if full > deleted:
        return Kept(RECORD, row[0], values, orders, full=full[0])
    return Kept(WAITING, row[0], values, orders, deleted=deleted[0] if deleted else None)


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
    seen: dict[Any, list[Seen]] = field(default_factory=dict)
    truncates: list[Seen] = field(default_factory=list)
    counts: list[Counter[str]] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)  # of the last run, on keys that are inserted

    def kept(self, key: Any) -> Kept:
        seen = [*self.seen.get(key, ()), *self.truncates]
        return state_of(self.fields, seen, "wait" if self.unknown == "wait" else "insert")

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
            with_all = state_of(self.fields, [*self.seen.get(key, ()), *here], "wait")
            if self.unknown == "reject" and before.kind != RECORD and with_all.kind == WAITING:
                counts["rejected"] += sum(s.mutation.op == "P" for s in here)
                here = [s for s in here if s.mutation.op != "P"]
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

    def all(self, kind: str) -> dict[Any, Kept]:
        """Return the records, the tombstones, or the entries that wait, by key."""
        found = {key: self.kept(key) for key in self.seen}
        return {key: kept for key, kept in sorted(found.items()) if kept.kind == kind}
