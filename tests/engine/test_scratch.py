"""Directories for temporary files are removed, also those of killed processes, and never those of living ones."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from mutator.engine.local.runner import local_runner
from mutator.engine.scratch import remove_abandoned, scratch_directory
from tests.support.cluster import ROOT

HOLDER = """
import sys, time
from contextlib import ExitStack
from mutator.engine.scratch import scratch_directory
with ExitStack() as stack:
    path = scratch_directory(stack)
    open(path + "/runs", "w").close()
    print(path, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(monkeypatch, tmp_path):
    monkeypatch.setattr("mutator.engine.scratch.spill_directory", lambda: str(tmp_path))


def test_a_directory_lives_as_long_as_its_stack():
    with ExitStack() as stack:
        path = Path(scratch_directory(stack))
        (path / "below").mkdir()
        remove_abandoned()
        assert (path / "below").is_dir()
    assert not path.exists()


@pytest.mark.processes
def test_the_directory_of_a_killed_process_is_removed_by_the_next_merge(tmp_path):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_DIRS": str(tmp_path), "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", HOLDER], env=env, stdout=subprocess.PIPE, text=True) as holder:
        path = Path(holder.stdout.readline().strip())
        assert path.parent == tmp_path
        remove_abandoned()
        assert (path / "runs").exists()
        holder.send_signal(signal.SIGKILL)
    (tmp_path / "mutator-tasks-a-file").touch()
    (tmp_path / "another").mkdir()
    with local_runner():
        assert not path.exists()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["another", "mutator-tasks-a-file"]


def test_a_directory_that_is_removed_before_it_is_locked(monkeypatch):
    made = []

    def taken(path):
        made.append(path)
        if len(made) == 1:
            os.rmdir(path)
            return os.open("/", os.O_RDONLY)
        return None

    monkeypatch.setattr("mutator.engine.scratch._locked", taken)
    with ExitStack() as stack:
        assert scratch_directory(stack) == made[1] != made[0]
