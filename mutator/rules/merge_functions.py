"""Merge functions: what the mutations of a record make of one field, where that is not the value of the last one.

A field's function replaces its register: a mutation that provides the field *contributes* (order value, value). Any
order, grouping and batching of the mutations gives the same, and one that comes again changes nothing.

- The function shows the contributions above the last delete, and not below the floor: the last, first, least, greatest
  or their sum. NULL is a value to ``last`` and ``first``, no contribution to the others; without any, NULL is shown.
- A contribution is its order value. Of two with one order value the later precedence counts, against the place the
  mutation; ``min`` and ``max`` take both.
- Beside a field are its *entries*, contributions by order value: of ``last`` the highest; of ``min`` and ``max`` those
  that no newer entry equals or beats; of ``first`` and ``sum`` all, because a late delete may remove any of the older
  ones and a late mutation may be one that was counted. NULL means the one entry that the row itself shows.
- Beside a key is *cleared*, the order value of its last delete, if that is above the floor: without it a late mutation
  below it would contribute. A dead key has only this, its tombstone; beside one that waits are also its entries.
- A *seal* of a key bounds its entries: those at or below it become one, with the lowest order value of them. What is
  shown does not change. Then a delete, or the floor, between that order value and the seal cannot be undone and leaves
  the entry as it is; a contribution to a sum at or below the seal is not counted, because it may have been. Both are
  noted *late after the seal*. Where nothing is noted, the value is exact; redelivery never changes it.
- The seal moves by age. A key with several entries of a field gets a *mark*: their highest order value, and the time.
  At a meeting after it has become as old as the retention the seal moves to it, and the next mark is set. So a mutation
  is late after the seal only if one of its key that is not lower by order value was committed that long before, and
  no entry of several is older than twice the retention in a key that is met. Without a retention nothing is sealed.

Counterexamples to simpler rules: entries of ``max`` without the last delete: U1(5) D2 | U3(1) | U1(5) gives 5, not 1;
the greatest value alone: U1(5) U3(1) | D2 gives 5, not 1; ``first`` as one entry: U1(a) U3(b) | D2 gives NULL, not b;
a sum of NULL as 0: a record of NULLs shows 0; rejecting what overflows: MAX | +1 | -1 gives MAX - 1, in one run MAX.

The names of Paimon (https://paimon.apache.org/docs/master/primary-key-table/merge-engine/aggregation/) are aliases, and
Fluss's names of ``last_non_null`` and ``first_non_null``. Theirs do something else with what is not new: a record that
comes again is added again, a delete takes its own value from a sum, shows NULL as the last value, and is no input for
the others.

>>> from mutator.rules.merge_names import merge_function
>>> maximum = merge_function("max")
>>> entries = fold(maximum, [((1,), 5), ((3,), 1), ((4,), None)])
>>> entries, shown(maximum, entries), meet(maximum, entries, NO_BOUNDS, (), delete=2).entries
(((1, 5), (3, 1)), 5, ((3, 1),))
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Context, Decimal
from functools import reduce
from typing import Any, NamedTuple

import pyarrow as pa

from mutator.rules.merge_names import ALL, BEST, DIGITS, NEWEST, MergeFunction, choice_parts

_EXACT = Context(prec=200)


class NotOfType(ValueError):
    """A text is not of the type that its field has for a merge function."""

    def __init__(self, row: int, value: bytes, why: str) -> None:
        """Take the number of the text in its column, and why."""
        super().__init__(row, value, why)
        self.row, self.value, self.why = row, value, why


_ORDERED = (
    *(pa.types.is_boolean, pa.types.is_integer, pa.types.is_decimal, pa.types.is_float32, pa.types.is_float64),
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary),
    *(pa.types.is_fixed_size_binary, pa.types.is_date, pa.types.is_time, pa.types.is_timestamp, pa.types.is_duration),
)


class MergeChoice(NamedTuple):
    """The merge function that a user gives to a field. type: Arrow's, of a field of text; None: its own."""

    function: MergeFunction
    type: Any = None

    @property
    def has_type(self) -> bool:
        """Whether values are made of text."""
        return self.type not in (None, pa.large_binary())

    def widens(self, before: MergeChoice) -> bool:
        """Return whether it differs from another choice only in that a sum may have more digits.

        >>> parse_choice("sum decimal(20)").widens(parse_choice("sum long"))
        True
        """
        if not (self.function == before.function and self.function.adds and self.type and before.type):
            return False
        is_alike = counted_type(self.function, self.type) == counted_type(before.function, before.type)
        return is_alike and limits(self.type)[1] >= limits(before.type)[1]

    @property
    def text(self) -> str:
        """The choice as it is written."""
        named = {pa.int64(): " long", pa.large_binary(): " text", None: ""}
        if self.type in named:
            return self.function.name + named[self.type]
        return f"{self.function.name} decimal({self.type.precision},{self.type.scale})"


