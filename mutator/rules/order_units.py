"""Count order values that are times since 1970, by unit: seconds and milliseconds cannot be compared."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow.compute as pc

from mutator.rules import future_orders
from mutator.rules.epoch_units import RANGES, epoch_unit
from mutator.rules.future_orders import Future, future_of_values
from mutator.rules.order_columns import to_column, to_value

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
                self.future = future_orders.joined([self.future, later])
            self._units = joined([self._units, _units_of_values(self._waiting)])
            self._waiting.clear()
        return self._units


def _units_of_values(values: list[Any]) -> Units:
    """Return the units of order values of one type; sorts them."""
    if not isinstance(values[0], int | Decimal):
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

    Numbers are no times if more than a few of them are neither such times nor small.

    >>> several_units({"seconds": (1, 1425931207), "milliseconds": (1, 1425931207000), "small": (9, 0)})
    ['seconds', 'milliseconds']
    >>> several_units({"seconds": (1, 1425931207), "milliseconds": (1, 1425931207000), "other": (9, 10**10)})
    []
    """
    found = [unit for unit in RANGES if unit in units]
    times = sum(units[unit][0] for unit in found)
    others = units.get(OTHER, (0, None))[0]
    return found if len(found) > 1 and others <= _OTHERS * times else []
