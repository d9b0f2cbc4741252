"""The cases of a test that each tier runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any


def chosen(cases: Sequence[Any], keep: int | str) -> list[Any]:
    """Return some cases of a test: a number, in which values are balanced, or those whose ID contains a word."""
    if isinstance(keep, str):
        return [item for item in cases if keep in item.name]
    return [*cases[: min(keep, 1)], *balanced(cases[1:], cases[:1], keep - 1)]


def balanced(cases: Sequence[Any], kept: Sequence[Any], number: int) -> list[Any]:
    """Return a number of cases that, with those that are kept, have each value of each parameter about as often."""
    seen, left, found = Counter(value for item in kept for value in _values(item)), list(cases), list[Any]()
    while left and len(found) < number:
        counts = [[seen[value] for value in _values(item)] for item in left]
        found.append(left.pop(min(range(len(left)), key=lambda index: (-counts[index].count(0), sum(counts[index])))))
        seen.update(_values(found[-1]))
    return found


def pairwise(cases: Sequence[Any], kept: Sequence[Any]) -> list[Any]:
    """Return cases that, with those that are kept, have each pair of values of two parameters, and each value.

    Of cases without parameters, one is returned if none is kept.
    """
    seen = {pair for item in kept for pair in _pairs(item)}
    left, found = [(item, _pairs(item)) for item in cases], list[Any]()
    while left:
        left = [(item, new) for item, pairs in left if (new := pairs - seen)]
        if left:
            item, pairs = max(left, key=lambda one: len(one[1]))
            found.append(item)
            seen |= pairs
    return found


def _pairs(item: Any) -> set[Any]:
    values = _values(item)
    return {frozenset[Any](), *map(frozenset, combinations_with_replacement(values, 2))}


def _values(item: Any) -> list[tuple[str, int]]:
    """Return (parameter, identity of its value) of a case: a value need not be hashable."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    return [(name, id(value)) for name, value in params.items()]
