"""Apply a function to many tasks, and carry errors from a task to the driver as data.

An exception that is raised in an executor loses its class on the way.
"""

from collections.abc import Callable, Sequence
from typing import Any

from mutator.errors import MutatorError

# (tasks, function of a task, its number and its attempt) -> the function's results, in the order of the tasks
Each = Callable[[Sequence[Any], Callable[[Any, int, int], Any]], list[Any]]


def in_turn(tasks: Sequence[Any], work: Callable[[Any, int, int], Any]) -> list[Any]:
    """Apply a function to one task after the other, without Spark."""
    return [work(task, number, 0) for number, task in enumerate(tasks)]


def guarded(work: Callable[..., Any], *arguments: Any) -> Any:
    """Return a function's result, or the MutatorError that it raises."""
    try:
        return work(*arguments)
    except MutatorError as fault:
        return fault


def checked(results: Sequence[Any]) -> list[Any]:
    """Return the results of tasks; raises the first MutatorError among them."""
    for result in results:
        if isinstance(result, MutatorError):
            raise result
    return list(results)
