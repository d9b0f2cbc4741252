"""Real kills and pauses of a workflow whose target is a table: the next command completes or undoes the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mutator.dataset.versions.log import TableLog
from tests.support.child_process import in_child
from tests.support.cluster import ROOT
from tests.support.patience import PATIENCE, wait_until
from tests.support.table_base import TableBase

POINTS = (
    "claim.journaled",
    "claim.moved",
    "claim.done",
    "verify.done",
    "table.commit",
    "table.committed",
    "merge.done",
    "archive.moved",
    "archive.working.removed",
    "archive.done",
)
GIVING_UP = ("table.giving.up", "table.given.up", "recover.returned", "recover.ended", "recover.done")


def kill(base: TableBase, point: str) -> None:
    """Run in a child process, which must die at a failpoint."""
    assert in_child(lambda: base.run(), point)[0] == signal.SIGKILL, f"the run passed {point}"


def new_base(path: Path) -> TableBase:
    base = TableBase(path)
    base.arrive("ups_1.csv", "1,1,U,a", "2,1,U,b")
    base.run()
    base.arrive("ups_2.csv", "1,2,U,aa", "2,2,D,")
    base.arrive("ups_3.csv", "3,3,U,c")
    return base


@pytest.mark.thorough(keep=4)
@pytest.mark.processes
@pytest.mark.parametrize("point", POINTS)
def test_kill(point: str, tmp_path: Path) -> None:
    base = new_base(tmp_path / "base")
    kill(base, point)
    version = base.table.refresh().version
    committed = version == 2
    base.status()
    assert base.names("working") == base.names("_mutator/runs") == []
    assert base.names("incr") == ([] if committed else ["ups_2.csv", "ups_3.csv"])
    base.run()
    assert base.rows() == ["1,2,aa", "3,3,c"]
    assert base.names("archive") == ["ups_1.csv", "ups_2.csv", "ups_3.csv"]
    merged = [file.name for one in TableLog(base.table.path).following(0) for file in one.feed]
    assert sorted(merged) == ["ups_1.csv", "ups_2.csv", "ups_3.csv"]
    assert base.table.verify().problems == ()


@pytest.mark.processes
@pytest.mark.parametrize("point", GIVING_UP)
def test_kill_in_the_recovery(point: str, tmp_path: Path) -> None:
    base = new_base(tmp_path / "base")
    kill(base, "claim.done")
    kill(base, point)
    base.run()
    assert base.rows() == ["1,2,aa", "3,3,c"]
    assert base.names("archive") == ["ups_1.csv", "ups_2.csv", "ups_3.csv"]
    assert base.names("working") == base.names("_mutator/runs") == base.names("incr") == []


PAUSED = """
import os, signal, sys
from mutator.cli import main
from mutator.table import apply, commit
room = commit if sys.argv[2] == "committed" else apply
called = getattr(room, sys.argv[2])
def paused(*given):
    os.kill(os.getpid(), signal.SIGSTOP)
    return called(*given)
setattr(room, sys.argv[2], paused)
sys.exit(main(["workflow", "run", sys.argv[1], "-D", "claim.min.age=0s", "-D", "lock.timeout=1s", "--runner", "local"]))
"""


@pytest.mark.thorough(keep=0)
@pytest.mark.processes
@pytest.mark.parametrize("step", ["prepare", "_merged", "committed"])
def test_a_run_that_is_paused_for_longer_than_its_lock(step: str, tmp_path: Path) -> None:
    """Another run takes over. The paused one ends with 5, and its files are merged once."""
    base = new_base(tmp_path / "base")
    words = [sys.executable, "-c", PAUSED, str(base.path), step]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, stderr=subprocess.PIPE, env=environment, text=True) as paused:
        try:
            os.waitid(os.P_PID, paused.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            assert base.names("incr") == []
            wait_until(lambda: base.status(**{"lock.timeout": "1s"}).running is None)
            done = base.run()
            assert (done.version, done.claimed) == (3, ("ups_2.csv", "ups_3.csv"))
            os.kill(paused.pid, signal.SIGCONT)
            _, message = paused.communicate(timeout=PATIENCE)
        finally:
            paused.kill()
    assert paused.returncode == 5, message
    assert "counts as dead" in message
    assert base.rows() == ["1,2,aa", "3,3,c"]
    assert base.names("archive") == ["ups_1.csv", "ups_2.csv", "ups_3.csv"]
    assert base.names("incr") == base.names("working") == []
    assert base.table.refresh().version == 3
    assert base.table.verify().problems == ()


def test_every_point_is_passed(tmp_path: Path) -> None:
    base = new_base(tmp_path / "base")
    _, passed = in_child(lambda: base.run())
    assert set(POINTS) <= set(passed)
