"""Deadlines, signals and kills: a publication in progress is finished, nothing else is, and the rest can be resumed."""

import json
import os
import queue
import signal
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from mutator import cli
from mutator.engine.local.local_merge import merge_alone
from mutator.engine.runner import unwatched
from mutator.engine.spark import single_task
from mutator.errors import MutatorError, error
from mutator.errors.interrupts import Interrupted, catch_signals
from mutator.pipeline import merge as pipeline
from mutator.workflow import many_tables
from mutator.workflow.many_tables import scheduler
from mutator.workflow.many_tables.attempt import Attempt
from tests.support.cluster import environment, run
from tests.support.many_tables import DEFAULTS, Folder, no_spark, rows_of


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path, 4)


def states(summary):
    return {result.table: result.state for result in summary.results}


def hang(monkeypatch, table, before=lambda: None):
    """Let a table's Spark job hang until it is cancelled. before: a function that is called first, in the table's
    thread.
    """
    real = single_task.merge

    def hanging(runner, plan, staging):
        if not any(f"/{table}/" in source.source.path for source in plan.inputs):
            return real(runner, plan, staging)
        before()
        runner.sc.parallelize([1, 2], 2).foreach(lambda _: time.sleep(3600))
        raise AssertionError("the job was not cancelled")

    monkeypatch.setattr(single_task, "merge", hanging)


def test_deadline_of_a_table_on_this_machine(folder, monkeypatch):
    real = merge_alone

    def hanging(plan, staging, attempt=0, watch=unwatched):
        while any("/t1/" in source.source.path for source in plan.inputs):
            watch(0, 1)
            time.sleep(0.01)
        return real(plan, staging, attempt, watch)

    monkeypatch.setattr("mutator.workflow.many_tables.attempt.merge_alone", hanging)

    done = many_tables.run(folder.tables('[tables.t1]\ndeadline = "1s"\n'), no_spark, at_once=2)

    assert states(done) == {"t0": "done", "t1": "deadline", "t2": "done", "t3": "done"}
    assert sorted(path.name for path in (folder.root / "out").iterdir()) == ["t0", "t2", "t3"]


@pytest.mark.thorough(keep=0)
def test_deadline_of_one_table(folder, sc, monkeypatch):
    hang(monkeypatch, "t1")

    done = many_tables.run(folder.tables('[tables.t1]\ndeadline = "1s"\n'), lambda: sc, at_once=2)

    assert states(done) == {"t0": "done", "t1": "deadline", "t2": "done", "t3": "done"}
    (result,) = [one for one in done.results if one.table == "t1"]
    assert (result.kind, result.code, done.exit_code, done.undone) == ("many.deadline", 5, 5, ("t1",))
    assert "was stopped at its deadline, after" in result.error
    assert sorted(path.name for path in (folder.root / "out").iterdir()) == ["t0", "t2", "t3"]

    monkeypatch.undo()
    again = many_tables.run(folder.tables(), lambda: sc, resume=True)

    assert states(again)["t1"] == "done"
    assert rows_of(folder, "t1") == folder.expected("t1")


def test_start_of_spark_does_not_count_against_deadlines(folder, sc, monkeypatch):
    def slow():
        clock[0] += 3600
        return sc

    clock = [1000.0]
    stopped = SimpleNamespace(monotonic=lambda: clock[0], time=time.time)
    monkeypatch.setattr("mutator.workflow.many_tables.attempt.time", stopped)
    monkeypatch.setitem(many_tables.run.__globals__, "time", stopped)

    done = many_tables.run(folder.tables('[tables.t1]\ndeadline = "10m"\n'), slow, only=["t1"])

    assert states(done) == {"t1": "done"}
    assert done.results[0].seconds == 0


def test_deadline_of_all(folder, sc, monkeypatch):
    hang(monkeypatch, "t3")

    done = many_tables.run(folder.tables(run='deadline = "1s"'), lambda: sc, at_once=1)

    assert states(done) == {**dict.fromkeys(folder.names, "not begun"), "t3": "deadline"}
    assert "4 tables: 1 deadline, 3 not begun" in done.text()
    assert "left undone: t0, t1, t2, t3; run again with --resume" in done.text()


def test_a_publication_in_progress_is_finished(folder, monkeypatch):
    begun = []
    merge, write = Attempt.merge_on, pipeline.write_sidecar
    monkeypatch.setattr(Attempt, "merge_on", lambda *words: (begun.append(words[0]), merge(*words))[1])
    # After the last check of the deadline, and before the output exists.
    monkeypatch.setattr(pipeline, "write_sidecar", lambda *words: (begun[0].stop("deadline"), write(*words))[1])

    done = many_tables.run(folder.tables(), no_spark, only=["t0"])

    assert begun[0].is_stopping
    assert states(done) == {"t0": "done"}
    assert rows_of(folder, "t0") == folder.expected("t0")


