"""Patches in any runs give what the reference model gives: rows, order values of fields, tombstones and counts.

A world is a master and a few runs of upserts, patches and deletes, with late rows, ties, NULL beside unset, inserts
after deletes, truncates and redelivery.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mutator
from mutator.errors import MutatorError
from tests.support import local_engine
from tests.support.effort import law
from tests.support.no_limits import NO_LIMITS
from tests.support.patch_model import Mutation
from tests.support.patch_runs import FORMS, MOVING, TEXT, Directory, Form
from tests.support.text_runs import ENGINES, scratch

FIELDS = ("p", "q", "r")
KEYS = ("a", "b", "c", "d")
VALUES = ("x", "y", "z", None)
FEW = ("x", None)  # so that many patches set what a field has


def mutation(rng: random.Random, orders: int, values: Sequence[str | None] = VALUES) -> Mutation:
    op, key, order = rng.choice("UUPPPPD"), rng.choice(KEYS), rng.randint(1, orders)
    sent = FIELDS if op == "U" else () if op == "D" else rng.sample(FIELDS, rng.randint(0, len(FIELDS) - 1))
    return Mutation(op, key, order, {name: rng.choice(values) for name in sent})


def world(rng: random.Random) -> tuple[list[Mutation], list[list[Mutation]]]:
    """Return a master and runs. Few order values make ties; a run may bring again what came before."""
    orders, values, runs = rng.choice([3, 8, 20]), rng.choice([FEW, VALUES]), list[list[Mutation]]()
    for _ in range(rng.randint(1, 4)):
        before = [one for run in runs for one in run]
        again = rng.sample(before, rng.randint(0, len(before))) if rng.random() < 0.3 else []
        runs.append([*again, *(mutation(rng, orders, values) for _ in range(rng.randint(0, 12)))])
    at = {key: rng.randint(1, orders) for key in rng.sample(KEYS, rng.randint(0, 3))}
    return [Mutation("U", key, order, dict.fromkeys(FIELDS, values[0])) for key, order in at.items()], runs


def snapshot(rng: random.Random) -> tuple[list[Mutation], int]:
    """Return a full snapshot, and the order value that it is as of."""
    found = [(key, rng.randint(1, 12)) for key in rng.sample(KEYS, rng.randint(1, len(KEYS)))]
    rows = [Mutation("U", key, order, {name: rng.choice(VALUES) for name in FIELDS}) for key, order in found]
    return rows, rng.randint(1, 12)


def with_truncate(rng: random.Random, rows: list[Mutation]) -> list[Mutation]:
    at = rng.randint(0, len(rows))
    return [*rows[:at], Mutation("T", None, rng.randint(1, 12)), *rows[at:]]


@pytest.mark.thorough(keep=8)
@pytest.mark.parametrize("unknown", ["insert", "wait", "reject"])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@given(rng=st.randoms(use_true_random=False))
@law(150)
def test_runs_into_a_directory_give_what_the_model_gives(form: Form, unknown: str, rng: random.Random) -> None:
    master, runs = world(rng)
    runs = [with_truncate(rng, rows) if rng.random() < 0.3 else rows for rows in runs]
    with scratch() as work:
        place = Directory(work, FIELDS, form, unknown)
        place.start(master)
        for rows in filter(None, runs):
            place.run(rows, rng)
            if not (form.by_file or form.places) and rng.random() < 0.2:
                place.snapshot(*snapshot(rng), rng)
        if place.runs:
            place.check()


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("engine", ENGINES)
def test_runs_on_spark_give_what_the_model_gives(engine: str, sc: Any, tmp_path: Path) -> None:
    rng = random.Random(0)
    place = Directory(tmp_path, FIELDS, replace(TEXT, engines=(engine,)), on=partial(mutator.mutate, sc))
    place.start([Mutation("U", key, 3, dict.fromkeys(FIELDS, "m")) for key in KEYS[:2]])
    for rows in [[mutation(rng, 20) for _ in range(12)] for _ in range(2)]:
        place.run(rows, rng)
    assert {"updated", "combined", "superseded", "out of order"} <= {*itertools.chain(*place.model.counts)}


def test_a_truncate_that_clears_the_partition_field_moves_records(tmp_path: Path) -> None:
    """With a mutation, and without; they are among the changes."""
    place, rng = Directory(tmp_path, FIELDS, MOVING, "insert"), random.Random(0)
    place.start([Mutation("U", key, 1, dict.fromkeys(FIELDS, "m")) for key in "ab"])
    place.run([Mutation("P", key, 5, {"q": "x"}) for key in "ab"], rng)
    place.run([Mutation("T", None, 3), Mutation("P", "b", 2, {"r": "late"})], rng)
    assert [values for _, values, _ in place.rows().values()] == [("", "x", "")] * 2
    place.check()


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_a_full_snapshot_set_all_fields(engine: str, tmp_path: Path) -> None:
    """Else a snapshot as of a time would clear the fields that it does not send, or let its records wait."""
    master, feed = tmp_path / "master", tmp_path / "feed"
    TEXT.put(master, FIELDS, [Mutation("U", "a", 1, dict.fromkeys(FIELDS, "m"))], 1, op=False)
    TEXT.put(feed, FIELDS, [Mutation("P", "a", 4, {"p": "x"})], 1, op=False)
    settings = {**NO_LIMITS, "sync.mode": "full", "snapshot.as.of": "6", "unset.value": "~"}
    settings |= {name: TEXT.settings[name] for name in ("id.field.ordinals", "temporal.ordering.field.ordinal")}
    places: Any = {"master": str(master), "feed": [str(feed)], "output": str(tmp_path / "output")}
    with pytest.raises(MutatorError, match="a row is a whole record: send all fields"):
        local_engine.mutate(settings, **places, engine=engine)
