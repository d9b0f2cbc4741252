"""Directories for temporary files are removed, also those of killed processes, and never those of living ones."""

import fcntl
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from mutator.engine.local.local_runner import prepare_machine
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
    prepare_machine()
    assert not path.exists()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["another", "mutator-tasks-a-file"]


def test_a_directory_that_another_process_removes_before_it_is_locked(monkeypatch):
    made = []

    def open_later(path, flags):
        made.append(path)
        handle = real(path, flags)
        if len(made) < 3:  # the other one has locked it, or is done
            other = real(path, flags)
            fcntl.flock(other, fcntl.LOCK_EX)
            os.rmdir(path)
            if len(made) == 2:
                os.close(other)
        return handle

    real = os.open
    monkeypatch.setattr("mutator.engine.scratch.os.open", open_later)
    with ExitStack() as stack:
        assert scratch_directory(stack) == made[2]
        assert os.path.isdir(made[2])


def test_threads_do_not_remove_the_directories_of_each_other():
    def make(_):
        with ExitStack() as stack:
            remove_abandoned()
            path = scratch_directory(stack)
            Path(path, "runs").touch()
            remove_abandoned()
            return os.path.exists(os.path.join(path, "runs"))

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(make, range(100)))
