"""The bulk mutator on a real cluster, whose executors have nothing of the checkout but what `--py-files` brings."""

import json
import sys

import pytest

from tests.cluster import ROOT, SAMPLE, environment, merged_sample, rows, run, standalone, submit


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


@pytest.mark.cluster
def test_two_workers_merge_the_sample(master, package, tmp_path):
    # fmt: off
    done = submit(
        master, "--py-files", package, ROOT / "jobs" / "bulk_mutate.py",
        "--config", SAMPLE / "bumu.properties", "--master", SAMPLE / "master", "--feed", SAMPLE / "feed",
        "--output", tmp_path / "out", "--json",
        cwd=tmp_path,
    )
    # fmt: on

    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "out") == merged_sample()
    # Spark sends what a Python driver writes to stderr down stdout too: the lines of progress come before the report.
    counts = json.loads(done.stdout[done.stdout.index("{\n") :])["counts"]
    assert counts["output rows"] == len(merged_sample())
    assert (counts["master rows"], counts["feed rows"]) == (1000, 130)
