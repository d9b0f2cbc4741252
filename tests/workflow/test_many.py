"""Many tables in one application: no table affects the others."""

import json
import os
import re
import shutil

import pytest

from mutator import cli
from mutator.errors import MutatorError
from mutator.pipeline import merge
from mutator.workflow import many_tables
from tests.support.many_tables import DEFAULTS, Folder, no_spark, rows_of


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path, 6)


def states(summary):
    return {result.table: result.state for result in summary.results}


def parts(output):
    return sorted(path.read_bytes() for path in output.glob("part-*"))


def test_each_table_is_merged_as_if_alone(folder):
    done = many_tables.run(folder.tables(), no_spark, at_once=3)

    assert states(done) == dict.fromkeys(folder.names, "done")
    assert done.exit_code == 0
    for name in folder.names:
        assert rows_of(folder, name) == folder.expected(name)
        assert len(list((folder.root / "out" / name).glob("part-*"))) == 2


def test_each_table_is_merged_on_spark(folder, sc):
    names = folder.names[:3]
    done = many_tables.run(folder.tables(), lambda: sc, only=names, at_once=3)

    assert [rows_of(folder, name) for name in names] == [folder.expected(name) for name in names]
    assert all(result.report["runner"].startswith("spark: ") for result in done.results)
    assert "spark.scheduler.mode is FIFO" in "".join(done.warnings)


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("small", [True, False], ids=["a task for each table", "a task for each step"])
def test_worker_processes_merge_the_tables(folder, monkeypatch, small):
    monkeypatch.setattr("mutator.plan.runner_choice._MANY", 0)
    memory = "" if small else 'memory.bytes = "1"\n'

    done = many_tables.run(folder.tables(defaults=DEFAULTS + memory), no_spark, at_once=3)

    assert [rows_of(folder, name) for name in folder.names] == [folder.expected(name) for name in folder.names]
    assert done.exit_code == 0


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("engine", ["blocks", "records"])
@pytest.mark.parametrize("settings", ["", 'master.unique = "true"'], ids=["shuffle", "broadcast"])
def test_files_equal_those_of_a_single_run(folder, sc, tmp_path, engine, settings):
    (table,) = folder.tables(f"[tables.t1.settings]\n{settings}").only(["t1"])
    folder.put("feed/t1/ups_2.txt", "3,,300\n")
    alone = merge.mutate(
        sc, table.config, master=table.master, feed=table.feed, output=tmp_path / "alone", engine=engine
    )

    done = many_tables.run(folder.tables(f"[tables.t1.settings]\n{settings}"), lambda: sc, only=["t1"], engine=engine)

    (result,) = done.results
    assert result.state == "done"
    assert result.report["counts"] == alone.counts
    assert (result.report["join"], result.report["engine"]) == (alone.join, alone.engine)
    assert parts(folder.root / "out/t1") == parts(tmp_path / "alone")


@pytest.mark.rest
def test_large_tables_are_merged_like_a_single_run(folder, sc, monkeypatch):
    monkeypatch.setattr("mutator.engine.spark.single_task._SMALL", 0)

    done = many_tables.run(folder.tables(), lambda: sc, at_once=3)

    assert done.exit_code == 0
    assert [rows_of(folder, name) for name in folder.names] == [folder.expected(name) for name in folder.names]


def test_a_failing_table_does_not_stop_the_others(folder):
    shutil.rmtree(folder.root / "master/t0")
    folder.put("feed/t2/ups_1.txt", "1,too few\n")
    folder.put("feed/t3/ups_1.txt", "not a number,t3,late\n")

    done = many_tables.run(folder.tables(), no_spark, at_once=2)

    failed = {result.table: (result.kind, result.code) for result in done.results if result.state == "failed"}
    assert failed == {"t0": ("master.missing", 2), "t2": ("rejects", 3), "t3": ("rejects", 3)}
    assert done.undone == ("t0", "t2", "t3")
    assert done.exit_code == 3
    assert sorted(path.name for path in (folder.root / "out").iterdir()) == ["t1", "t4", "t5"]
    assert "t2     failed" in done.text()


