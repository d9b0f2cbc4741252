"""The workflow whose target is a table: the behaviour that an operator relies on."""

from __future__ import annotations

import json
import os
import shutil
import time
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from mutator.cli import main
from mutator.dataset.commits import Arrived, Commit
from mutator.dataset.versions.log import TableLog
from mutator.errors import error
from mutator.errors.interrupts import Interrupted
from mutator.table import report
from mutator.table.claiming_run import give_up
from mutator.table.create import create_empty
from mutator.table.table import Table
from mutator.workflow import directory, to_table
from mutator.workflow.directory import claim, lock
from mutator.workflow.directory.paths import Base
from mutator.workflow.directory.run_phases import Merged
from tests.support.model_storage import ModelStorage, mounted
from tests.support.plain_workflow import put
from tests.support.table_base import SETTINGS, TableBase, opened
from tests.support.workflow_base import BY_FIELD, Place, refused


@pytest.fixture(name="base")
def new_base(tmp_path: Path) -> TableBase:
    return TableBase(tmp_path / "base")


def test_runs_apply_arriving_files_and_archive_them(base: TableBase) -> None:
    base.arrive("ups_1.csv", "1,1,U,a", "2,1,U,b")
    base.arrive("ups_2.csv", "3,1,U,c")
    first = base.run()

    assert (first.version, first.claimed) == (1, ("ups_1.csv", "ups_2.csv"))
    assert base.rows() == ["1,1,a", "2,1,b", "3,1,c"]
    assert base.names(f"archive/{first.run}") == ["ups_1.csv", "ups_2.csv"]
    assert base.names("incr") == base.names("working") == base.names("_mutator/runs") == []
    base.arrive("ups_3.csv", "1,2,U,aa", "2,2,D,", "9,1,U,i")
    second = base.run()
    assert (second.version, second.report.counts["feed updated"]) == (2, 1)
    assert base.rows() == ["1,2,aa", "3,1,c", "9,1,i"]


def test_the_entry_of_the_log_names_the_run_and_its_claims(base: TableBase) -> None:
    path = base.arrive("ups_1.csv", "1,1,U,a")
    modified = path.stat().st_mtime
    done = base.run()

    claim = TableLog(base.table.path).read(1).claim
    assert claim is not None
    assert claim.run == done.run
    assert [(one.name, one.bytes) for one in claim.files] == [("ups_1.csv", 22)]
    assert claim.files[0].modified >= modified


def test_nothing_to_merge_adds_no_version(base: TableBase) -> None:
    base.arrive("ups_1.csv", "1,1,U,a")
    base.run()
    before = TableLog(base.table.path).numbers()
    done = base.run()

    assert (done.version, done.claimed, done.text()) == (None, (), "nothing to merge")
    assert TableLog(base.table.path).numbers() == before


def test_a_feed_file_delivered_twice_is_skipped_and_archived(base: TableBase) -> None:
    base.arrive("ups_1.csv", "1,1,U,a")
    base.run()
    base.arrive("ups_1.csv", "1,1,U,a")
    done = base.run()

    assert (done.version, done.skipped) == (None, ("ups_1.csv",))
    assert "1 feed file merged before" in done.text()
    assert base.names("incr") == []
    assert base.names(f"archive/{done.run}") == ["ups_1.csv"]


def test_a_run_that_fails_puts_its_files_back(base: TableBase) -> None:
    base.arrive("ups_1.csv", "1,1,U,a")
    base.arrive("ups_2.csv", "2,x,U,a")
    act = partial(base.run, **{"bad.files": "fail"})
    refused(act, 3, f"{base.path}/incr/ups_2.csv", "reject.policy=quarantine")

    assert base.names("incr") == ["ups_1.csv", "ups_2.csv"]
    assert base.names("working") == base.names("_mutator/runs") == []
    assert base.table.refresh().version == 0
    done = base.run(**{"reject.policy": "quarantine"})
    assert (done.version, base.rows()) == (1, ["1,1,a"])


