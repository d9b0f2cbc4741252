"""The number of cases that a long test draws: all in `make test-all` and the soak, a tenth of them elsewhere."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

_SHARE = 1 if os.environ.get("MUTATOR_EFFORT") == "full" else 10


def share(cases: int) -> int:
    """Return the number of cases to draw: all of them, or a tenth."""
    return max(cases // _SHARE, 2)


EXAMPLES = share(100)  # for hypothesis tests that do not set a number


def law(examples: int, **others: Any) -> settings:
    """Return hypothesis settings for a number of examples, or for a tenth of it."""
    return settings(max_examples=share(examples), **others)
