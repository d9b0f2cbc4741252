"""Carry an error from a task to the driver as data: an exception loses its class on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mutator.errors import MutatorError, rebuilt

__all__ = ["Faulty", "checked", "guarded"]


class Faulty(NamedTuple):
    """A fault on its way from a task to the driver."""

    kind: str
    text: str


def guarded(work: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function; an error of the catalogue comes back as ``Faulty``."""
    try:
        return work(*arguments)
    except MutatorError as fault:
        return Faulty(fault.kind, str(fault))


def checked(found: Sequence[Any]) -> list[Any]:
    """Return what tasks have returned; raises the first fault among it."""
    for one in found:
        if isinstance(one, Faulty):
            raise rebuilt(*one)
    return list(found)