def test_files_that_change_during_the_apply_are_not_committed(base: TableBase, monkeypatch: pytest.MonkeyPatch) -> None:
    base.arrive("ups_1.csv", "1,1,U,a")
    one = opened(base.table.path)
    apply = one._apply

    def apply_and_write(task: to_table.ApplyTask) -> Merged:
        check = task.check

        def after_a_write(*given: object) -> None:
            (Path(task.feed[0]) / "ups_1.csv").write_text("id,at,op,name\n1,1,U,z\n")
            check(*given)  # type: ignore[arg-type]

        object.__setattr__(task, "check", after_a_write)
        return apply(task)

    monkeypatch.setattr(one, "_apply", apply_and_write)
    refused(lambda: directory.run(one.target(str(base.path))), 3, "incr/ups_1.csv")
    assert base.names("incr") == ["ups_1.csv"]
    assert base.table.refresh().version == 0


def test_a_control_file_vouches_for_its_feed_file(base: TableBase) -> None:
    settings = {"feed.control.suffix": ".ctl"}
    base.arrive("ups_1.csv", "1,1,U,a")
    assert base.run(**settings).waiting == (("ups_1.csv", "has no control file ups_1.csv.ctl"),)
    (base.path / "incr" / "ups_1.csv.ctl").write_text("rows = 2\n")
    refused(lambda: base.run(**settings), 3, "ups_1.csv.ctl")
    assert base.names("incr") == ["ups_1.csv", "ups_1.csv.ctl"]
    (base.path / "incr" / "ups_1.csv.ctl").write_text("rows = 1\n")
    done = base.run(**settings)
    assert done.version == 1
    assert done.report.ignored == ()
    assert base.names("archive") == ["ups_1.csv", "ups_1.csv.ctl"]


def test_full_snapshots_are_applied_one_by_one(base: TableBase) -> None:
    base.arrive("all_1.csv", "1,1,U,a", "2,1,U,b")
    base.arrive("all_2.csv", "1,2,U,aa")
    settings = {"sync.mode": "full", "max.delete.fraction": 1}
    assert base.run(**settings).waiting == (("all_2.csv", "waits until an older snapshot is merged"),)
    assert base.run(**settings).version == 2
    assert base.rows() == ["1,2,U,aa"]


def test_a_young_file_waits(base: TableBase) -> None:
    base.arrive("ups_1.csv", "1,1,U,a")
    done = base.run(**{"claim.min.age": "1h"})
    assert (done.version, done.claimed) == (None, ())
    assert "claim.min.age is 3600 s" in dict(done.waiting)["ups_1.csv"]
    one = opened(base.table.path, **{"claim.min.age": "1h"})
    seconds = to_table.Upkeep(one.target(str(base.path))).seconds()
    assert seconds is not None
    assert 3500 < seconds <= 3600
    assert to_table.Upkeep(opened(base.table.path).target(str(base.path))).seconds() == 0


def test_status(base: TableBase) -> None:
    base.arrive("ups_1.csv", "1,1,U,a")
    found = base.status()
    newest = found.target.version
    assert (newest.number, newest.records, found.ready, found.problems) == (0, 0, ("ups_1.csv",), ())
    base.run()
    found = base.status()
    newest = found.target.version
    assert (newest.number, newest.records, found.ready, found.running) == (1, 1, (), None)
    assert found.text().startswith(
        f"base     {base.path}\nstate    idle\ntable    {base.table.path}\nversion  1, 1 record, "
    )


def test_status_names_what_cannot_be_seen(base: TableBase) -> None:
    one = opened(base.table.path)
    (base.path / "table/_mutator/table/log/00000000000000000000.json").write_text("{}")
    (base.path / "table/_mutator/table/hint.json").unlink()
    begun = lock.Journal("20261101T000000Z-00000000", "run", 0, "", ())
    lock.begin(Base(str(base.path)), begun)
    found = directory.status(one.target(str(base.path)))
    assert any("00000000000000000000.json" in problem for problem in found.problems)
    assert "state    needs attention, see below" in found.text()


# --- runs that were killed