def parse_choice(text: str) -> MergeChoice:
    """Read a merge function, and the type that follows it. Raises ValueError.

    >>> parse_choice(" last_value ").text, parse_choice("sum decimal(12, 2)").text
    ('last', 'sum decimal(12,2)')
    """
    function, word, precision, scale = choice_parts(text)
    if precision is None:
        return MergeChoice(function, {"long": pa.int64(), "text": pa.large_binary(), None: None}[word])
    return MergeChoice(function, pa.decimal128(precision, scale))


def refusal(function: MergeFunction, data_type: Any) -> str | None:
    """Return why a function does not take fields of an Arrow type, and the cure; None if it does.

    >>> from mutator.rules.merge_names import merge_function
    >>> refusal(merge_function("max"), pa.date32())
    >>> refusal(merge_function("sum"), pa.float64())
    'sum does not take double: in another order the same values add up to another sum. Make the field a decimal'
    """
    says = f"{function.name} does not take {data_type}"
    if function.adds:
        if pa.types.is_floating(data_type):
            return f"{says}: in another order the same values add up to another sum. Make the field a decimal"
        if not pa.types.is_integer(data_type) and not (
            pa.types.is_decimal(data_type) and data_type.precision <= DIGITS and data_type.scale >= 0
        ):
            return f"{says}, only integers and decimals of up to {DIGITS} digits"
    elif function.keeps == BEST and not any(check(data_type) for check in _ORDERED):
        return f"{says}: its values have no order. Use last or first"
    return None


def counted_type(function: MergeFunction, data_type: Any) -> Any:
    """Return the type of the values in entries: a sum of many values may be longer than each of them.

    >>> from mutator.rules.merge_names import merge_function
    >>> counted_type(merge_function("sum"), pa.int64()), counted_type(merge_function("min"), pa.int64())
    (Decimal128Type(decimal128(38, 0)), DataType(int64))
    """
    if not function.adds:
        return data_type if not _has_nanos(data_type) else pa.int64()  # Python's times have microseconds
    return pa.decimal128(DIGITS, data_type.scale if pa.types.is_decimal(data_type) else 0)


def _has_nanos(data_type: Any) -> bool:
    return getattr(data_type, "unit", None) == "ns"


def entries_type(function: MergeFunction, order_type: Any, data_type: Any) -> Any:
    """Return the Arrow type of the side column of a field. order_type: Arrow's of a column of order values."""
    value = pa.field("value", counted_type(function, data_type))
    return pa.list_(pa.struct([pa.field("order", order_type, nullable=False), value]))


# -- one key at a time

Entry = tuple[Any, Any]  # order value, value
Entries = tuple[Entry, ...]  # by order value


class Bounds(NamedTuple):
    """What bounds the contributions of a key: order values, or None."""

    cleared: Any = None
    seal: Any = None


class MetField(NamedTuple):
    """The entries of a field after a meeting, and what came late after the seal."""

    entries: Entries
    late: Entries = ()  # contributions that are not counted
    spared: bool = False  # the delete or the floor left an entry that it should have cleared in part


NO_BOUNDS = Bounds()


def fold(
    function: MergeFunction, contributions: Iterable[tuple[tuple[Any, ...], Any]], delete: tuple[Any, ...] | None = None
) -> Entries:
    """Return what the contributions of a bag leave: (precedence, value), the order value first.

    delete: the precedence of the highest delete; what is below it contributes nothing.
    """
    found = sorted((one for one in contributions if delete is None or one[0] > delete), key=lambda one: one[0])
    return _kept(function, [(place[0], value) for place, value in found])


def meet(
    function: MergeFunction, old: Entries, bounds: Bounds, new: Entries, delete: Any = None, floor: Any = None
) -> MetField:
    """Add what a fold left to the entries of a place. delete: the order value of the fold's highest delete."""
    cleared, seal = bounds
    delete, raised = _moving(bounds, delete, floor)
    after = bounds_after(bounds, delete, floor)
    spared = False
    if function.seals and after.seal is not None and old and old[0][0] <= seal:
        lowest = old[0][0]
        spared = (delete is not None and delete >= lowest) or (raised is not None and raised > lowest)
    if not spared:
        old = tuple(
            (order, value)
            for order, value in old
            if (delete is None or order > delete) and (raised is None or order >= raised)
        )
    bottoms = [bottom for bottom in (cleared, floor) if bottom is not None]
    new = tuple(one for one in new if all(one[0] >= bottom for bottom in bottoms))
    late: Entries = ()
    if function.adds and after.seal is not None:
        late = tuple(one for one in new if one[0] <= after.seal)
        new = new[len(late) :]
    entries = _kept(function, sorted([*old, *new], key=lambda one: one[0]))
    return MetField(sealed(function, entries, after.seal), late, spared)


