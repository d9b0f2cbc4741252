"""The workers of a runner on this machine: processes that end with their parent, or threads of this process.

Threads run the tasks of merges that are over before other processes would have started.

numpy and Arrow let other threads run meanwhile: on two cores, two threads take three quarters of the time of one."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self

from mutator.engine.each import checked, guarded
from mutator.engine.local.fork_server import (
    context,
    ensure_fork_server,
    own_environment,
    set_environment,
    submitting,
)
from mutator.engine.runner import Watch, unwatched
from mutator.engine.scratch import remove_abandoned, scratch_directory
from mutator.engine.usable_cores import usable_cores
from mutator.errors import MutatorError, error
from mutator.plan.runner_choice import processes_for, threads_for
from mutator.storage import progress

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

_INTERVAL = 0.2  # seconds between two calls of a watch, at most


class Threads:
    """A bounded number of threads."""

    def __init__(self, count: int) -> None:
        self.count = count

    def run(self, tasks: Sequence[Callable[[], Any]], watch: Watch = unwatched) -> list[Any]:
        """Run tasks, at most as many at a time as there are threads; return their results in order.

        Raises the first error among the tasks, and errors of ``watch``, once no task runs any more.
        """
        pool = ThreadPoolExecutor(self.count)
        try:
            return gathered([pool.submit(task) for task in tasks], watch)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def gathered(futures: Sequence[Future[Any]], watch: Watch) -> list[Any]:
    """Return the results of tasks in order.

    Raises the first error among them, and errors of ``watch``; then no task begins any more, and none runs.
    """
    try:
        left: Iterable[Future[Any]] = futures
        while left:
            done, left = wait(left, _INTERVAL, FIRST_COMPLETED)
            watch(len(futures) - len(left), len(futures))
            if any(map(_has_failed, done)):
                break
    except Exception:
        _end(futures)
        raise
    _end(futures)
    return [future.result() for future in futures if not future.cancelled()]


def _has_failed(future: Future[Any]) -> bool:
    return future.exception() is not None or isinstance(future.result(), MutatorError)


def _end(futures: Sequence[Future[Any]]) -> None:
    """Let no task begin, and wait for those that run."""
    wait([future for future in futures if not future.cancel()])


class Workers(Protocol):
    """Run tasks, a bounded number at the same time."""

    @property
    def count(self) -> int:
        """How many tasks run at the same time."""

    def run(self, tasks: Sequence[Callable[[], Any]], watch: Watch) -> list[Any]:
        """Run tasks; return their results in order. Raises the first error among them, and those of ``watch``."""


def workers_for(bytes_: int, processes: Workers) -> Workers | None:
    """Return the workers of a stage that reads some bytes; None for the thread that asks.

    processes: of the whole merge, which nobody else uses. They run the stage if it reads more than threads would soon
    be done with.
    """
    if processes_for(bytes_, processes.count) > 1:
        return processes
    threads = threads_for(bytes_, usable_cores())
    if threads == 1:
        return None

    return Threads(threads)


@contextmanager
def workers_of(processes: int, threads: int = 1) -> Iterator[Workers | None]:
    """Yield a number of processes, which start when they are needed; for one, threads of this process.

    None where both are one.
    """
    # Each module loads a part of the standard library that the other cases need not.
    if processes > 1:
        with Processes(processes) as pool:
            yield pool
    elif threads > 1:
        yield Threads(threads)
    else:
        yield None


class Processes:
    """A bounded number of processes, which start when they are needed."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ProcessPoolExecutor | None = None
        self._counts = ExitStack()  # of the directory into which they count what they read
        self._directory: str | None = None

    def __enter__(self) -> Self:
        return self

    def run(self, tasks: Sequence[Callable[[], Any]], watch: Watch = unwatched) -> list[Any]:
        """Run tasks, at most as many at a time as there are processes; return their results in order.

        Threads may call this at the same time. Raises the first MutatorError among the tasks; StorageError where a
        process was killed; and errors of ``watch``, once no task runs any more.
        """
        from concurrent.futures.process import BrokenProcessPool

        try:
            return checked(gathered(self._submit(tasks), watch))
        except BrokenProcessPool:
            raise error("worker.killed") from None

    def _submit(self, tasks: Sequence[Callable[[], Any]]) -> list[Future[Any]]:
        with submitting():
            if self._pool is None or self._pool._broken:  # another table's worker was killed
                ensure_fork_server()
                self._pool = _pool_of(self.count, self._counted())
            try:
                return [self._pool.submit(_result, pickle.dumps(task, 5)) for task in tasks]
            except (EOFError, ConnectionError):  # the process that workers are forked from was killed
                self.kill()
                self._pool = None
                raise error("worker.killed") from None

    def _counted(self) -> str | None:
        """Return the directory into which the processes count, if anybody looks."""
        if self._directory is None and progress.is_shown():
            self._directory = scratch_directory(self._counts)
            self._counts.enter_context(progress.followed(partial(progress.counted_in, self._directory)))
        return self._directory

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.kill()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._counts.close()
        remove_abandoned()  # the directories of killed processes

    def kill(self) -> None:
        """Kill the processes, whose tasks are of no use any more."""
        processes = None if self._pool is None else self._pool._processes
        for process in list((processes or {}).values()):
            with suppress(OSError, AttributeError):
                process.kill()


def _pool_of(count: int, directory: str | None) -> ProcessPoolExecutor:
    from concurrent.futures import ProcessPoolExecutor

    return ProcessPoolExecutor(count, context(), _begin, (directory, own_environment()))


def _begin(directory: str | None, environment: Mapping[str, str | None]) -> None:
    """Set up a worker: it leaves signals from the terminal to its parent, and ends when that does.

    directory: into which it counts what it reads; None: nobody looks. environment: the variables of its parent that
    the process has others of from which it was forked.
    """
    set_environment(environment)
    if directory is not None:
        progress.count_into(directory)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    import multiprocessing
    from multiprocessing import connection

    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGKILL)  # in the middle of a task: nobody waits for it


def _result(task: bytes) -> Any | MutatorError:
    return guarded(pickle.loads(task))
