"""Partitioned masters: the engine gives the model's results, for any master and any number of tasks."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.errors import DataError
from tests.support.effort import law
from tests.support.model import Key
from tests.support.partition_model import Partitioned, merge_partitions, merge_table, scoped
from tests.support.partition_worlds import Made, TableRuns, draw_table, files_of, make_speed
from tests.support.text_runs import few_hashes, horizon_text, outcomes_by_file, read_back, scratch

STARTS = ["flat", "tree", "none", "managed", "partitioned"]


def begin(rng: random.Random, run: TableRuns, start: str, *, bad: bool) -> tuple[str, list[Any], dict[Key, Any], Any]:
    """Create a master; return its path, rows and tombstones, and their partitions (None if it is not partitioned)."""
    table = run.table
    files = files_of(rng, table, rng.randint(0, 3), of_master=True, bad=bad)
    if start == "tree":
        return *run.tree(files, rng), {}, None
    files = [file for file in files if not file.place]
    path = run.flat(() if start == "none" else files)
    if start == "managed":  # without partitions
        # If a record ID is unique only within its partition, nothing decides which of two rows is the record.
        keys = [row.key[-len(table.key) :] for row in table.rows(files)]
        if table.scope == "partition" and len(set(keys)) < len(keys):
            return path, table.rows(files), {}, None
        feed = () if table.scope == "partition" else files_of(rng, table, rng.randint(0, 2))
        report = run.run(path, feed, num_reducer=rng.choice([1, 2, 4]), engine=rng.choice(["blocks", "records"]))
        found = read_back(table, report.output, report)
        rows = [row for row in found.rows if table.placed(row) is not None]
        if table.scope == "partition":
            rows = [scoped(row, table.place(row)) for row in rows]
        return report.output, rows, found.tombstones, None
    if start == "partitioned":
        made = run(path, files_of(rng, table, rng.randint(0, 2)), **make_speed(rng))
        return made.path, made.rows, made.tombstones, made.graves
    return path, [] if start == "none" else table.rows(files), {}, None


def compare(made: Made, expected: Partitioned, *, certain: bool, decided: bool) -> None:
    """Compare the rows, the tombstones and the report with the model.

    certain: filters tell keys apart; otherwise a delete of an unknown key may be counted in any partition. decided: the
    outcomes of records were decided within partitions, and not before the master had any.
    """
    merged = expected.merged
    assert made.records == merged.records
    assert made.tombstones == merged.tombstones
    for key in made.places if certain else made.records:
        assert made.places[key] == expected.places[key]
    counted = {name: made.counts[name] for name in made.counts if not name.endswith((" rows", " ignored", " rejected"))}
    assert counted == {name: merged.counts[name] for name in counted}
    assert outcomes_by_file(made.report) == merged.by_file
    shown = {
        note: [",".join(value.decode("utf-8", "backslashreplace") for value in key) for key in keys[:5]]
        for note, keys in merged.notes.items()
    }
    assert made.report.samples == shown
    if not certain:
        return
    names = ["before", "inserted", "updated", "deleted", "moved in", "moved out", "rows"] if decided else ["rows"]
    rows = {partition["partition"]: {name: partition[name] for name in names} for partition in made.report.partitions}
    touched = {
        directory: {name: n[name] for name in names}
        for directory, n in expected.touched.items()
        if directory or n["before"] or n["rows"]
    }
    assert rows == touched


def engine_is_model(
    rng: random.Random, scope: str, *, full: bool = False, certain: bool = True, runs: int = 4, engine: Any = None
) -> None:
    """Run several feeds, each into the output of the run before; compare everything after each run."""
    bad = not full and rng.random() < 0.3
    table = draw_table(rng, scope, deletes="delete file" if full else None)
    with scratch() as work:
        run = TableRuns(work, table, *([engine] if engine else []))
        path, rows, tombstones, graves = begin(rng, run, rng.choice(STARTS), bad=bad)
        horizon, retention = None, rng.choice([None, 0, 1, 2] if certain else [None])
        absences: dict[int, int] = {}
        for _ in range(rng.randint(1, runs)):
            is_full = full and rng.random() < 0.6  # others are deltas between the snapshots
            run.table = replace(table, deletes="none") if is_full else table
            feed = files_of(rng, run.table, rng.randint(0, 3), bad=bad)
            options = make_speed(rng)
            run.now += rng.choice([1, 500, 1000, 2500])
            if retention is not None:
                options["tombstone_retention"] = f"{retention}s"
            if is_full:
                feed = tuple(file for file in feed if file.sequence == feed[0].sequence)
                options |= {"sync_mode": "full", "allow_older_snapshot": "true"}
                if not any(list(file.rows(table)) for file in feed):
                    with pytest.raises(DataError, match="needs a complete snapshot"):
                        run(path, feed, **options)
                    return
            managed = graves is not None
            made = run(path, feed, silent=managed and rng.random() < 0.3, **options)
            how = {
                "now": run.now,
                "full": is_full,
                "expire_before": None if retention is None else run.now - retention * 1000,
                "horizon": horizon,
                "absences": dict(absences),
            }
            fed = table.rows(feed)
            if is_full:
                absences[run.now] = max(row.order for row in fed)
            if scope == "table":
                expected = merge_table(rows, tombstones, fed, table.place, graves, **how)
            else:
                expected = merge_partitions(rows, tombstones, fed, managed=managed, **how)
            compare(made, expected, certain=certain, decided=managed or scope == "partition")
            horizon = expected.merged.horizon
            assert made.report.horizon == horizon_text(table, horizon)
            path, rows, tombstones, graves = made.path, made.rows, made.tombstones, made.graves


@pytest.mark.parametrize("scope", ["table", "partition"])
@given(rng=st.randoms(use_true_random=False))
@law(35)
def test_engine_equals_the_model(scope, rng):
    engine_is_model(rng, scope)


@pytest.mark.parametrize("scope", ["table", "partition"])
@given(rng=st.randoms(use_true_random=False))
@law(12)
def test_engine_equals_the_model_for_full_snapshots(scope, rng):
    engine_is_model(rng, scope, full=True)


@given(rng=st.randoms(use_true_random=False), number=st.sampled_from([1, 2, 5]))
@law(15)
def test_engine_equals_the_model_if_keys_share_hashes(rng, number):
    with few_hashes(number):
        engine_is_model(rng, "table", full=rng.random() < 0.2, certain=False)


@pytest.mark.soak
@pytest.mark.parametrize("scope", ["table", "partition"])
@pytest.mark.parametrize("seed", range(20))
def test_soak_engine_equals_the_model(scope, seed):
    rng = random.Random(seed)
    for _ in range(200):
        engine_is_model(rng, scope, full=rng.random() < 0.2, runs=6)