def test_bases_and_outputs_in_one_file(folder):
    folder.put("base/master/base.txt", "a,1,100\n")
    folder.put("base/incr/ups_1.txt", "a,2,200\nb,1,200\n")
    more = '[tables.b]\nbase = "base"\nsettings.claim.min.age = "0s"\n'

    first = many_tables.run(folder.tables(more), no_spark)
    again = many_tables.run(folder.tables(more), no_spark, only=["b"])

    assert first.exit_code == 0
    (result,) = [one for one in first.results if one.table == "b"]
    assert (result.version, result.counts["output rows"]) == (1, 2)
    assert (again.results[0].state, again.results[0].version, again.exit_code) == ("done", None, 0)
    assert "nothing to merge" in again.text()


def test_warnings_name_their_table(folder):
    folder.put("feed/t1/ups_1.txt", "")

    done = many_tables.run(folder.tables(), no_spark, only=["t0", "t1"])

    assert done.all_warnings == ("t1: no row in ups_1.txt: the feed counts as merged, and no record changes",)
    assert re.search(r"t1 +done .* nothing to merge\n", done.text())


def test_the_largest_table_starts_first(folder):
    begun = []
    tables = folder.tables()

    many_tables.run(tables, no_spark, at_once=1, tell=lambda result, ended, total: begun.append(result.table))

    assert begun == list(reversed(folder.names))


def test_resume_merges_the_remaining_tables(folder):
    feed = folder.put("feed/t2/ups_1.txt", "1,too few\n")
    first = many_tables.run(folder.tables(), no_spark)
    feed.write_text("1,t2 changed,200\nx,t2 new,200\n")

    second = many_tables.run(folder.tables(), no_spark, resume=True)
    third = many_tables.run(folder.tables(), no_spark, resume=True)

    assert first.undone == ("t2",)
    before = dict.fromkeys(folder.names, "done before")
    assert states(second) == {**before, "t2": "done"}
    assert states(third) == before
    assert (second.resumes, third.resumes) == (first.run, second.run)
    assert second.results[0].counts == first.results[0].counts
    assert rows_of(folder, "t2") == folder.expected("t2")


def test_other_settings_do_not_undo_finished_tables(folder):
    """Published outputs stay; a table is merged with the new settings only if its output was moved away."""
    many_tables.run(folder.tables(), no_spark)
    before = {path: path.stat().st_ino for path in (folder.root / "out").glob("*/part-*")}
    shutil.move(folder.root / "out/t2", folder.root / "away")

    second = many_tables.run(folder.tables(defaults=f"{DEFAULTS}num.reducer = 1\n"), no_spark, resume=True)

    assert states(second) == {**dict.fromkeys(folder.names, "done before"), "t2": "done"}
    assert len(list((folder.root / "out/t2").glob("part-*"))) == 1
    after = {path: path.stat().st_ino for path in (folder.root / "out").glob("*/part-*")}
    assert {path: node for path, node in before.items() if "t2" not in str(path)}.items() <= after.items()


def test_a_result_of_another_run_does_not_count_as_done(folder):
    first = many_tables.run(folder.tables(), no_spark)
    shutil.rmtree(folder.root / "out/t1")
    shutil.copytree(folder.root / "out/t0", folder.root / "out/t1")
    shutil.rmtree(folder.root / "out/t2")

    second = many_tables.run(folder.tables(), no_spark, resume=True)

    assert first.exit_code == 0
    found = states(second)
    assert (found["t1"], found["t2"], found["t3"]) == ("failed", "done", "done before")
    assert second.results[1].kind == "output.exists"


