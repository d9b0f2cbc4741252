"""The distance between two calls or points that get a fault, in each tier."""

from tests.support.effort import share


def every(test: int, rest: int) -> int:
    """Return the distance in `make test`, the one in `make test-rest`, or 1: the soak takes all."""
    return {3: test, 5: rest, 30: 1}[share(30)]
