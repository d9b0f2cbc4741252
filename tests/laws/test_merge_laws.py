"""Merge functions in any runs give what the reference model gives: rows, entries, tombstones and counts.

A world is a master and a few runs of upserts, patches, deletes and truncates of records with fields that have
functions, with late rows, ties, NULL beside unset, inserts after deletes, and redelivery.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mutator
from mutator.table import commit
from tests.laws.test_patch_laws import FIELDS, KEYS, with_truncate
from tests.support import damaged_tables
from tests.support.effort import law
from tests.support.patch_model import Mutation
from tests.support.patch_runs import FORMS, TEXT, Directory, Form
from tests.support.patch_tables import BY_PARTITION, MOVING, VersionedTable
from tests.support.text_runs import ENGINES, scratch
from tests.table.test_several_writers import PHASES, at_phase

DECIMALS = [Decimal("1.00"), Decimal("-2.50"), Decimal("7.25"), None]
LONGS = [1, -2, 30, None]
TEXTS = ["x", "y", "z", None]
OF_TEXT: dict[str, Sequence[Any]] = {  # functions of fields of text, and values
    "last": TEXTS,
    "first": TEXTS,
    "first_non_null": TEXTS,
    "last_non_null": TEXTS,
    "min text": TEXTS,
    "max text": TEXTS,
    "sum long": LONGS,
    "min long": LONGS,
    "sum decimal(9,2)": DECIMALS,
    "max decimal(9,2)": DECIMALS,
    "first decimal(9,2)": DECIMALS,
    "last_non_null long": LONGS,
}
World = tuple[dict[str, str], list[Mutation], list[list[Mutation]]]


def merge_world(
    rng: random.Random, choices: Mapping[str, Sequence[Any]] = OF_TEXT, without: Sequence[str] = ()
) -> World:
    """Return the functions of fields, a master and runs. Few order values make ties. without: fields that have none."""
    functions = {name: rng.choice([*choices]) for name in FIELDS}
    last = [one for one in choices if one.split()[0] == "last"]
    functions |= {name: rng.choice(last) for name in {*without, *rng.sample(FIELDS, rng.randint(0, 2))}}
    values = {name: rng.choice([choices[functions[name]], choices[functions[name]][-2:]]) for name in FIELDS}
    orders, ops, runs = rng.choice([3, 8, 20]), rng.choice(["UUPPPPD", "UUUUUUD", "UUUPDDD"]), list[list[Mutation]]()

    def mutation() -> Mutation:
        op, key, order = rng.choice(ops), rng.choice(KEYS), rng.randint(1, orders)
        sent = FIELDS if op == "U" else () if op == "D" else rng.sample(FIELDS, rng.randint(0, len(FIELDS) - 1))
        return Mutation(op, key, order, {name: rng.choice(values[name]) for name in sent})

    for _ in range(rng.randint(1, 4)):
        before = [one for run in runs for one in run]
        again = rng.sample(before, rng.randint(0, len(before))) if rng.random() < 0.3 else []
        runs.append([*again, *(mutation() for _ in range(rng.randint(0, 12)))])
    runs = [with_truncate(rng, rows) if rng.random() < 0.3 else rows for rows in runs]
    at = {key: rng.randint(1, orders) for key in rng.sample(KEYS, rng.randint(0, 3))}
    master = [
        Mutation("U", key, order, {name: rng.choice(values[name]) for name in FIELDS}) for key, order in at.items()
    ]
    return functions, master, runs


@pytest.mark.parametrize("unknown", ["insert", "wait"])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@given(rng=st.randoms(use_true_random=False))
@law(60)
def test_runs_into_a_directory_give_what_the_model_gives(form: Form, unknown: str, rng: random.Random) -> None:
    functions, master, runs = merge_world(rng, without=("p",) if form.name == "moving" else ())
    with scratch() as work:
        place = Directory(work, FIELDS, form, unknown, functions=functions)
        place.start(master)
        for rows in filter(None, runs):
            place.run(rows, rng)
        if place.runs:
            place.check()


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("engine", ENGINES)
def test_runs_on_spark_give_what_the_model_gives(engine: str, sc: Any, tmp_path: Path) -> None:
    rng, functions = random.Random(3), {"p": "sum long", "q": "max decimal(9,2)", "r": "first"}
    choices = {text: OF_TEXT[text] for text in functions.values()}
    place = Directory(
        tmp_path, FIELDS, replace(TEXT, engines=(engine,)), on=partial(mutator.mutate, sc), functions=functions
    )
    rows = [
        Mutation("U", key, order, {name: rng.choice(choices[text]) for name, text in functions.items()})
        for key, order in itertools.product(KEYS, rng.sample(range(20), 6))
    ]
    rng.shuffle(rows)
    place.start(rows[:1])
    place.run([*rows[1:12], Mutation("D", "a", 9)], rng)
    place.run(rows[8:], rng)
    assert {"updated", "combined"} <= {*itertools.chain(*place.model.counts)}


@pytest.mark.parametrize("settings", [{}, BY_PARTITION, MOVING], ids=["plain", "partitions", "moving"])
@given(rng=st.randoms(use_true_random=False))
@law(45)
def test_a_table_gives_what_the_model_gives(settings: dict[str, str], rng: random.Random) -> None:
    functions, master, runs = merge_world(rng, without=("p",) if settings is MOVING else ())
    if settings is MOVING:
        del functions["p"]  # the partition
    with scratch() as work, damaged_tables.small_files() if rng.random() < 0.3 else nullcontext():
        place = VersionedTable(work, FIELDS, settings, rng.choice(["insert", "wait"]), functions)
        for number, rows in enumerate(filter(None, [master, *runs])):
            if number and settings is not MOVING and rng.random() < 0.3:
                place.export_and_take_over(rows, rng)
            else:
                place.run(rows, rng)
            for step in rng.sample([place.compact, lambda: place.replace_and_restore(rng)], rng.randint(0, 2)):
                step()
        place.check_versions()


@given(rng=st.randoms(use_true_random=False))
@law(45)
def test_writers_that_race_give_what_the_model_gives(rng: random.Random) -> None:
    functions, master, runs = merge_world(rng)
    with scratch() as work, pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit, "_PATIENCE", 0)
        place = VersionedTable(work, FIELDS, rng.choice([{}, BY_PARTITION]), rng.choice(["insert", "wait"]), functions)
        feeds = [rows for rows in (master, *runs) if any(one.op != "T" for one in rows)]
        for rows in feeds[:1]:
            place.run(rows, rng)
        for faster, slower in itertools.pairwise(feeds):
            first, second = place.feed(faster, rng), place.feed(slower, rng)
            with at_phase(rng.choice(PHASES[:3]), lambda files=first: place.apply(files)):
                place.apply(second)
            place.model.run(faster)
            place.model.run(slower)
            place.check()
        place.check_versions()
