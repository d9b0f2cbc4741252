"""The runner on this machine gives the same elements in one process and in several, and says which worker died."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager
from multiprocessing import forkserver
from pathlib import Path

import pytest

from mutator.engine.local.fork_server import begin_processes
from mutator.engine.local.local_runner import local_runner
from mutator.engine.local.processes import Processes, workers_for, workers_of
from mutator.engine.runner import each_on
from mutator.errors import StorageError, error
from tests.support.patience import wait_until

ROOT = Path(__file__).resolve().parents[2]


WORKERS = [(1, 1), (1, 2), (2, 1)]  # processes, and threads of the only one


@contextmanager
def running(processes, threads=1, **how):
    with workers_of(processes, threads) as workers, local_runner(workers, **how) as runner:
        yield runner


def words(count, number, attempt, lines):
    for line in lines:
        for position, word in enumerate(line.split()):
            yield (len(word) % count, number, position), word


def joined(separator, number, attempt, elements):
    yield number, separator.join(word for _, word in elements)


@pytest.mark.processes
@pytest.mark.parametrize("workers", WORKERS)
def test_elements_arrive_in_their_group_sorted(workers):
    lines = ["to be or not to be", "that is the question", "", "whether tis nobler"]
    with running(*workers) as runner, runner.shared(3) as count, runner.shared(" ") as space:
        found = runner.tasks(lines).map(words, count).grouped(4).map(joined, space)
        expected = [(0, "not the tis nobler"), (1, "that whether"), (2, "to be or to be is question"), (3, "")]
        assert found.collect() == expected


def refuse(task, number, attempt):
    raise error("storage", path=f"task {task}", why="no space left on device")


def die(task, number, attempt):
    if task:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.2)


@pytest.mark.processes
def test_tasks_run_in_worker_processes():
    with running(2) as runner:
        found = set(each_on(runner)([1, 2, 3, 4], pid_of))
    assert os.getpid() not in found


@pytest.mark.processes
def test_only_steps_that_read_much_start_processes():
    with running(2, choice=workers_for) as runner:
        tasks, own = runner.tasks([1, 2, 3]), {os.getpid()}
        with tasks.reading(1 << 20).map(pids).grouped(2).map(pids).kept() as kept:
            assert {pid for _, pid in kept.map(pids).collect()} == own
            assert own.isdisjoint(pid for _, pid in kept.reading(1 << 30).map(pids).collect())


@pytest.mark.processes
def test_steps_that_read_little_run_in_processes_that_merges_share():
    with Processes(2) as shared, local_runner(shared) as runner:
        found = runner.tasks([1, 2, 3]).reading(1 << 20).map(pids).collect()
    assert os.getpid() not in {pid for _, pid in found}


def pids(shared, number, attempt, elements):
    yield from (((number % 2,), os.getpid()) for _ in elements)


def pid_of(task, number, attempt):
    return os.getpid()


@pytest.mark.processes
@pytest.mark.parametrize("workers", WORKERS)
def test_an_error_of_the_catalogue_arrives(workers):
    with running(*workers) as runner, pytest.raises(StorageError, match="task 1: no space left"):
        each_on(runner)([1, 2], refuse)


@pytest.mark.processes
def test_a_killed_worker_is_a_clear_error():
    with running(2) as runner, pytest.raises(StorageError, match="killed a worker process") as caught:
        each_on(runner)([0, 1, 0], die)
    assert caught.value.kind == "worker.killed"


@pytest.mark.processes
def test_a_killed_server_of_workers_is_a_clear_error(monkeypatch):
    begin_processes()
    server, ask = forkserver._forkserver._forkserver_pid, forkserver.connect_to_new_process
    os.kill(server, signal.SIGSTOP)  # so that it does not answer before it is killed

    def killed(*given):
        asked = ask(*given)
        os.kill(server, signal.SIGKILL)
        os.waitid(os.P_PID, server, os.WEXITED | os.WNOWAIT)
        return asked

    with running(2) as runner:
        with monkeypatch.context() as patched:
            patched.setattr(forkserver, "connect_to_new_process", killed)
            with pytest.raises(StorageError, match="killed a worker process"):
                each_on(runner)([1, 2, 3], pid_of)
        assert len(each_on(runner)([1, 2, 3], pid_of)) == 3


@pytest.mark.processes
def test_the_next_merge_gets_new_workers_after_a_kill():
    with running(2) as runner:
        with pytest.raises(StorageError, match="killed a worker process"):
            each_on(runner)([0, 1, 0], die)
        assert len(each_on(runner)([1, 2, 3, 4], pid_of)) == 4


class Stop(Exception):
    """A merge was stopped from outside."""


@pytest.mark.processes
@pytest.mark.parametrize("workers", WORKERS)
def test_a_watch_stops_the_tasks_that_have_not_begun(workers, tmp_path):
    def watch(done, tasks):
        if done:
            raise Stop

    with running(*workers, watch=watch) as runner, pytest.raises(Stop):
        each_on(runner)([str(tmp_path / str(number)) for number in range(20)], touch)

    assert 0 < len(list(tmp_path.iterdir())) < 20


def touch(path, number, attempt):
    Path(path).touch()
    time.sleep(0.05 if Path(path).name == "0" else 0.3)


def fill_up(task, number, attempt):
    if task == "disk":
        raise OSError(errno.ENOSPC, "No space left on device")
    raise MemoryError("malloc of size 1 failed")


@pytest.mark.processes
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize(("task", "kind"), [("disk", "scratch"), ("memory", "memory")])
def test_a_full_disk_or_memory_is_an_error_of_the_catalogue(workers, task, kind):
    with running(*workers) as runner, pytest.raises(StorageError, match="nothing was published") as caught:
        each_on(runner)([task, task], fill_up)
    assert caught.value.kind == kind


@pytest.mark.processes
@pytest.mark.parametrize("workers", WORKERS)
def test_the_first_error_stops_the_tasks_that_have_not_begun(workers, tmp_path):
    with running(*workers) as runner, pytest.raises(StorageError, match="no space left"):
        each_on(runner)([str(tmp_path / str(number)) for number in range(30)], touch_or_refuse)

    assert len(list(tmp_path.iterdir())) < 20


def touch_or_refuse(path, number, attempt):
    if number == 1:
        refuse(path, number, attempt)
    touch(path, number, attempt)


@pytest.mark.processes
def test_workers_end_with_a_killed_parent(tmp_path):
    program = f"""
        import os, time
        from pathlib import Path
        from mutator.engine.local.local_runner import local_runner
        from mutator.engine.local.processes import workers_of
        from mutator.engine.runner import each_on
        from tests.engine.test_local_runner import sleeper

        with workers_of(2) as workers, local_runner(workers) as runner:  # no guard of __main__
            each_on(runner)([{str(tmp_path)!r}] * 2, sleeper)
    """
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(program))
    parent = subprocess.Popen([sys.executable, str(script)], env={**os.environ, "PYTHONPATH": str(ROOT)})
    wait_until(lambda: len(list(tmp_path.glob("pid-*"))) == 2)
    parent.kill()
    parent.wait()
    for path in tmp_path.glob("pid-*"):
        wait_until(lambda pid=path.name[4:]: not Path(f"/proc/{pid}").exists())


def sleeper(directory, number, attempt):
    Path(directory, f"pid-{os.getpid()}").touch()
    time.sleep(600)
