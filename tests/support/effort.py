"""The number of cases that a long test draws: all in the soak, a sixth in `make test-rest`, a tenth in `make test`."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

EFFORT = os.environ.get("MUTATOR_EFFORT", "tenth")
_SHARE = {"full": 1, "sixth": 6, "tenth": 10}[EFFORT]


def share(cases: int) -> int:
    """Return the number of cases to draw: all of them, or the share of this tier."""
    return max(cases // _SHARE, 2)


def stride(step: int) -> int:
    """Return the distance between two calls that get a fault: that of `make test`, half in the rest, 1 in the soak."""
    return {"full": 1, "sixth": max(step // 2, 1), "tenth": step}[EFFORT]


EXAMPLES = share(100)  # for hypothesis tests that do not set a number


def law(examples: int, **others: Any) -> settings:
    """Return hypothesis settings for a number of examples, or for the share of this tier."""
    return settings(max_examples=share(examples), **others)
