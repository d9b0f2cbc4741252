"""A workflow whose table was cleaned: runs, recovery, status and watch need no version that is gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mutator.cli import main
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.errors import MutatorError, error
from mutator.table import apply
from mutator.table.create import create_empty
from mutator.table.table import Table
from mutator.workflow import directory, to_table
from mutator.workflow.directory.run_phases import Merged, Run
from tests.support.model_storage import ModelStorage, mounted
from tests.support.plain_workflow import put
from tests.support.table_base import SETTINGS, TableBase, opened
from tests.workflow.test_to_table import begun, command

MANY = 10  # versions, so that there is a checkpoint


@pytest.fixture(scope="module", name="made")
def new_base(tmp_path_factory: pytest.TempPathFactory) -> TableBase:
    made = TableBase(tmp_path_factory.mktemp("made") / "base")
    made.run_each(MANY)
    return made


@pytest.fixture
def fresh(tmp_path: Path) -> TableBase:
    return TableBase(tmp_path / "base")


@pytest.fixture(name="base")
def copy_of_base(made: TableBase, tmp_path: Path) -> TableBase:
    """Return a base whose table has many versions."""
    return TableBase.copy_of(made, tmp_path / "base")


def clean(table: Table) -> None:
    """Compact, and clean all earlier versions; their log entries go to the archive."""
    table.compact(everything=True)
    table.clean(keep_versions=1, grace="0s")
    table.clean(keep_versions=1, grace="0s")
    log, earliest = TableLog(table.path), table.snapshot.state.cleaning.earliest
    assert earliest > MANY
    assert min(log.numbers()[1:]) == earliest


def row(number: int) -> pa.Table:
    return pa.table({"id": [str(number)], "at": ["1"], "op": ["U"], "name": ["a"]})


def expected(*more: str) -> list[str]:
    return sorted([*(f"{number},1,a" for number in range(MANY)), *more])


def test_runs_go_on(base: TableBase) -> None:
    clean(base.table)
    base.arrive("ups_3.csv", "3,1,U,a")  # version 4 has it
    base.arrive("ups_50.csv", "50,1,U,b")
    done = base.run()
    assert (done.version, done.skipped) == (13, ("ups_3.csv",))
    assert base.rows() == expected("50,1,b")
    found = base.status()
    assert (found.target.version.number, found.target.version.records, found.problems) == (13, MANY + 1, ())
    assert base.table.verify().differences == ()


def test_files_of_a_run_that_was_killed_long_before_go_back(fresh: TableBase) -> None:
    fresh.run_each(2)
    fresh.arrive("ups_50.csv", "50,1,U,b")
    run = begun(fresh, name="ups_50.csv")
    for number in range(2, MANY):
        fresh.table.apply(row(number))
    clean(fresh.table)
    assert fresh.status().recovered == (f"run {run} was not committed, and is undone: ups_50.csv went back to incr/",)
    assert (fresh.run().claimed, fresh.rows()) == (("ups_50.csv",), expected("50,1,b"))


def test_a_run_whose_version_is_gone_is_finished(fresh: TableBase, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: Any) -> None:
        raise error("storage", path="there", why="is gone")

    fresh.run_each(2)
    fresh.arrive("ups_50.csv", "50,1,U,b")
    with monkeypatch.context() as patch:
        patch.setattr(Run, "archive", failing)
        with pytest.raises(MutatorError, match="version 3"):
            fresh.run()
    for number in range(2, MANY):
        fresh.table.apply(row(number))
    clean(fresh.table)
    (recovered,) = fresh.status().recovered
    assert recovered.endswith("was committed, and is finished: ups_50.csv went to archive/")
    assert (fresh.run().claimed, fresh.rows()) == ((), expected("50,1,b"))


def test_a_cleaning_during_a_run(base: TableBase, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version before the claim is archived when the run looks for what was committed since."""
    base.arrive("ups_50.csv", "50,1,U,b")
    one = opened(base.table.path)
    merge = one._apply

    def apply_later(task: to_table.ApplyTask) -> Merged:
        clean(Table(base.table.path))
        return merge(task)

    one._apply = apply_later  # type: ignore[method-assign]
    done = directory.run(one.target(str(base.path)))
    assert (done.version, done.claimed, base.rows()) == (13, ("ups_50.csv",), expected("50,1,b"))


def test_watch_and_status(base: TableBase, capfd: pytest.CaptureFixture[str]) -> None:
    clean(base.table)
    base.arrive("ups_50.csv", "50,1,U,b")
    words = ("--min-age", 0, "--interval", 0.05, "--runs", 1, "--json")
    assert command("workflow", "watch", base.path, *words) == 0
    assert json.loads(capfd.readouterr().out)["version"] == 13
    assert main(["workflow", "status", str(base.path), "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["version"], found["records"], found["problems"]) == (13, MANY + 1, [])


@pytest.mark.parametrize("has_note", [True, False])
def test_claimed_files_that_stay_in_incr(has_note: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where files cannot be renamed, the log, or its archive, says which of them were merged."""
    monkeypatch.setattr(apply, "_INLINE_FEED", 0)
    storage = ModelStorage("s3")
    with mounted(storage) as path:
        storage.make_directory(f"{path}/incr")
        create_empty(f"{path}/table", SETTINGS, buckets=2)
        one = opened(f"{path}/table")
        for number in range(MANY):
            put(f"{path}/incr/ups_{number}.csv", f"id,at,op,name\n{number},1,U,a\n".encode())
            directory.run(one.target(path))
        clean(Table(f"{path}/table"))
        if not has_note:
            storage.remove(f"{path}/_mutator/claims.json")
        one = opened(f"{path}/table")
        assert to_table.Upkeep(one.target(path)).seconds() is None
        assert directory.run(one.target(path)).claimed == ()
        put(f"{path}/incr/ups_50.csv", b"id,at,op,name\n50,1,U,b\n")
        assert directory.run(one.target(path)).claimed == ("ups_50.csv",)
        assert open_snapshot(f"{path}/table").version.records == MANY + 1
