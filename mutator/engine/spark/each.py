"""Applying a function to many tasks: Spark does it, and for tests a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Each", "in_turn"]

# (tasks, function of a task, its number and its attempt) -> what the function returned, in the order of the tasks
Each = Callable[[Sequence[Any], Callable[[Any, int, int], Any]], list[Any]]


def in_turn(tasks: Sequence[Any], work: Callable[[Any, int, int], Any]) -> list[Any]:
    """Apply a function to tasks, one after the other, in this process."""
    return [work(task, number, 0) for number, task in enumerate(tasks)]
