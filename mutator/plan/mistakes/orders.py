"""Warn of order values that a run would compare in the wrong way, and stop at names of files that contradict theirs.

Numbers or times that are compared as text, times with and without a zone (also of a setting), and times in other units
or forms in the feed than in the master.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from mutator.config.settings import OrderSpec, RowSpec
from mutator.dataset.state import State
from mutator.errors import error
from mutator.errors.exceptions import check_each
from mutator.errors.parts import option, place, quoted_value, setting
from mutator.plan.inspect.snapshot_time import SEQUENCE
from mutator.plan.inspect.source import Source
from mutator.plan.inspect.survey import Survey
from mutator.plan.mistakes.samples import Sample, typed_texts
from mutator.rules.facts import Facts, has_time, has_zone
from mutator.rules.file_sequences import contradiction
from mutator.rules.order_tuples import read_order
from mutator.rules.order_types import single_type

_UTC = re.compile(rb"(?:[Zz]|[+-]00(?::?00)?)$")
_TYPED_FILES = 16  # of a side, whose first rows are read
_MERGED = 5  # names of merged files that new ones are compared with, the last ones: each run would compare them all


def order_warnings(rows: RowSpec, survey: Survey, samples: Sequence[Sample]) -> Iterator[str]:
    """Yield warnings on order values. Raises ConfigError for numbers that are compared as text by default."""
    known, order = survey.state, rows.order
    by_file = [(sample.source, [*filter(None, sample.column(sample.positions.order))]) for sample in samples]
    if order.type == "string":
        for sources in (survey.master[:_TYPED_FILES], survey.feed[:_TYPED_FILES]):
            for source, texts in typed_texts(sources, order.fields):
                by_file.append((source, [value for (value,) in texts if value]))
    found = [(source, Facts(values)) for source, values in by_file if values]
    every = Facts([value for _, facts in found for value in facts.values])
    if not found:
        return
    if order.type == "string":
        yield from _text_warnings(order, known, every)
        yield from _other_form("form", found)
    elif order.type == "timestamp":
        yield from _zone_warnings(every)
        given = {"snapshot.as.of": rows.ops.as_of, "order.max": order.maximum}
        yield from _zones_of_settings({key: value for key, value in given.items() if isinstance(value, str)}, every)
    elif order.type in ("long", "decimal"):
        yield from _other_form("unit", found)


def highest_order(order: OrderSpec, order_type: str, epoch: int) -> Any:
    """Return the value of ``order.max``, None without it. Raises ConfigError for one of another type.

    epoch: of the run.
    """
    if order.maximum is None:
        return None
    try:
        return read_order(order_type, order.maximum, epoch)
    except ValueError as fault:
        what = f"'{order.maximum}' {fault}"
        raise error(
            "width",
            where=setting("order.max"),
            what=what,
            cure=f"write it as the {single_type(order_type)} that order values are",
        ) from None


def _text_warnings(order: OrderSpec, known: State | None, facts: Facts) -> Iterator[str]:
    """Yield a warning if numbers or times are in another order as text. Raises ConfigError for them.

    An explicit ``temporal.ordering.field.type=string`` confirms the order of numbers as text, and a manifest has
    decided it.
    """
    from mutator.rules.text_orders import out_of_order  # here, because order is seldom that of text

    if facts.form == "numbers":
        if pair := _misplaced(facts, "decimal"):
            what = f"order values are compared as text, and all in the first rows are numbers: {pair}"
            if known is None and not order.stated:
                cure = f"set {setting('temporal.ordering.field.type=long')} or decimal, or, if text is meant, string"
                raise error("width", where=setting("temporal.ordering.field.numeric=false"), what=what, cure=cure)
            yield f"{what}; {setting('temporal.ordering.field.type=long')} or decimal compares numbers"
    elif facts.form == "timestamps":
        cure = f"set {setting('temporal.ordering.field.type=timestamp')}"
        pair = _misplaced(facts, "timestamp")
        yield from _wrong_order(order, known, "timestamps of several forms", pair, cure)
    elif found := out_of_order(facts.present, datetime.now(UTC).year):
        form, one, other = found
        pair = f"{quoted_value(one.encode())} is compared with {quoted_value(other.encode())} letter by letter"
        if one == other:
            pair = f"in the order of text, values such as {quoted_value(one.encode())} do not follow each other in time"
        cure = "have them delivered as numbers or in ISO 8601, as in 2026-01-31T22:15:00Z"
        yield from _wrong_order(order, known, form, pair, cure)


def _wrong_order(order: OrderSpec, known: State | None, form: str, pair: str, cure: str) -> Iterator[str]:
    """Raise ConfigError where the order of text is wrong; yield a warning where a manifest has decided the type.

    pair: two values that show it; "" without any.
    """
    if not pair or not order.check:
        return
    what = f"order values are compared as text, and all in the first rows are {form}: {pair}"
    if known is not None:
        yield f"{what}; {setting('order.check=false')} says that the order of text is meant"
        return
    cure = f"{cure}; or, if the order of text is meant, set {setting('order.check=false')}"
    raise error("width", where=setting(f"temporal.ordering.field.type={order.type}"), what=what, cure=cure)


def _misplaced(facts: Facts, order_type: str) -> str:
    """Return a clause that names two values whose order as text is wrong; "" without any."""
    found = facts.misplaced(order_type)
    return "" if found is None else f"{quoted_value(found[0])} counts as newer than {quoted_value(found[1])}"


def _zone_warnings(facts: Facts) -> Iterator[str]:
    times = [value for value in facts.present if has_time(value)]
    zoned = [value for value in times if has_zone(value)]
    plain = [value for value in times if not has_zone(value)]
    if zoned and plain:
        yield (
            f"order values with and without a zone: in the first rows {len(zoned):,} have one, such as "
            f"{quoted_value(zoned[0])}, and {len(plain):,} have none, such as {quoted_value(plain[0])}, and "
            "count as UTC; if these are local times, have them delivered with their zone"
        )


def _zones_of_settings(given: Mapping[str, str], facts: Facts) -> Iterator[str]:
    """Yield a warning on each order value of a setting without a zone, if those of rows have another than UTC."""
    elsewhere = next((one for one in facts.present if has_zone(one) and not _UTC.search(one)), None)
    for key, value in given.items():
        if elsewhere is not None and value != SEQUENCE and not has_zone(value.encode()):
            yield (
                f"{setting(f'{key}={value}')} has no zone, so it is UTC, and rows have another, such as "
                f"{quoted_value(elsewhere)}; write it with their zone, as in 2026-01-31T00:00:00+02:00"
            )


def _other_form(name: str, by_file: Sequence[tuple[Source, Facts]]) -> Iterator[str]:
    """Yield a warning if the values of a feed file have another form than those of the master or another feed file.

    name: of the fact that tells the form of all values.
    """
    forms = [(form, source, facts.present[0]) for source, facts in by_file if (form := getattr(facts, name))]
    other = next((one for one in forms if one[0] != forms[0][0]), None)
    if other is not None:
        (form, source, value), (known, first, first_value) = other, forms[0]
        yield (
            f"the order values of {place(source.name)} look like {form} ({quoted_value(value)}), and those of "
            f"{place(first.name)} like {known} ({quoted_value(first_value)}): they are compared as they "
            "are, so one of them always wins"
        )


def check_sequences(rows: RowSpec, survey: Survey) -> None:
    """Raise DataError for names of feed files without a sequence, and for names that contradict each other.

    Names of files that were merged before count, too.
    """
    check_each(partial(_check_sequence, rows.order), survey.feed)
    order = {} if survey.state is None else survey.state.spec["order"]
    if rows.order.pattern is not None or order.get("pattern") is not None:  # the last is a conflict of its own
        return
    merged = [part.name for part in survey.state.feed[-_MERGED:]] if survey.state is not None else []
    found = contradiction([*(source.name for source in survey.feed), *merged])
    if found is not None:
        why, pattern = found
        cure = f"say with {setting('sequence.pattern')} where the sequence is"
        if pattern is not None:
            cure = f"use {option('sequence.pattern', pattern)}"
        if "pattern" in order:  # sequences of the records are these digits
            cure += (
                " in a new table"
                if survey.versioned
                else f", with {setting('master.adopt=true')}, which forgets tombstones"
            )
        raise error("sequence.contradicts", why=why, cure=cure)


def _check_sequence(order: OrderSpec, source: Source) -> None:
    if source.sequence is None:
        where = "digits after the last '_' of the stem, as in ups_prod_1427761080.txt"
        if order.pattern is not None:
            where = f"none that {setting(f'sequence.pattern={order.pattern.text}')} finds"
        raise error("sequence.missing", path=source.path, where=where)
