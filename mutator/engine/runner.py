"""The form of a runner, which carries elements from one plain function to the next: on Spark, or on this machine.

A merge is written once, as steps over elements; every runner gives the same files, byte for byte.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

from mutator.engine.each import Each

Element = tuple[tuple[Any, ...], Any]  # ((group, …), value): the first part is the sort key

# (shared value, number of the task, attempt, elements of the task) -> elements
Work = Callable[[Any, int, int, Iterable[Any]], Iterable[Any]]

Watch = Callable[[int, int], None]  # called with the tasks that are done, and all; an exception of it stops them


def unwatched(done: int, tasks: int) -> None:
    """Do nothing."""


class Shared(Protocol):
    """A value that every task can read."""

    @property
    def value(self) -> Any:
        """The value, in a task or in the driver."""


class Elements(Protocol):
    """Elements in tasks, which are computed when they are collected."""

    def map(self, work: Work, shared: Shared | None = None) -> "Elements":
        """Return the elements that a function makes of those of each task."""

    def grouped(self, count: int) -> "Elements":
        """Return ``((group, …), value)`` with a task for each group, sorted by the first part.

        count: of the groups, which are numbered from 0.
        """

    def reading(self, bytes_: int | None) -> "Elements":
        """Return the same elements, for steps that read about so many bytes: few need no other processes.

        bytes_: None if they are unknown, and may be many.
        """

    def kept(self) -> "AbstractContextManager[Elements]":
        """Keep the elements on disk for the time of the ``with`` block, so that they are computed once."""

    def collect(self) -> list[Any]:
        """Compute the elements; return them in the order of their tasks. Raises the errors of the catalogue."""


class Runner(Protocol):
    """Carries out steps over elements, in tasks."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at the same time, at least 1."""

    def tasks(self, tasks: Sequence[Any]) -> Elements:
        """Return elements with a task for each, which has it as its only element."""

    def shared(self, value: Any) -> AbstractContextManager[Shared]:
        """Let tasks read a value for the time of the ``with`` block."""


def each_on(runner: Runner) -> Each:
    """Return a function that applies another to tasks, their numbers and attempts, and returns the results in order."""

    def each(tasks: Sequence[Any], work: Callable[[Any, int, int], Any]) -> list[Any]:
        return runner.tasks(tasks).map(partial(_each, work)).collect() if tasks else []

    return each


def _each(work: Callable[[Any, int, int], Any], _: None, number: int, attempt: int, tasks: Iterable[Any]) -> list[Any]:
    return [work(task, number, attempt) for task in tasks]
