"""Decisions that were made again: faults while they are made, and what readers do with withdrawn rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mutator.dataset.versions import opening
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.errors import MutatorError
from mutator.storage import registry
from mutator.table import apply
from mutator.table.create import create_empty
from mutator.table.recorded import config_of_snapshot
from mutator.table.table import Table
from mutator.table.verify import verify_table
from tests.support.dying_runs import dying_runs
from tests.support.effort import stride
from tests.support.model_storage import KINDS, mounted
from tests.table import test_table_faults as faults
from tests.table.test_several_writers import BY_FIELD, at_phase, history, left, put
from tests.table.test_table_faults import FEED, TABLE, after_fault, apply_to, open_runner, rows_of

FASTER = "id,at,op,name\n1,3,U,zz\n4,1,U,zz\n9,1,U,zz\n"  # of the second feed, 1 is late now, and 9 is deleted
BOTH = [("1", "zz"), ("3", "c"), ("4", "d")]
ALONE = {  # versions -> rows, by which of the two writers committed
    (2, "faster"): [("1", "zz"), ("2", "b"), ("3", "c"), ("4", "zz"), ("9", "zz")],
    (2, "slower"): faults.NEW,
    (3, "both"): BOTH,
}


def apply_outrun(path: str, slower: str, faster: str) -> None:
    """Apply a feed; another writer applies one before the first attempt to commit."""
    with at_phase("commit", lambda: apply_to(path, faster)):
        apply_to(path, slower)


@pytest.mark.thorough(keep=1, rest=2)
@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("what", faults.FAULTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_at_any_call(kind: str, what: str, inline: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not inline:
        monkeypatch.setattr(apply, "INLINE", 0)
    begun = faults.new_table(kind)
    with mounted(begun):
        faults.put(begun, f"{FEED}/faster.csv", FASTER)
    number, found = 0, set[int]()
    while (storage := after_fault(begun, number, what, _outrun)) is not None:
        with mounted(storage):
            version, rows = open_snapshot(TABLE).version.number, rows_of(TABLE)
            found.add(version)
            assert rows in ([faults.OLD] if version == 1 else [*ALONE.values()]), number
            assert (rows == BOTH) == (version == 3), number
            for name in ("faster", "second"):
                apply_to(TABLE, f"{FEED}/{name}.csv")
            assert (rows_of(TABLE), open_snapshot(TABLE).version.number) == (BOTH, 3), number
        number += stride(3)
    assert {1, 3} <= found  # with a fault after the other writer's commit also 2


def _outrun() -> None:
    """Apply the second feed, outrun by another process, whose calls have no faults."""
    storage: Any = registry.BACKENDS["model"]()

    def meanwhile() -> None:
        fault, storage.fault = storage.fault, lambda call, name: None
        calls = storage.calls
        apply_to(TABLE, f"{FEED}/faster.csv")
        storage.fault, storage.calls = fault, calls

    with at_phase("commit", meanwhile):
        apply_to(TABLE, f"{FEED}/second.csv")


@pytest.fixture(scope="module", name="act")
def start_acting() -> Iterator[Callable[..., Any]]:
    with dying_runs("tests.table.test_second_decisions") as act:
        yield act


def outrun_placed(table: str, slower: str, faster: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply, "INLINE", 0)
        apply_outrun(table, slower, faster)


POINTS = {"apply.decided.again": 2, "table.placed:9": 2, "table.commit:3": 2, "table.committed:2": 3}


@pytest.mark.thorough(keep=0)
@pytest.mark.processes
@pytest.mark.parametrize("point", POINTS)
def test_killed_while_it_decides_again(act: Callable[..., Any], point: str, tmp_path: Path) -> None:
    for name, rows in (("first", faults.FIRST), ("second", faults.SECOND), ("faster", FASTER)):
        (tmp_path / f"{name}.csv").write_text(rows)
    table, version = str(tmp_path / "table"), POINTS[point]
    create_empty(table, {}, buckets=2)
    apply_to(table, str(tmp_path / "first.csv"))
    feeds = {name: str(tmp_path / f"{name}.csv") for name in ("second", "faster")}
    whole = str(shutil.copytree(table, tmp_path / "whole"))
    _, passed = act("outrun_placed", table=whole, slower=feeds["second"], faster=feeds["faster"])
    assert passed.count("apply.decided.again") == 1
    assert passed.count("table.placed") > 9
    killed, _ = act("outrun_placed", point, table=table, slower=feeds["second"], faster=feeds["faster"])
    assert killed
    assert open_snapshot(table).version.number == version
    assert rows_of(table) == (BOTH if version == 3 else ALONE[2, "faster"])
    apply_to(table, feeds["second"])
    assert rows_of(table) == BOTH == rows_of(whole)
    verified = verify_table(table, config_of_snapshot, open_runner)
    assert (verified.version, verified.problems) == (3, ())


@pytest.fixture(params=[True, False], ids=["inline", "apart"], name="outrun")
def new_outrun(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Return a table whose version 3 was decided against version 1, and follows version 2."""
    if not request.param:
        monkeypatch.setattr(apply, "INLINE", 0)
    table = Table.create(str(tmp_path / "table"), BY_FIELD)
    table.apply(put(tmp_path, "base.csv", "1,1,2,U,x\n2,1,2,U,x\n3,1,2,U,x\n"))
    faster = put(tmp_path, "faster.csv", "1,1,9,U,z\n2,1,1,U,z\n4,1,9,D,\n")
    with at_phase("commit", partial(Table(table.path).apply, faster)):
        table.apply(put(tmp_path, "slower.csv", "1,1,3,U,y\n2,1,3,U,y\n4,1,3,U,y\n5,1,3,U,y\n"))
    assert table.version == 3
    assert len(TableLog(table.path).read(3).withdrawn) == 1
    return table


