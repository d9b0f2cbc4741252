"""Warn of order values that a run would compare in the wrong way.

Numbers or times that are compared as text, times with and without a zone, and times in other units or forms in the
feed than in the master.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

from mutator.config import Config
from mutator.dataset.manifest import Manifest
from mutator.errors import error
from mutator.errors.display import quoted_value
from mutator.errors.parts import setting
from mutator.plan.inspect.source import Source
from mutator.plan.inspect.survey import Survey
from mutator.plan.mistakes.samples import Sample, typed_texts
from mutator.rules.epoch_units import epoch_unit
from mutator.rules.order_values import ORDER_TYPES
from mutator.rules.text_orders import out_of_order
from mutator.rules.timestamps import parse_timestamp

_DECIMAL = re.compile(rb"[+-]?\d{1,30}(?:\.\d{1,30})?")
_ZONED = re.compile(rb".*\d[Tt ]\d\d:?\d\d.*(?:[Zz]|UTC|[+-]\d\d(?::?\d\d)?)")
_WITH_TIME = re.compile(rb".*\d[Tt ]\d\d.*")
_DATES = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
_TYPED_FILES = 16  # of a side, whose first rows are read
_SMALL = 300_000  # a thousandth of the seconds from 1970 to 1979


def order_warnings(config: Config, survey: Survey, samples: Sequence[Sample]) -> Iterator[str]:
    """Yield warnings on order values. Raises ConfigError for numbers that are compared as text by default."""
    known = survey.manifest
    by_file = [(sample.source, values) for sample in samples if (values := _order_values(sample))]
    if config.order_type == "string" and config.order_field is not None:
        for sources in (survey.master[:_TYPED_FILES], survey.feed[:_TYPED_FILES]):
            for source, rows in typed_texts(sources, [config.order_field]):
                by_file.append((source, [value for (value,) in rows if value]))
        by_file = [(source, values) for source, values in by_file if values]
    every = [value for _, values in by_file for value in values]
    if not every:
        return
    if config.order_type == "string":
        yield from _text_warnings(config, known, every)
        yield from _other_form(by_file, _form)
    elif config.order_type == "timestamp":
        yield from _zone_warnings(every)
    elif config.order_type in ("long", "decimal"):
        yield from _other_form(by_file, _unit)


def highest_order(config: Config, order_type: str) -> Any:
    """Return the value of ``order.max``, None without it. Raises ConfigError for one of another type."""
    if config.order_max is None:
        return None
    try:
        return ORDER_TYPES[order_type][0](config.order_max.encode("utf-8", "surrogateescape"))
    except ValueError as fault:
        what = f"'{config.order_max}' {fault}"
        raise error(
            "width", where=setting("order.max"), what=what, cure=f"write it as the {order_type} that order values are"
        ) from None


def _order_values(sample: Sample) -> list[bytes]:
    return [value for value in sample.column(sample.positions.order) if value]


def _text_warnings(config: Config, known: Manifest | None, values: Sequence[bytes]) -> Iterator[str]:
    """Yield a warning if numbers or times are in another order as text. Raises ConfigError for them.

    An explicit ``temporal.ordering.field.type=string`` confirms the order of numbers as text, and a manifest has
    decided it.
    """
    if pair := _out_of_order(values, _number):
        what = f"order values are compared as text, and all in the first rows are numbers: {pair}"
        if known is None and not config.order_stated:
            cure = f"set {setting('temporal.ordering.field.type=long')} or decimal, or, if text is meant, string"
            raise error("width", where=setting("temporal.ordering.field.numeric=false"), what=what, cure=cure)
        yield f"{what}; {setting('temporal.ordering.field.type=long')} or decimal compares numbers"
        return
    form = _form(values)
    if form == "timestamps":
        pair = _out_of_order(values, parse_timestamp)
        cure = f"set {setting('temporal.ordering.field.type=timestamp')}"
        yield from _wrong_order(config, known, "timestamps of several forms", pair, cure)
    found = out_of_order(values, datetime.now(UTC).year) if form is None else None
    if found is not None:
        form, one, other = found
        pair = f"{quoted_value(one.encode())} is compared with {quoted_value(other.encode())} letter by letter"
        if one == other:
            pair = f"in the order of text, values such as {quoted_value(one.encode())} do not follow each other in time"
        cure = "have them delivered as numbers or in ISO 8601, as in 2026-01-31T22:15:00Z"
        yield from _wrong_order(config, known, form, pair, cure)


def _wrong_order(config: Config, known: Manifest | None, form: str, pair: str, cure: str) -> Iterator[str]:
    """Raise ConfigError where the order of text is wrong; yield a warning where a manifest has decided the type.

    pair: two values that show it; "" without any.
    """
    if not pair or not config.order_check:
        return
    what = f"order values are compared as text, and all in the first rows are {form}: {pair}"
    if known is not None:
        yield f"{what}; {setting('order.check=false')} says that the order of text is meant"
        return
    cure = f"{cure}; or, if the order of text is meant, set {setting('order.check=false')}"
    raise error("width", where=setting(f"temporal.ordering.field.type={config.order_type}"), what=what, cure=cure)


def _out_of_order(values: Sequence[bytes], parse: Callable[[bytes], Any]) -> str:
    """Return a clause that names two values whose order as text is wrong; "" if no pair is, or a value is invalid."""
    try:
        found = [(parse(value), value) for value in sorted(set(values))]
    except ValueError:
        return ""
    for (one, text), (other, next_text) in pairwise(found):
        if one > other:
            return f"{quoted_value(next_text)} counts as newer than {quoted_value(text)}"
    return ""


def _number(value: bytes) -> Decimal:
    if not _DECIMAL.fullmatch(value):
        raise ValueError
    return Decimal(value.decode("ascii"))


def _zone_warnings(values: Sequence[bytes]) -> Iterator[str]:
    times = [value for value in values if _WITH_TIME.fullmatch(value)]
    zoned = [value for value in times if _ZONED.fullmatch(value)]
    plain = [value for value in times if not _ZONED.fullmatch(value)]
    if zoned and plain:
        yield (
            f"order values with and without a zone: in the first rows {len(zoned):,} have one, such as "
            f"{quoted_value(zoned[0])}, and {len(plain):,} have none, such as {quoted_value(plain[0])}, and "
            "count as UTC; if these are local times, have them delivered with their zone"
        )


def _other_form(
    by_file: Sequence[tuple[Source, Sequence[bytes]]], form_of: Callable[[Sequence[bytes]], str | None]
) -> Iterator[str]:
    """Yield a warning if the values of a feed file have another form than those of the master or another feed file.

    form_of: returns the form of all values, for messages; None if they have none in common.
    """
    known: tuple[str, Source, bytes] | None = None
    for source, values in by_file:
        form = form_of(values)
        if form is None:
            continue
        if known is not None and form != known[0]:
            yield (
                f"the order values of {source.name} look like {form} ({quoted_value(values[0])}), and those of "
                f"{known[1].name} like {known[0]} ({quoted_value(known[2])}): they are compared as they "
                "are, so one of them always wins"
            )
            return
        known = known or (form, source, values[0])


def _form(values: Sequence[bytes]) -> str | None:
    """Return whether values are numbers or timestamps."""
    if all(map(_DECIMAL.fullmatch, values)):
        return "numbers"
    try:
        return "timestamps" if [parse_timestamp(value) for value in values] else None
    except ValueError:
        return None


def _unit(values: Sequence[bytes]) -> str | None:
    """Return what whole numbers count: a unit of time since 1970, or the digits of a date, or neither."""
    try:
        numbers = [int(_number(value)) for value in values]
    except ValueError:
        return None
    units = set(map(epoch_unit, numbers))
    if len(units) == 1 and None not in units:
        return f"{units.pop()} since 1970"
    for digits, form in _DATES.items():
        if all(_is_date(number, digits, form) for number in numbers):
            return f"dates of {digits} digits"
    # An initial load may have 0 or 1 in each row.
    is_small = all(abs(number) < _SMALL for number in numbers) and any(abs(number) > 1 for number in numbers)
    return "small numbers" if is_small else None


def _is_date(number: int, digits: int, form: str) -> bool:
    text = str(number)
    if len(text) != digits or not 1900 <= number // 10 ** (digits - 4) < 2200:
        return False
    try:
        datetime.strptime(text, form)  # noqa: DTZ007  # only whether it is one
    except ValueError:
        return False
    return True
