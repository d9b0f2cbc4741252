"""Insert overwrite: the engines give the model's results, for any master and any number of tasks."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.errors import DataError
from tests.laws.test_model import compare as compare_datasets
from tests.laws.test_partition_laws import STARTS, begin
from tests.laws.test_partition_laws import compare as compare_partitions
from tests.support import model
from tests.support.changed_rows import changed_rows, counted, replayed, reported, text_row
from tests.support.effort import law
from tests.support.model import Key, Row
from tests.support.overwrite_model import overwrite, replaced_by
from tests.support.partition_model import NOWHERE, NULL, Partitioned
from tests.support.partition_worlds import Made, Table, TableRuns, draw_table, files_of
from tests.support.partition_worlds import make_speed as make_partition_speed
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
from tests.support.text_worlds import make_files, make_world

OPERATIONS = ["insert_overwrite", "insert_overwrite_table"]
EMPTY = "has no rows, so write.operation=insert_overwrite_table would delete every record"


def draw_options(rng: random.Random, operation: str, number: int) -> dict[str, Any]:
    """Draw the settings of a run: mostly an overwrite, sometimes an apply."""
    if number and rng.random() < 0.3:
        return {"write_operation": "apply", "reject_policy": "fail"}
    return {"write_operation": operation, "reject_policy": "fail", "allow_empty_feed": rng.random() < 0.5}


def is_refused(options: dict[str, Any], feed: list[Row]) -> bool:
    return options["write_operation"] == "insert_overwrite_table" and not feed and not options["allow_empty_feed"]


def engine_is_model(rng: random.Random, operation: str, *, engine: Any = local) -> None:
    """Run feeds over a master without partitions, each into the output of the run before."""
    world = make_world(rng)
    shape = world.shape
    with scratch() as work:
        run = Runs(work, shape, engine)
        path, horizon = run.master(world.master), None
        rows = [row for file in world.master for row in file.rows(shape)]
        tombstones: dict[Key, tuple[int, int]] = {}
        retention = rng.choice([None, None, 0, 1])
        for number in range(rng.randint(1, 4)):
            feed = make_files(rng, shape, rng.randint(0, 3), of_master=False, bad=False, most=3, places=2)
            run.now += rng.choice([1, 500, 1000, 2500])
            options = {**make_speed(rng), **draw_options(rng, operation, number), "changes": "true"}
            if len(model.last(rows)) == len(rows):
                options["master_unique"] = rng.choice(["true", "false"])
            if retention is not None:
                options["tombstone_retention"] = f"{retention}s"
            fed = [row for file in feed for row in file.rows(shape)]
            if is_refused(options, fed):
                with pytest.raises(DataError, match=EMPTY):
                    run(path, feed, **options)
                return
            made = run(path, feed, seed=rng.randrange(99), **options)
            check_changes(made, rows if number else None)
            expire_before = None if retention is None else run.now - retention * 1000
            how = {"now": run.now, "horizon": horizon, "expire_before": expire_before}
            if options["write_operation"] == "apply":
                merged = model.merge(rows, tombstones, fed, **how)
            else:
                everything = operation == "insert_overwrite_table" or bool(fed)
                graves = dict.fromkeys(tombstones, NOWHERE)
                merged = overwrite(rows, tombstones, fed, nowhere, graves, everything=everything, **how).merged
                if expire_before is not None and not fed and not everything:  # nothing is replaced, all is written
                    merged = model.merge(rows, tombstones, fed, **how)
            compare_datasets(made, rows, merged, None if made.report.join == "broadcast" else options["num_reducer"])
            horizon = merged.horizon
            assert made.horizon == horizon_text(shape, horizon)
            path, rows, tombstones = made.path, made.rows, made.tombstones


def check_changes(made: Dataset | Made, before: list[Row] | None) -> None:
    """Check the changed rows of a run. before: the rows of its master, None if some of them may be duplicates."""
    found = changed_rows(made.path)
    assert counted(found) == reported(made.counts)
    if before is not None:
        changes = [(row["_change_type"], text_row(row)) for row in found]
        rows = Counter(row.row for row in before)
        assert replayed(rows, changes) == Counter(row.row for row in made.rows)


def nowhere(_: Row) -> str:
    return NOWHERE


def own_of(table: Table) -> Any:
    """Return the function that gives the directory of a row, None for a delete that names no partition."""

    def own(row: Row) -> str | None:
        if not row.is_delete or table.scope == "partition":
            return table.place(row)
        if row.written.count(b",") != len(table.written) - 1:
            return None
        found = table.placed(row)
        return None if found is None or any(level.endswith(f"={NULL}") for level in found.split("/")) else found

    return own


def partitions_are_model(
    rng: random.Random, scope: str, operation: str, *, certain: bool = True, runs: int = 3
) -> None:
    """Run feeds over a partitioned master, or over one that is partitioned by the first of them."""
    table = draw_table(rng, scope)
    own = own_of(table)
    with scratch() as work:
        run = TableRuns(work, table)
        path, rows, tombstones, graves = begin(rng, run, rng.choice(STARTS), bad=False)
        horizon, retention = None, rng.choice([None, None, 0, 1] if certain else [None])
        for _ in range(rng.randint(1, runs)):
            feed = files_of(rng, table, rng.randint(0, 3))
            options = {**make_partition_speed(rng), **draw_options(rng, operation, 0), "changes": "true"}
            run.now += rng.choice([1, 500, 1000, 2500])
            managed = graves is not None
            expire_before = None
            if retention is not None and managed:
                options["tombstone_retention"] = f"{retention}s"
                expire_before = run.now - retention * 1000
            fed = table.rows(feed)
            if is_refused(options, fed):
                with pytest.raises(DataError, match=EMPTY):
                    run(path, feed, **options)
                return
            made = run(path, feed, silent=managed and rng.random() < 0.3, **options)
            check_changes(made, rows if managed else None)
            expected = overwrite(
                rows,
                tombstones,
                fed,
                own,
                graves if managed else dict.fromkeys(tombstones, NOWHERE),
                everything=operation == "insert_overwrite_table",
                by_partition=scope == "partition",
                now=run.now,
                horizon=horizon,
                expire_before=expire_before,
            )
            if managed:
                compare_partitions(made, expected, certain=certain, decided=True)
            else:  # the feed met the master before this had partitions
                compare_merged(made, expected)
            if operation == "insert_overwrite":
                assert set(made.report.replaced) == replaced_by(fed, own)
            horizon = expected.merged.horizon
            assert made.report.horizon == horizon_text(table, horizon)
            path, rows, tombstones, graves = made.path, made.rows, made.tombstones, made.graves


def compare_merged(made: Made, expected: Partitioned) -> None:
    merged = expected.merged
    assert made.records == merged.records
    assert made.tombstones == merged.tombstones
    assert {key: made.places[key] for key in made.records} == {key: expected.places[key] for key in made.records}
    counted = {name: n for name, n in made.counts.items() if not name.endswith((" rows", " ignored", " rejected"))}
    assert counted == {name: merged.counts[name] for name in counted}
    assert outcomes_by_file(made.report) == merged.by_file


@pytest.mark.parametrize("operation", OPERATIONS)
@given(rng=st.randoms(use_true_random=False))
@law(40)
def test_engines_equal_the_model(operation, rng):
    engine_is_model(rng, operation)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("scope", ["table", "partition"])
@given(rng=st.randoms(use_true_random=False))
@law(30)
def test_partitions_equal_the_model(scope, operation, rng):
    partitions_are_model(rng, scope, operation)


@given(rng=st.randoms(use_true_random=False), number=st.sampled_from([1, 2, 5]))
@law(15)
def test_engines_equal_the_model_if_keys_share_hashes(rng, number):
    with few_hashes(number):
        engine_is_model(rng, rng.choice(OPERATIONS))
        partitions_are_model(rng, "table", rng.choice(OPERATIONS), certain=False)
