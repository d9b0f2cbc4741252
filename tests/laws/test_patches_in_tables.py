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
from mutator.engine.versions import live_rows
from mutator.engine.versions.live_rows import LiveRows
from mutator.errors import StateError
from mutator.frames.dataset import Dataset
from mutator.table import commit, prepare
from mutator.table.table import Table
from tests.laws.test_patch_laws import FIELDS, mutation, with_truncate, world
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
    runs = [with_truncate(rng, rows) if rng.random() < 0.3 else rows for rows in runs]
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


def large_table(path: Path, letter: str = "p") -> Table:
    """Create a table of two files, of which some rows are less than a 64th."""
    table = Table.create(str(path / "table"), TYPED | {"key": "id,shard", "output.codec": "none"}, buckets=2)
    rows = {"p": [f"{letter}{n}" for n in range(1000)], "id": [n // 2 for n in range(1000)], "at": [5] * 1000}
    pq.write_table(pa.table(rows | {"shard": ["a", "b"] * 500, "q": list(range(1000))}), path / "0.parquet")
    table.apply(str(path / "0.parquet"), open_runner=open_runner)
    return table


def reads_of(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """Return a list to which each read of rows adds the path of the file, and the fields."""
    reads, taken = list[tuple[str, list[str]]](), live_rows.taken_rows

    def noted(table: str, data: Any, count: int, positions: Any, names: Any, **options: Any) -> Any:
        reads.append((data.path, sorted(names)))
        return taken(table, data, count, positions, names, **options)

    monkeypatch.setattr(live_rows, "taken_rows", noted)
    return reads


@pytest.mark.parametrize("late", [0, 1])
def test_fields_that_all_newer_patches_set_are_not_read(
    late: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fields that are set stay as they are, or not; some keys have two mutations, or a delete and a patch."""
    table, reads, keys = large_table(tmp_path), reads_of(monkeypatch), range(600)
    rows = [{"id": key // 2, "shard": "ab"[key % 2], "at": 9, "p": None, "q": key + key % 3} for key in keys]
    again = [row | {"at": 11, "p": None if key % 4 else "p", "q": key} for key, row in enumerate(rows) if key < 99]
    rows += [row | {"q": None} for row in again] + [rows[0] | {"id": 450, "at": 4}] * late
    gone = [row | {"at": 10, "op": "D"} for row in rows[200:300]]
    feed = pa.Table.from_pylist([{"op": "U"} | row for row in [*rows, *gone]])
    pq.write_table(feed, tmp_path / "1.parquet")
    report = table.apply(str(tmp_path / "1.parquet"), op="op", open_runner=open_runner)

    counted = {name: report.counts[f"feed {name}"] for name in ("updated", "deleted", "combined", "late")}
    assert counted == {"updated": 500, "deleted": 100, "combined": 99, "late": late}
    found = {(row["id"], row["shard"]): row for batch in table.scan() for row in batch.to_pylist()}
    assert len(found) == 900
    for key in [*range(200), *range(300, 1000)]:
        at, q = (5, key) if key >= 600 else (11 if key < 99 else 9, key + key % 3)
        p = "p" if key < 99 and key % 4 == 0 else f"p{key}"
        row = found[key // 2, "ab"[key % 2]]
        assert (row["at"], row["p"], row["q"]) == (at, p, q)
    assert {tuple(names) for _, names in reads} == {("at", "p", "q") if late else ("at", "p")}
    assert table.verify(open_runner=open_runner).problems == ()


@pytest.mark.parametrize("count", [4, 600])
def test_few_and_many_patches_of_a_large_file(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new patch, a late one that sets a field, an equal one and a late one that sets nothing, again and again."""
    monkeypatch.setattr(prepare, "_GROUP", 1)  # byte of a feed that a task merges
    table, reads = large_table(tmp_path), reads_of(monkeypatch)
    keys = list(range(0, 1000, 1000 // count))[:count]
    kinds = [[(9, "new", None), (3, "late", 7), (5, None, key), (2, None, 8)][n % 4] for n, key in enumerate(keys)]
    at, p, q = (pa.array([kind[place] for kind in kinds]) for place in range(3))
    ids = {"id": [key // 2 for key in keys], "shard": ["ab"[key % 2] for key in keys]}
    pq.write_table(pa.table({**ids, "at": at, "p": p, "q": q}), tmp_path / "1.parquet")
    report = table.apply(str(tmp_path / "1.parquet"), open_runner=open_runner)

    assert {name: report.counts[f"feed {name}"] for name in ("updated", "no-op", "late")} == {
        "updated": count // 4,
        "no-op": count // 4,
        "late": count // 2,
    }
    found = {(row["id"], row["shard"]): row for batch in table.scan() for row in batch.to_pylist()}
    assert len(found) == 1000
    new = {key for key, kind in zip(keys, kinds, strict=True) if kind[0] == 9}
    for key in range(1000):
        row = found[key // 2, "ab"[key % 2]]
        assert (row["at"], row["p"], row["q"]) == ((9, "new", key) if key in new else (5, f"p{key}", key))
    assert len({path for path, _ in reads}) == len(reads) in (1, 2)
    names = ["at", "p", "q"] if count > 4 else ["at", "id", "p", "q", "shard"]
    assert all(own == names for _, own in reads)  # of few rows, the row hashes are verified
    assert table.verify(open_runner=open_runner).problems == ()


@pytest.mark.parametrize("damage", ["flip", "swap"])
@pytest.mark.parametrize("count", [1, 600])
def test_a_patch_takes_no_field_of_a_damaged_record(count: int, damage: str, tmp_path: Path) -> None:
    table, other = large_table(tmp_path), large_table(tmp_path / "twin", "x")
    for own, twin in zip(
        *(sorted(Path(one.path).glob("_mutator/table/rows/*/*.rows")) for one in (table, other)), strict=True
    ):
        content = twin.read_bytes() if damage == "swap" else own.read_bytes().replace(b"p99", b"x99")
        assert len(content) == own.stat().st_size
        own.write_bytes(content)
    ids = pa.table({"id": list(range(500 - count, 500)), "shard": ["a"] * count, "at": [9] * count, "q": [1] * count})
    pq.write_table(ids.append_column("p", pa.nulls(count, pa.string())), tmp_path / "1.parquet")
    with pytest.raises(StateError) as fault:
        table.apply(str(tmp_path / "1.parquet"), open_runner=open_runner)
    assert fault.value.kind == "table.file"


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


def test_a_truncate_that_clears_the_partition_field_moves_the_record(tmp_path: Path) -> None:
    place, rng = VersionedTable(tmp_path, FIELDS, {**MOVING, "truncate.op.code": "T"}), random.Random(0)
    for row in (Mutation("U", "a", 1, dict.fromkeys(FIELDS, "x")), Mutation("P", "a", 5, {"q": "y"})):
        place.run([row], rng)
    place.run([Mutation("T", None, 3)], rng)
    snapshot = place.table.snapshot
    live = [file for file in snapshot.of_role(DATA) if not len(snapshot.masks.hidden(file.path))]
    assert ["p=__HIVE_DEFAULT_PARTITION__" in file.path for file in live] == [True]
