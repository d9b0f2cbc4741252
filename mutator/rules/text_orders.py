"""Forms of order values whose order as text is not theirs: dates, clocks of 12 hours, and positions in logs.

>>> out_of_order([b"27-NOV-26", b"01-DEC-26"], 2026)
('dates with the names of months', '27-NOV-26', '01-DEC-26')
>>> out_of_order([b"2026-09-30T01:00", b"2026-10-01T01:00"], 2026)
>>> out_of_order([b"10-12-31", b"26-12-31"], 2026), out_of_order([b"1.2.10", b"1.2.11"], 2026)
(None, None)
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from mutator.rules.timestamps import MONTHS

# The beginnings of the months that German, French, Spanish, Italian, Portuguese and Dutch write otherwise.
_OTHER_MONTHS = {
    "mär", "mrz", "mrt", "mai", "mei", "okt", "dez", "fév", "avr", "jui", "aoû", "déc",
    "ene", "abr", "ago", "dic", "gen", "mag", "giu", "lug", "set", "ott", "fev", "out",
}  # fmt: skip
_CLOCK = (
    r"(?P<hour>\d{1,2})[:.](?P<minute>\d\d)(?:[:.](?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?\s*(?P<half>[AaPp])?"
    r"(?:\.?[Mm]\.?)?\s*(?:Z|UTC|GMT|[A-Z]{3,4}|[+-]\d\d:?\d\d)?"
)
_TIME = rf"(?:(?:T|[\s,:]+){_CLOCK})?"
_WEEKDAY = r"(?:[A-Za-z]{3,9},?\s+)?"
_YEAR_FIRST = re.compile(rf"(?P<year>\d{{4}})[-/.](?P<month>\d{{1,2}})[-/.](?P<day>\d{{1,2}}){_TIME}")
_NAMED = tuple(
    re.compile(_WEEKDAY + form)
    for form in (
        rf"(?P<day>\d{{1,2}})[-\s/.](?P<month>[^\W\d_]{{3,10}}\.?)[-\s/.,]+(?P<year>\d{{4}}|\d\d){_TIME}",
        rf"(?P<month>[^\W\d_]{{3,10}}\.?)[-\s.]+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?[-,\s]\s*(?P<year>\d{{4}}){_TIME}",
        rf"(?P<month>[^\W\d_]{{3,10}}\.?)\s+(?P<day>\d{{1,2}})\s+{_CLOCK}\s+(?P<year>\d{{4}})",
    )
)
_SHORT_YEAR_FIRST = re.compile(rf"(?P<year>\d\d)[-/.](?P<month>\d{{1,2}})[-/.](?P<day>\d{{1,2}}){_TIME}")
_DAY_FIRST = re.compile(rf"(?P<day>\d{{1,2}})[-/.](?P<month>\d{{1,2}})[-/.](?P<year>\d{{4}}|\d\d){_TIME}")
_MONTH_FIRST = re.compile(rf"(?P<month>\d{{1,2}})[-/.](?P<day>\d{{1,2}})[-/.](?P<year>\d{{4}}|\d\d){_TIME}")
_PERIOD = re.compile(r"(?:[QqWwKk]|[Kk][Ww])\s?(?P<number>\d\d?)[-\s/.]+(?P<year>\d{4})")  # Q4 2026, KW 52/2026
_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")  # of PostgreSQL
_NUMBERS = re.compile(r"(\d+)")
_NOON, _CENTURY = 12, 2000
_FIRST_YEAR = 2015  # of those with two digits, after a day and a month: other numbers are those of releases
_NEAR = 5  # years between the values of most deliveries
_LONGEST = 64  # characters of a position in a log


def out_of_order(values: Sequence[bytes], year: int) -> tuple[str, str, str] | None:
    """Return the form of all values, a value and another one that is newer, though it counts as older as text.

    year: the present one. After a day and a month, two digits far from it are not a year.

    Dates that do not begin with the year and positions of several widths have another order than text, even if these
    values are in order by chance; of one value, both are that value. Return None if the values are in order, or have
    no such form in common.
    """
    texts = [value.decode("utf-8", "backslashreplace").strip() for value in sorted(set(values))]
    if _begin_with_short_years(texts):
        return None
    for form, parse in _FORMS:
        try:
            found = [parse(text) for text in texts]
        except ValueError:
            continue
        if form in (_DAYS_FIRST, _MONTHS_FIRST) and not all(map(partial(_is_near, year), found, texts)):
            continue
        if form == _WITHIN and len({shape for shape, _ in found}) > 1:
            return None
        if form in _NEVER or (form == _OF_POSTGRES and len(set(map(len, texts))) > 1):
            return form, texts[min(1, len(texts) - 1)], texts[0]
        for (one, other), (text, next_text) in zip(pairwise(found), pairwise(texts), strict=True):
            if one > other:
                return form, next_text, text
        return None
    return None


def _is_near(year: int, date: Sequence[int], text: str) -> bool:
    """Return whether a date has a year of four digits, or one that is not far from the present one."""
    return str(date[0]) in text or _FIRST_YEAR <= date[0] <= year + 1


def _begin_with_short_years(texts: Sequence[str]) -> bool:
    """Return whether all are dates such as 26-12-31, in their order; 31.12.26 and 01.01.27 have nearer years."""
    found, other = _parsed(texts, _date(_SHORT_YEAR_FIRST)), _parsed(texts, _date(_DAY_FIRST))
    if found is None or found != sorted(found):
        return False
    return other is None or _years(found) <= max(_NEAR, _years(other))


def _parsed(texts: Sequence[str], parse: Callable[[str], tuple[int, ...]]) -> list[tuple[int, ...]] | None:
    try:
        return [parse(text) for text in texts]
    except ValueError:
        return None


def _years(dates: Sequence[tuple[int, ...]]) -> int:
    years = [year for year, *_ in dates]
    return max(years, default=0) - min(years, default=0)


def _date(*forms: re.Pattern[str]) -> Callable[[str], Any]:
    """Return the parser of dates of some forms, with a time or without one."""

    def parse(text: str) -> tuple[int, ...]:
        match = next(filter(None, (form.fullmatch(text) for form in forms)), None)
        if match is None:
            raise ValueError
        part = match.groupdict()
        month = int(part["month"]) if part["month"].isdigit() else _month(part["month"][:3].lower())
        year, day, hour = int(part["year"]), int(part["day"]), int(part["hour"] or 0)
        if not (1 <= month <= 12 and 1 <= day <= 31 and hour <= 24):
            raise ValueError
        if part["half"] is not None:
            hour = hour % _NOON + (_NOON if part["half"] in "pP" else 0)
        year += _CENTURY if len(part["year"]) == 2 else 0
        return year, month, day, hour, int(part["minute"] or 0), int(part["second"] or 0), *_fraction(part["fraction"])

    return parse


def _month(beginning: str) -> int:
    """Return the number of a month; 1 in another language than English. Raises ValueError for other words."""
    return 1 if beginning in _OTHER_MONTHS else 1 + MONTHS.index(beginning)


def _fraction(digits: str | None) -> tuple[int]:
    return (int((digits or "0").ljust(9, "0")),)


def _log_position(text: str) -> tuple[int, int]:
    match = _LSN.fullmatch(text)
    if match is None:
        raise ValueError
    return int(match[1], 16), int(match[2], 16)


def _period(text: str) -> tuple[int, int]:
    match = _PERIOD.fullmatch(text)
    if match is None:
        raise ValueError
    return int(match["year"]), int(match["number"])


def _numbers_within(text: str) -> tuple[str, tuple[int, ...]]:
    """Return the text around numbers, and these: of positions such as mysql-bin.000009:154 and of GTIDs."""
    parts = _NUMBERS.split(text)
    is_release = len(parts) > 5 and {*parts[2:-1:2]} == {"."}  # 1.10.0
    if len(parts) < 3 or len(text) > _LONGEST or (parts[-3].endswith(".") and not is_release):
        raise ValueError  # the last number may be a fraction
    return "\0".join(parts[::2]), tuple(map(int, parts[1::2]))


_OF_POSTGRES, _NAMED_MONTHS = "positions in the log of PostgreSQL", "dates with the names of months"
_DAYS_FIRST, _MONTHS_FIRST = "dates that begin with the day", "dates that begin with the month"
_PERIODS, _WITHIN = "quarters or weeks before their year", "positions with numbers in them"
_NEVER = (_NAMED_MONTHS, _DAYS_FIRST, _MONTHS_FIRST, _PERIODS)  # the order of text is not theirs in any two years
_FORMS: tuple[tuple[str, Callable[[str], Any]], ...] = (
    (_OF_POSTGRES, _log_position),
    ("dates that begin with the year", _date(_YEAR_FIRST)),
    (_NAMED_MONTHS, _date(*_NAMED)),
    (_DAYS_FIRST, _date(_DAY_FIRST)),
    (_MONTHS_FIRST, _date(_MONTH_FIRST)),
    (_PERIODS, _period),
    (_WITHIN, _numbers_within),
)
