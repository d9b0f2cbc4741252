"""The runner on this machine, without Spark: the same steps, with files of sorted runs for a shuffle.

A stage is a part of the steps that needs no shuffle. Its tasks run one after the other, or in a few threads or
processes (``workers``). What they yield is collected, kept in a file, or written as sorted runs, which the
tasks of the next stage merge.
"""

from __future__ import annotations

import os
import pickle
import resource
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, BinaryIO

from mutator.engine.local.processes import Workers
from mutator.engine.runner import Shared, Watch, Work, unwatched
from mutator.engine.scratch import remove_abandoned, scratch_directory, scratch_error
from mutator.engine.sorted_runs import SortedRun, merged, size_of, write_run
from mutator.errors import error
from mutator.errors.quick_dataclass import dataclass

Input = Callable[[], Iterable[Any]]  # returns the elements of a task
Choice = Callable[[int, Workers], Workers | None]  # of the workers of a stage, by the bytes that it reads
_Step = tuple[Work, Shared | None]
_FILES = 1 << 16  # that a process should be able to open
_WAITING = 32 << 20  # bytes of elements that a task has in memory before it writes them as sorted runs


class _Shared:
    """A value; a worker process reads it from a file, once."""

    def __init__(self, value: Any, path: str) -> None:
        self.value, self._path = value, path

    def __reduce__(self) -> tuple[Any, ...]:
        if not os.path.exists(self._path):
            with open(self._path, "xb") as stream:
                pickle.dump(self.value, stream, 5)
        return _loaded, (self._path,)


_values: dict[str, _Shared] = {}  # of a worker process, by path


def _loaded(path: str) -> _Shared:
    """Return the value of a file, which is read once; forget those of merges that have ended."""
    if path not in _values:
        for other in [other for other in _values if not os.path.exists(other)]:
            del _values[other]
        with open(path, "rb") as stream:
            _values[path] = _Shared(pickle.load(stream), path)
    return _values[path]


class LocalRunner:
    """Carries out steps on this machine; make one with ``local_runner``."""

    def __init__(
        self,
        directory: str,
        workers: Workers | None,
        parallelism: int,
        attempt: int,
        watch: Watch = unwatched,
        choice: Choice | None = None,
    ) -> None:
        self.parallelism = parallelism
        self._directory, self._workers, self._attempt, self._watch = directory, workers, attempt, watch
        self._choice = choice
        self._files = 0

    def tasks(self, tasks: Sequence[Any]) -> LocalElements:
        """Return elements with a task for each, which has it as its only element."""
        return LocalElements(self, tuple(partial(_only, task) for task in tasks))

    @contextmanager
    def shared(self, value: Any) -> Iterator[_Shared]:
        """Let tasks read a value for the time of the ``with`` block."""
        yield _Shared(value, self.new_file())

    def new_file(self) -> str:
        """Return the path of a file that does not exist yet."""
        self._files += 1
        return os.path.join(self._directory, str(self._files))

    def _workers_for(self, bytes_: int | None) -> Workers | None:
        if self._workers is None or self._choice is None or bytes_ is None:
            return self._workers
        return self._choice(bytes_, self._workers)

    def run(self, stage: LocalElements, end: Callable[[str, Iterator[Any]], Any]) -> list[Any]:
        """Run the tasks of a stage; return the results of a function of a new path and the elements of each."""
        tasks = self.tasks_of(stage, end)
        try:
            workers = self._workers_for(stage.bytes)
            if workers is not None and len(tasks) > 1:
                return workers.run(tasks, self._watch)
            return self._run_in_turn(tasks)
        except (OSError, EOFError) as fault:  # of temporary files: storages have errors of their own
            raise scratch_error(self._directory, fault) from None
        except MemoryError as fault:
            raise error("memory", why=fault) from None

    def _run_in_turn(self, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        results: list[Any] = []
        for task in tasks:
            self._watch(len(results), len(tasks))
            results.append(task())
        self._watch(len(results), len(tasks))
        return results

    def tasks_of(self, stage: LocalElements, end: Callable[[str, Iterator[Any]], Any]) -> list[Callable[[], Any]]:
        """Return a function for each task of a stage, which can run anywhere on this machine."""
        return [
            partial(_run, number, self._attempt, each, stage.steps, partial(end, self.new_file()))
            for number, each in enumerate(stage.inputs)
        ]


@contextmanager
def local_runner(
    workers: Workers | None = None,
    *,
    parallelism: int | None = None,
    attempt: int = 0,
    watch: Watch = unwatched,
    choice: Choice | None = None,
) -> Iterator[LocalRunner]:
    """Yield a runner on this machine.

    workers: run the tasks; None for this thread alone. parallelism: that the steps see, if another. attempt: of the
    task whose steps these are. watch: called while tasks run; an exception of it stops them. choice: returns the
    workers of a stage; None if ``workers`` run all of them, because they have started, or several merges share them.
    """
    with ExitStack() as stack:
        directory = scratch_directory(stack)
        count = 1 if workers is None else workers.count
        yield LocalRunner(directory, workers, parallelism or count, attempt, watch, choice)


def prepare_machine() -> None:
    """Remove the files of killed processes, and allow many open files; once a command is enough.

    A task reads a file of each task before it. The limit is raised as far as the system allows, also for workers.
    """
    remove_abandoned()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < enough:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))


