"""Overwrites beside other writers: they follow those that left alone what they replace, and start over after others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.dataset.versions import opening
from mutator.engine.versions import apply_task
from mutator.table import apply, commit
from mutator.table.table import Table
from tests.support.effort import law
from tests.support.text_runs import scratch
from tests.table.test_several_writers import (
    PHASES,
    WORLDS,
    assert_serial,
    at_phase,
    counted_starts,
    feeds,
    merge,
    no_patience,
    outrun,
    put,
)

__all__ = ["no_patience"]  # a fixture

# A record moves to partition 2, 7 is known there, and 4 leaves a tombstone without ever having had a partition.
BASE = "1,1,2,U,x\n2,1,2,U,x\n3,1,2,U,x\n5,2,2,U,x\n6,2,2,U,x\n7,2,2,U,x\n"
OVER = "1,1,1,U,y\n2,1,2,U,x\n7,1,3,U,y\n"  # replaces partition 1; in the table, 7 moves there
# Operation and rows of the faster writer, and whether the overwrite goes on after it: by partition, and by table.
BESIDE = {
    "other keys of another partition": ("over", "5,2,3,U,z\n8,2,3,U,z\n6,2,3,D,\n", True, False),
    "rows that change nothing": ("apply", "5,2,1,U,z\n1,1,1,U,z\n", True, True),
    "an update in another partition": ("apply", "5,2,3,U,z\n8,2,3,U,z\n6,2,3,D,\n", True, True),
    "a new partition": ("apply", "9,3,3,U,z\n", True, True),
    "an insert": ("apply", "9,1,3,U,z\n", False, False),
    "an update": ("apply", "3,1,3,U,z\n", False, False),
    "a delete": ("apply", "3,1,3,D,\n", False, False),
    "a delete of an unknown record": ("apply", "9,1,3,D,\n", False, True),
    "a move out of the partition": ("apply", "3,2,3,U,z\n", True, False),
    "a move into the partition": ("apply", "5,1,3,U,z\n", False, False),
    "a key of the feed elsewhere": ("apply", "7,2,2,U,z\n", True, False),
    "the same partition": ("over", "3,1,3,U,z\n", False, False),
    "everything": ("all", "3,1,3,U,z\n5,2,3,U,z\n", False, False),
}


@pytest.fixture(params=["partitions", "moves"])
def world(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def new_table(directory: Path, world: str, rows: str = BASE) -> tuple[Table, dict[str, str]]:
    """Return a table with rows, and the feed that has them."""
    table = Table.create(str(directory / "table"), WORLDS[world])
    path = put(directory, "base_0.csv", rows)
    table.apply(path)
    return table, {"base_0.csv": path}


@pytest.mark.thorough(keep=2, rest=11)
@pytest.mark.parametrize("case", BESIDE)
def test_an_overwrite_follows_writers_of_other_partitions(
    case: str, world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation, rows, by_partition, by_table = BESIDE[case]
    follows = by_partition if world == "partitions" else by_table
    number = list(BESIDE).index(case)  # each phase has cases of each kind
    monkeypatch.setattr(apply, "INLINE", 0 if number % 2 else 1 << 16)
    table, paths = new_table(tmp_path, world)
    fast, slow = f"{operation}_1.csv", "over_2.csv"
    paths |= {fast: put(tmp_path, fast, rows), slow: put(tmp_path, slow, OVER)}
    with counted_starts() as starts, at_phase(PHASES[number % 3], lambda: merge(Table(table.path), paths[fast])):
        report = merge(table, paths[slow])
    assert report.version == 3
    assert len(starts) == 2 + (not follows)
    assert report.samples == assert_serial(table, tmp_path, WORLDS[world], paths).samples


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("case", ["an update in another partition", "an insert"])
def test_an_overwrite_of_everything_starts_over(case: str, world: str, tmp_path: Path) -> None:
    table, paths = new_table(tmp_path, world)
    paths |= {"f_1.csv": put(tmp_path, "f_1.csv", BESIDE[case][1]), "all_2.csv": put(tmp_path, "all_2.csv", OVER)}
    with counted_starts() as starts, at_phase("commit", lambda: merge(Table(table.path), paths["f_1.csv"])):
        merge(table, paths["all_2.csv"])
    assert len(starts) == 3
    assert_serial(table, tmp_path, WORLDS[world], paths)


@pytest.mark.thorough(keep=0)
def test_constant_writers_of_other_partitions_do_not_stop_an_overwrite(
    world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_EVERY", 2)
    monkeypatch.setattr(commit, "_STARTS", 1)
    table, paths = new_table(tmp_path, world)
    paths["over_0.csv"] = put(tmp_path, "over_0.csv", OVER)

    def meanwhile(number: int) -> None:
        name = f"faster_{number}.csv"
        paths[name] = put(tmp_path, name, f"5,2,{number + 2},U,z\n{number + 10},2,1,U,z\n6,2,{number + 2},D,\n")
        Table(table.path).apply(paths[name])

    with outrun(5, meanwhile):
        assert merge(table, paths["over_0.csv"]).version == 7
    assert_serial(table, tmp_path, WORLDS[world], paths)


@pytest.mark.rest
def test_too_many_keys_start_over(world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply_task, "_MOST_HASHES", 1)
    table, paths = new_table(tmp_path, world)
    paths |= {"f_1.csv": put(tmp_path, "f_1.csv", "5,2,3,U,z\n"), "over_2.csv": put(tmp_path, "over_2.csv", OVER)}
    with counted_starts() as starts, at_phase("commit", lambda: merge(Table(table.path), paths["f_1.csv"])):
        merge(table, paths["over_2.csv"])
    assert len(starts) == 3
    assert_serial(table, tmp_path, WORLDS[world], paths)


@pytest.mark.rest
@pytest.mark.parametrize("phase", PHASES[1:3])
def test_a_compaction_of_other_partitions_is_followed(phase: str, world: str, tmp_path: Path) -> None:
    table, paths = new_table(tmp_path, world)
    table.compact()  # a file for each partition, so that the next one leaves those of partition 1 as they are
    for number in range(3):
        table.apply(put(tmp_path, f"more_{number}.csv", f"5,2,{number + 3},U,z\n"))
    paths["over_9.csv"] = put(tmp_path, "over_9.csv", OVER)
    before = table.snapshot
    compact: Callable[[], Any] = lambda: Table(table.path).compact()  # noqa: E731
    with counted_starts() as starts, at_phase(phase, compact):
        report = merge(table, paths["over_9.csv"])
    assert report.version == before.version.number + 2
    assert len(starts) in (1, 2)
    serial = Table.create(str(tmp_path / "serial"), WORLDS[world])
    for path in (paths["base_0.csv"], *(str(tmp_path / f"more_{number}.csv") for number in range(3))):
        serial.apply(path)
    assert merge(serial, paths["over_9.csv"]).counts == report.counts
    assert sorted(map(repr, table.scan().to_pylist())) == sorted(map(repr, serial.scan().to_pylist()))
    assert table.verify().problems == ()


operations = st.lists(st.sampled_from(["over", "over", "f", "all"]), min_size=4, max_size=4)


@pytest.mark.rest
@law(60)
@given(feeds, operations, st.sampled_from(["partitions", "moves"]), st.lists(st.sampled_from(PHASES), min_size=3))
def test_the_result_is_that_of_the_order_of_the_log(
    mutations: list[str], acts: list[str], world: str, phases: list[str]
) -> None:
    with scratch() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "_EVERY", 2)
        names = [f"{act}_{number:02d}.csv" for number, act in zip(range(len(mutations)), acts, strict=False)]
        table, paths = new_table(directory, world, "1,1,2,U,x\n2,2,2,U,x\n3,1,2,U,x\n4,3,2,U,x\n")
        paths |= {name: put(directory, name, rows) for name, rows in zip(names, mutations, strict=True)}

        def merge_from(number: int) -> None:
            """Merge a feed, while another writer merges the following one."""
            path = paths[names[number]]
            if number + 1 < len(names):
                with at_phase(phases[number % len(phases)], lambda: merge_from(number + 1)):
                    merge(Table(table.path), path)
            else:
                merge(Table(table.path), path)

        merge_from(0)
        assert_serial(table, directory, WORLDS[world], paths)


def test_an_overwrite_starts_over_after_a_touch_in_its_partition(tmp_path: Path) -> None:
    settings = {**WORLDS["by file name"], "partitioned.by": "shop", "key.scope": "partition"}
    table = Table.create(str(tmp_path / "table"), settings)
    paths = {
        "base_1.csv": put(tmp_path, "base_1.csv", BASE),
        "equal_5.csv": put(tmp_path, "equal_5.csv", "3,1,2,U,x\n"),
        "over_2.csv": put(tmp_path, "over_2.csv", "1,1,1,U,y\n"),  # 3 is deleted by absence
        "between_4.csv": put(tmp_path, "between_4.csv", "3,1,2,U,z\n"),
    }
    table.apply(paths["base_1.csv"])
    with counted_starts() as starts, at_phase("commit", lambda: Table(table.path).apply(paths["equal_5.csv"])):
        merge(table, paths["over_2.csv"])
    assert len(starts) == 3
    assert table.apply(paths["between_4.csv"]).counts["feed late"] == 1, "the tombstone has the order of the touch"
    assert_serial(table, tmp_path, settings, paths)


@pytest.mark.parametrize("scope", ["partition", "table"])
def test_an_overwrite_keeps_a_packed_file_with_rows_of_others(
    scope: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rows of partition 3 are hidden, those of partition 2 are not."""
    for name in ("INLINE", "_INLINE_FEED"):
        monkeypatch.setattr(apply, name, 0)
    settings = {**WORLDS["partitions"], "key.scope": scope}
    table = Table.create(str(tmp_path / "table"), settings)
    feeds = {
        "packed_0.csv": "1,1,2,U,x\n2,1,2,U,x\n5,2,2,U,x\n6,2,2,U,x\n8,3,2,U,x\n",
        "less_1.csv": "8,3,3,D,\n",
        "over_2.csv": "1,1,3,U,y\n",
    }
    paths = {name: put(tmp_path, name, text) for name, text in feeds.items()}
    for path in paths.values():
        merge(table, path)
    assert sorted(one["id"] for one in table.scan().to_pylist()) == ["1", "5", "6"]
    assert_serial(table, tmp_path, settings, paths)
