"""Values of fields that must not be shown, left out of what reports are made of: ``report.fields``."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from mutator.engine.receipts import RejectSample
from mutator.errors.display import OUT
from mutator.pipeline.accounting import Result
from mutator.plan.run_plan import Plan
from mutator.plan.shown_values import ShownValues

_VALUE = re.compile(r"""(?s): ['"].*""")  # at the end of the reason of a reject


def without_values(plan: Plan, result: Result) -> Result:
    """Return a result without the values that the report may not show: of keys, order values, partitions and rows."""
    shown = plan.shown
    if shown.rows:
        return result
    return replace(
        result,
        samples={name: [shown.key(key) for key in keys] for name, keys in result.samples.items()},
        rejects={side: shown_samples(rows, are_shown=shown.rows) for side, rows in result.rejects.items()},
        partitions=_joined(shown, result.partitions),
        late=result.late if shown.order else None,
    )


def shown_samples(rows: Sequence[RejectSample], *, are_shown: bool) -> Sequence[RejectSample]:
    """Return rejected rows without their values, unless these may be shown."""
    if are_shown:
        return rows
    return [row._replace(reason=without_value(row.reason), row=OUT.encode()) for row in rows]


def without_value(reason: str) -> str:
    """Return the reason of a reject without the value that it quotes.

    >>> without_value("field 1 (order value) is no date: '7x'")
    'field 1 (order value) is no date'
    """
    return _VALUE.sub("", reason)


def shown_directories(plan: Plan, directories: Iterable[str]) -> tuple[str, ...]:
    """Return directories of partitions without the values that the report may not show."""
    if plan.shown.rows:
        return tuple(directories)
    return tuple(dict.fromkeys(map(plan.shown.directory, directories)))


def _joined(shown: ShownValues, partitions: Mapping[str, Counter[str]]) -> dict[str, Counter[str]]:
    """Return the counts of partitions; those that differ only in values that are kept out are one."""
    found: dict[str, Counter[str]] = {}
    for directory, counts in partitions.items():
        found.setdefault(shown.directory(directory), Counter()).update(counts)
    return found
