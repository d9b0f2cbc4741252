"""Facts of a field: what its first values show, asked by ``init``, guards and hints, and the forms of one value.

>>> facts = Facts([b"7", b"", None, b"2026-01-31"])
>>> facts.present, facts.are_numbers_or_times, sorted(facts.forms)
([b'7', b'2026-01-31'], True, [b'9', b'9-9-9'])
>>> Facts([b"1427761080", b"1427761081"]).unit, Facts([b"20261231", b"99991231"]).unit
('seconds since 1970', 'dates of 8 digits')
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.order_units import date_digits, epoch_unit
from mutator.rules.order_values import order_parser

_NUMBER_OR_TIME = re.compile(rb"[+-]?\d[\d.,:/ TtZz+-]*(?:[eE][+-]?\d+)?")
_FRACTION = re.compile(rb"[+-]?[0-9]+\.[0-9]*")
_LOCAL_DATE = re.compile(rb"\d{1,2}[./-]\d{1,2}[./-](?:\d{4}|\d\d)(?:[ T].*)?|\d{4}/\d{1,2}/\d{1,2}(?:[ T].*)?")
_WITH_TIME = re.compile(rb".*\d[Tt ]\d\d.*")
_ZONED = re.compile(rb".*\d[Tt ]\d\d:?\d\d.*(?:[Zz]|UTC|[+-]\d\d(?::?\d\d)?)")
_SMALL = 300_000  # a thousandth of the seconds from 1970 to 1979
_NAME = re.compile(r"[^\W\d][\w .:/()#%-]{0,63}")
_NO_VALUE = {
    "n/a",
    "n.a.",
    "n.a",
    "tbd",
    "tba",
    "na",
    "nan",
    "null",
    "nil",
    "none",
    "missing",
    "unknown",
    "undefined",
    "never",
    "inf",
    "infinity",
}
_ID_NAME = re.compile(r"(?:.*[\W_])?(?:id|uuid|guid)|.*[a-z](?:Id|ID)")
_KEY_NAME = re.compile(r"(?:.*[\W_])?(?:key|code|no|nr|num|number|sku|pk|name)", re.IGNORECASE)


def is_number_or_time(value: bytes) -> bool:
    """Return whether a value is written as a number, a date or a time.

    >>> is_number_or_time(b"-1.5e3"), is_number_or_time(b"2026-01-31T10:00:00Z"), is_number_or_time(b"k1")
    (True, True, False)
    """
    return _NUMBER_OR_TIME.fullmatch(value.strip()) is not None


def is_fraction(value: bytes) -> bool:
    """Return whether a value is a number with a point after its whole part.

    >>> is_fraction(b"-1.50"), is_fraction(b"1e5")
    (True, False)
    """
    return _FRACTION.fullmatch(value) is not None


def is_local_date(value: bytes) -> bool:
    """Return whether a value is written as a date, and not as one of ISO 8601.

    >>> is_local_date(b"31.01.2026"), is_local_date(b"1/31/26 10:00"), is_local_date(b"2026-01-31")
    (True, True, False)
    """
    return _LOCAL_DATE.fullmatch(value) is not None


def has_time(value: bytes) -> bool:
    """Return whether a value is a date with a time of day.

    >>> has_time(b"2026-01-31 10:00"), has_time(b"2026-01-31")
    (True, False)
    """
    return _WITH_TIME.fullmatch(value) is not None


def has_zone(value: bytes) -> bool:
    """Return whether a value is a date with a time of day and its zone."""
    return _ZONED.fullmatch(value) is not None


def read_order(order_type: str, value: bytes | None) -> Any:
    """Return an order value; None for NULL, and for a value that the type cannot read.

    >>> read_order("long", b"7"), read_order("long", b"x")
    (7, None)
    """
    try:
        return None if value is None else order_parser(order_type)(value)
    except ValueError:
        return None


def plain_text(value: bytes) -> str:
    """Return a value as text, without spaces and quotes around it.

    >>> plain_text(b' "ID"')
    'ID'
    """
    return value.decode("utf-8", "surrogateescape").strip().strip('"').strip()


def may_be_name(value: bytes) -> bool:
    """Return whether a value may be the name of a field; words for a missing value are not.

    >>> may_be_name(b"unit price"), may_be_name(b"N/A"), may_be_name(b"7")
    (True, False, False)
    """
    text = plain_text(value)
    return _NAME.fullmatch(text) is not None and not means_no_value(value)


def means_no_value(value: bytes) -> bool:
    """Return whether a value is a word for a missing value.

    >>> means_no_value(b"N/A"), means_no_value(b"ts")
    (True, False)
    """
    return plain_text(value).lower() in _NO_VALUE


def names_an_id(value: bytes, others: Iterable[bytes]) -> bool:
    """Return whether a value is the name of an ID field, and no ID of a record. others: IDs of records.

    >>> names_an_id(b"customer_id", [b"bob"]), names_an_id(b"code", [b"a1"]), names_an_id(b"code", [b"bob"])
    (True, True, False)
    """
    text = plain_text(value)
    found = list(others)
    if not found:
        return False
    if _ID_NAME.fullmatch(text) or _ID_NAME.fullmatch(text.lower()):
        return not any(_ID_NAME.fullmatch(plain_text(other).lower()) for other in found)
    return bool(_KEY_NAME.fullmatch(text)) and all(map(has_digit, found))


def has_digit(value: bytes) -> bool:
    """Return whether a value has an ASCII digit.

    >>> has_digit(b"a1"), has_digit(b"a")
    (True, False)
    """
    return re.search(rb"\d", value) is not None


def form_of(value: bytes) -> bytes:
    """Return the form of a value: ``a`` for letters, ``9`` for digits, other characters as they are.

    >>> form_of(b"VR8-17")
    b'a9-9'
    """
    return re.sub(rb"\d+", b"9", re.sub(rb"[A-Za-z]+", b"a", value))


def present(values: Iterable[bytes | None]) -> list[bytes]:
    """Return the values that are neither NULL nor empty.

    >>> present([None, b"", b"a"])
    [b'a']
    """
    return [value for value in values if value]


@dataclass(frozen=True)
class Facts:
    """The traits of the first values of a field. Each fact is found when it is first asked for, and kept."""

    values: Sequence[bytes | None]  # row by row; None is NULL

    @cached_property
    def present(self) -> list[bytes]:
        """The values that are neither NULL nor empty."""
        return present(self.values)

    @cached_property
    def forms(self) -> frozenset[bytes]:
        """The forms of the values that are present."""
        return frozenset(map(form_of, self.present))

    @cached_property
    def numbers_or_times(self) -> int:
        """How many values are numbers, dates or times."""
        return sum(map(is_number_or_time, self.present))

    @property
    def are_numbers_or_times(self) -> bool:
        """Whether all values that are not blank are numbers, dates or times, and at least one is not blank."""
        return 0 < self.numbers_or_times == sum(not value.isspace() for value in self.present)

    def orders(self, order_type: str) -> list[Any]:
        """Return the order values, row by row; None for an empty value, and for one that the type cannot read."""
        return [read_order(order_type, value) if value else None for value in self.values]

    def invalid(self, order_type: str) -> Facts:
        """Return the facts of the values that an order type cannot read; NULL is one of them."""
        return Facts([value for value in self.values if read_order(order_type, value) is None])

    def fits(self, order_type: str) -> bool:
        """Return whether an order type can read all values that are present."""
        return all(read_order(order_type, value) is not None for value in self.present)

    @cached_property
    def local_dates(self) -> list[bytes]:
        """The values that are dates, and not as ISO 8601 has them."""
        return [value for value in self.present if is_local_date(value)]

    @cached_property
    def unit(self) -> str | None:
        """What all values count, as whole numbers: a unit of time since 1970, digits of a date, or neither."""
        if not self.present or not self.fits("decimal"):
            return None
        numbers = {int(number) for number in self.orders("decimal") if number is not None}
        units, digits = set(map(epoch_unit, numbers)), set(map(date_digits, numbers))
        if len(units) == 1 and None not in units:
            return f"{units.pop()} since 1970"
        if len(digits) == 1 and None not in digits:
            return f"dates of {digits.pop()} digits"
        # An initial load may have 0 or 1 in each row.
        is_small = all(abs(number) < _SMALL for number in numbers) and any(abs(number) > 1 for number in numbers)
        return "small numbers" if is_small else None

    @cached_property
    def form(self) -> str | None:
        """Whether all values are numbers or timestamps."""
        found = {"numbers": "decimal", "timestamps": "timestamp"}.items()
        return next((form for form, order_type in found if self.fits(order_type)), None) if self.present else None

    def misplaced(self, order_type: str) -> tuple[bytes, bytes] | None:
        """Return two values of a type, of which the first counts as newer as text, and is older; None without any.

        >>> Facts([b"9", b"10"]).misplaced("long")
        (b'9', b'10')
        """
        texts = sorted({*self.present})
        for (one, text), (other, following) in pairwise((read_order(order_type, text), text) for text in texts):
            if one > other:
                return following, text
        return None