def bounds_after(bounds: Bounds, delete: Any = None, floor: Any = None) -> Bounds:
    """Return what bounds a key after a meeting. What a delete or the floor clears as a whole has no seal."""
    delete, raised = _moving(bounds, delete, floor)
    seal = bounds.seal
    if seal is not None and ((delete is not None and delete >= seal) or (raised is not None and raised > seal)):
        seal = None
    cleared = max((one for one in (bounds.cleared, delete, raised) if one is not None), default=None)
    if seal is None and floor is not None and cleared is not None and cleared <= floor:
        cleared = None
    return Bounds(cleared, seal)


def _moving(bounds: Bounds, delete: Any, floor: Any) -> tuple[Any, Any]:
    """Return the delete unless a later one is known, and the floor where it is above what is cleared; else None."""
    cleared = bounds.cleared
    if cleared is None:
        return delete, floor
    return (
        None if delete is None or delete < cleared else delete,
        None if floor is None or floor <= cleared else floor,
    )


def sealed(function: MergeFunction, entries: Entries, seal: Any) -> Entries:
    """Make one entry of those at or below a seal, unless their sum has more digits than can be kept."""
    under = 0 if seal is None else sum(order <= seal for order, _ in entries)
    if under < 2:
        return entries
    value = _total(entries[:under]) if function.adds else entries[0][1]
    if function.adds and len(value.as_tuple().digits) > DIGITS:
        return entries
    return ((entries[0][0], value), *entries[under:])


class Mark(NamedTuple):
    """The highest order value that the entries of a key had at a time."""

    order: Any
    time: int


def span(fields: Sequence[Entries]) -> tuple[Any, Any]:
    """Return the lowest order value at which a seal makes some entries one, and the highest of any; or None, None."""
    several = [one for one in fields if len(one) > 1]
    return min((one[1][0] for one in several), default=None), max((one[-1][0] for one in several), default=None)


def aged(mark: Mark | None, second: Any, highest: Any, now: int, retention: int) -> tuple[Any, Mark | None]:
    """Return where a key is sealed, or None, and its mark, after a meeting. second, highest: as ``span`` returns them.

    >>> aged(Mark(4, 100), 2, 7, 110, 10), aged(Mark(4, 100), 2, 7, 109, 10)
    ((4, Mark(order=7, time=110)), (None, Mark(order=4, time=100)))
    """
    if second is None or mark is None:
        return None, None if second is None else Mark(highest, now)
    if now - mark.time < retention:
        return None, mark
    return mark.order if second <= mark.order else None, Mark(highest, now) if highest > mark.order else None


def shown(function: MergeFunction, entries: Entries) -> Any:
    """Return the value of a field. A sum is exact; ``limits`` says whether it fits the field."""
    if not entries:
        return None
    return _total(entries) if function.adds else entries[0][1]


def limits(data_type: Any) -> tuple[Decimal, Decimal]:
    """Return the least and the greatest value of an integer or decimal type.

    >>> limits(pa.int8()), limits(pa.decimal128(3, 1))
    ((Decimal('-128'), Decimal('127')), (Decimal('-99.9'), Decimal('99.9')))
    """
    if pa.types.is_decimal(data_type):
        most = Decimal((0, (9,) * data_type.precision, -data_type.scale))
        return most.copy_negate(), most  # a minus would round to 28 digits
    signed = pa.types.is_signed_integer(data_type)
    bits = data_type.bit_width - signed
    return Decimal(-(1 << bits) if signed else 0), Decimal((1 << bits) - 1)


def implied(function: MergeFunction, order: Any, value: Any) -> Entries:
    """Return the entries of a field that has none beside it. order: of the row. value: in the row."""
    return () if value is None and not function.counts_null else ((order, value),)


def _total(entries: Entries) -> Any:
    return reduce(_EXACT.add, (value for _, value in entries), Decimal(0))


def _kept(function: MergeFunction, entries: Sequence[Entry]) -> Entries:
    """Return the entries that can still decide, of entries by order value; of equal ones the last counts."""
    if not function.counts_null:
        entries = [one for one in entries if one[1] is not None]
    if function.keeps == NEWEST:
        return (*entries[-1:],)
    if function.keeps == ALL:
        return (*dict(entries).items(),)
    found = dict[Any, Any]()
    best = None
    for order, value in reversed(entries):
        place = _place(value)
        if best is None or (place > best if function.sign > 0 else place < best):
            found[order], best = value, place
    return tuple(reversed(found.items()))


def _place(value: Any) -> Any:
    """Return what a value compares by: NaN is above all numbers, and -0.0 below 0.0."""
    if not isinstance(value, float):
        return value
    return (1, 0.0, 0.0) if math.isnan(value) else (0, value, math.copysign(1, value))