def begun(base: TableBase, run: str = "20261101T000000Z-00000001", name: str = "ups_1.csv") -> str:
    """Leave a base as a run that was killed after its claim."""
    arrived = Arrived(name, (base.path / "incr" / name).stat().st_size, 0.0)
    lock.begin(
        Base(str(base.path)),
        lock.Journal(run, "run", base.table.refresh().version, "", (arrived,)),
    )
    (base.path / "working" / run).mkdir(parents=True)
    (base.path / "incr" / name).rename(base.path / "working" / run / name)
    return run


def test_files_of_a_killed_run_go_back_and_are_claimed_again(base: TableBase) -> None:
    base.arrive("ups_1.csv", "1,1,U,a")
    run = begun(base)
    done = base.run()

    assert done.recovered == (f"run {run} was not committed, and is undone: ups_1.csv went back to incr/",)
    assert (done.version, done.claimed, base.rows()) == (2, ("ups_1.csv",), ["1,1,a"])
    given_up = TableLog(base.table.path).read(1)
    assert (given_up.action, given_up.given_up) == ("abandon", (run,))
    assert base.table.verify().problems == ()
    assert [entry.kind for entry in base.table.log()] == ["create", "abandon", "apply"]


def test_a_run_that_was_given_up_never_commits(base: TableBase) -> None:
    base.arrive("ups_1.csv", "1,1,U,a")
    one = opened(base.table.path)
    apply = one._apply

    def apply_after_a_pause(task: to_table.ApplyTask) -> Merged:
        assert give_up(base.table.path, task.run, task.since)
        return apply(task)

    one._apply = apply_after_a_pause  # type: ignore[method-assign]
    refused(lambda: directory.run(one.target(str(base.path))), 5, "counts as dead", "run again")
    assert base.names("incr") == ["ups_1.csv"]
    assert base.run().version == 2


def test_a_committed_run_is_not_given_up(base: TableBase) -> None:
    base.arrive("ups_1.csv", "1,1,U,a")
    done = base.run()
    assert not give_up(base.table.path, done.run, 0)
    assert base.table.refresh().version == 1


def test_a_killed_run_of_a_base_that_moved_is_completed(base: TableBase, tmp_path: Path) -> None:
    base.arrive("ups_0.csv", "7,1,U,z")
    base.run()
    base.arrive("ups_1.csv", "1,1,U,a")
    run = begun(base)
    moved = base.path.rename(tmp_path / "moved")
    one = opened(str(moved / "table"))
    done = directory.run(one.target(str(moved)))
    assert done.recovered == (f"run {run} was not committed, and is undone: ups_1.csv went back to incr/",)
    assert done.claimed == ("ups_1.csv",)


def test_a_killed_run_of_a_table_that_is_new_by_now_is_undone(base: TableBase) -> None:
    base.run_each(3)
    base.arrive("ups_9.csv", "9,1,U,a")
    begun(base, name="ups_9.csv")
    shutil.rmtree(base.path / "table")
    base.table = Table.create(base.path / "table", SETTINGS)
    assert base.run().claimed == ("ups_9.csv",)


def test_a_missing_entry_stops_the_recovery(base: TableBase) -> None:
    base.run_each(16)
    base.arrive("ups_16.csv", "16,1,U,a")
    begun(base, name="ups_16.csv")
    entry = base.path / "table/_mutator/table/log" / f"{15:020d}.json"
    entry.unlink()
    one = opened(base.table.path)
    since = lock.journals(Base(str(base.path)))[0].since
    path = base.path / "_mutator/runs/20261101T000000Z-00000001.json"
    path.unlink()
    begun_at = lock.Journal("20261101T000000Z-00000001", "run", since - 3, "")
    lock.begin(Base(str(base.path)), begun_at)
    refused(lambda: directory.run(one.target(str(base.path))), 5, f"{15:020d}.json", "missing")
    assert not entry.exists()
    assert base.names("working") == ["ups_16.csv"]


