"""Restores and other writers at the same time: the rows are those of their operations in the order of the log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator import ConfigError, StateError
from mutator.dataset.commits import OVERWRITES
from mutator.dataset.versions import opening
from mutator.dataset.versions.log import TableLog
from mutator.engine.versions import base_files
from mutator.table import apply, commit, compact, compact_choice, restore
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
    feeds,
    no_patience,
    put,
)

__all__ = ["no_patience"]  # a fixture


@pytest.mark.rest
@law(20)
@given(
    feeds,
    st.sampled_from(sorted(WORLDS)),
    st.lists(st.sampled_from(PHASES), min_size=6, max_size=6),
    st.lists(st.sampled_from(["apply", "apply", "compact", "restore", "restore", *OVERWRITES]), min_size=6, max_size=6),
    st.lists(st.integers(0, 20), min_size=6, max_size=6),
    st.booleans(),
    st.booleans(),
)
def test_the_result_is_that_of_the_order_of_the_log(
    mutations: list[str],
    world: str,
    phases: list[str],
    kinds: list[str],
    numbers: list[int],
    inline: bool,
    nested: bool,
) -> None:
    with scratch() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "_EVERY", 3)
        patch.setattr(compact_choice, "_TASK_ROWS", 2)
        patch.setattr(base_files, "OWN", 2)
        patch.setattr(compact_choice, "OWN", 2)
        if not inline:
            for module in (apply, compact, restore):
                patch.setattr(module, "INLINE", 0)
        act_beside_each_other(directory, WORLDS[world], mutations, phases, kinds, numbers, nested=nested)


Act = Callable[[Table, dict[str, str]], None]


def apply_last(table: Table, paths: dict[str, str]) -> None:
    table.apply(paths["last_5.csv"])


def overwrite_last(table: Table, paths: dict[str, str]) -> None:
    table.insert_overwrite_table(paths["last_5.csv"])


def compact_all(table: Table, _: dict[str, str]) -> None:
    table.compact(everything=True)


def restore_to(number: int) -> Act:
    return lambda table, _: table.restore(number) and None


KEYS = {"same key": "1,1,5,U,y\n6,1,9,D,\n", "other key": "8,1,3,U,y\n9,2,3,D,\n"}
OTHERS: dict[str, Act] = {
    "apply": apply_last,
    "overwrite": overwrite_last,
    "compact": compact_all,
    "restore to another version": restore_to(3),
    "restore to the same version": restore_to(1),
}


@pytest.mark.thorough(keep=0, rest=3)
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("faster", ["restore", "other"])
def test_a_restore_and_another_writer(
    faster: str, other: str, key: str, world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for phase in PHASES[:3] if faster == "restore" and "restore" not in other else ["commit"]:
        monkeypatch.setattr(restore, "INLINE", 0 if phase == "merged" else 1 << 16)
        work = tmp_path / phase
        work.mkdir()
        acts = [restore_to(1), OTHERS[other]]
        race(work, phase, KEYS[key], world, *(acts if faster == "restore" else acts[::-1]))


def race(work: Path, phase: str, rows: str, world: str, first: Act, second: Act) -> None:
    """Let one operation be faster than another one."""
    table = Table.create(str(work / "table"), WORLDS[world], buckets=2)
    given = {"base_1.csv": BASE, "more_2.csv": "1,1,2,U,z\n6,1,3,U,z\n", "less_3.csv": "6,1,4,D,\n5,1,4,D,\n"}
    paths = {name: put(work, name, rows) for name, rows in given.items()}
    for path in paths.values():
        table.apply(path)
    table.compact(everything=True)
    paths["last_5.csv"] = put(work, "last_5.csv", rows)
    with at_phase(phase, lambda: first(Table(table.path), paths)):
        second(table, paths)
    assert_serial(table.refresh(), work, WORLDS[world], paths)


def test_a_compaction_removes_no_file_whose_rows_a_restore_showed_again(tmp_path: Path) -> None:
    """All rows of the file are hidden when the compaction looks, so it needs no row of it."""
    table = Table.create(str(tmp_path / "table"), WORLDS[min(WORLDS)])
    table.apply(put(tmp_path, "a_1.csv", "1,1,1,U,x\n2,1,1,U,x\n"))
    before = sorted(map(repr, table.scan().to_pylist()))
    table.apply(put(tmp_path, "b_2.csv", "1,1,2,U,y\n2,1,2,U,y\n"))
    with at_phase("commit", lambda: Table(table.path).restore(1)):
        table.compact(everything=True)
    assert sorted(map(repr, table.refresh().scan().to_pylist())) == before
    assert table.verify().problems == ()


def test_a_restore_that_is_always_outrun_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table.create(str(tmp_path / "table"), next(iter(WORLDS.values())))
    for name, rows in (("a_1.csv", BASE), ("b_2.csv", "1,1,9,U,z\n")):
        table.apply(put(tmp_path, name, rows))
    monkeypatch.setattr(restore, "INLINE", 0)
    monkeypatch.setattr(TableLog, "commit", lambda log, version: False)
    monkeypatch.setattr("mutator.table.commit._TRIES", 3)
    with pytest.raises(StateError, match="other writers were always faster"):
        table.restore(1)
    monkeypatch.undo()
    found = table.verify()
    assert found.problems == ()
    assert found.stray is not None
    assert found.stray.files == 0


def test_a_restore_that_the_same_one_outruns_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one restored the same version, so the masks that this one wrote are in no version."""
    table = Table.create(str(tmp_path / "table"), next(iter(WORLDS.values())))
    for name, rows in (("a_1.csv", BASE), ("b_2.csv", "1,1,9,U,z\n"), ("c_3.csv", "1,1,10,U,z\n")):
        table.apply(put(tmp_path, name, rows))
    monkeypatch.setattr(restore, "INLINE", 0)
    with at_phase("commit", lambda: Table(table.path).restore(2)):
        assert table.restore(2).version == table.refresh().version == 4
    found = table.verify()
    assert found.problems == ()
    assert found.stray is not None
    assert found.stray.files == 0


def test_a_restore_begins_again_if_the_versions_that_it_followed_were_cleaned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table.create(str(tmp_path / "table"), next(iter(WORLDS.values())))
    for name, rows in (("a_1.csv", BASE), ("b_2.csv", "1,1,9,U,z\n")):
        table.apply(put(tmp_path, name, rows))
    commit_next, meanwhile = restore.commit_next, [lambda: Table(table.path).clean(keep_versions=1), lambda: None]

    def outdated(*given: Any) -> Any:
        if meanwhile:
            meanwhile.pop()()
            raise commit.Outdated
        return commit_next(*given)

    with monkeypatch.context() as patch:
        patch.setattr(restore, "commit_next", outdated)
        with pytest.raises(ConfigError, match="version 1 is gone"):
            table.restore(1)
    meanwhile.append(lambda: None)
    monkeypatch.setattr(restore, "commit_next", outdated)
    assert table.restore(2).version == 4
