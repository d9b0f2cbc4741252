"""Types of order values and op codes in the first rows of a file: the diagnosis where rows are rejected for them.

>>> order_hint([b"2026-01-31T10:00:00Z", b"2026-02-01"], "long")
'2 of 2 order values look like ISO 8601: set temporal.ordering.field.type=timestamp'
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from mutator.errors.display import option, quoted_value
from mutator.plan.mistakes.value_forms import is_local_date
from mutator.rules.epoch_units import epoch_unit
from mutator.rules.op_codes import counted_codes, looks_like_delete, most_frequent
from mutator.rules.order_values import ORDER_TYPES

_MOST = 0.9
_LOOKS = {"long": "are integers", "decimal": "are decimal numbers", "timestamp": "look like ISO 8601"}

Values = Sequence[bytes | None]


def order_hint(values: Values, order_type: str) -> str | None:
    """Return which setting fits the values of the order field; None if no setting does.

    order_type: the one that they do not have.
    """
    total = len(values)
    for name, looks in _LOOKS.items():
        fit = _fitting(values, name)
        if name != order_type and fit >= _MOST * total:
            return f"{fit:,} of {total:,} order values {looks}: set temporal.ordering.field.type={name}"
    for what, around, cure in (
        ("quotes", b'"', "input.format=csv reads quoted fields"),
        ("blanks", b" \t", "have them delivered without blanks"),
    ):
        fit = _fitting([None if value is None else value.strip(around) for value in values], order_type)
        if fit >= _MOST * total:
            return f"{fit:,} of {total:,} order values have {what} around them: {cure}"
    return None


def date_hint(values: Values) -> str | None:
    """Return what to do if nearly all values are dates that are not written as in ISO 8601; None if they are not.

    >>> date_hint([b"31.01.2026"])
    "1 of 1 order values are dates such as '31.01.2026', which are not ISO 8601: have them delivered as in 2026-01-31"
    """
    dates = [value for value in values if value is not None and is_local_date(value)]
    if not dates or len(dates) < _MOST * len(values):
        return None
    return (
        f"{len(dates):,} of {len(values):,} order values are dates such as {quoted_value(dates[0])}, which are not "
        "ISO 8601: have them delivered as in 2026-01-31"
    )


def time_fields(columns: Mapping[str, Values], order_type: str) -> list[str]:
    """Return the fields all of whose values may be times of an order type.

    >>> time_fields({"0": [b"a"], "1": [b"1425931207"], "2": [b"12"]}, "long")
    ['1']
    """
    return [
        name
        for name, values in columns.items()
        if _fitting(values, order_type) == len(values)
        and (order_type != "long" or all(value and epoch_unit(int(value)) for value in values))
    ]


def op_code_hint(values: Values, delete_codes: Collection[bytes], upsert_codes: Collection[bytes]) -> str | None:
    """Return what the op codes of some rows show; None if all of them are known.

    >>> op_code_hint([b"U", b"DELETE"], {b"D"}, {b"U"})
    "'DELETE' (1) looks like a delete: use -D 'deleted.op.code=D,DELETE'"
    """
    counts = Counter(value or b"" for value in values)
    unknown = {code: count for code, count in counts.items() if code not in delete_codes and code not in upsert_codes}
    if not unknown:
        return None
    if len(unknown) == len(counts):
        shown = counted_codes(most_frequent(counts))
        return f"no op code is one of deleted.op.code or upsert.op.code, but {shown}: check op.code.field.ordinal"
    deletes = {code: count for code, count in unknown.items() if looks_like_delete(code, delete_codes)}
    if deletes:
        names = ",".join(sorted(code.decode("utf-8", "backslashreplace") for code in {*delete_codes, *deletes}))
        verb = "looks like a delete" if len(deletes) == 1 else "look like deletes"
        return f"{counted_codes(most_frequent(deletes))} {verb}: use {option('deleted.op.code', names)}"
    return f"upsert.op.code lacks {counted_codes(most_frequent(unknown))}"


def _fitting(values: Values, order_type: str) -> int:
    """Return how many values are order values of a type."""
    parse = ORDER_TYPES[order_type][0]
    count = 0
    for value in values:
        with suppress(ValueError):
            count += value is not None and parse(value) is not None
    return count
