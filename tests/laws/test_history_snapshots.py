"""Snapshots as of a time confirm most records: histories keep that in lists, and late rows fall between."""

from __future__ import annotations

import random
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mutator.table.table import Table
from tests.support.effort import law
from tests.support.no_limits import NO_LIMITS
from tests.support.text_runs import scratch
from tests.support.versioned import open_runner

KEYS, TIMES = "klm", range(1, 16)
SETTINGS = {"key": "id", "order_by": "at", "op": "op", "history": "on", "allow.older.snapshot": "true", **NO_LIMITS}


class Event(NamedTuple):
    """What a key was given at a time; None: a delete."""

    at: int
    turn: int
    row: tuple[Any, ...] | None


def versions(events: list[Event], ends: set[int]) -> list[tuple[Any, ...]]:
    """Return the versions of a key by their definition. ends: times at which records end that are not given again."""
    given = {at: max(own).row for at, own in groupby(sorted(events, key=lambda one: one[:2]), lambda one: one.at)}
    found: list[list[Any]] = []
    for at in sorted({*given, *ends}):
        row = given.get(at)
        last = found[-1] if found and found[-1][1] is None else None
        if last is not None and row is not None and row[1:] == last[2][1:]:
            last[2] = row
            continue
        if last is not None and (row is not None or at in ends or at in given):
            last[1] = at
        if row is not None:
            found.append([at, None, row])
    return [tuple(one) for one in found]


class World:
    """A table, and what it was given."""

    def __init__(self, path: str, rng: random.Random) -> None:
        self.table, self.rng, self.turn = Table.create(path, SETTINGS, buckets=2), rng, 0
        self.events = {key: list[Event]() for key in KEYS}
        self.ends = set[int]()

    def delta(self) -> None:
        rng, rows = self.rng, {}
        for _ in range(rng.randint(1, 3)):
            key, at = rng.choice(KEYS), rng.choice(TIMES)
            rows[key, at] = {"id": key, "at": at, "op": rng.choice("UUUD"), "v": rng.choice("xy")}
        self.turn += 1
        for (key, at), row in rows.items():
            self.events[key].append(Event(at, self.turn, None if row["op"] == "D" else (at, row["v"])))
        self.table.apply(pa.Table.from_pylist([*rows.values()]), open_runner=open_runner)

    def snapshot(self) -> None:
        rng, time = self.rng, self.rng.choice(TIMES)
        self.turn += 1
        rows = []
        for key in KEYS:
            held = [
                row for start, end, row in versions(self.events[key], self.ends) if end is None or end > time >= start
            ]
            row = held[-1] if held and rng.random() < 0.8 else (rng.choice(TIMES), rng.choice("xy"))
            if rng.random() < 0.8 or (not rows and key == KEYS[-1]):
                rows.append({"id": key, "at": row[0], "v": row[1]})
                self.events[key].append(Event(max(row[0], time), self.turn, row))
        self.ends.add(time)
        how: dict[str, Any] = {"sync_mode": "full", "op": "", "snapshot_as_of": time}
        self.table.apply(pa.Table.from_pylist(rows), open_runner=open_runner, **how)

    def compact(self) -> None:
        self.table.compact(everything=True, open_runner=open_runner)

    def check(self) -> None:
        expected = {key: own for key in KEYS if (own := versions(self.events[key], self.ends))}
        found: dict[str, list[tuple[Any, ...]]] = {}
        for row in self.table.scan().to_pylist():
            found.setdefault(row["id"], []).append((row["valid_from"], row["valid_to"], (row["at"], row["v"])))
        assert found == expected


@given(st.randoms(use_true_random=False))
@law(120)
def test_snapshots_and_late_rows_in_any_order(rng: random.Random) -> None:
    with scratch() as work:
        world = World(f"{work}/table", rng)
        for _ in range(rng.randint(2, 8)):
            rng.choice([world.delta, world.snapshot, world.snapshot, world.compact])()
            world.check()
        world.compact()
        world.check()
        assert world.table.verify(open_runner=open_runner).problems == ()


def test_snapshots_that_change_nothing_add_no_closed_rows(tmp_path: Any) -> None:
    table = Table.create(str(tmp_path / "table"), SETTINGS, buckets=2)
    rows = pa.Table.from_pylist([{"id": str(number), "at": 1, "v": "x"} for number in range(50)])
    table.apply(rows, op="", open_runner=open_runner)
    for night in range(2, 12):
        how: dict[str, Any] = {"sync_mode": "full", "op": "", "snapshot_as_of": night}
        table.apply(rows, open_runner=open_runner, **how)
        if night % 4 == 0:
            table.compact(everything=True, open_runner=open_runner)
    table.compact(everything=True, open_runner=open_runner)
    assert table.describe().events == 50
    assert {(row["valid_from"], row["valid_to"]) for row in table.scan().to_pylist()} == {(1, None)}
    table.apply(pa.Table.from_pylist([{"id": "7", "at": 5, "v": "y"}]), op="", open_runner=open_runner)
    found = [(row["v"], row["valid_from"], row["valid_to"]) for row in table.get("7", history=True)]
    assert found == [("x", 1, 5), ("y", 5, 6), ("x", 6, None)]  # the next snapshot confirms the first value
    table.compact(everything=True, open_runner=open_runner)
    assert table.describe().events == 52
    assert [(row["v"], row["valid_from"], row["valid_to"]) for row in table.get("7", history=True)] == found
    assert table.verify(open_runner=open_runner).problems == ()


def test_an_event_at_the_time_of_the_last_confirmation_leaves_those_before(tmp_path: Any) -> None:
    table = Table.create(str(tmp_path / "table"), SETTINGS, buckets=2)
    for night, value in ((2, "x"), (4, "x"), (6, "x"), (6, "z")):
        how: dict[str, Any] = {"sync_mode": "full", "op": "", "snapshot_as_of": night}
        table.apply(pa.Table.from_pylist([{"id": "7", "at": 1, "v": value}]), open_runner=open_runner, **how)
        table.compact(everything=True, open_runner=open_runner)
    table.apply(pa.Table.from_pylist([{"id": "7", "at": 3, "v": "y"}]), op="", open_runner=open_runner)
    found = [(row["v"], row["valid_from"], row["valid_to"]) for row in table.get("7", history=True)]
    assert found == [("x", 2, 3), ("y", 3, 4), ("x", 4, 6), ("z", 6, None)]


def test_rows_that_become_equal_keep_the_confirmations_of_both(tmp_path: Any) -> None:
    found = []
    for compacts in (False, True):
        table = Table.create(str(tmp_path / f"table{compacts}"), SETTINGS, buckets=2)
        for night in range(2, 11, 2):
            row = {"id": "7", "at": 1, "v": "x", "w": 1 if night == 2 else 2}
            how: dict[str, Any] = {"sync_mode": "full", "op": "", "snapshot_as_of": night}
            how |= {"removed_fields": "w"} if night == 10 else {}
            row = {name: value for name, value in row.items() if name != "w" or night < 10}
            table.apply(pa.Table.from_pylist([row]), open_runner=open_runner, **how)
            if compacts and night >= 8:
                table.compact(everything=True, open_runner=open_runner)
        table.apply(pa.Table.from_pylist([{"id": "7", "at": 3, "v": "y"}]), op="", open_runner=open_runner)
        found.append([(row["v"], row["valid_from"], row["valid_to"]) for row in table.get("7", history=True)])
        assert table.verify(open_runner=open_runner).problems == ()
    assert found[0] == found[1] == [("x", 2, 3), ("y", 3, 4), ("x", 4, None)]
