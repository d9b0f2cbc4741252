"""The distance between two calls or points that get a fault, in each tier."""

from tests.support.effort import share


def every(test: int, rest: int) -> int:
    """Return the distance in `make test`, the one in `make test-rest`, half of that in the soak, or 1 in full."""
    return {3: test, 5: rest, 10: max(rest // 2, 1), 30: 1}[share(30)]
