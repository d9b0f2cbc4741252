"""How many cases a long test draws: all in `make test-all` and the soak, a fifth of them elsewhere."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

_SHARE = 1 if os.environ.get("MUTATOR_EFFORT") == "full" else 5


def share(cases: int) -> int:
    """Return the number of cases, or a fifth of it."""
    return max(cases // _SHARE, 2)


EXAMPLES = share(100)  # of a test of hypothesis that does not say otherwise


def law(examples: int, **others: Any) -> settings:
    """Let a test of hypothesis draw a number of examples, or a fifth of them."""
    return settings(max_examples=share(examples), **others)