def test_a_run_whose_files_are_gone_ends(base: TableBase, monkeypatch: pytest.MonkeyPatch) -> None:
    base.arrive("ups_1.csv", "1,1,U,a")
    monkeypatch.setattr(claim, "_move", lambda *_: False)
    assert base.run().version is None
    assert base.names("_mutator/runs") == base.names("working") == []
    monkeypatch.undo()
    assert base.run().recovered == ()


def test_an_uncertain_commit_is_reported_as_it_is(base: TableBase, monkeypatch: pytest.MonkeyPatch) -> None:
    base.arrive("ups_1.csv", "1,1,U,a")
    commit = TableLog.commit

    def uncertain(log: TableLog, version: Commit) -> bool:
        if version.action == "apply":
            raise error("commit.uncertain", path="entry", version=1, why="no answer")
        return commit(log, version)

    monkeypatch.setattr(TableLog, "commit", uncertain)
    refused(base.run, 4, "no answer")
    assert base.names("incr") == ["ups_1.csv"]
    monkeypatch.undo()
    assert base.run().version == 2


def test_an_error_after_the_commit_leaves_the_claim(base: TableBase, monkeypatch: pytest.MonkeyPatch) -> None:
    base.arrive("ups_1.csv", "1,1,U,a")

    def failing(*_: object, **__: object) -> None:
        raise error("storage.missing", path="report", why="lost")

    monkeypatch.setattr(report, "report_of", failing)
    refused(base.run, 4, "report")
    monkeypatch.undo()
    assert "was committed, and is finished" in base.run().recovered[0]
    assert base.names("archive") == ["ups_1.csv"]


