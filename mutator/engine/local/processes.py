"""Worker processes of this machine, which run tasks and end with their parent."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import connection
from types import ModuleType
from typing import Any, Self

from mutator.engine.each import TaskError, checked, guarded
from mutator.errors import error

_PRELOADED = ("mutator.engine.preload",)
_starting = threading.Lock()


class Workers:
    """A bounded number of processes, which start when they are needed."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        # A process that is forked from one without threads: Arrow, and the clients of S3 and HDFS, have threads.
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(_PRELOADED))
        return self

    def run(self, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        """Run tasks, at most as many at a time as there are processes; return their results in order.

        Raises the first MutatorError among them; StorageError where a process was killed.
        """
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self._processes, self._context, _begin)
        with _without_main():
            futures = [self._pool.submit(_result, pickle.dumps(task, 5)) for task in tasks]
        try:
            return checked([future.result() for future in futures])
        except BrokenProcessPool:
            raise error("worker.killed") from None
        finally:
            for future in futures:
                future.cancel()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._pool is None:
            return
        running = list((self._pool._processes or {}).values())
        if kind is not None:
            for process in running:
                with suppress(OSError, AttributeError):
                    process.kill()  # its task is of no use any more
        self._pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _without_main() -> Iterator[None]:
    """Hide the program from ``multiprocessing``, which would run it again in each process that it starts."""
    with _starting:
        program = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = program


def _begin() -> None:
    """Set up a worker: it leaves signals from the terminal to its parent, and ends when that does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGKILL)  # in the middle of a task: nobody waits for it


def _result(task: bytes) -> Any | TaskError:
    return guarded(pickle.loads(task))