@dataclass(frozen=True)
class LocalElements:
    """Elements in tasks, which are computed when they are collected."""

    runner: LocalRunner
    inputs: tuple[Input, ...]
    steps: tuple[_Step, ...] = ()
    bytes: int | None = None  # that the steps read; None: enough for all workers

    def reading(self, bytes_: int | None) -> LocalElements:
        """Return the same elements, for steps that read about so many bytes: few need no other processes."""
        return replace(self, bytes=bytes_)

    def map(self, work: Work, shared: Shared | None = None) -> LocalElements:
        """Return the elements that a function makes of those of each task."""
        return replace(self, steps=(*self.steps, (work, shared)))

    def grouped(self, count: int) -> LocalElements:
        """Return ``((group, …), value)`` with a task for each group, sorted by the first part."""
        found: list[list[SortedRun]] = [[] for _ in range(count)]
        for runs in self.runner.run(self, _write_groups):
            for group, run in runs:
                found[group].append(run)
        return LocalElements(self.runner, tuple(partial(merged, runs) for runs in found), bytes=self.bytes)

    @contextmanager
    def kept(self) -> Iterator[LocalElements]:
        """Keep the elements on disk for the time of the ``with`` block, so that they are computed once."""
        paths = self.runner.run(self, _keep)
        try:
            yield LocalElements(self.runner, tuple(partial(_kept, path) for path in paths), bytes=self.bytes)
        finally:
            for path in paths:
                os.unlink(path)

    def collect(self) -> list[Any]:
        """Compute the elements; return them in the order of their tasks."""
        return [element for elements in self.runner.run(self, _collect) for element in elements]


def _only(task: Any) -> tuple[Any]:
    return (task,)


def _run(number: int, attempt: int, each: Input, steps: Sequence[_Step], end: Callable[[Iterator[Any]], Any]) -> Any:
    elements: Iterable[Any] = each()
    for work, shared in steps:
        elements = work(None if shared is None else shared.value, number, attempt, elements)
    return end(iter(elements))


def _collect(_: str, elements: Iterator[Any]) -> list[Any]:
    return list(elements)


def _keep(path: str, elements: Iterator[Any]) -> str:
    with open(path, "xb") as stream:
        for element in elements:
            pickle.dump(element, stream, 5)
    return path


def _kept(path: str) -> Iterator[Any]:
    with open(path, "rb") as stream:
        while stream.peek(1):
            yield pickle.load(stream)


def _write_groups(path: str, elements: Iterator[Any]) -> list[tuple[int, SortedRun]]:
    """Write elements as sorted runs, one or several for each group; return the runs with their groups."""
    waiting: dict[int, list[Any]] = {}
    runs: list[tuple[int, SortedRun]] = []
    size = 0
    with open(path, "xb") as stream:
        for element in elements:
            waiting.setdefault(element[0][0], []).append(element)
            size += size_of(element)
            if size > _WAITING:
                runs += _written(stream, waiting)
                size = 0
        runs += _written(stream, waiting)
    return runs


def _written(stream: BinaryIO, waiting: dict[int, list[Any]]) -> list[tuple[int, SortedRun]]:
    runs = []
    for group in sorted(waiting):
        runs.append((group, write_run(stream, waiting.pop(group))))
    return runs
