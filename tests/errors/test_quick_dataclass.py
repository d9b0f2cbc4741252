"""Dataclasses that are quick to make are as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

import pytest

from mutator.errors import quick_dataclass


def classes_of(decorator: Callable[..., Any], options: Mapping[str, bool]) -> tuple[Any, ...]:
    """Return a class, one that inherits from it, one with methods of its own, and ones without fields and with one."""

    @decorator(**options)
    class Point:
        x: int
        label: str = field(default="", compare=False)
        known: dict[str, int] = field(default_factory=dict, hash=False)
        secret: int = field(default=1, repr=False)

    @decorator(**options)
    class Place(Point):
        z: int = 0

    @decorator(**options)
    class Own:
        x: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

        def __hash__(self) -> int:
            return 7

    @decorator(**options)
    class Empty:
        pass

    @decorator(**options)
    class Single:
        x: Any

    return Point, Place, Own, Empty, Single


def seen(one: Any, others: list[Any]) -> Any:
    """Return what users see of an instance."""
    try:
        is_hashed = len({one, type(one)(**vars(one))})
    except TypeError as fault:
        is_hashed = str(fault)
    found, refused = [repr(one), [one == other for other in others], is_hashed, repr(dataclasses.asdict(one))], 0
    for change in (lambda of: setattr(of, "x", 5), lambda of: setattr(of, "new", 5), lambda of: delattr(of, "x")):
        try:
            change(copy.copy(one))
        except AttributeError:
            refused += 1
    return [*found, refused]


@pytest.mark.parametrize("options", [{}, {"frozen": True}, {"frozen": True, "eq": False}, {"eq": False}])
def test_they_are_as_those_of_the_standard_library(options: dict[str, bool]) -> None:
    found = []
    for decorator in (dataclasses.dataclass, quick_dataclass.dataclass):
        point, place, own, empty, single = classes_of(decorator, options)
        worlds = [point(1), point(1, "b"), point(1, known={"a": 1}), point(2), place(1), place(1, z=3), own(1), own(2)]
        nan = float("nan")
        worlds += [empty(), single(1), single(nan), single((1,)), dataclasses.replace(point(1), secret=2)]
        found.append([seen(one, worlds) for one in worlds])
    assert found[0] == found[1]


@quick_dataclass.dataclass(frozen=True)
class Sent:
    """A class that another process knows."""

    rows: int


def test_they_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(Sent(3))) == Sent(3)