def test_outputs_of_earlier_runs_are_moved_away(folder, capfd):
    """Following the advice of each report ends with every table merged from the new feed."""
    command = ["run-many", str(folder.file()), "--only"]
    assert cli.main([*command, "t0,t1,t2"]) == 0
    capfd.readouterr()
    bad = folder.put("feed/t3/ups_1.txt", "1,too few\n")
    for name in ("t0", "t1", "t2"):
        folder.put(f"feed/{name}/ups_2.txt", f"2,{name} newer,300\n")

    assert cli.main([*command, "t0,t1,t2,t3"]) == 3
    shown = capfd.readouterr().out.splitlines()
    assert shown[-2].startswith("their outputs exist already: t0, t1, t2; move these away, or name others")
    assert shown[-1] == "left undone: t3; run again with --resume"

    for name in ("t0", "t1", "t2"):
        shutil.move(folder.root / "out" / name, folder.root / "earlier" / name)
    bad.write_text("1,t3 changed,200\n")
    assert cli.main([*command, "t0,t1,t2,t3", "--resume"]) == 0
    assert "4 tables: 4 done" in capfd.readouterr().out
    for name in ("t0", "t1", "t2"):
        assert f"2,{name} newer,300".encode() in rows_of(folder, name)


def test_resume_skips_outputs_of_earlier_runs(folder):
    """A run that is repeated without --resume does not hide which outputs are from earlier runs."""
    many_tables.run(folder.tables(), no_spark)
    again = many_tables.run(folder.tables(), no_spark)
    resumed = many_tables.run(folder.tables(), no_spark, resume=True)

    assert {result.kind for result in again.results} == {"output.exists"}
    assert "left undone" not in again.text()
    assert states(resumed) == dict.fromkeys(folder.names, "done before")


def test_a_line_of_the_summary_names_the_file(folder):
    folder.put("feed/t1/ups_1.txt", "1,one,soon\n")
    (line,) = (one for one in many_tables.run(folder.tables(), no_spark).text().split("\n") if one.startswith("t1 "))
    assert "1 feed row cannot be read as a record: " in line
    assert "feed/t1/ups_1.txt" in line


def test_nothing_to_resume(folder):
    with pytest.raises(MutatorError, match="there is no record of an earlier run") as caught:
        many_tables.run(folder.tables(), no_spark, resume=True)

    assert caught.value.exit_code == 2


def test_two_runs_of_the_same_tables(folder):
    caught = []

    def again(result, ended, total):
        with pytest.raises(MutatorError) as fault:
            many_tables.run(folder.tables(), no_spark)
        caught.append(fault.value.kind)

    many_tables.run(folder.tables(), no_spark, only=["t0"], tell=again)

    assert caught == ["many.busy"]


def test_command_line(folder, capfd):
    path = folder.file()
    folder.put("feed/t2/ups_1.txt", "1,too few\n")

    code = cli.main(["run-many", str(path), "--json", "--only", "t1,t2", "--at-once", "2"])

    found, stderr = capfd.readouterr()
    report = json.loads(found)
    assert code == report["exit_code"] == 3
    assert [one["state"] for one in report["results"]] == ["done", "failed"]
    assert report["totals"]["states"] == {"done": 1, "failed": 1}
    assert report["totals"]["counts"]["output rows"] == 21
    assert report["totals"]["undone"] == ["t2"]
    assert report["results"][1]["kind"] == "rejects"
    assert "] t1: done" in stderr

    quarantine = ["-D", "reject.policy=quarantine", "-D", "max.reject.fraction=1"]
    code = cli.main(["run-many", str(path), "--only", "t1,t2", "--resume", *quarantine])

    found, stderr = capfd.readouterr()
    assert code == 0
    assert "2 tables: 1 done, 1 done before" in found


def test_unknown_table(folder, capfd):
    assert cli.main(["run-many", str(folder.file()), "--only", "t1,t7x"]) == 2
    assert "t7x: is not one of its tables" in capfd.readouterr().err


@pytest.mark.rest
def test_workers_are_reused_for_the_next_table(folder, sc):
    """A worker that is left with unread input exits, and the next task waits for a new one."""
    before = workers(sc)

    done = many_tables.run(folder.tables(), lambda: sc, at_once=1)

    assert done.exit_code == 0
    assert workers(sc) & before


def workers(sc):
    return set(sc.parallelize(range(8), 2).map(lambda _: os.getpid()).collect())
