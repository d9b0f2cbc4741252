"""Values of fields that must not be shown, left out of what reports are made of: ``report.fields``."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from mutator.config import Config
from mutator.engine.receipts import Key, RejectSample
from mutator.errors import DataError
from mutator.errors.display import without_quotes
from mutator.errors.exceptions import rebuilt
from mutator.pipeline.accounting import Result
from mutator.plan.run_plan import Plan

OUT = "…"
_OUT = OUT.encode()
_VALUE = re.compile(r"""(?s): ['"].*""")  # at the end of the reason of a reject


def without_values(plan: Plan, result: Result) -> Result:
    """Return a result without the values that the report may not show: of keys, order values, partitions and rows."""
    shown = plan.shown
    if shown.rows:
        return result
    return replace(
        result,
        samples={name: [_key(shown.ids, key) for key in keys] for name, keys in result.samples.items()},
        rejects={side: [_reject(row) for row in rows] for side, rows in result.rejects.items()},
        partitions=_joined(shown.partitions, result.partitions),
        late=result.late if shown.order else None,
    )


def shown_text(plan: Plan, text: str) -> str:
    """Return a sentence without the values that it quotes, unless all may be shown."""
    return text if plan.shown.rows else without_quotes(text, OUT)


@contextmanager
def kept_out_of_errors(config: Config) -> Iterator[None]:
    """Leave the values that a message quotes out of errors of data, unless all may be shown."""
    try:
        yield
    except DataError as fault:
        if config.report_fields.all:
            raise
        raise rebuilt(fault.kind, without_quotes(str(fault), OUT), fault.fields) from None


def without_value(reason: str) -> str:
    """Return the reason of a reject without the value that it quotes.

    >>> without_value("field 1 (order value) is no date: '7x'")
    'field 1 (order value) is no date'
    """
    return _VALUE.sub("", reason)


def _key(ids: tuple[bool, ...], key: Key) -> Key:
    return tuple(value if number < len(ids) and ids[number] else _OUT for number, value in enumerate(key))


def _reject(row: RejectSample) -> RejectSample:
    return row._replace(reason=without_value(row.reason), row=_OUT)


def shown_directories(plan: Plan, directories: Iterable[str]) -> tuple[str, ...]:
    """Return directories of partitions without the values that the report may not show."""
    if plan.shown.rows:
        return tuple(directories)
    return tuple(dict.fromkeys(_directory(plan.shown.partitions, one) for one in directories))


def _joined(shown: tuple[bool, ...], partitions: Mapping[str, Counter[str]]) -> dict[str, Counter[str]]:
    """Return the counts of partitions; those that differ only in values that are kept out are one."""
    found: dict[str, Counter[str]] = {}
    for directory, counts in partitions.items():
        found.setdefault(_directory(shown, directory), Counter()).update(counts)
    return found


def _directory(shown: tuple[bool, ...], directory: str) -> str:
    levels = directory.split("/") if directory else []
    return "/".join(
        level if number < len(shown) and shown[number] else f"{level.partition('=')[0]}={OUT}"
        for number, level in enumerate(levels)
    )
