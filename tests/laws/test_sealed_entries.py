"""Seals bound what is kept of merge functions: what is shown stays exact, unless it is noted as late after the seal.

Records are never deleted here, because ``tombstone.retention`` also forgets deletes. Time moves on from run to run.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from mutator.pipeline import merge as pipeline
from mutator.rules.truth_table import SEALED
from mutator.table import compact, next_version, prepare
from tests.laws.test_merge_laws import FIELDS, OF_TEXT
from tests.support import local_engine
from tests.support.effort import share
from tests.support.no_limits import NO_LIMITS
from tests.support.patch_model import RECORD, Mutation
from tests.support.patch_runs import TEXT, Directory
from tests.support.patch_tables import VersionedTable, rows_of
from tests.support.text_runs import ENGINES, scratch

KEYS = ("a", "b", "c")
RETENTION, RUNS, WIDTH = 6, 10, 10  # in seconds; runs of a world; order values that a run adds
SETTINGS = {"tombstone.retention": f"{RETENTION}s"}
FUNCTIONS = ["first", "first_non_null", "last_non_null", "min text", "max decimal(9,2)", "sum long", "sum decimal(9,2)"]


class Clock:
    """The commit time of runs, in ms."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 1_800_000_000_000
        for module in (pipeline, compact, next_version, prepare):
            patch.setattr(module, "next_time", lambda *_: self.now)


def rows_of_run(rng: random.Random, functions: dict[str, str], number: int, done: list[Mutation]) -> list[Mutation]:
    """Return a new highest upsert of each key, and mutations below it, some of them old, or delivered again."""
    top = WIDTH * (number + 1)

    def given(names: Sequence[str]) -> dict[str, Any]:
        return {name: rng.choice(OF_TEXT[functions[name]]) for name in names}

    found = [Mutation("U", key, top, given(FIELDS)) for key in KEYS]
    for _ in range(rng.randint(0, 5)):
        op, order = rng.choice("UUPPPPPD" if number else "UP"), rng.randint(max(top - 9 * WIDTH, 1), top - 1)
        names = FIELDS if op == "U" else () if op == "D" else rng.sample(FIELDS, 2)
        found.append(Mutation(op, rng.choice(KEYS), order, given(names)))
    if number and rng.random() < 0.15:
        found.append(Mutation("T", None, rng.randint(max(top - 4 * WIDTH, 1), top - 1)))
    return found + rng.sample([one for one in done if one.op != "T"], min(len(done), rng.randint(0, 2)))


def is_clear(done: Sequence[Mutation], rows: Sequence[Mutation]) -> bool:
    """Return whether no two mutations of a key have one order value and say different things."""
    known: dict[Any, Mutation] = {}
    return all(known.setdefault((one.key, one.order), one) == one for one in [*done, *rows] if one.op != "T")


def check_world(rng: random.Random, place: Any, functions: dict[str, str], clock: Clock, merge: Any) -> tuple[int, int]:
    """Merge runs; return how many keys were late after the seal, and how many entries are kept less.

    merge: merges rows; returns the keys that are noted, and the values and entries of each key.
    """
    done, noted = list[Mutation](), set[str]()
    since: dict[Any, int] = {}
    shorter = 0
    for number in range(RUNS):
        rows = rows_of_run(rng, functions, number, done)
        while not is_clear(done, rows):
            rows = rows_of_run(rng, functions, number, done)
        late, found = merge(rows)
        place.model.run(rows)
        done += rows
        for one in rows:
            since.setdefault((one.key, one.order), clock.now)
        noted |= late
        for key, kept in place.model.all(RECORD).items():
            values, entries = found[key]
            if key not in noted:
                assert values == tuple(map(TEXT.text_of, kept.values)), (key, rows)
            for name, own in entries.items():
                shorter += len(dict(kept.entries)[name]) - len(own)
                for order, _ in own[1:]:
                    assert clock.now - since[key, order] < 3 * RETENTION * 1000, "an old entry is not sealed"
        clock.now += rng.choice([1000, 2000, 4000])
    return len(noted), shorter


def in_directory(rng: random.Random, clock: Clock, engines: Sequence[str], work: Any) -> tuple[int, int]:
    functions = {name: rng.choice(FUNCTIONS) for name in FIELDS}
    place = Directory(work, FIELDS, TEXT, "insert", functions=functions)
    place.start([])

    def merge(rows: list[Mutation]) -> Any:
        master, place.runs = place.output, place.runs + 1
        feed = work / f"feed{place.runs}"
        TEXT.put(feed, FIELDS, rows, rng.randint(0, len(rows)))
        settings = {**TEXT.settings, **SETTINGS, **NO_LIMITS, "patch.unknown": "insert", "num.reducer": "2"}
        settings |= {"allow.empty.master": "true", "consumed.files": "merge"}
        settings |= {f"field.merge.{TEXT.name_of(number)}": functions[name] for number, name in enumerate(FIELDS)}
        places: Any = {"master": str(master), "feed": [str(feed)], "output": str(place.output)}
        report = local_engine.mutate(settings, **places, engine=rng.choice(engines))
        found = {}
        for line, sides in place.records():
            key, _, *values = line.split(",")
            entries = {name: sides.get(f"entries.{2 + number}") or () for number, name in enumerate(FIELDS)}
            found[key] = (
                tuple(values),
                {name: [(one["order"], one["value"]) for one in own] for name, own in entries.items()},
            )
        return {str(one) for one in report.samples.get(SEALED, ())}, found

    return check_world(rng, place, functions, clock, merge)


def in_table(rng: random.Random, clock: Clock, engines: Sequence[str], work: Any) -> tuple[int, int]:
    functions = {name: rng.choice(FUNCTIONS) for name in FIELDS}
    place = VersionedTable(work, FIELDS, dict(SETTINGS), "insert", functions)

    def merge(rows: list[Mutation]) -> Any:
        report = place.apply(place.feed(rows, rng))
        place.table.refresh()
        if rng.random() < 0.3:
            place.table.compact(everything=True)
        found = {}
        for key, (_, values, _, _, entries) in rows_of(place.table.snapshot, FIELDS, functions).items():
            found[key] = tuple(value or "" for value in values), {name: own or () for name, own in entries.items()}
        return {str(one) for one in report.samples.get(SEALED, ())}, found

    return check_world(rng, place, functions, clock, merge)


@pytest.mark.parametrize("engine", [*ENGINES, "both"])
def test_in_a_directory(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, late, shorter = random.Random(engine), 0, 0
    for _ in range(share(60)):
        with scratch() as work:
            found = in_directory(rng, Clock(monkeypatch), ENGINES if engine == "both" else [engine], work)
        late, shorter = late + found[0], shorter + found[1]
    assert late
    assert shorter > 100


def test_in_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, late, shorter = random.Random(2), 0, 0
    for _ in range(share(40)):
        with scratch() as work:
            found = in_table(rng, Clock(monkeypatch), [], work)
        late, shorter = late + found[0], shorter + found[1]
    assert late
    assert shorter > 100
