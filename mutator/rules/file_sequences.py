r"""The sequence that a feed file's name contains: where it is, and whether the names contradict it.

Without a pattern it is the number after the last ``_`` (``file_names.sequence``), which names may contradict:

>>> contradiction(["2023_01_05_1672938291836_1.txt", "2023_01_06_1673024691836_0.txt"])[0]
'2023_01_05_1672938291836_1.txt has a higher number at its end than 2023_01_06_1673024691836_0.txt, and an older date'
>>> parse_pattern("date").sequence("orders_20261231_2.csv")
202612310000000002
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise, takewhile

from mutator.errors.quick_dataclass import dataclass
from mutator.rules import file_names
from mutator.rules.timestamps import MONTHS

_WIDTHS = {"year": 4, "month": 2, "day": 2, "hour": 2, "minute": 2, "second": 2, "fraction": 3}
_DIGITS = 18  # of the highest sequence
_AFTER_DATE = 10  # digits
_DATE = (
    r"(?<!\d)(?P<year>(?:19|20|21)\d\d)(?P<mark>[-_.]?)(?P<month>0[1-9]|1[0-2])(?P=mark)(?P<day>0[1-9]|[12]\d|3[01])"
    r"(?:T(?P<hour>[01]\d|2[0-3])[-:]?(?P<minute>[0-5]\d)(?:[-:]?(?P<second>[0-5]\d))?Z?)?(?!\d)"
)
_NUMBER_AFTER = r"(?:.*?[_-](?P<number>\d+)(?=\.|$))?"
_TIME = r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)-(?P<hour>\d\d)(?P<minute>\d\d)(?P<second>\d\d)(?P<fraction>\d{3})"
_SECONDS_APART = r"-".join(rf"(?P<{part}>\d{{{width}}})" for part, width in [*_WIDTHS.items()][:-1])
LAST = "last"
PRESETS = {
    "date": _DATE + _NUMBER_AFTER,  # 2026-12-31_2.csv, orders_20261231T1015_3.json
    "dms": rf"^(?:LOAD(?P<hex>[0-9A-Fa-f]+)|{_TIME})(?=\.|$)",  # files of AWS DMS and Qlik Replicate
    "connect-offset": r"\+\d+\+(?P<number>\d+)(?:\+\d+)?(?=\.|$)",  # of sinks of Kafka Connect: topic+partition+offset
    "firehose": rf"-{_SECONDS_APART}-[0-9a-f]{{8}}-[0-9a-f-]+(?=\.|$)",  # stream-version-time-UUID
    LAST: "",  # the number after the last _, whatever else the names contain
}
_DATES_ALONE = r"_(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)(?P<hour>\d\d)?(?P<minute>\d\d)?(?P<second>\d\d)?(?=\.|$)"
_FIRST_DATE = re.compile(_DATE)
_EPOCH = re.compile(r"(?<!\d)1[4-9]\d{8}(?:\d{3})?(?!\d)")  # from 2014 on: lower numbers are IDs more often
_SECONDS = 10  # digits of seconds since 1970
_YEARS = ("19", "20", "21")
_YEAR, _MONTH, _DAY = r"(?P<year>(?:19|20|21)\d\d)", r"(?P<month>0[1-9]|1[0-2])", r"(?P<day>0[1-9]|[12]\d|3[01])"
_HOUR, _MINUTE, _SECOND = r"(?P<hour>[01]\d|2[0-3])", r"(?P<minute>[0-5]\d)", r"(?P<second>[0-5]\d)"
_IN_SEVERAL_NUMBERS = (  # 2026_01_31, 2026_01_31_23_59_00, 20260131_23_59, 31_01_2026, 01_31_2026
    rf"(?<!\d){_YEAR}[-_]{_MONTH}_{_DAY}",
    rf"(?<!\d){_YEAR}[-_.]?{_MONTH}[-_.]?{_DAY}[-_T]{_HOUR}[-_]?{_MINUTE}_{_SECOND}",
    rf"(?<!\d){_YEAR}[-_.]?{_MONTH}[-_.]?{_DAY}[-_T]{_HOUR}_{_MINUTE}",
    rf"(?<!\d){_DAY}[-_.]{_MONTH}_{_YEAR}",
    rf"(?<!\d){_MONTH}[-_.]{_DAY}_{_YEAR}",
)
_COARSE_DATES = (  # 202612 and 2026_12, 261231, 2026365, 31DEC2026, 2026
    rf"(?<!\d){_YEAR}[-_.]?{_MONTH}(?!\d)",
    rf"(?<!\d)(?P<year>1[5-9]|[23]\d){_MONTH}{_DAY}(?!\d)",
    r"(?<!\d)(?P<year>20\d\d)(?P<yearday>[0-3]\d\d)(?!\d)",
    rf"(?<!\d){_DAY}[-_]?(?P<name>{'|'.join(MONTHS)})[-_]?{_YEAR}(?!\d)",
    r"(?<!\d)(?P<year>20[1-3]\d)(?!\d)",
)
_END = r"(?=\.|$)"
_SHORT, _SHORT_YEARS = 6, range(15, 40)  # digits of a date with a year of two digits; those that count as years


@dataclass(frozen=True)
class SequencePattern:
    """Where the sequence is in the names of feed files."""

    text: str

    @property
    def counts(self) -> bool:
        """Return whether a gap between sequences may be a file that has not arrived."""
        groups = set(re.compile(PRESETS.get(self.text, self.text)).groupindex)
        return self.text == "last" or (self.text not in PRESETS and (groups == {"number"} or groups < {*_WIDTHS}))

    def sequence(self, name: str) -> int | None:
        """Return the sequence of a file's name; None without one. That of a file that a run wrote is at the end.

        Parts of a date come before the number, each in its width, so that the result grows with time.

        >>> parse_pattern("dms").sequence("LOAD0000000A.csv"), parse_pattern("dms").sequence("20260131-101500123.csv")
        (10, 20260131101500123)
        >>> parse_pattern("connect-offset").sequence("orders+0+0000000123.avro")
        123
        >>> parse_pattern("firehose").sequence("orders-1-2026-01-31-10-15-00-0a1b2c3d-11-22-33-44.gz")
        20260131101500
        """
        if self.text == "last" or file_names.is_data_file(name):
            return file_names.sequence(name)
        found = re.search(PRESETS.get(self.text, self.text), name)
        if found is None:
            return None
        parts = found.groupdict()
        if parts.get("hex") is not None:
            return int(parts["hex"], 16)
        if self.text == "date":
            return _of_date(name, found)
        digits = "".join((parts[part] or "").zfill(width) for part, width in _WIDTHS.items() if part in parts)
        number = (parts.get("number") or "").lstrip("0")
        if len(number) > _DIGITS - len(digits):
            return None
        return int(digits + (number.zfill(_DIGITS - len(digits)) if digits and "number" in parts else number) or "0")


def recorded(pattern: SequencePattern | None) -> str | None:
    """Return a pattern as manifests have it: None for the number after the last _, as without a pattern.

    >>> recorded(None), recorded(parse_pattern("last")), recorded(parse_pattern("dms"))
    (None, None, 'dms')
    """
    return None if pattern is None or pattern.text == LAST else pattern.text


def _of_date(name: str, found: re.Match[str]) -> int | None:
    """Return the date with ten digits after it: the number, or the time and a number of four digits.

    Return None where digits after the date are neither: the order would ignore them.
    """
    date = f"{found['year']}{found['month']}{found['day']}"
    time = "".join((found[part] or "00") for part in ("hour", "minute", "second")) if found["hour"] else ""
    number, read = (found["number"] or "").lstrip("0"), found.end()
    rest = _stem(name)[read:] if read < len(_stem(name)) else ""
    between = name[found.end("second" if found["second"] else "minute" if time else "day") : found.start("number")]
    if re.search(r"\d", rest) or (found["number"] and re.search(r"\d", between)) or len(time + number) > _AFTER_DATE:
        return None
    return int(date + time + number.zfill(_AFTER_DATE - len(time)))


def parse_pattern(text: str) -> SequencePattern:
    """Read ``sequence.pattern``. Raises ValueError.

    >>> parse_pattern(r"_(?P<day>\\d\\d)(?P<month>\\d\\d)(?P<year>\\d{4})\\.").sequence("orders_31122026.csv")
    20261231
    """
    known = f"the names {', '.join(PRESETS)}, or a regular expression with groups such as (?P<number>\\d+)"
    try:
        groups = set(re.compile(PRESETS.get(text, text)).groupindex)
    except re.error as fault:
        raise ValueError(f"must be one of {known}: {fault}") from None
    if text not in PRESETS:
        parts = [*_WIDTHS, "number"]
        if not groups or not groups <= set(parts):
            raise ValueError(f"must be one of {known}; the groups are {', '.join(parts)}")
        missing = [part for part, finer in pairwise(_WIDTHS) if finer in groups and part not in groups]
        if missing:
            raise ValueError(f"has a part of a date without the group {missing[0]}")
    return SequencePattern(text)


def preset_of(names: Sequence[str]) -> str | None:
    """Return the preset that finds a sequence in each name; None without one, or if each name ends with a number.

    >>> preset_of(["20260131-101500123.csv", "LOAD00000001.csv"]), preset_of(["a_1.csv"]), preset_of(["a.csv"])
    ('dms', None, None)
    """
    if all(file_names.sequence(name) is not None for name in names):
        return None
    patterns = map(SequencePattern, ("dms", "connect-offset", "firehose", "date"))
    fitting = (one.text for one in patterns if all(one.sequence(name) is not None for name in names))
    return next(fitting, None)


def contradiction(names: Iterable[str]) -> tuple[str, str | None] | None:
    """Return why the numbers at the ends of names are not an order, and the pattern that is one; None if they may be.

    >>> contradiction(["orders_31122026.csv", "orders_01012027.csv"])[0]
    '01012027 and 31122026 are dates that do not begin with the year'
    >>> contradiction(["orders_2027010112.csv", "orders_20270102.csv"])[0]
    '2027010112 and 20270102 are times of different forms'
    >>> contradiction(["orders_2026_01_31.csv"])[0]
    'orders_2026_01_31.csv ends with a date or a time in several numbers'
    >>> contradiction(["orders_20261231_2.csv", "orders_20261231_3.csv", "orders_20270101_4.csv"])
    """
    by_words: dict[tuple[str, ...], list[str]] = {}
    for name in sorted(set(names)):
        if file_names.sequence(name) is not None and not file_names.is_data_file(name):
            by_words.setdefault(file_names.words(name), []).append(name)
    for group in by_words.values():
        found = _in_several_numbers(group) or _later_dates(group) or _day_first(group) or _other_forms(group)
        if found is not None:
            why, pattern = found
            every = (name for names in by_words.values() for name in names)
            fits = pattern and all(SequencePattern(pattern).sequence(name) is not None for name in every)
            return why, pattern if fits else None
    return None


def _in_several_numbers(names: Sequence[str]) -> tuple[str, str | None] | None:
    """Find names that end with a date or a time, of which the number after the last _ is the last part alone."""
    fitting = [form for form in _IN_SEVERAL_NUMBERS if all(re.search(f"{form}$", _stem(name)) for name in names)]
    if not fitting:
        return None
    # Of two forms, which is the day is not known.
    pattern = fitting[0] + _END if len(fitting) == 1 else None
    return f"{names[0]} ends with a date or a time in several numbers", pattern


def _later_dates(names: Sequence[str]) -> tuple[str, str | None] | None:
    """Find a name with an older date and a higher number than another one."""
    if all(_time_of(_last(name)) for name in names):
        return None  # the numbers are times themselves
    dates, coarse = [_date_of(_head(name)) for name in names], None
    if not any(dates):
        dates, coarse = _coarse_dates(names)
    dated = sorted(
        (date, file_names.sequence(name) or 0, name) for name, date in zip(names, dates, strict=True) if date
    )
    highest: tuple[int, str] | None = None
    for number, (date, sequence, name) in enumerate(dated):
        before = dated[number - 1] if number else None
        if before is not None and before[0] < date:
            highest = max(filter(None, (highest, (before[1], before[2]))))
        if highest is not None and highest[0] > sequence:
            why = f"{highest[1]} has a higher number at its end than {name}, and an older date"
            for digits in (_SECONDS + 3, _SECONDS):
                epoch = rf"(?<!\d)(?P<number>1\d{{{digits - 1}}})(?!\d)"
                if all(re.search(epoch, _head(one)) for one in names):
                    return why, epoch
            by_date = SequencePattern("date")
            return why, "date" if all(by_date.sequence(one) is not None for one in names) else coarse
    return None


def _coarse_dates(names: Sequence[str]) -> tuple[list[str | None], str | None]:
    """Return the dates in the beginnings of names that all have one in the same form, and a pattern that finds them.

    A year alone may be any number, unless those of all names are near each other.
    """
    for form in _COARSE_DATES:
        searched = (re.search(form, _head(name), re.IGNORECASE) for name in names)
        found = [match for match in takewhile(bool, searched) if match is not None]
        if len(found) < len(names):
            continue
        parts = [one.groupdict() for one in found]
        years = [int(one["year"]) for one in parts]
        if {*parts[0]} == {"year"} and max(years) - min(years) > 1:
            continue
        for one in parts:
            if one.get("name"):
                one["month"] = f"{MONTHS.index(one['name'].lower()) + 1:02}"
        dates = ["".join(one.get(part) or "" for part in ("year", "month", "day", "yearday")) for one in parts]
        return [*dates], None if {"yearday", "name"} & {*parts[0]} else f"{form}[^\\d]*_(?P<number>\\d+){_END}"
    return [None] * len(names), None


def _day_first(names: Sequence[str]) -> tuple[str, str | None] | None:
    """Find numbers that are dates with the day or the month first."""
    lasts = [_last(name) for name in names]
    if len(set(lasts)) < 2 or any(_time_of(last) for last in lasts):  # one alone may be a counter
        return None
    if all(len(last) == _SHORT for last in lasts):
        return _short_years(lasts)
    found = [re.fullmatch(r"(\d\d)(\d\d)(\d{4})(?:\d{2}){0,3}", last) for last in lasts]
    for form, days, months in (("day", 1, 2), ("month", 2, 1)):
        if all(one and _is_date(one[3], one[months], one[days]) for one in found):
            first, second = lasts[:2]
            named = {"day": r"(?P<day>\d\d)(?P<month>\d\d)", "month": r"(?P<month>\d\d)(?P<day>\d\d)"}[form]
            clock = "".join(rf"(?P<{part}>\d\d)" for part in [*_WIDTHS][3 : 3 + max(map(len, lasts)) // 2 - 4])
            pattern = rf"_{named}(?P<year>\d{{4}}){clock}"
            return f"{first} and {second} are dates that do not begin with the year", pattern
    return None


def _short_years(lasts: Sequence[str]) -> tuple[str, str | None] | None:
    """Find numbers such as 311226, whose years are near each other only if the day or the month comes first.

    Other numbers are counters or clocks more often: so the years follow each other, and are not those of far dates, and
    the days differ.
    """
    found = []
    if len({last[:4] for last in lasts}) < 2:
        return None
    for parts in (("year", "month", "day"), ("day", "month", "year"), ("month", "day", "year")):
        dates = [dict(zip(parts, (last[:2], last[2:4], last[4:]), strict=True)) for last in lasts]
        years = [int(date["year"]) for date in dates if _is_date("20", date["month"], date["day"])]
        if len(years) == len(lasts) and max(years) - min(years) <= 1 and min(years) in _SHORT_YEARS:
            found.append("_" + "".join(rf"(?P<{part}>\d\d)" for part in parts) + _END)
    if not found or found[0].startswith("_(?P<year>"):
        return None
    first, second = lasts[:2]
    return f"{first} and {second} are dates that do not begin with the year", found[0] if len(found) == 1 else None


def _other_forms(names: Sequence[str]) -> tuple[str, str | None] | None:
    """Find numbers that are times of different forms, which compare otherwise as numbers."""
    times = {_last(name): _time_of(_last(name)) for name in names}
    if len({len(last) for last in times}) < 2 or not all(times.values()):
        return None
    ordered = sorted(times, key=lambda last: (times[last], int(last)))
    for first, second in pairwise(ordered):
        if int(first) > int(second):
            dates = all(time and time.startswith("date") for time in times.values())
            return f"{first} and {second} are times of different forms", _DATES_ALONE if dates else None
    return None


def _stem(name: str) -> str:
    bare = os.path.splitext(name)[0] if file_names.compression(name) else name
    base, extension = os.path.splitext(bare)
    return bare if "_" in extension else base


def _head(name: str) -> str:
    return _stem(name).rpartition("_")[0]


def _last(name: str) -> str:
    """Return the digits after the last ``_``."""
    return _stem(name).rpartition("_")[2]


def _date_of(head: str) -> str | None:
    """Return the first date or time since 1970 in the beginning of a name, as text that grows with time."""
    epoch = _EPOCH.search(head)
    if epoch is not None:  # finer than the date that may be beside it
        return f"epoch{epoch[0].ljust(_SECONDS + 3, '0')}"
    found = _FIRST_DATE.search(head)
    parts = ("year", "month", "day", "hour", "minute", "second")
    return None if found is None else "date" + "".join(found[part] or "" for part in parts)


def _time_of(digits: str) -> str | None:
    """Return a number that is a date or a time, year first or since 1970, as text that grows with time; else None."""
    if len(digits) in (8, 10, 12, 14) and _is_date(digits[:4], digits[4:6], digits[6:8]):
        return f"date{digits.ljust(14, '0')}"
    return f"epoch{digits.ljust(_SECONDS + 3, '0')}" if _EPOCH.fullmatch(digits) else None


def _is_date(year: str, month: str, day: str) -> bool:
    return year[:2] in _YEARS and 1 <= int(month) <= 12 and 1 <= int(day) <= 31