@pytest.mark.rest
def test_stopped_base_gets_its_feed_files_back(folder, sc, monkeypatch):
    folder.put("base/b/master/base.txt", "a,1,100\n")
    folder.put("base/b/incr/ups_1.txt", "a,2,200\n")
    hang(monkeypatch, "b")
    more = '[tables.b]\nbase = "base/{table}"\ndeadline = "1s"\nsettings.claim.min.age = "0s"\n'

    done = many_tables.run(folder.tables(more), lambda: sc, only=["b"])

    assert states(done) == {"b": "deadline"}
    assert os.listdir(folder.root / "base/b/incr") == ["ups_1.txt"]
    assert os.listdir(folder.root / "base/b/output") == []


@pytest.mark.thorough(keep=0)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal(folder, sc, monkeypatch, capfd, number):
    hang(monkeypatch, "t2", lambda: signal.raise_signal(number))

    code = cli.main(["run-many", str(folder.file()), "--json", "--at-once", "1"])

    report = json.loads(capfd.readouterr().out)
    assert code == report["exit_code"] == 128 + number
    assert [one["state"] for one in report["results"]] == ["not begun", "not begun", "stopped", "done"]
    assert report["totals"]["undone"] == ["t0", "t1", "t2"]
    assert rows_of(folder, "t3") == folder.expected("t3")

    monkeypatch.undo()
    assert cli.main(["run-many", str(folder.file()), "--resume"]) == 0
    assert [rows_of(folder, name) for name in folder.names] == [folder.expected(name) for name in folder.names]


def test_second_signal_does_not_wait(folder, monkeypatch):
    entered, release = threading.Event(), threading.Event()
    stop = Attempt.stop
    monkeypatch.setattr(Attempt, "stop", lambda self, why: (stop(self, why), entered.set()))

    def stubborn(attempt, plan, staging):
        signal.raise_signal(signal.SIGTERM)
        entered.wait()
        signal.raise_signal(signal.SIGTERM)
        release.wait()
        raise MutatorError

    monkeypatch.setattr(Attempt, "merge_on", stubborn)

    with catch_signals():
        done = many_tables.run(folder.tables(), no_spark, at_once=1)
    release.set()

    assert states(done) == {**dict.fromkeys(folder.names, "not begun"), "t3": "left"}
    assert done.exit_code == 128 + signal.SIGTERM


def test_spark_that_cannot_start_is_tried_once(folder):
    def missing():
        tries.append(1)
        raise fault

    tries = []
    fault = error("spark.missing", why="no Java")

    done = many_tables.run(folder.tables(defaults=f'{DEFAULTS}runner = "spark"\n'), missing, at_once=1)

    assert states(done) == {**dict.fromkeys(folder.names, "not begun"), "t3": "failed"}
    assert (done.exit_code, tries) == (2, [1])


def test_bug_in_one_table_does_not_affect_others(folder, monkeypatch):
    def broken(*words, **more):
        if "t3" in words[1]:
            raise ZeroDivisionError("oops")
        return prepare(*words, **more)

    prepare = many_tables.run.__globals__["prepare"]
    monkeypatch.setitem(many_tables.run.__globals__, "prepare", broken)

    done = many_tables.run(folder.tables(), no_spark)

    assert states(done) == {**dict.fromkeys(folder.names, "done"), "t3": "failed"}
    assert done.exit_code == 70
    assert "ZeroDivisionError: oops" in done.results[3].error


@pytest.mark.thorough(keep=0)
def test_kill_and_resume(folder):
    """The third output exists, but the record does not have it yet."""
    words = [sys.executable, "-m", "mutator.cli", "run-many", folder.file(), "--at-once", "1"]

    killed = run(words, environment(MUTATOR_FAILPOINT="publish.done:3"))

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert sorted(path.name for path in (folder.root / "out").iterdir()) == ["t1", "t2", "t3"]
    done = many_tables.run(folder.tables(), no_spark, resume=True)
    assert states(done) == {"t0": "done", "t1": "done before", "t2": "done before", "t3": "done before"}
    assert (done.results[1].report, done.results[2].counts["output rows"]) == (None, 31)
    assert [rows_of(folder, name) for name in folder.names] == [folder.expected(name) for name in folder.names]


def test_threads_that_spark_cannot_distinguish(folder, monkeypatch):
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "false")

    with pytest.raises(MutatorError, match="PYSPARK_PIN_THREAD is false"):
        many_tables.run(folder.tables(), lambda: pytest.fail("Spark is not needed"))


def test_a_signal_between_an_event_and_its_result(folder, monkeypatch):
    class Queue(queue.SimpleQueue):
        def get(self, *words, **more):
            event = super().get(*words, **more)
            if not taken:  # the thread of the table has ended, and waits for nobody
                taken.append(event)
                raise Interrupted(signal.SIGTERM)
            return event

    taken = []
    monkeypatch.setattr(scheduler, "queue", SimpleNamespace(SimpleQueue=Queue, Empty=queue.Empty))
    monkeypatch.setattr(Attempt, "stop", lambda *_: None)

    done = many_tables.run(folder.tables(), no_spark, only=["t0"])

    assert (states(done), done.stopped) == ({"t0": "done"}, signal.SIGTERM)
    assert rows_of(folder, "t0") == folder.expected("t0")
