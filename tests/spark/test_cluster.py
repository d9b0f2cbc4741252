"""The bulk mutator on a real cluster, whose executors have only the part of the checkout that `--py-files` ships."""

import json
import re
import shutil
import sys
import tarfile
from importlib import metadata

import pytest

from mutator.config import load
from tests.support import local_engine
from tests.support.cluster import ROOT, SAMPLE, environment, merged_sample, rows, run, standalone, submit
from tests.support.environments import link_packages, make_environment, packages_of


@pytest.fixture
def package(tmp_path):
    path = tmp_path / "mutator.zip"
    assert run([sys.executable, ".ci/zip.py", path], environment()).returncode == 0
    return path


@pytest.fixture
def master(tmp_path):
    directory = tmp_path / "cluster"
    directory.mkdir()
    with standalone(directory, workers=2) as url:
        yield url


# The settings of each run; the second run has the output of the first as its master.
JOINS = {
    "shuffle": ["--master", SAMPLE / "master"],
    "aligned": ["--master", "shuffle"],
    "broadcast": ["--master", SAMPLE / "master", "-Dmaster.unique=true"],
}
# The blocks engine needs numpy and pyarrow in the workers, which use this Python's environment.
DRIVER = """
import json, sys
from mutator import cli
sys.exit(max(cli.main(words) for words in json.loads(sys.argv[1])))
"""


@pytest.mark.soak
@pytest.mark.jvm
@pytest.mark.cluster
def test_two_workers_merge_the_sample(master, package, tmp_path):
    """Every join of the blocks engine in one application, because its start takes longest."""
    feeds = {"shuffle": SAMPLE / "feed", "aligned": tmp_path / "feed", "broadcast": SAMPLE / "feed"}
    shutil.copytree(SAMPLE / "feed", tmp_path / "feed")
    for path in (tmp_path / "feed").iterdir():
        path.rename(path.with_name(f"{path.stem}_again.txt"))  # or it would be skipped as consumed
    common = ["run", "--config", SAMPLE / "bumu.properties", "--engine", "blocks", "--json"]
    calls = [[*common, "--feed", feeds[join], "--output", join, *words] for join, words in JOINS.items()]
    (tmp_path / "driver.py").write_text(DRIVER)

    done = submit(
        *(master, "--py-files", package, tmp_path / "driver.py"),
        json.dumps([[str(word) for word in call] for call in calls]),
        cwd=tmp_path,
    )

    assert done.returncode == 0, done.stderr
    # Spark sends the stderr of a Python driver to stdout, too: progress lines come before the reports.
    reports = reports_in(done.stdout)
    assert [(report["engine"], report["join"]) for report in reports] == [("blocks", join) for join in JOINS]
    for join, report in zip(JOINS, reports, strict=True):
        output = tmp_path / join
        assert sorted(row for part in output.glob("part-*") for row in part.read_bytes().splitlines()) == (
            merged_sample()
        )
        counts = report["counts"]
        assert (counts["feed rows"], counts["output rows"]) == (130, 1000)
        local = local_engine.mutate(
            SAMPLE / "bumu.properties" if join != "broadcast" else UNIQUE,
            master=str(tmp_path / "shuffle" if join == "aligned" else SAMPLE / "master"),
            feed=[str(feeds[join])],
            output=str(tmp_path / f"local-{join}"),
            engine="blocks",
        )
        assert (local.join, local.counts, local.samples) == (join, counts, report["samples"])
        assert contents(output) == contents(tmp_path / f"local-{join}")


@pytest.mark.thorough(keep=0)
@pytest.mark.jvm
@pytest.mark.cluster
def test_an_environment_is_shipped_as_the_page_says(master, package, tmp_path):
    """From another directory; neither the driver's Python nor the workers' has mutator."""
    page = (ROOT / "docs" / "spark-submit.md").read_text()
    compiled = re.search(r"env/bin/pip install venv-pack (.*)", page)[1].split()
    compiled = [name for name in compiled if name != "backports.zstd" or sys.version_info < (3, 14)]
    (tmp_path / "elsewhere").mkdir()
    link_packages(packages_of(make_environment(tmp_path / "env")), compiled, with_others=False)
    with tarfile.open(tmp_path / "env.tar.gz", "w:gz") as archive:
        for path in (tmp_path / "env").iterdir():
            archive.add(path, path.name)
    driver = make_environment(tmp_path / "driver")
    required = [one for one in metadata.requires("spark-mutator") if "extra ==" not in one and "pyspark" not in one]
    link_packages(packages_of(driver), required)
    python = re.search(r"PYSPARK_DRIVER_PYTHON=(\S.*?) PYSPARK_PYTHON=(\S+)", page)
    assert (python[1], python[2]) == ("$PWD/.venv/bin/python", "./env/bin/python")

    words = ["--py-files", package, "--archives", f"{tmp_path / 'env.tar.gz'}#env", ROOT / "jobs" / "bulk_mutate.py"]
    words += ["--config", SAMPLE / "bumu.properties", "--engine", "blocks", "--master", SAMPLE / "master"]
    words += ["--feed", SAMPLE / "feed", "--output", tmp_path / "out"]
    env = environment(PYSPARK_DRIVER_PYTHON=str(driver), PYSPARK_PYTHON=python[2])
    done = submit(master, *words, env=env, cwd=tmp_path / "elsewhere")

    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "out") == merged_sample()
    (next(packages_of(driver).glob("javaproperties"))).unlink()
    done = submit(master, *words[:-1], tmp_path / "out2", env=env, cwd=tmp_path / "elsewhere")
    assert done.returncode == 2
    assert f"{driver} lacks the module javaproperties" in done.stdout + done.stderr


UNIQUE = load(SAMPLE / "bumu.properties", ["master.unique=true"])


def reports_in(text):
    """Return the JSON documents in a text."""
    found, at = [], text.find("{\n")
    while at >= 0:
        report, end = json.JSONDecoder().raw_decode(text, at)
        found.append(report)
        at = text.find("{\n", end)
    return found


def contents(directory):
    """Return the contents of the data files, without the run's ID in their names."""
    return {path.name.split("-")[1]: path.read_bytes() for path in directory.glob("part-*")}
