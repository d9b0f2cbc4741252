"""Runs in child processes, which kill themselves at a failpoint.

One process imports everything once and forks for every run; a fork is as good as a new process.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mutator.errors import failpoints
from tests.support.cluster import ROOT, environment


@contextmanager
def dying_runs(module: str) -> Iterator[Callable[..., tuple[bool, list[str]]]]:
    """Yield ``act(function, point, **call)``, which calls a module's function in a process that dies at a failpoint.

    It returns whether the process was killed, and the failpoints that it passed if it was not. The call must be JSON.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.dying_runs", module],
        cwd=ROOT,
        env=environment(PYTHONPATH=str(ROOT)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as driver:
        assert driver.stdin is not None
        assert driver.stdout is not None
        stdin, stdout = driver.stdin, driver.stdout

        def act(function: str, point: str | None = None, **call: Any) -> tuple[bool, list[str]]:
            stdin.write(json.dumps([function, point or "none", call]) + "\n")
            stdin.flush()
            code, passed = json.loads(stdout.readline())
            assert code in (0, -signal.SIGKILL), f"{function} at {point}: {code}"
            return code != 0, passed

        yield act
        stdin.close()


def serve(module: str) -> None:
    """Read calls from stdin, make each in a child, and print its exit code and the failpoints that it passed."""
    functions = importlib.import_module(module)
    for line in sys.stdin:
        function, point, call = json.loads(line)
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            code = 1
            try:
                os.environ[failpoints.VARIABLE] = point
                failpoints.PASSED.clear()
                getattr(functions, function)(**call)
                code = 0
            except BaseException:  # noqa: BLE001  # the parent sees the exit code, the tester the traceback
                traceback.print_exc()
            finally:
                os.write(writer, json.dumps(failpoints.PASSED).encode())
                os._exit(code)
        os.close(writer)
        with os.fdopen(reader) as stream:
            passed = stream.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(json.dumps([code, json.loads(passed or "[]")]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve(sys.argv[1])
