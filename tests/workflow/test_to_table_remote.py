"""The workflow whose target is a table on a real S3 server and a real HDFS: the base and the table are both there."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.errors import MutatorError
from mutator.storage import entries_of, storage_for
from mutator.table.create import create_empty
from mutator.table.scan import scan_batches
from mutator.workflow import directory, to_table
from mutator.workflow.directory.paths import Base
from mutator.workflow.directory.results import target_path
from mutator.workflow.directory.run_phases import Run
from mutator.workflow.to_table import table_target
from tests.support.child_process import in_child
from tests.support.plain_workflow import put, read
from tests.support.table_base import SETTINGS, opened

HEAD = b"id,at,op,name\n"


@pytest.fixture(name="root", params=["s3", "hdfs"])
def new_base(request: pytest.FixtureRequest) -> str:
    """Return a base with a table that has a feed file."""
    if request.param == "s3":
        path = request.getfixturevalue("s3").bucket() + "/base"
    else:
        path = f"{request.getfixturevalue('hdfs')}/{uuid.uuid4().hex}"
    create_empty(f"{path}/table", SETTINGS, buckets=2)
    arrive(path, "ups_1.csv", b"1,1,U,a\n2,1,U,b\n")
    assert run_it(path).version == 1
    return str(path)


where_nothing_is_moved = pytest.mark.parametrize("root", ["s3"], indirect=True)


def arrive(path: str, name: str, rows: bytes) -> None:
    put(f"{path}/incr/{name}", HEAD + rows)


def run_it(path: str, **settings: Any) -> Any:
    one = opened(f"{path}/table", **settings)
    return directory.run(one.target(path), sleep=lambda _: None)


def read_status(path: str) -> Any:
    one = opened(f"{path}/table")
    return directory.status(one.target(path))


def rows_of(path: str) -> list[tuple[str, str]]:
    batches = scan_batches(open_snapshot(f"{path}/table"))
    return sorted((row["id"], row["name"]) for batch in batches for row in batch.to_pylist())


def names(path: str, place: str) -> list[str]:
    return sorted(entry.name for entry in entries_of(f"{path}/{place}"))


@pytest.mark.thorough(keep=0, rest=2)
def test_files_are_merged_once(root: str) -> None:
    arrive(root, "ups_2.csv", b"1,2,U,aa\n2,2,D,\n")
    assert run_it(root).version == 2
    assert run_it(root).version is None
    assert rows_of(root) == [("1", "aa")]
    stays = not storage_for(root).renames
    assert names(root, "incr") == (["ups_1.csv", "ups_2.csv"] if stays else [])
    arrive(root, "ups_3.csv", b"3,3,U,c\n")
    done = run_it(root)
    assert (done.version, done.claimed) == (3, ("ups_3.csv",))
    found = read_status(root)
    assert (found.target.version.number, found.ready, found.waiting, found.problems) == (3, (), (), ())


@pytest.mark.rest
def test_a_base_on_this_machine_has_its_table_elsewhere(root: str, tmp_path: Path) -> None:
    (tmp_path / "incr").mkdir()
    (tmp_path / "incr" / "ups_2.csv").write_bytes(HEAD + b"1,2,U,aa\n")
    one = opened(f"{root}/table")
    done = directory.run(one.target(str(tmp_path)))
    assert (done.version, done.table, done.report.feed) == (2, f"{root}/table", (f"{tmp_path}/archive/{done.run}",))
    assert rows_of(root) == [("1", "aa"), ("2", "b")]
    assert [path.name for path in (tmp_path / "archive" / done.run).iterdir()] == ["ups_2.csv"]
    assert target_path(Base(str(tmp_path))) == f"{root}/table"  # as the base remembers it


@where_nothing_is_moved
def test_a_look_at_nothing_new_is_one_request(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, calls = opened(f"{root}/table"), list[str]()
    look = to_table.Upkeep(one.target(root))
    assert look.seconds() is None
    storage = type(storage_for(root))
    entries = storage.entries
    monkeypatch.setattr(storage, "entries", lambda self, path: (calls.append(path), entries(self, path))[1])
    monkeypatch.setattr(storage, "open", lambda *_: pytest.fail("a file was read"))
    monkeypatch.setattr(storage, "stat", lambda *_: pytest.fail("a file was looked at"))
    assert look.seconds() is None
    assert calls == [f"{root}/incr"]


@pytest.mark.thorough(keep=0)
def test_a_run_that_was_killed_after_its_commit_is_finished(root: str) -> None:
    arrive(root, "ups_2.csv", b"1,2,U,aa\n")
    one = opened(f"{root}/table")
    run = Run(one.target(root))
    assert run.claim()
    run.merge()
    (done,) = read_status(root).recovered
    assert f"run {run.id} was committed, and is finished" in done
    assert run_it(root).version is None
    assert rows_of(root) == [("1", "aa"), ("2", "b")]
    assert names(root, "_mutator/runs") == names(root, "working") == []


@pytest.mark.thorough(keep=0)
def test_a_run_that_was_killed_before_its_commit_is_given_up(root: str) -> None:
    arrive(root, "ups_2.csv", b"1,2,U,aa\n")
    one = opened(f"{root}/table")
    run = Run(one.target(root))
    assert run.claim()
    done = run_it(root)
    assert "was not committed, and is undone" in done.recovered[0]
    assert (done.version, done.claimed) == (3, ("ups_2.csv",))
    with pytest.raises(MutatorError) as caught:
        run.merge()
    assert caught.value.kind == "table.given_up"
    assert open_snapshot(f"{root}/table").version.number == 3


@pytest.mark.thorough(keep=0)
@where_nothing_is_moved
def test_a_note_of_claims_spares_reading_the_log(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2, 6):
        arrive(root, f"ups_{number}.csv", f"{number},1,U,x\n".encode())
        run_it(root)
    found, table = list[int](), f"{root}/table"
    with monkeypatch.context() as patch:
        entries = TableLog.read
        patch.setattr(TableLog, "read", lambda self, number: (found.append(number), entries(self, number))[1])
        known = table_target.claims(Base(root), table)
    assert found == [5]
    assert {one.name for one in known.files} == {f"ups_{number}.csv" for number in range(1, 6)}
    storage_for(root).remove(f"{root}/incr/ups_1.csv")
    note = read(f"{root}/_mutator/claims.json")
    for damage in (b"", note.replace(b'"number":5', b'"number":4'), None):
        storage_for(root).remove(f"{root}/_mutator/claims.json")
        if damage is not None:
            put(f"{root}/_mutator/claims.json", damage)
        assert run_it(root).version is None  # the log says what was merged


@pytest.mark.thorough(keep=0)
@where_nothing_is_moved
def test_a_note_of_another_table_is_not_used(root: str) -> None:
    storage_for(root).remove(f"{root}/table")
    create_empty(f"{root}/table", SETTINGS, buckets=2)
    done = run_it(root)
    assert (done.version, done.claimed) == (1, ("ups_1.csv",))


@pytest.mark.thorough(keep=0)
@where_nothing_is_moved
def test_a_rewritten_file_has_arrived_again(root: str) -> None:
    storage_for(root).remove(f"{root}/incr/ups_1.csv")
    arrive(root, "ups_1.csv", b"1,2,U,again\n")
    assert run_it(root).claimed == ("ups_1.csv",)
    assert rows_of(root) == [("1", "again"), ("2", "b")]


@pytest.mark.thorough(keep=0, rest=3)
@pytest.mark.parametrize("point", ["claim.done", "table.commit", "table.committed", "archive.done"])
def test_kill(root: str, point: str) -> None:
    arrive(root, "ups_2.csv", b"1,2,U,aa\n")
    killed, _ = in_child(lambda: run_it(root), point)
    assert killed
    read_status(root)
    run_it(root)
    assert rows_of(root) == [("1", "aa"), ("2", "b")]
    assert [file.name for one in TableLog(f"{root}/table").following(0) for file in one.feed] == [
        "ups_1.csv",
        "ups_2.csv",
    ]
