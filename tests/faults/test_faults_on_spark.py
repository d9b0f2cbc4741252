"""Drivers, JVMs and tasks that die on Spark: a repeated task changes nothing."""

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyarrow import parquet

import mutator
from mutator.dataset.side_columns import read_tombstones
from mutator.engine import tasks
from mutator.engine.blocks import block_steps as blocks
from mutator.engine.ledger import write_ledger
from mutator.engine.records import record_steps as records
from mutator.errors import StorageError
from tests.support import local_engine
from tests.support.cluster import ROOT, environment, run
from tests.support.faulty_runs import (  # noqa: F401  # fixtures
    SETTINGS,
    TASK_POINTS,
    call_of,
    check_next_run,
    check_whole,
    inputs_stay,
    manifest_of,
    new_places,
)
from tests.support.patience import PATIENCE, wait_until


@pytest.mark.thorough(keep=0)
@pytest.mark.jvm
@pytest.mark.parametrize("point", ["stage.merged", pytest.param("publish.renamed", marks=pytest.mark.soak)])
def test_kill_of_the_driver(places, tmp_path, point):
    output = tmp_path / "beside" / "out"
    output.parent.mkdir()
    settings = tmp_path / "run.properties"
    settings.write_text("".join(f"{key}={value}\n" for key, value in SETTINGS.items()))

    done = run(
        [
            *(sys.executable, "-m", "mutator.cli", "run", "--config", settings),
            *("--master", places / "managed", "--feed", places / "feed", "--output", output),
        ],
        environment(MUTATOR_FAILPOINT=point),
    )

    assert done.returncode == -signal.SIGKILL, done.stderr
    check_next_run("aligned", places, output, point)


def java_of(process):
    """Return the process ID of the JVM that a Python driver started, or None before it did."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = entry.joinpath("stat").read_text().rpartition(")")[2].split()[1]
                name = entry.joinpath("comm").read_text().strip()
            except OSError:
                continue  # it has ended in the meantime
            if parent == str(process.pid) and name == "java":
                return int(entry.name)
    return None


@pytest.mark.thorough(keep=0)
@pytest.mark.jvm
def test_kill_of_the_jvm_is_reported(places, tmp_path):
    """SIGKILL, as the kernel sends when memory runs out: no traceback, no report of a bug, no litter."""
    output = tmp_path / "beside" / "out"
    output.parent.mkdir()
    settings = tmp_path / "run.properties"
    settings.write_text("".join(f"{key}={value}\n" for key, value in (SETTINGS | {"num.reducer": "300"}).items()))
    command = [sys.executable, "-m", "mutator.cli", "run", "--config", settings, "--master", places / "base"]
    command += ["--feed", places / "feed", "--output", output, "--runner", "spark"]
    with subprocess.Popen(command, env=environment(), cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: process.poll() is not None or any(output.parent.rglob("*part-*")))  # the merge has begun
        os.kill(java_of(process), signal.SIGKILL)
        errors = process.communicate(timeout=PATIENCE)[1]

    assert process.returncode == 4, errors
    assert "Spark's JVM has ended" in errors
    assert "Traceback" not in errors
    assert list(output.parent.iterdir()) == []


CALL_OF_A_DYING_JVM = """
import os, signal, threading, time
from pathlib import Path
from py4j.protocol import Py4JError
from mutator.engine.spark.session import spark_context
with spark_context("dies") as sc:
    java = sc._jvm.java.lang
    pid = java.ProcessHandle.current().pid()
    os.kill(pid, signal.SIGSTOP)  # so that the call stays unread, and its connection is reset rather than closed
    threads = list(Path(f"/proc/{pid}/task").glob("*/stat"))
    while any(one.read_text().rpartition(")")[2].split()[0] != "T" for one in threads):  # a signal takes its time
        time.sleep(0.01)
    threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()
    try:
        java.System.nanoTime()
    except (Py4JError, OSError):
        print("raised")
