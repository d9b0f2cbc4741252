"""How many examples a law draws: all in `make test-all` and the soak, a fifth of them elsewhere."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

__all__ = ["EXAMPLES", "law"]

_SHARE = 1 if os.environ.get("MUTATOR_EFFORT") == "full" else 5
EXAMPLES = 100 // _SHARE  # of a test of hypothesis that does not say otherwise


def law(examples: int, **others: Any) -> settings:
    """Let a test of hypothesis draw a number of examples, or a fifth of them."""
    return settings(max_examples=max(examples // _SHARE, 4), **others)
