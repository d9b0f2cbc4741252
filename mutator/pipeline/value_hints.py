"""Types of order values and op codes in the first rows of a file: the diagnosis where rows are rejected for them.

A hint on order values is about the invalid ones: those that the order type in force cannot read. It is given only if
the change makes nearly all of them valid, and leaves nearly all values of the field valid.

>>> from mutator.errors.parts import plain
>>> plain(order_hint([b"2026-01-31T10:00:00Z", b"2026-02-01"], "long"))
'2 of 2 order values look like ISO 8601: set temporal.ordering.field.type=timestamp'
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from mutator.errors.display import quoted_value
from mutator.errors.parts import option, setting
from mutator.rules.epoch_units import epoch_unit
from mutator.rules.facts import is_local_date
from mutator.rules.op_codes import CodeFacts, counted_codes, listed_codes
from mutator.rules.order_values import ORDER_TYPES

_MOST = 0.9
# Order type -> what one value is, and what several are.
_LOOKS = {
    "long": ("is an integer", "are integers"),
    "decimal": ("is a decimal number", "are decimal numbers"),
    "timestamp": ("looks like ISO 8601", "look like ISO 8601"),
}

Values = Sequence[bytes | None]


def order_hint(values: Values, order_type: str) -> str | None:
    """Return which setting fits the invalid values of the order field; None if no setting does.

    order_type: the one that they do not have.

    >>> order_hint([b"1", b"2", b" 3"], "long")
    '1 of 3 order values has blanks around it: have it delivered without blanks'
    >>> order_hint([*[b"1"] * 20, b""], "long")
    """
    total = len(values)
    invalid = _invalid(values, order_type)
    for name, looks in _LOOKS.items():
        fit = _fitting(invalid, name)
        if _are_most(fit, invalid) and _are_most(_fitting(values, name), values):
            return f"{_of_all(fit, total)} {looks[fit > 1]}: set {setting(f'temporal.ordering.field.type={name}')}"
    for what, around, cure in (
        ("quotes", b'"', f"{setting('input.format=csv')} reads quoted fields"),
        ("blanks", b" \t", "have {} delivered without blanks"),
    ):
        fit = _fitting([None if value is None else value.strip(around) for value in invalid], order_type)
        if _are_most(fit, invalid):
            verb, them = ("has", "it") if fit == 1 else ("have", "them")
            return f"{_of_all(fit, total)} {verb} {what} around {them}: {cure.format(them)}"
    return None


def date_hint(values: Values, order_type: str) -> str | None:
    """Return what to do if nearly all invalid values are dates that are not written as in ISO 8601; None otherwise.

    >>> date_hint([b"31.01.2026", b"01.02.2026"], "timestamp")
    "2 of 2 order values are dates such as '31.01.2026', which are not ISO 8601: have them delivered as in 2026-01-31"
    """
    invalid = _invalid(values, order_type)
    dates = [value for value in invalid if value is not None and is_local_date(value)]
    if not _are_most(len(dates), invalid):
        return None
    found, date = _of_all(len(dates), len(values)), quoted_value(dates[0])
    if len(dates) == 1:
        return f"{found} is the date {date}, which is not ISO 8601: have it delivered as in 2026-01-31"
    return f"{found} are dates such as {date}, which are not ISO 8601: have them delivered as in 2026-01-31"


def all_are_invalid(values: Values, order_type: str) -> bool:
    """Return whether no value is an order value of a type.

    >>> all_are_invalid([b"bread", None], "long"), all_are_invalid([b"bread", b"7"], "long")
    (True, False)
    """
    return not _fitting(values, order_type)


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


def op_code_hint(codes: CodeFacts, upsert_codes: Collection[bytes]) -> str | None:
    """Return what the op codes of some rows show; None if all of them are known.

    >>> from mutator.errors.parts import plain
    >>> plain(op_code_hint(CodeFacts.of([b"U", b"DELETE"], "op", {b"D"}), {b"U"}))
    "'DELETE' (1) looks like a delete: use -D 'deleted.op.code=D,DELETE'"
    """
    unknown = replace(codes, counts=codes.where(lambda code: code not in {*codes.delete_codes, *upsert_codes}))
    if not unknown.counts:
        return None
    if len(unknown.counts) == len(codes.counts):
        shown = counted_codes(codes.counts)
        return (
            f"no op code is one of {setting('deleted.op.code')} or {setting('upsert.op.code')}, but {shown}: check "
            f"{setting('op.code.field.ordinal')}"
        )
    if before := unknown.meaning("before"):
        images = "is an image" if len(before) == 1 else "are images"
        names = option("ignore.op.code", listed_codes(before))
        return f"{counted_codes(before)} {images} of records before updates: use {names}"
    if deletes := unknown.deletes:
        names = option("deleted.op.code", listed_codes({*codes.delete_codes, *deletes}))
        verb = "looks like a delete" if len(deletes) == 1 else "look like deletes"
        return f"{counted_codes(deletes)} {verb}: use {names}"
    return f"{setting('upsert.op.code')} lacks {counted_codes(unknown.counts)}"


def _of_all(count: int, total: int) -> str:
    return f"{count:,} of {total:,} order values"


def _are_most(count: int, values: Values) -> bool:
    """Return whether a number of values are nearly all of some, and at least one."""
    return count > 0 and count >= _MOST * len(values)


def _fitting(values: Values, order_type: str) -> int:
    """Return how many values are order values of a type."""
    return len(values) - len(_invalid(values, order_type))


def _invalid(values: Values, order_type: str) -> Values:
    """Return the values that are no order values of a type."""
    parse = ORDER_TYPES[order_type][0]
    found: list[bytes | None] = []
    for value in values:
        try:
            if value is None or parse(value) is None:
                found.append(value)
        except ValueError:
            found.append(value)
    return found
