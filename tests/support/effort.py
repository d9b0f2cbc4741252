"""The number of cases that a long test draws: all with ``MUTATOR_EFFORT=full``, else the share of the tier."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

EFFORT = os.environ.get("MUTATOR_EFFORT", "test")
_SHARE = {"full": 1, "soak": 3, "rest": 6, "test": 10}[EFFORT]


def share(cases: int) -> int:
    """Return the number of cases to draw: all of them, or the share of this tier."""
    return max(cases // _SHARE, 2)


def stride(step: int) -> int:
    """Return the distance between two calls that get a fault: the whole one in `make test`, less in longer tiers."""
    return max(step // {"full": step, "soak": 3, "rest": 2, "test": 1}[EFFORT], 1)


def law(examples: int, **others: Any) -> settings:
    """Return hypothesis settings for a number of examples, or for the share of this tier."""
    return settings(max_examples=max(examples // {"full": 1, "soak": 4, "rest": 12, "test": 30}[EFFORT], 2), **others)


EXAMPLES = law(100).max_examples  # of the laws that do not set a number
