"""The values of settings that name fields: parsers of text and of lists, as those of ``parsers``.

>>> ordinals("0,price", ("id", "price")), ordinals("0,price", ())
((0, 1), (0, 'price'))
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mutator.errors import MutatorError
from mutator.errors.display import nearest_word
from mutator.errors.parts import setting
from mutator.rules.conditions import Condition, parse
from mutator.rules.field_choice import FieldChoice, parse_choice
from mutator.rules.order_types import POSITION
from mutator.rules.partition_fields import PartitionField, checked_fields, parse_field, parse_fields
from mutator.rules.snapshot_times import PREFIX, TimeField


def ordinal(text: str, names: tuple[str, ...]) -> int | str:
    """Read a field's ordinal or name; return its ordinal where the names of all fields are known.

    >>> ordinal("price", ("id", "price")), ordinal("price", ())
    (1, 'price')
    """
    text = text.strip()
    if text in names:
        return names.index(text)
    if re.fullmatch(r"[0-9]{1,6}", text):
        return int(text)
    if names:
        near = nearest_word(text, names)
        meant = f" (did you mean {near}?)" if near else ""
        raise ValueError(f"must be an ordinal counted from 0, or one of {setting('field.names')}{meant}")
    if not text or re.fullmatch(r"[-+]?[0-9.]+", text):
        raise ValueError("must be an ordinal counted from 0, or a name")
    return text


def ordinal_or_unset(text: str, names: tuple[str, ...]) -> int | str | None:
    """Read an ordinal or a name; -1 means unset, as in the original job.

    >>> ordinal_or_unset("-1", ()) is None
    True
    """
    return None if text.strip() == "-1" else ordinal(text, names)


def ordinals(text: str, names: tuple[str, ...]) -> tuple[int | str, ...]:
    """Read ordinals or names with commas between them.

    >>> ordinals("0,price", ("id", "price"))
    (0, 1)
    """
    return tuple(ordinal(part, names) for part in text.split(","))


def field_choice(text: str, names: tuple[str, ...]) -> FieldChoice:
    """Read fields with commas between them, or ``all``, or ``all except`` some.

    >>> field_choice("all except price", ("id", "price"))
    FieldChoice(named=(1,), others=True)
    """
    return parse_choice(text, lambda listed: ordinals(listed, names))


def listed_choice(parts: Sequence[Any], names: tuple[str, ...]) -> FieldChoice:
    """Read a list of fields.

    >>> listed_choice(["all"], ())
    FieldChoice(named=('all',), others=False)
    """
    return FieldChoice(listed_ordinals(parts, names))


def order_fields(text: str, names: tuple[str, ...]) -> tuple[int | str, ...]:
    """Read the fields of the order value; -1 means unset, as in the original job.

    >>> order_fields("-1", ()), order_fields("at, file.position", ("id", "at"))
    ((), (1, 'file.position'))
    """
    return () if text.strip() == "-1" else listed_order_fields(text.split(","), names, ordinal)


def listed_order_fields(
    parts: Sequence[Any], names: tuple[str, ...], parse: Callable[..., int | str] | None = None
) -> tuple[int | str, ...]:
    """Read a list of the fields of the order value. parse: reads one of them; None: as that of a list."""
    read = _listed_ordinal if parse is None else parse
    return tuple(POSITION if str(part).strip() == POSITION else read(part, names) for part in parts)


def listed_ordinals(parts: Sequence[Any], names: tuple[str, ...]) -> tuple[int | str, ...]:
    """Read a list of fields: a number is an ordinal, and a text is a name, even one with digits or commas.

    >>> listed_ordinals([0, "1", "a,b"], ()), listed_ordinals([0, "price"], ("id", "price"))
    ((0, '1', 'a,b'), (0, 1))
    """
    return tuple(_listed_ordinal(part, names) for part in parts)


def listed_ordinal(parts: Sequence[Any], names: tuple[str, ...]) -> int | str:
    """Read a list of one field.

    >>> listed_ordinal(["7"], ())
    '7'
    """
    if len(parts) != 1:
        raise ValueError("must be one field")
    return _listed_ordinal(parts[0], names)


def _listed_ordinal(part: Any, names: tuple[str, ...]) -> int | str:
    if not isinstance(part, str):
        return ordinal(str(part), ())
    if names and part not in names:
        near = nearest_word(part, names)
        meant = f" (did you mean {near}?)" if near else ""
        raise ValueError(f"must be names of {setting('field.names')}, or ordinals as numbers{meant}")
    if not part:
        raise ValueError("must be names that are not empty, or ordinals as numbers")
    return names.index(part) if names else part


def as_of(text: str, names: tuple[str, ...]) -> str | TimeField:
    """Read the time of a snapshot: an order value, the word ``sequence``, or a field after ``field:``.

    >>> as_of("2026-01-31", ()), as_of("field:price", ("id", "price"))
    ('2026-01-31', TimeField(field=1))
    """
    return TimeField(ordinal(text.removeprefix(PREFIX), names)) if text.startswith(PREFIX) else text


def partition_fields(text: str, names: tuple[str, ...]) -> tuple[PartitionField, ...]:
    """Read partition fields; their sources become ordinals where the names of all fields are known.

    >>> partition_fields("price", ("id", "price"))[0].source
    1
    """
    return _numbered(parse_fields(text), names)


def listed_partition_fields(parts: Sequence[Any], names: tuple[str, ...]) -> tuple[PartitionField, ...]:
    """Read a list of partition fields, each as in text.

    >>> [field.transform for field in listed_partition_fields(["price", "day=date(at)"], ())]
    ['identity', 'date']
    """
    return _numbered([parse_field(str(part)) for part in parts], names)


def _numbered(fields: Sequence[PartitionField], names: tuple[str, ...]) -> tuple[PartitionField, ...]:
    """Return partition fields with the ordinals of their sources where the names of all fields are known."""
    found = []
    for field in fields:
        name = field.name
        if isinstance(field.source, int) and field.source < len(names) and name == f"field_{field.source}":
            name = names[field.source] if field.transform == "identity" else name
        found.append(replace(field, source=ordinal(str(field.source), names), name=name))
    return checked_fields(found)  # two names may be equal now


def conditions(text: str, names: tuple[str, ...]) -> tuple[Condition, ...]:
    """Read a filter; its columns become ordinals, as text, where the names of all fields are known.

    >>> [one.column for one in conditions("price > 5 and 0 = 'a'", ("id", "price"))]
    ['1', '0']
    """
    try:
        return tuple(replace(one, column=str(ordinal(one.column, names))) for one in parse(text))
    except MutatorError as fault:
        raise ValueError(fault.message.removeprefix(f"the filter {text!r} ")) from None