def test_outcomes_by_file_are_not_known(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), BY_FIELD)
    table.apply(put(tmp_path, "base.csv", "1,1,1,U,x\n2,1,1,U,x\n"))
    faster = put(tmp_path, "faster.csv", "1,1,2,U,z\n")
    with at_phase("commit", partial(Table(table.path).apply, faster)):
        outrun = table.apply(put(tmp_path, "slower.csv", "1,1,3,U,x\n2,1,3,U,x\n2,1,2,U,y\n"))

    assert [file["outcomes"] for file in outrun.feed_files] == [None]
    assert "not known for each file" in outrun.html()
    alone = table.apply(put(tmp_path, "alone.csv", "1,1,4,U,y\n2,1,1,U,x\n3,1,1,U,x\n3,1,2,D,\n"))
    (file,) = alone.feed_files
    assert {name: rows for name, rows in file["outcomes"].items() if rows} == {
        "updated": 1,
        "superseded": 1,
        "late": 1,
        "delete of unknown": 1,
    }


def test_withdrawn_rows_were_never_there(outrun: Table) -> None:
    assert [row[0] for row in history(outrun, 1)] == [1, 2]
    assert [row[:2] for row in history(outrun, 4)] == [(2, True)]
    assert outrun.get("1")["name"] == "z"  # type: ignore[index]
    assert outrun.get("4") is None
    assert sorted(row["id"] for row in outrun.changes(2, 3).to_pylist()) == ["2", "2", "5"]
    assert outrun.verify().problems == ()


def test_a_version_without_withdrawn_rows_names_none(outrun: Table) -> None:
    assert TableLog(outrun.path).read(2).withdrawn == ()


def test_lost_withdrawn_rows_are_an_error(outrun: Table) -> None:
    (stored,) = TableLog(outrun.path).read(3).withdrawn
    if not stored.is_apart:
        return
    path = Path(outrun.path, stored.path)
    whole = path.read_bytes()
    for content in (None, whole[:-1], whole[:-9] + bytes(9)):
        path.unlink() if content is None else path.write_bytes(content)
        for read in (lambda: list(Table(outrun.path).scan()), lambda: list(Table(outrun.path).changes(2, 3))):
            with pytest.raises(MutatorError, match="withdrawn") as fault:
                read()
            assert fault.value.kind == "table.file"
        assert any("withdrawn" in one for one in outrun.verify().problems)
    path.write_bytes(whole)
    assert outrun.verify().problems == ()


def test_rows_that_a_version_does_not_hide_cannot_be_withdrawn(outrun: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    read = TableLog.read

    def reading(log: TableLog, number: int) -> Any:
        version = read(log, number)
        return replace(version, index=()) if number == 3 else version

    monkeypatch.setattr(TableLog, "read", reading)
    (problem,) = [one for one in outrun.verify().problems if "withdraws" in one]
    assert "which its version neither hides nor touches" in problem


def test_a_checkpoint_has_the_same_rows(outrun: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = left(outrun, 3)
    monkeypatch.setattr(opening, "_EVERY", 4)
    outrun.apply(put(tmp_path, "more.csv", "7,1,1,U,x\n"))
    assert TableLog(outrun.path).hinted().checkpoint is not None
    assert [row for row in left(Table(outrun.path), 4)[0] if row["id"] != "7"] == before[0]
    assert outrun.verify().problems == ()