def test_the_cause_of_a_failure_is_shown_if_the_log_cannot_be_read(
    base: TableBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    base.arrive("ups_1.csv", "1,x,U,a")

    def failing(*_: object) -> None:
        raise error("storage.missing", path="log", why="lost")

    monkeypatch.setattr(to_table.TableTarget, "_versions", failing)
    refused(base.run, 3, "incr/ups_1.csv")


def test_a_signal_during_the_claim_puts_every_file_back(base: TableBase, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        base.arrive(f"ups_{number}.csv", f"{number},1,U,a")
    move, moved = claim._move, list[str]()

    def interrupted(*given: str) -> bool:
        moved.append(given[-1])
        if len(moved) == 2:
            raise Interrupted
        return move(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(claim, "_move", interrupted)
    with pytest.raises(Interrupted):
        base.run()
    assert base.names("incr") == ["ups_0.csv", "ups_1.csv", "ups_2.csv"]
    assert base.names("working") == base.names("_mutator/runs") == []


def test_a_signal_while_the_storage_fails_archives_nothing_that_is_not_merged(
    base: TableBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    base.arrive("ups_1.csv", "1,1,U,a")
    one = opened(base.table.path)

    def interrupted(_: to_table.ApplyTask) -> Merged:
        raise Interrupted

    def failing(*_: object) -> list[str]:
        raise error("storage", path="there", why="is gone")

    one._apply = interrupted  # type: ignore[method-assign]
    monkeypatch.setattr(claim, "give_back", failing)
    with pytest.raises(Interrupted):
        directory.run(one.target(str(base.path)))

    monkeypatch.undo()
    assert base.names("archive") == []
    assert (base.run().claimed, base.rows()) == (("ups_1.csv",), ["1,1,a"])


# --- the target of a base


def test_a_base_keeps_its_table(base: TableBase, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (base.path / "table").rename(tmp_path / "one")
    Table.create(tmp_path / "two", SETTINGS)
    base.arrive("ups_1.csv", "1,1,U,a")
    words = ("workflow", "run", base.path, "-D", "claim.min.age=0s")
    assert command(*words, "--table", tmp_path / "one") == 0
    assert command(*words, "--table", tmp_path / "two") == 5
    note = base.path / "_mutator/target.json"
    message = capfd.readouterr().err
    assert f"go into the table {tmp_path}/one" in message
    assert f"remove {note}" in message
    base.arrive("ups_2.csv", "2,1,U,a")
    assert command(*words) == 0  # --table is needed once
    assert len(Table(tmp_path / "one").scan().to_pylist()) == 2
    (tmp_path / "one").rename(tmp_path / "three")
    assert command(*words) == 5
    assert f"{tmp_path}/one, and there is no table; if it has moved" in capfd.readouterr().err
    base.arrive("ups_3.csv", "3,1,U,a")
    assert command(*words, "--table", tmp_path / "three") == 0
    assert command(*words) == 0
    note.write_text("{")
    assert command(*words) == 5
    assert f"{note}: this note" in capfd.readouterr().err


def test_a_run_that_fails_does_not_decide_the_target(
    base: TableBase, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (base.path / "table").rename(tmp_path / "one")
    Table.create(tmp_path / "two", {"key": "k", "order_by": "t", "header": True})
    base.arrive("ups_1.csv", "1,1,U,a")
    words = ("workflow", "run", base.path, "-D", "claim.min.age=0s")
    assert command(*words, "--table", tmp_path / "two") == 2
    assert command(*words, "--table", tmp_path / "one") == 0
    assert len(Table(tmp_path / "one").scan().to_pylist()) == 1


def test_watch_ends_when_its_table_is_another_one(base: TableBase) -> None:
    one = opened(base.table.path)
    base.arrive("ups_1.csv", "1,1,U,a")
    directory.run(one.target(str(base.path)))
    shutil.rmtree(base.path / "table")
    base.arrive("ups_2.csv", "2,1,U,a")
    refused(lambda: directory.run(one.target(str(base.path))), 5, "was removed", "start the command again")
    assert not list((base.path / "table").rglob("*.json"))
    Table.create(base.path / "table", SETTINGS)
    refused(lambda: directory.run(one.target(str(base.path))), 5, "was removed")
    Table(base.path / "table").apply(pa.table({"id": ["7"], "at": [1], "op": ["U"], "name": ["z"]}))
    refused(lambda: directory.run(one.target(str(base.path))), 5)
    assert base.names("incr") == ["ups_2.csv"]


def test_several_bases_feed_one_table(base: TableBase, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "incr").mkdir(parents=True)
    one = opened(base.table.path)
    for number in range(3):
        base.arrive(f"ups_{number}.csv", f"{number},1,U,a").rename(other / "incr" / f"new_{number}.csv")
        base.arrive(f"ups_{number}.csv", f"{number},2,U,b")
        base.run()
        directory.run(one.target(str(other)))
    assert base.rows() == ["0,2,b", "1,2,b", "2,2,b"]
    assert base.table.refresh().version == 6


# --- the commands


def command(*words: object) -> int:
    return main([*map(str, words), "--runner", "local"])


def test_the_table_beside_incr_is_the_target(base: TableBase, capfd: pytest.CaptureFixture[str]) -> None:
    base.arrive("ups_1.csv", "1,1,U,a")
    assert command("workflow", "run", base.path, "-D", "claim.min.age=0s", "--json") == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["version"], found["table"], found["claimed"]) == (1, f"{base.path}/table", ["ups_1.csv"])
    assert main(["workflow", "status", str(base.path), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["version"] == 1


def test_a_table_elsewhere_is_named(base: TableBase, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (base.path / "table").rename(tmp_path / "moved")
    base.arrive("ups_1.csv", "1,1,U,a")
    words = ("workflow", "run", base.path, "--table", tmp_path / "moved", "-D", "claim.min.age=0s")
    assert command(*words) == 0
    assert f"table {tmp_path}/moved is now version 1" in capfd.readouterr().out


def test_a_base_has_one_target(base: TableBase, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (base.path / "master").mkdir()
    (base.path / "master" / "base.csv").write_text("1,1,a\n")
    assert command("workflow", "run", base.path) == 5
    assert "move one of them away" in capfd.readouterr().err
    assert command("workflow", "run", base.path, "--table", tmp_path) == 2


def test_commands_for_a_master_say_what_a_table_has(base: TableBase, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["workflow", "restore", str(base.path), "--to", "0"]) == 2
    assert f"mutator table restore {base.table.path} --to N" in capfd.readouterr().err
    assert main(["workflow", "history", str(base.path)]) == 2
    assert f"mutator table log {base.table.path}" in capfd.readouterr().err


def test_verify_compares_the_table_and_the_archive(base: TableBase, capfd: pytest.CaptureFixture[str]) -> None:
    base.arrive("ups_1.csv", "1,1,U,a")
    base.run()

    assert main(["verify", str(base.path), "--runner", "local"]) == 0
    assert main(["verify", str(base.table.path), "--runner", "local"]) == 0
    found = capfd.readouterr().out.splitlines()
    assert found[:2] == found[2:]
    assert found[0].startswith(f"{base.table.path}, version 1: ")

    (archived,) = (base.path / "archive").rglob("ups_1.csv")
    archived.write_bytes(archived.read_bytes().replace(b"a", b"b"))
    assert main(["verify", str(base.path), "--runner", "local", "--json"]) == 3
    (problem,) = json.loads(capfd.readouterr().out)["differences"]
    assert "ups_1.csv: its checksum is" in problem["what"]
    shutil.rmtree(archived.parent)  # which is allowed
    assert main(["verify", str(base.path), "--runner", "local"]) == 0


def test_watch_applies_files_as_they_arrive(base: TableBase, capfd: pytest.CaptureFixture[str]) -> None:
    base.arrive("ups_1.csv", "1,1,U,a")
    words = ("workflow", "watch", base.path, "--min-age", 0.75, "--interval", 0.05, "--runs", 1, "--json")
    old = time.time() - 0.5
    os.utime(base.path / "incr" / "ups_1.csv", (old, old))
    assert command(*words) == 0
    assert json.loads(capfd.readouterr().out)["version"] == 1
    assert base.rows() == ["1,1,a"]


def test_a_base_with_a_master_is_as_before(tmp_path: Path) -> None:
    place = Place(tmp_path / "base", BY_FIELD)
    (place.path / "master" / "base.txt").write_text("a,1\n")
    place.arrive("ups_2.txt", "a,2,U")
    assert place.run().version == 1


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("storage_type", ["posix", "s3"])
def test_a_run_makes_as_many_storage_calls_after_many_versions(storage_type: str) -> None:
    storage, calls = ModelStorage(storage_type), list[int]()
    with mounted(storage) as path:
        storage.make_directory(f"{path}/incr")
        create_empty(f"{path}/table", SETTINGS, buckets=2)
        one = opened(f"{path}/table")
        for number in range(40):
            rows = f"id,at,op,name\n{number},1,U,x\n{number // 2},{number},U,y\n"
            put(f"{path}/incr/ups_{number}.csv", rows.encode())
            before = storage.calls
            assert directory.run(one.target(path)).version == number + 1
            calls.append(storage.calls - before)
    usual, checkpoints = set(calls[9:15]), calls[7::8]
    assert len(usual) == 1, "a run that writes no checkpoint always makes the same calls"
    assert set(calls) - set(checkpoints) <= {*usual, *(one + 1 for one in usual)}  # one more after a checkpoint
    assert max(checkpoints[3:]) == max(checkpoints[:3])


def test_watch_counts_the_runs_that_merged_something(base: TableBase, capfd: pytest.CaptureFixture[str]) -> None:
    base.arrive("ups_1.csv", "1,1,U,a")
    base.run()
    base.arrive("ups_1.csv", "1,1,U,a")  # delivered again
    base.arrive("ups_2.csv", "2,1,U,b")
    now = time.time()
    os.utime(base.path / "incr" / "ups_1.csv", (now - 60, now - 60))
    os.utime(base.path / "incr" / "ups_2.csv", (now, now))
    words = ("workflow", "watch", base.path, "--min-age", 2, "--interval", 0.05, "--runs", 1, "--json")
    capfd.readouterr()
    assert command(*words) == 0
    assert json.loads(capfd.readouterr().out.splitlines()[-1])["version"] == 2
    assert base.rows() == ["1,1,a", "2,1,b"]
