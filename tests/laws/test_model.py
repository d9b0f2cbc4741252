"""The engine gives the same results as the reference model, on small random masters and feeds."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import eq, ge, gt, le, lt, ne

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mutator
from mutator.errors import DataError
from tests.support import model, text_runs
from tests.support.effort import law
from tests.support.model import Key, Row
from tests.support.text_runs import (
    Dataset,
    Runs,
    few_hashes,
    horizon_text,
    local,
    make_speed,
    outcomes_by_file,
    scratch,
)
from tests.support.text_worlds import (
    File,
    Line,
    RowPlan,
    make_files,
    make_world,
)


def expected_buckets(master: list[Row], merged: model.Merged, buckets: int | None) -> dict[int | None, list[bytes]]:
    """Lay out the model's records: survivors by (file name, position), updated ones in place, inserted ones by key."""
    master_rows = model.last(master)
    files: dict[int | None, list[bytes]] = {}
    places = {
        key: (0, master_rows[key].name, master_rows[key].offset) if key in master_rows else (1, key)
        for key in merged.records
    }
    for key in sorted(places, key=lambda key: places[key]):
        files.setdefault(buckets and text_runs.bucket_of(key, buckets), []).append(merged.records[key][1])
    return files


def compare(made: Dataset, master: list[Row], merged: model.Merged, buckets: int | None) -> None:
    assert made.records == merged.records
    assert made.tombstones == merged.tombstones
    counted = {name: made.counts[name] for name in made.counts if not name.endswith((" rows", " ignored", " rejected"))}
    assert counted == {name: merged.counts[name] for name in counted}
    assert set(merged.counts) - set(counted) == {"output rows"}
    assert outcomes_by_file(made.report) == merged.by_file
    shown = {
        note: [",".join(value.decode("utf-8", "backslashreplace") for value in key) for key in keys[:5]]
        for note, keys in merged.notes.items()
    }
    assert made.samples == shown
    assert made.buckets == expected_buckets(master, merged, buckets)


def anything(written: bytes) -> bool:
    return True


def make_scope(rng: random.Random, feed: Sequence[File], shape: RowPlan) -> tuple[str, Callable[[bytes], bool]]:
    """Draw conditions that a row of a feed meets; return them as a setting, and as a function of a row."""
    compare = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
    rows = [row.written.split(b",") for file in feed for row in file.rows(shape)]
    model_row, drawn = rng.choice(rows or [[b""] * len(shape.columns)]), []
    for _ in range(rng.choice([1, 1, 2])):
        at, literal = rng.randrange(len(shape.columns)), rng.choice([b"", b"a", b"x", b"9", rng.choice(model_row)])
        operators = [name for name, holds in compare.items() if holds(model_row[at], literal)]
        if b"\xff" not in literal:
            drawn.append((at, rng.choice(operators), literal.decode()))

    def inside(written: bytes) -> bool:
        cells = written.split(b",")
        return all(compare[operator](cells[at], text.encode()) for at, operator, text in drawn)

    return " and ".join(f"{at} {operator} '{text}'" for at, operator, text in drawn), inside


def lines_inside(file: File, inside: Callable[[bytes], bool]) -> tuple[Line, ...]:
    return tuple(line for line in file.lines if line.key is None or inside(line.written))


def engine_is_model(rng: random.Random, *, full: bool = False, engine: Callable[..., mutator.Report] = local) -> None:
    """Run several feeds, each into the output of the run before, with retention; compare everything after each run."""
    bad = not full and rng.random() < 0.3
    world = make_world(rng, deletes="delete file" if full else None, bad=bad)
    shape = world.shape
    with scratch() as work:
        run = Runs(work, shape, engine)
        path, horizon, absences = run.master(world.master), None, dict[int, int]()
        rows = [row for file in world.master for row in file.rows(shape)]
        tombstones: dict[Key, tuple[int, int]] = {}
        retention = rng.choice([None, 0, 1, 2])
        for number in range(rng.randint(1, 4)):
            feed, inside = world.feed, anything
            is_full = full and rng.random() < 0.6  # others are deltas between the snapshots
            run.shape = replace(shape, deletes="none") if is_full else shape
            if number or is_full:
                feed = make_files(rng, run.shape, rng.randint(1, 3), of_master=False, bad=bad, most=3, places=2)
            if is_full:
                feed = tuple(file for file in feed if file.sequence == feed[0].sequence)
            run.now += rng.choice([1, 500, 1000, 2500])
            options = make_speed(rng)
            if len(model.last(rows)) == len(rows):
                options["master_unique"] = rng.choice(["true", "false"])
            if retention is not None:
                options["tombstone_retention"] = f"{retention}s"
            if is_full:
                options |= {"sync_mode": "full", "allow_older_snapshot": "true"}
                scope, inside = make_scope(rng, feed, shape) if rng.random() < 0.6 else ("", anything)
                outside = [row for file in feed for row in file.rows(shape) if not inside(row.written)]
                if scope:
                    options["sync_scope"] = scope
                if outside and rng.random() < 0.1:
                    with pytest.raises(DataError, match="is not in the part of the snapshot"):
                        run(path, feed, **options)
                    return
                feed = [replace(file, lines=lines_inside(file, inside)) for file in feed]
                if not any(file.sequence >= -1 and list(file.rows(shape)) for file in feed):
                    with pytest.raises(DataError, match="needs a complete snapshot"):
                        run(path, feed, **options)
                    return
            made = run(path, feed, seed=rng.randrange(99), **options)
            merged = model.merge(
                rows,
                tombstones,
                [row for file in feed for row in file.rows(shape)],
                now=run.now,
                full=is_full,
                expire_before=None if retention is None else run.now - retention * 1000,
                horizon=horizon,
                absences=absences,
                inside=inside,
            )
            if is_full:
                absences[run.now] = max(row.order for file in feed for row in file.rows(run.shape))
            compare(made, rows, merged, None if made.report.join == "broadcast" else options["num_reducer"])
            horizon = merged.horizon
            assert made.horizon == horizon_text(shape, horizon)
            path, rows, tombstones = made.path, made.rows, made.tombstones


@given(st.randoms(use_true_random=False))
@law(250)
def test_engine_equals_the_model(rng):
    engine_is_model(rng)


@given(st.randoms(use_true_random=False))
@law(80)
def test_engine_equals_the_model_for_full_snapshots(rng):
    engine_is_model(rng, full=True)


@given(st.randoms(use_true_random=False), st.sampled_from([1, 2, 5]))
@law(100)
def test_engine_equals_the_model_if_keys_share_hashes(rng, number):
    with few_hashes(number):
        engine_is_model(rng, full=rng.random() < 0.2)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(40))
def test_soak_engine_equals_the_model(seed):
    rng = random.Random(seed)
    for _ in range(500):
        engine_is_model(rng, full=rng.random() < 0.2)