"""


@pytest.mark.thorough(keep=0)
@pytest.mark.jvm
def test_a_call_during_which_the_jvm_dies_logs_nothing():
    """py4j logs a traceback besides the exception that it raises."""
    done = subprocess.run(
        [sys.executable, "-c", CALL_OF_A_DYING_JVM], env=environment(), cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout == "raised\n", done.stderr
    assert "Traceback" not in done.stderr


@contextmanager
def in_workers(sc, failpoint):
    """Set the failpoint for new Python workers of a running session: Spark starts new workers for each set of
    variables.
    """
    sc.environment["MUTATOR_FAILPOINT"] = failpoint
    try:
        yield
    finally:
        del sc.environment["MUTATOR_FAILPOINT"]


@pytest.fixture(scope="module")
def undisturbed(places, tmp_path_factory):
    """Return the report of a run of a join, without Spark."""
    made = {}

    def undisturbed(join):
        if join not in made:
            made[join] = local_engine.mutate(**call_of(join, places, tmp_path_factory.mktemp(join) / "out"))
        return made[join]

    return undisturbed


# Failpoints of an aligned run that the cases below pass with another join, or with a kill instead of an error.
BELOW = ("task.data.opened", "task.data.written", "task.order.written", "task.tombstones.written", "task.carried")


@pytest.mark.thorough(keep=0, rest=2)
@pytest.mark.parametrize(
    ("join", "failpoint"),
    [
        *(
            pytest.param("aligned", f"{point}:raise", marks=pytest.mark.soak if point in BELOW else ())
            for point in TASK_POINTS
        ),
        *(("aligned", point) for point in ("task.data.written", "task.carried")),
        *(("shuffle", point) for point in ("task.tombstones.written:raise", "task.data.opened")),
        *(("broadcast", point) for point in ("task.data.opened:raise", "task.tombstones.written")),
        *(("records", point) for point in ("task.order.written:raise", "task.data.written")),
    ],
)
def test_task_that_fails_once_changes_nothing(sc, places, undisturbed, tmp_path, join, failpoint):
    """With ``:raise`` a task fails; otherwise SIGKILL takes its worker, as the kernel does when memory runs out."""
    output, expected = tmp_path / "out", undisturbed(join)
    sc.setJobGroup(str(tmp_path), "one run")

    with in_workers(sc, failpoint):
        report = mutator.mutate(sc, **call_of(join, places, output))

    check_whole(output)
    assert list(tmp_path.iterdir()) == [output]
    assert report.counts == expected.counts
    assert report.samples == expected.samples
    assert report.rejects == expected.rejects
    assert files_of(output) == files_of(expected.output)
    assert failed_tasks(sc, str(tmp_path)) > 0


def failed_tasks(sc, group):
    """Return how many task attempts of a job group have failed."""
    jobs = [sc.statusTracker().getJobInfo(job) for job in sc.statusTracker().getJobIdsForGroup(group)]
    stages = [sc.statusTracker().getStageInfo(stage) for job in jobs for stage in job.stageIds]
    return sum(stage.numFailedTasks for stage in stages if stage)


def files_of(output):
    """Return the contents of the files, without run IDs, attempt numbers and times."""
    made, found = manifest_of(output), []
    for part in made.parts():
        name = re.sub(rf"-{made.commit.run}(-\d+)?", "", part.path)
        content = Path(output, part.path).read_bytes()
        if "tombstones" in name:
            with Path(output, part.path).open("rb") as stream:
                content = [(key, order) for key, order, _ in read_tombstones(stream)]
        if "_mutator/changes" in name:
            content = parquet.read_table(f"{output}/{part.path}").drop_columns(["_commit_timestamp"]).to_pylist()
        found.append((name, part.bucket, part.rows, content))
    return sorted(found, key=lambda one: one[0])


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize(
    ("join", "module", "name"),
    [("records", records, "write_bucket"), ("aligned", blocks, "write_group"), ("broadcast", blocks, "_patch")],
)
def test_task_that_fails_always_publishes_nothing(sc, places, tmp_path, monkeypatch, join, module, name):
    def broken(*_, **__):  # nested, so that it is pickled by value: workers cannot import this module
        raise OSError("the disk is on fire")

    monkeypatch.setattr(module, name, broken)

    with pytest.raises(StorageError) as caught:
        mutator.mutate(sc, **call_of(join, places, tmp_path / "out"))

    assert caught.value.kind == "task"
    assert "the disk is on fire" in str(caught.value)
    assert "\tat org.apache" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_task_of_a_run_that_has_ended_brings_nothing_back(places, tmp_path, monkeypatch):
    """Spark does not wait for the other tasks of a stage that fails: the run may remove its files before they end."""

    def slow(plan, staging, attempt, elements):
        shutil.rmtree(Path(staging).parent)
        try:
            return write_ledger(plan, staging, attempt, elements)
        finally:
            assert list(tmp_path.iterdir()) == []

    monkeypatch.setattr(tasks, "write_ledger", slow)

    with pytest.raises(StorageError, match="work/_mutator/rejected"):
        local_engine.mutate(**call_of("aligned", places, tmp_path / "out"))


@pytest.mark.thorough(keep=0)
@pytest.mark.jvm
def test_failing_tasks_leave_one_line_and_a_log(tmp_path):
    """Spark prints a stack trace for each attempt, hundreds of lines before the one that helps."""
    code = """
        from mutator.engine.spark.session import spark_context
        from mutator.engine.spark.jvm_log import spark_faults
        from mutator.errors import MutatorError

        try:
            with spark_context("test") as sc, spark_faults(sc):
                sc.parallelize(range(4), 2).map(lambda number: number / 0).collect()
        except MutatorError as fault:
            print(fault)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=environment(PYTHONPATH=str(ROOT), TMPDIR=str(tmp_path)),
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1
    assert "ZeroDivisionError: division by zero" in done.stdout
    (log,) = tmp_path.glob("mutator-spark-*.log")
    assert f"find the first failure in Spark's log, {log}, and run again" in done.stdout
    assert log.read_text().count("ZeroDivisionError") >= 2
