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

from tests.support.cluster import ROOT, SAMPLE, environment, merged_sample, rows, run, submit

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


@pytest.mark.jvm
def test_spark_submit_called_like_chombo(tmp_path):
    shutil.copytree(SAMPLE / "master", tmp_path / "master")
    shutil.copytree(SAMPLE / "feed", tmp_path / "working")

    done = submit("local[2]", JOB, f"-Dconf.path={SAMPLE / 'bumu.properties'}", "master,working", "out", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "out") == merged_sample()


@pytest.mark.thorough(keep=0)
@pytest.mark.jvm
def test_spark_submit_in_a_checkout_without_an_installed_package(tmp_path, bare_python):
    done = submit("local[2]", "jobs/bulk_mutate.py", *options(tmp_path / "out"), env=bare_python)

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


def test_zip_for_py_files_is_the_package_and_reproducible(tmp_path):
    first, second = tmp_path / "first.zip", tmp_path / "second.zip"
    for path in (first, second):
        assert run([sys.executable, ".ci/zip.py", path], environment()).returncode == 0

    assert first.read_bytes() == second.read_bytes()
    with ZipFile(first) as archive:
        names = archive.namelist()
    assert names == sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "mutator").rglob("*.py"))
