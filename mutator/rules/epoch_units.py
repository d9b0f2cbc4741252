"""Numbers that may be times since 1970, and their units."""

from decimal import Decimal

_LEAST, _MOST = 3 * 10**8, 42 * 10**8  # seconds from 1979 to 2103
# Unit -> the lowest number that is such a time, and the first one that is too high.
RANGES = {
    unit: (_LEAST * factor, _MOST * factor)
    for unit, factor in {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}.items()
}


def epoch_unit(number: int | Decimal) -> str | None:
    """Return the unit in which a number is a time since 1970, between 1979 and 2103; None if it is no such time.

    >>> epoch_unit(1425931207), epoch_unit(1425931207000), epoch_unit(12)
    ('seconds', 'milliseconds', None)
    """
    return next((unit for unit, (start, end) in RANGES.items() if start <= number < end), None)
