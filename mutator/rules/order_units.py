"""Order values that are times: their units, which cannot be compared with each other, and those in the future.

A mutation with an order value in the future wins against all that follow, for as long as it lies ahead.

>>> import pyarrow as pa
>>> future_of("long", pa.array([1795860000, 1795860001, 7452000000]), 1795860000_000)
(1, 7452000000)
>>> future_of("timestamp", to_column("timestamp", [parse_timestamp(b"2206-02-01")]), 1795860000_000) is None
False
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow.compute as pc

from mutator.rules.order_columns import to_column, to_value
from mutator.rules.timestamps import date_of, parse_timestamp

Future = tuple[int, Any]  # the number of order values in the future, and the lowest of them

_LEAST, _MOST = 3 * 10**8, 42 * 10**8  # seconds from 1979 to 2103
# Unit -> the lowest number that is such a time, and the first one that is too high.
RANGES = {
    unit: (_LEAST * factor, _MOST * factor)
    for unit, factor in {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}.items()
}
_DAY = 86_400
_MARGIN = _DAY  # seconds: zones and clocks differ
_ISO_DATE = re.compile(rb"(?:19|20|21|22|99)\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])(?![0-9])")
_DATE_NUMBER = re.compile(r"(?:(?:19|20|21|22)\d\d|9999)\d{4}(?:\d{4}|\d{6})?")
_ABOVE_DATES = 10**14
_SMALL = 300_000  # numbers below it, such as 0 and -1, may be in place of times
_OTHERS = 0.01  # the most numbers of another size among times
SMALL, OTHER = "small", "other"
_WAITING = 4096  # values that are counted together

# The lowest number of each unit, and of the gaps between them.
_STEPS: tuple[tuple[str, Any], ...] = (
    (SMALL, None),
    (OTHER, _SMALL),
    *(step for unit, (start, end) in RANGES.items() for step in ((unit, start), (OTHER, end))),
    ("", None),
)

# Unit, SMALL or OTHER -> the number of order values in it, and the lowest of them; of SMALL and OTHER, any value.
Units = Mapping[str, tuple[int, Any]]
NO_UNITS: Units = {}


def epoch_unit(number: int | Decimal) -> str | None:
    """Return the unit in which a number is a time since 1970, between 1979 and 2103; None if it is not.

    >>> epoch_unit(1425931207), epoch_unit(1425931207000), epoch_unit(12)
    ('seconds', 'milliseconds', None)
    """
    return next((unit for unit, (start, end) in RANGES.items() if start <= number < end), None)


def date_digits(number: int | Decimal) -> int | None:
    """Return how many digits a number has, if they are those of a date, the year first, with a time or without one.

    >>> date_digits(20260131), date_digits(202601312359), date_digits(20261331)
    (8, 12, None)
    """
    text = str(number) if 0 < number < _ABOVE_DATES else ""
    if _DATE_NUMBER.fullmatch(text) is None:
        return None
    try:
        parse_timestamp(f"{text[:8]}T{text[8:]}".rstrip("T").encode())
    except ValueError:
        return None
    return len(text)


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
    if digits := date_digits(low):
        return type(low)(int(f"{date_of(seconds // _DAY):%Y%m%d}".ljust(digits, "9")))
    return None


def joined_futures(parts: Sequence[Future | None]) -> Future | None:
    """Return the sum of counts, and the lowest value.

    >>> joined_futures([None, (1, 7), (2, 5)])
    (3, 5)
    """
    found = [part for part in parts if part is not None]
    return (sum(count for count, _ in found), min(lowest for _, lowest in found)) if found else None


def units_of(order_type: str, column: Any) -> Units:
    """Return the units of a column of order values, a pa.Array; none for a type without numbers.

    Most columns have one unit: then only the lowest and the highest value are compared.

    >>> import pyarrow as pa
    >>> units_of("long", pa.array([1425931207, 0, 1425931207000]))
    {'small': (1, 0), 'seconds': (1, 1425931207), 'milliseconds': (1, 1425931207000)}
    """
    if order_type not in ("long", "decimal") or not len(column):
        return {}
    low, high = (to_value(order_type, bound.as_py()) for bound in pc.min_max(column).values())
    unit = _unit(low)
    if unit == _unit(high) != OTHER:
        return {unit: (len(column), low)}
    found: dict[str, tuple[int, Any]] = {}
    counted = 0
    for (name, start), (_, end) in pairwise(_STEPS):
        if end is None or end > high:
            below = len(column)
        else:
            below = 0 if end <= low else pc.less(column, _scalar(order_type, end)).true_count
        if below > counted:
            lowest = low
            if name in RANGES and start > low:
                times = column.filter(pc.greater_equal(column, _scalar(order_type, start)))
                lowest = to_value(order_type, pc.min(times).as_py())
            found[name] = (below - counted + found.get(name, (0, None))[0], lowest)
        counted = below
    return found


def _scalar(order_type: str, number: int) -> Any:
    return to_column(order_type, [number if order_type == "long" else Decimal(number)])[0]


class UnitCounter:
    """Count the units of the order values that arrive one at a time.

    >>> counter = UnitCounter()
    >>> for order in (1425931207, -1, 1425931207000): counter.add(order)
    >>> counter.units()
    {'small': (1, -1), 'seconds': (1, 1425931207), 'milliseconds': (1, 1425931207000)}
    """

    def __init__(self, now: int | None = None, most: Any = None) -> None:
        """now: milliseconds since 1970, to count order values in the future. most: as for ``future_of_values``."""
        self._now, self._most = now, most
        self.future: Future | None = None  # once the units are asked for
        self._units = NO_UNITS
        self._waiting: list[Any] = []

    def add(self, order: Any) -> None:
        """Count an order value."""
        self._waiting.append(order)
        if len(self._waiting) == _WAITING:
            self.units()

    def units(self) -> Units:
        """Return the units of all values so far; none for a type without numbers."""
        if self._waiting:
            if self._now is not None:
                later = future_of_values(self._waiting, self._now, self._most)
                self.future = joined_futures([self.future, later])
            self._units = joined([self._units, units_of_values(self._waiting)])
            self._waiting.clear()
        return self._units


def units_of_values(values: list[Any]) -> Units:
    """Return the units of order values of one type; sorts them."""
    if not values or not isinstance(values[0], int | Decimal):
        return NO_UNITS
    low = min(values)
    if _unit(low) == _unit(max(values)) != OTHER:
        return {_unit(low): (len(values), low)}
    values.sort()
    found: dict[str, tuple[int, Any]] = {}
    begin = 0
    for (name, _), (_, end) in pairwise(_STEPS):
        stop = len(values) if end is None else bisect_left(values, end)
        if stop > begin:
            count, lowest = found.get(name, (0, values[begin]))
            found[name] = (count + stop - begin, lowest)
        begin = stop
    return found


def _unit(number: int | Decimal) -> str:
    return SMALL if number < _SMALL else epoch_unit(number) or OTHER


def joined(parts: Iterable[Units]) -> dict[str, tuple[int, Any]]:
    """Return the sums of the counts, and the lowest values.

    >>> joined([{"seconds": (2, 1425931207)}, {"seconds": (1, 1425931200), "small": (1, 0)}])
    {'seconds': (3, 1425931200), 'small': (1, 0)}
    """
    found: dict[str, tuple[int, Any]] = {}
    for part in parts:
        for unit, (count, lowest) in part.items():
            known = found.get(unit, (0, lowest))
            found[unit] = (known[0] + count, min(known[1], lowest))
    return found


def several_units(units: Units) -> list[str]:
    """Return the units of times since 1970, if there are several, the shortest last.

    Numbers are not times if more than a few of them are neither such times nor small.

    >>> several_units({"seconds": (1, 1425931207), "milliseconds": (1, 1425931207000), "small": (9, 0)})
    ['seconds', 'milliseconds']
    >>> several_units({"seconds": (1, 1425931207), "milliseconds": (1, 1425931207000), "other": (9, 10**10)})
    []
    """
    found = [unit for unit in RANGES if unit in units]
    times = sum(units[unit][0] for unit in found)
    others = units.get(OTHER, (0, None))[0]
    return found if len(found) > 1 and others <= _OTHERS * times else []
