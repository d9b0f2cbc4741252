"""The ways to start the bulk mutator, each without an activated virtual environment.

PATH contains only the system's directories, so `python3` may be an interpreter without pyspark. Then `spark-submit`
runs the interpreter that PYSPARK_PYTHON names, and the console program runs its own.
"""

import json
import shutil
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

import pytest

from mutator.config import load
from tests.support import local_engine
from tests.support.cluster import ROOT, SAMPLE, environment, merged_sample, rows, run, submit

SALES = ROOT / "sample_data" / "sales"
JOB = ROOT / "jobs" / "bulk_mutate.py"
PROGRAM = Path(sysconfig.get_path("scripts"), "mutator")


def options(output):
    return [
        *("--config", SAMPLE / "bumu.properties", "--master", SAMPLE / "master"),
        *("--feed", SAMPLE / "feed", "--output", output),
    ]


@pytest.fixture
def bare_python(tmp_path):
    """Return this Python with its libraries, but as if mutator had never been installed in it."""
    # -S ignores the .pth files that an editable install adds
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    path.chmod(0o755)
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith("mutator"):
            (libraries / entry.name).symlink_to(entry)
    env = environment(PYSPARK_PYTHON=str(path), PYTHONPATH=str(libraries))
    missing = run([path, "-c", "import mutator"], env, cwd=tmp_path)
    assert "No module named 'mutator'" in missing.stderr
    return env


@pytest.mark.soak
def test_spark_submit_with_our_options(tmp_path):
    done = submit("local[2]", JOB, *options(tmp_path / "out"), cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "out") == merged_sample()


@pytest.mark.rest
@pytest.mark.jvm
def test_spark_submit_called_like_chombo_in_a_checkout_without_an_installed_package(tmp_path, bare_python):
    shutil.copytree(SAMPLE / "master", tmp_path / "master")
    shutil.copytree(SAMPLE / "feed", tmp_path / "working")
    inputs = f"{tmp_path / 'master'},{tmp_path / 'working'}"
    words = (f"-Dconf.path={SAMPLE / 'bumu.properties'}", inputs, tmp_path / "out")

    done = submit("local[2]", "jobs/bulk_mutate.py", *words, env=bare_python)

    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "out") == merged_sample()


@pytest.mark.thorough(keep=0)
@pytest.mark.jvm
@pytest.mark.parametrize(
    "command",
    [
        pytest.param([sys.executable, "-m", "mutator.cli"], marks=pytest.mark.soak),
        pytest.param([PROGRAM], marks=pytest.mark.skipif(not PROGRAM.exists(), reason="mutator is not installed here")),
    ],
    ids=["module", "program"],
)
def test_console_starts_its_workers_with_its_own_python(tmp_path, command):
    done = run([*command, "run", *options(tmp_path / "out")], environment())

    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "out") == merged_sample()


@pytest.mark.thorough(keep=0)
@pytest.mark.jvm
def test_spark_submit_of_many_tables_prints_the_events_of_its_scheduler(tmp_path):
    places = f'master = "{SAMPLE}/master"\nfeed = "{SAMPLE}/feed"\nconfig = "{SAMPLE}/bumu.properties"\n'
    (tmp_path / "tables.toml").write_text(f'[tables.a]\n{places}output = "a"\n[tables.b]\n{places}output = "b"\n')

    done = submit("local[2]", ROOT / "jobs" / "run_many.py", "tables.toml", "--json", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["totals"]["states"] == {"done": 2}
    assert report["warnings"][0].startswith("spark.scheduler.mode is FIFO")
    assert rows(tmp_path / "a") == rows(tmp_path / "b") == merged_sample()


@pytest.mark.soak
@pytest.mark.jvm
def test_spark_submit_of_a_split_feed_and_its_runs(tmp_path):
    config = ("--config", SALES / "sales.properties")
    for side in ("master", "feed"):
        words = (
            *config,
            "--feed",
            SALES / side,
            "--partitioned-by",
            "store_id=0",
            "--output",
            tmp_path / side,
            "--json",
        )
        job = ROOT / "jobs" / "partition.py"
        split = submit("local[2]", job, *words) if side == "feed" else run([sys.executable, job, *words], environment())
        assert split.returncode == 0, split.stderr
        assert json.loads(split.stdout)["partitions"].keys() == {path.name for path in (tmp_path / side).glob("s*")}
    words = ("--master", tmp_path / "master", "--feed", tmp_path / "feed", "--output", tmp_path / "out", "--json")

    done = submit("local[2]", ROOT / "jobs" / "partition_runs.py", *config, *words)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"]["output rows"] == 504
    merged = local_engine.mutate(
        load(SALES / "sales.properties"),
        master=str(SALES / "master"),
        feed=[str(SALES / "feed")],
        output=str(tmp_path / "whole"),
    )
    assert merged.counts["output rows"] == 504
    found = list((tmp_path / "out").glob("store_id=*/part-*"))
    assert sorted(row for path in found for row in path.read_bytes().splitlines()) == rows(tmp_path / "whole")


SESSION = """
import sys
sys.path.insert(0, {root!r})  # as an editor does; workers do not have it
from operator import itemgetter
from pyspark.sql import SparkSession
import mutator

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.sparkContext.parallelize([("a", 1, "old"), ("a", 2, "new")], 2)
try:
    print(mutator.last_mutations(rows, key=itemgetter(0), precedence=itemgetter(1)).collect())
    mutator.mutate(spark, {sample!r} + "/bumu.properties", master={sample!r} + "/master", feed=[{sample!r} + "/feed"],
                   output=sys.argv[1])
except mutator.MutatorError as fault:
    print(type(fault).__name__, fault)
"""


@pytest.fixture
def own_session(tmp_path):
    """Return a function that runs a script with a local session of its own; `python3` on its PATH has no libraries."""
    script = tmp_path / "script.py"
    script.write_text(SESSION.format(root=str(ROOT), sample=str(SAMPLE)))
    return lambda **more: run([sys.executable, script, tmp_path / "out"], environment(**more), cwd=tmp_path)


@pytest.mark.thorough(keep=0)
@pytest.mark.jvm
def test_workers_of_a_local_session_run_the_python_of_the_driver(tmp_path, own_session):
    done = own_session()

    assert done.stdout == "[('a', 2, 'new')]\n", done.stdout + done.stderr
    assert rows(tmp_path / "out") == merged_sample()


@pytest.mark.thorough(keep=0)
@pytest.mark.jvm
def test_another_python_without_our_modules_is_named_before_a_task_runs(tmp_path, own_session):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)

    done = own_session(PYSPARK_PYTHON=str(python))

    assert f"ConfigError the workers of this Spark session run {python}, which lacks mutator, numpy" in done.stdout
    assert "set PYSPARK_PYTHON to a Python that has it on every node" in done.stdout
    assert "Traceback" not in done.stderr


def test_zip_for_py_files_is_the_package_and_reproducible(tmp_path):
    first, second = tmp_path / "first.zip", tmp_path / "second.zip"
    for path in (first, second):
        assert run([sys.executable, ".ci/zip.py", path], environment()).returncode == 0

    assert first.read_bytes() == second.read_bytes()
    with ZipFile(first) as archive:
        names = archive.namelist()
    sources = [*(ROOT / "mutator").rglob("*.py"), *(ROOT / "mutator").rglob("templates/*")]
    assert names == sorted(path.relative_to(ROOT).as_posix() for path in sources)
