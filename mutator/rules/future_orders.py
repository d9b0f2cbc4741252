"""Order values in the future: a mutation with one wins against all that follow, for as long as it lies ahead.

>>> import pyarrow as pa
>>> future_of("long", pa.array([1795860000, 1795860001, 7452000000]), 1795860000_000)
(1, 7452000000)
>>> future_of("timestamp", to_column("timestamp", [parse_timestamp(b"2206-02-01")]), 1795860000_000) is None
False
"""

import re
from collections.abc import Sequence
from typing import Any

import pyarrow.compute as pc

from mutator.rules.epoch_units import RANGES, epoch_unit
from mutator.rules.order_columns import to_column, to_value
from mutator.rules.timestamps import date_of, parse_timestamp

Future = tuple[int, Any]  # the number of order values in the future, and the lowest of them

_DAY = 86_400
_MARGIN = _DAY  # seconds: zones and clocks differ
_ISO_DATE = re.compile(rb"(?:19|20|21|22|99)\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])(?![0-9])")
_DIGITS = (8, 12, 14)  # of dates and times that are written as numbers


def future_of(order_type: str, column: Any, now: int, most: Any = None) -> Future | None:
    """Return how many order values of a column, a pa.Array, lie in the future, and the lowest; None if none does.

    Numbers count in the unit of the lowest one: seconds since 1970 or a finer unit, or digits of dates. now:
    milliseconds since 1970. most: the highest order value that is allowed, which replaces the present.
    """
    if not len(column):
        return None
    low, high = (to_value(order_type, bound.as_py()) for bound in pc.min_max(column).values())
    bound = _bound(low, now) if most is None else most
    if bound is None or high <= bound:
        return None
    later = column.filter(pc.greater(column, to_column(order_type, [bound])[0]))
    return len(later), to_value(order_type, pc.min(later).as_py())


def future_of_values(values: Sequence[Any], now: int, most: Any = None) -> Future | None:
    """Do the same for Python values.

    >>> future_of_values([1795860000, 7452000000], 1795860000_000)
    (1, 7452000000)
    """
    bound = most
    if most is None and values:
        bound = _bound(min(values), now)
    later = [value for value in values if value > bound] if bound is not None else []
    return (len(later), min(later)) if later else None


def _bound(low: Any, now: int) -> Any:
    """Return the order value that is the end of the present, of the type and unit of another; None without a unit."""
    seconds = now // 1000 + _MARGIN
    if isinstance(low, tuple):
        return seconds, b""
    if isinstance(low, bytes):  # text; a day and all of its times are before its "~"
        return f"{date_of(seconds // _DAY):%Y-%m-%d}~".encode() if _ISO_DATE.match(low) else None
    unit = epoch_unit(low)
    if unit is not None:
        factor = RANGES[unit][0] // RANGES["seconds"][0]
        return type(low)(seconds * factor)
    digits = str(low)
    if len(digits) in _DIGITS and digits.isdigit() and _is_date(digits):
        return type(low)(int(f"{date_of(seconds // _DAY):%Y%m%d}".ljust(len(digits), "9")))
    return None


def _is_date(digits: str) -> bool:
    try:
        parse_timestamp(f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}".encode())
    except ValueError:
        return False
    return digits[:2] in ("19", "20", "21", "22") or digits.startswith("9999")


def joined(parts: Sequence[Future | None]) -> Future | None:
    """Return the sum of counts, and the lowest value.

    >>> joined([None, (1, 7), (2, 5)])
    (3, 5)
    """
    found = [part for part in parts if part is not None]
    return (sum(count for count, _ in found), min(lowest for _, lowest in found)) if found else None
