"""Patches in versioned tables: whatever is done to a table, its versions have the rows that the model has."""

from __future__ import annotations

import random
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.table import commit
from tests.laws.test_patch_laws import FIELDS, mutation, world
from tests.support import damaged_tables
from tests.support.effort import law
from tests.support.patch_tables import BY_PARTITION, VersionedTable
from tests.support.text_runs import scratch
from tests.table.test_several_writers import PHASES, at_phase


@pytest.mark.parametrize("settings", [{}, BY_PARTITION], ids=["plain", "partitions"])
@given(rng=st.randoms(use_true_random=False))
@law(60)
def test_a_table_gives_what_the_model_gives(settings: dict[str, str], rng: random.Random) -> None:
    master, runs = world(rng)
    with scratch() as work, damaged_tables.small_files() if rng.random() < 0.3 else nullcontext():
        place = VersionedTable(work, FIELDS, settings, rng.choice(["insert", "wait"]))
        for number, rows in enumerate(filter(None, [master, *runs])):
            if number and rng.random() < 0.3:
                place.export_and_take_over(rows, rng)
            else:
                place.run(rows, rng)
            for step in rng.sample([place.compact, lambda: place.replace_and_restore(rng)], rng.randint(0, 2)):
                step()
        place.check_versions()


@given(rng=st.randoms(use_true_random=False))
@law(60)
def test_writers_that_race_give_what_the_model_gives(rng: random.Random) -> None:
    with scratch() as work, pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit, "_PATIENCE", 0)
        place = VersionedTable(work, FIELDS, rng.choice([{}, BY_PARTITION]), rng.choice(["insert", "wait"]))
        place.run([mutation(rng, 8) for _ in range(rng.randint(1, 8))], rng)
        for _ in range(rng.randint(1, 3)):
            faster, slower = ([mutation(rng, 8) for _ in range(rng.randint(1, 8))] for _ in range(2))
            first, second = place.feed(faster, rng), place.feed(slower, rng)
            with at_phase(rng.choice(PHASES[:3]), lambda files=first: place.apply(files)):
                place.apply(second)
            place.model.run(faster)
            place.model.run(slower)
            place.check()
        place.check_versions()
