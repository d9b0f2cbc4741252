"""Patches in versioned tables: whatever is done to a table, its versions have the rows that the model has."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.dataset.file_entry import DATA
from mutator.engine.versions.live_rows import LiveRows
from mutator.frames.dataset import Dataset
from mutator.table import commit
from mutator.table.table import Table
from tests.laws.test_patch_laws import FIELDS, mutation, world
from tests.support import damaged_tables, local_engine
from tests.support.effort import law
from tests.support.no_limits import NO_LIMITS
from tests.support.patch_model import Mutation
from tests.support.patch_tables import BY_PARTITION, MOVING, VersionedTable
from tests.support.text_runs import scratch
from tests.support.versioned import open_runner
from tests.table.test_several_writers import PHASES, at_phase


@pytest.mark.parametrize("settings", [{}, BY_PARTITION, MOVING], ids=["plain", "partitions", "moving"])
@given(rng=st.randoms(use_true_random=False))
@law(60)
def test_a_table_gives_what_the_model_gives(settings: dict[str, str], rng: random.Random) -> None:
    master, runs = world(rng)
    with scratch() as work, damaged_tables.small_files() if rng.random() < 0.3 else nullcontext():
        place = VersionedTable(work, FIELDS, settings, rng.choice(["insert", "wait"]))
        for number, rows in enumerate(filter(None, [master, *runs])):
            if number and settings is not MOVING and rng.random() < 0.3:
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


TYPED = {"key": "id", "order_by": "at", "ignore.null.updates": "all", "allow.empty.master": "true", **NO_LIMITS}
Merge = Callable[..., Any]  # merges the rows of columns; returns the records afterwards


@pytest.fixture(params=["directory", "table"])
def merge(request: pytest.FixtureRequest, tmp_path: Path) -> Merge:
    """Return a function that merges rows into a directory or a table, in which NULL leaves a field unset."""
    runs = itertools.count()

    def merging(columns: dict[str, list[Any]], **settings: Any) -> dict[str, Any]:
        number = next(runs)
        feed, output = tmp_path / f"feed{number}" / f"{number}.parquet", tmp_path / f"out{number}"
        feed.parent.mkdir()
        pq.write_table(pa.table(columns), feed)
        if request.param == "directory":
            places: Any = {"master": tmp_path / f"out{number - 1}", "feed": feed.parent, "output": output}
            engine = settings.pop("engine", "auto")
            local_engine.mutate({**TYPED, **settings}, **places, engine=engine)
            assert local_engine.verify(str(output)).differences == ()
            return {row["id"]: row for row in Dataset(output).to_arrow().to_pylist()}
        path = str(tmp_path / "table")
        table = Table(path) if number else Table.create(path, TYPED)
        table.apply(
            str(feed), open_runner=open_runner, **{name.replace(".", "_"): one for name, one in settings.items()}
        )
        assert table.verify(open_runner=open_runner).problems == ()
        return {row["id"]: row for batch in table.scan() for row in batch.to_pylist()}

    return merging


def test_order_values_of_fields_become_wider_with_the_order(merge: Merge) -> None:
    merge({"id": ["1", "2"], "at": [5, 5], "p": ["x", "x"], "q": ["y", "y"]})
    merge({"id": ["1"], "at": [9], "p": ["z"], "q": pa.nulls(1, pa.string())})
    found = merge({"id": ["1"], "at": [Decimal("6.50")], "p": ["late"], "q": ["six"]})
    assert (found["1"]["p"], found["1"]["q"]) == ("z", "six")
    found = merge({"id": ["1"], "at": [Decimal("6.49")], "p": ["late"], "q": ["late"]})
    assert (found["1"]["p"], found["1"]["q"]) == ("z", "six")


def test_a_field_that_is_added_again_has_the_order_value_of_its_row(merge: Merge) -> None:
    merge({"id": ["1", "2"], "at": [5, 5], "p": ["x", "x"], "q": ["y", "y"]})
    merge({"id": ["1"], "at": [9], "p": ["z"], "q": pa.nulls(1, pa.string())})
    merge({"id": ["2"], "at": [7], "p": ["w"]}, **{"removed.fields": "q", "unset.absent": "false"})
    found = merge({"id": ["1", "2"], "at": [8, 8], "p": ["late", "v"], "q": ["late", "new"]})
    assert [(row["p"], row["q"]) for row in found.values()] == [("z", None), ("v", "new")]


@pytest.mark.parametrize("to", [{"order_by": "rank"}, {"order_by": "lsn", "order_keep": False}])
def test_another_order_forgets_the_order_values_of_fields(to: dict[str, Any], tmp_path: Path) -> None:
    place = VersionedTable(tmp_path, ("p", "rank"))
    lines = ["a,5,U,x,1", "b,5,U,x,2", "a,9,U,z,~"]
    for number, line in enumerate(lines):
        (tmp_path / f"{number}.csv").write_text(f"id,at,op,p,rank\n{line}\n")
        place.table.apply(str(tmp_path / f"{number}.csv"), open_runner=open_runner)
    place.table.compact(everything=True)
    assert any(file.sides for file in place.table.snapshot.of_role(DATA))

    place.table.reorder(**to, order_type="long")
    assert not any(file.sides for file in place.table.snapshot.of_role(DATA))
    assert place.table.verify(open_runner=open_runner).problems == ()


def test_full_upserts_read_no_rows_of_a_table_with_patches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, rng = VersionedTable(tmp_path, FIELDS), random.Random(1)
    whole = dict.fromkeys(FIELDS, "x")
    place.run([Mutation("U", key, 1, whole) for key in "abc"], rng)
    place.run([Mutation("P", key, 4, {"p": "y"}) for key in "ab"], rng)
    place.compact()
    with monkeypatch.context() as patch:
        patch.setattr(LiveRows, "rows", None)
        place.run([Mutation("U", key, 6, dict.fromkeys(FIELDS, "z")) for key in "ac"], rng)
        place.run([Mutation("D", "b", 5)], rng)
    place.run([Mutation("U", "c", 5, whole), Mutation("P", "a", 5, {"q": "late"})], rng)
    place.compact()
    assert not any(file.sides for file in place.table.snapshot.of_role(DATA))


def test_an_id_has_a_record_with_its_own_patches_in_each_partition(tmp_path: Path) -> None:
    settings = {"partitioned_by": "place", "key_scope": "partition", "ignore_null_updates": "all"}
    table = Table.create(str(tmp_path / "table"), {"key": "id", "order_by": "at", **settings})
    names = ["id", "at", "price", "name", "place"]
    first = [[1, 1, 30, "lamp", "EU"], [1, 1, 55, "desk", "US"], [2, 1, 9, "sofa", "EU"]]
    second = [[1, 3, None, "bulb", "EU"], [1, 2, 31, None, "EU"], [1, 4, 56, None, "US"], [2, 2, 8, None, "US"]]
    for rows in (first, second):
        table.apply(pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows]))
    found = sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())
    assert found == [(1, 3, 31, "bulb", "EU"), (1, 4, 56, "desk", "US"), (2, 1, 9, "sofa", "EU")]
