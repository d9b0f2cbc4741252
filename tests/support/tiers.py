"""The cases of a test that each tier runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any


def chosen(cases: Sequence[Any], keep: int | str) -> list[Any]:
    """Return some cases of a test: a number, evenly spread, or those whose ID contains a word."""
    if isinstance(keep, str):
        return [item for item in cases if keep in item.name]
    return [cases[number * len(cases) // keep] for number in range(min(keep, len(cases)))]


def balanced(cases: Sequence[Any], kept: Sequence[Any], number: int) -> list[Any]:
    """Return a number of cases that, with those that are kept, have each value of each parameter about as often."""
    seen, left, found = Counter(value for item in kept for value in _values(item)), list(cases), list[Any]()
    while left and len(found) < number:
        counts = [[seen[value] for value in _values(item)] for item in left]
        found.append(left.pop(min(range(len(left)), key=lambda index: (-counts[index].count(0), sum(counts[index])))))
        seen.update(_values(found[-1]))
    return found


def _values(item: Any) -> list[tuple[str, int]]:
    """Return (parameter, identity of its value) of a case: a value need not be hashable."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    return [(name, id(value)) for name, value in params.items()]
