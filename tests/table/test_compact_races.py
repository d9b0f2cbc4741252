"""Compactions and other writers at the same time: the rows are those of their feeds in the order of the log."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.dataset.commits import OVERWRITES
from mutator.dataset.versions import opening
from mutator.dataset.versions.log import TableLog
from mutator.engine.versions import base_files
from mutator.table import apply, compact, compact_choice
from mutator.table.table import Table
from tests.support.effort import law
from tests.support.text_runs import scratch
from tests.table.test_several_writers import (
    BASE,
    PHASES,
    WORLDS,
    act_beside_each_other,
    assert_serial,
    at_phase,
    counted_starts,
    feeds,
    no_patience,
    put,
)

__all__ = ["no_patience"]  # a fixture


@pytest.mark.rest
@law(40)
@given(
    feeds,
    st.sampled_from(sorted(WORLDS)),
    st.lists(st.sampled_from(PHASES), min_size=5, max_size=5),
    st.lists(st.sampled_from(["apply", "apply", "compact", *OVERWRITES]), min_size=5, max_size=5),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 2, 1 << 20]),
)
def test_the_result_is_that_of_the_order_of_the_log(
    mutations: list[str], world: str, phases: list[str], kinds: list[str], inline: bool, nested: bool, rows: int
) -> None:
    with scratch() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "_EVERY", 2)
        patch.setattr(compact_choice, "_TASK_ROWS", rows)
        patch.setattr(base_files, "OWN", rows)
        patch.setattr(compact_choice, "OWN", rows)
        if not inline:
            patch.setattr(apply, "INLINE", 0)
            patch.setattr(compact, "INLINE", 0)
        act_beside_each_other(directory, WORLDS[world], mutations, phases, kinds, nested=nested)


CASES = {
    "updates": "1,1,3,U,y\n2,1,3,U,y\n",
    "deletes": "1,1,3,D,\n7,1,9,D,\n",
    "inserts": "8,1,3,U,y\n9,2,3,U,y\n",
    "a tombstone that is replaced": "6,1,9,U,y\n",
    "equal rows": "1,1,2,U,x\n2,1,2,U,x\n",
    "a record that moves": "3,2,5,U,y\n",
}


@pytest.mark.thorough(keep=0, rest=4)
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("faster", ["apply", "compact"])
def test_an_apply_and_a_compaction(
    case: str, world: str, faster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for phase in PHASES[:3]:
        monkeypatch.setattr(apply, "INLINE", 0 if phase == "merged" else 1 << 16)
        work = tmp_path / phase
        work.mkdir()
        race(work, phase, case, world, faster)


def race(work: Path, phase: str, case: str, world: str, faster: str) -> None:
    table = Table.create(str(work / "table"), WORLDS[world], buckets=2)
    given = {"base_1.csv": BASE, "more_2.csv": "1,1,2,U,z\n6,1,3,U,z\n", "less_3.csv": "6,1,4,D,\n5,1,4,D,\n"}
    paths = {name: put(work, name, rows) for name, rows in given.items()}
    for path in paths.values():
        table.apply(path)
    paths["last_4.csv"] = put(work, "last_4.csv", CASES[case])
    other = Table(table.path)
    if faster == "apply":
        with at_phase(phase, lambda: other.apply(paths["last_4.csv"])):
            assert table.compact(everything=True).given_up == 0
    else:
        with counted_starts() as starts, at_phase(phase, lambda: other.compact(everything=True)):
            table.apply(paths["last_4.csv"])
        assert len(starts) == 1  # it decides again about common keys alone
    assert table.refresh().version == 5
    assert_serial(table, work, WORLDS[world], paths)


@pytest.mark.thorough(keep=1, rest=5)
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("phase", PHASES[:3])
def test_two_compactions(phase: str, world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact_choice, "_TASK_ROWS", 1)
    table = Table.create(str(tmp_path / "table"), WORLDS[world], buckets=2)
    more = "".join(f"{number},1,2,U,x\n" for number in range(6, 20))
    given = {"base_1.csv": BASE + more, "more_2.csv": "1,1,2,U,z\n2,1,9,D,\n"}
    paths = {name: put(tmp_path, name, rows) for name, rows in given.items()}
    for path in paths.values():
        table.apply(path)
    reports = []
    with at_phase(phase, lambda: reports.append(Table(table.path).compact(files=1, hidden=1))):
        report = table.compact(everything=True)
    assert (reports[0].buckets, report.buckets, report.given_up) == (1, 2, 1)
    assert table.refresh().version == 4
    assert_serial(table, tmp_path, WORLDS[world], paths)


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("phase", PHASES[:3])
def test_an_apply_follows_a_compaction_that_removed_no_file(phase: str, tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), WORLDS["partitions"], buckets=1)
    given = {"base_1.csv": "1,1,2,U,x\n2,1,2,U,x\n1,2,2,U,x\n", "more_2.csv": "1,1,2,U,z\n3,1,2,U,z\n2,2,2,U,x\n"}
    paths = {name: put(tmp_path, name, rows) for name, rows in given.items()}
    for path in paths.values():
        table.apply(path)
    paths["last_3.csv"] = put(tmp_path, "last_3.csv", "2,1,9,D,\n3,1,9,U,y\n")
    other = Table(table.path)
    with counted_starts() as starts, at_phase(phase, lambda: other.compact(everything=True, where="shop = 1")):
        table.apply(paths["last_3.csv"])
    assert len(starts) == 1
    assert TableLog(table.path).read(3).removed == ()
    assert_serial(table, tmp_path, WORLDS["partitions"], paths)
