"""Processes begin to start before a large merge is planned."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from mutator import __main__
from mutator.cli.program import main
from mutator.cli.progress_line import CHOICES
from mutator.pipeline import runners
from mutator.pipeline.runners import begin_processes_for

ROOT = Path(__file__).resolve().parents[2]
LARGE = 300 << 20  # bytes
SMALL = 20 << 20


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Return a list that grows by one element each time that processes begin to start, which they do not."""
    found = list[None]()
    monkeypatch.setattr(runners, "begin_processes", lambda: found.append(None))
    monkeypatch.setattr(runners, "usable_cores", lambda: 2)
    return found


def sized(path: Path, size: int) -> str:
    """Make a sparse file, and return its path."""
    with path.open("wb") as file:
        file.truncate(size)
    return str(path)


@pytest.mark.parametrize(
    ("runner", "size", "begins"), [("local", SMALL, 0), ("local", LARGE, 1), ("auto", LARGE, 1), ("spark", LARGE, 0)]
)
def test_large_files_need_processes(runner: str, size: int, begins: int, begun: list[None], tmp_path: Path) -> None:
    paths = [sized(tmp_path / "a.csv", size), sized(tmp_path / "b.csv", 1), str(tmp_path / "missing")]
    begin_processes_for(runner, paths)
    assert len(begun) == begins


@pytest.mark.parametrize(
    ("words", "needs"),
    [
        (["--feed={large}"], True),
        (["--master", "{directory}", "--runner", "local"], True),
        (["--feed", "{small}", "--output", "missing"], False),
        (["--feed={large}", "--runner=spark"], False),
        (["--feed", "{small}", "{large}", "--runner", "local", "--runner=spark"], False),
        (["--feed", "{small}", "{large}", "--output=missing"], True),
        (["--feed", "{small}", "--output={directory}"], False),
    ],
)
def test_the_command_knows_it_by_its_words(
    words: list[str], needs: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(__main__, "usable_cores", lambda: 2)
    monkeypatch.setattr(__main__, "configured_spark", lambda: None)
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "dangling").symlink_to("nowhere")
    large, small = sized(tmp_path / "part" / "a.csv", LARGE), sized(tmp_path / "b.csv", SMALL)
    given = [word.format(large=large, small=small, directory=tmp_path) for word in words]
    assert __main__._needs_processes(["run", *given]) is needs
    assert __main__._needs_processes(["-q", "--progress", "off", "run", *given]) is needs
    assert not __main__._needs_processes(["verify", *given])
    assert __main__._PROGRESS == CHOICES


def test_a_run_begins_them_before_it_reads_its_inputs(begun: list[None], tmp_path: Path) -> None:
    sized(tmp_path / "a.csv", LARGE)
    paths = ["--master", "none", "--feed", str(tmp_path / "a.csv"), "--output", str(tmp_path / "output")]
    assert main(["run", *paths, "--key=0", "--order-by=1", "--runner=local", "--quiet"]) != 0  # not text
    assert begun == [None]


@pytest.mark.processes
def test_workers_come_from_the_process_that_began_early() -> None:
    program = f"""
        import os
        from multiprocessing import forkserver
        from mutator.engine.local.fork_server import begin_processes
        from mutator.engine.local.processes import Processes

        begin_processes()
        early = forkserver._forkserver._forkserver_pid
        with open(f"/proc/{{early}}/status") as status:
            blocked = int(status.read().split("SigBlk:")[1].split()[0], 16)
        with Processes(1) as workers:
            parents = workers.run([os.getppid], lambda *_: None)
        print(parents == [early], blocked >> {signal.SIGINT - 1} & 1)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert done.stdout == "True 1\n"


@pytest.mark.processes
def test_workers_import_nothing_from_the_working_directory_and_keep_the_environment(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit('a module of the user')")
    program = """
        import os
        import sys
        from functools import partial
        sys.path.remove("")
        from mutator.engine.local.processes import Processes
        from mutator.engine.numpy_variables import numpy_variables

        before = dict(os.environ)
        names = ["PYTHONPATH", "PYTHONSAFEPATH", "GLIBC_TUNABLES", *numpy_variables()]
        with Processes(1) as workers:
            found = workers.run([partial(os.getenv, name) for name in names], lambda *_: None)
        print(found == [before.get(name) for name in names], os.environ == before)
    """
    words = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("True True\n", "")


@pytest.mark.processes
def test_numpy_is_loaded_with_its_variables_in_workers() -> None:
    program = """
        from mutator.engine.local.processes import Processes
        from mutator.engine.numpy_variables import disabled_features
        from tests.pipeline.test_early_processes import sorts_with_avx512

        with Processes(1) as workers:
            (found,) = workers.run([sorts_with_avx512], lambda *_: None)
        print(not (found and disabled_features()))
    """
    words = [sys.executable, "-c", textwrap.dedent(program)]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("NPY_")}
    done = subprocess.run(words, cwd=ROOT, env=variables, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def sorts_with_avx512() -> bool:
    """Return whether numpy sorts with AVX-512 in this process; its own name for that changed with version 2.4."""
    numpy = importlib.import_module("numpy._core._multiarray_umath")
    return any(numpy.__cpu_features__[name] for name in ("X86_V4", "AVX512_SKX") if name in numpy.__cpu_dispatch__)
