"""Read and write ``partitioned.by``: the partition fields and their transforms.

Partition fields are separated by commas. Each is a field of the rows (its name, or an ordinal), or is derived from
one, and may be given a name:

    store_id, day=date(ts), date(ts,ms), year(ts), month(ts), prefix(id,2), bucket(id,16), store=0

``partition_transforms`` has the meaning of each transform.
"""

import re
from collections.abc import Sequence
from typing import Any

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.partition_paths import directory_of
from mutator.rules.timestamps import TICKS

TIMES = ("date", "year", "month")
_NUMBERED = ("prefix", "bucket")
_SHAPE = re.compile(
    r"\s*(?:(?P<name>[^=(),]*)=)?\s*(?:(?P<transform>[^=(),]*)\((?P<inner>[^=(),]*)(?:,(?P<argument>[^=(),]*))?\)"
    r"|(?P<source>[^=(),]*))\s*\Z"
)
_COMMAS = re.compile(r",(?![^(]*\))")  # not those in parentheses
_EXPECTED = "is not a partition field: expected store_id, day=date(ts) or bucket(id,16)"
_ORDINAL = re.compile(r"[0-9]{1,9}\Z")
MOST_BYTES = 255  # of a name, on nearly all storages


@dataclass(frozen=True)
class PartitionField:
    """One level of partition directories: its name, and the field and transform that give its value."""

    name: str
    source: str | int  # name or ordinal of a field
    transform: str = "identity"  # date | year | month | prefix | bucket
    argument: Any = None  # the unit of a time, the characters of a prefix, the number of buckets


def parse_fields(text: str) -> tuple[PartitionField, ...]:
    """Read partition fields. Raises ValueError with the expected form.

    >>> parse_fields("day=date(ts)")
    (PartitionField(name='day', source='ts', transform='date', argument=None),)
    """
    return checked_fields(tuple(parse_field(part) for part in _COMMAS.split(text)))


def checked_fields(fields: Sequence[PartitionField]) -> tuple[PartitionField, ...]:
    """Return partition fields. Raises ValueError where ``parse_fields`` could not read them back, or names are equal.

    >>> checked_fields([PartitionField("id", 0), PartitionField("ID", 1)])
    Traceback (most recent call last):
    ValueError: two partition fields are called 'ID': give one another name, as in day=date(ts)
    """
    names: set[str] = set()
    for field in fields:
        if any(char in "=()," for char in f"{field.name}{field.source}"):
            raise ValueError(f"{_text(field)!r} {_EXPECTED}")
        _check_name(field.name)
        if field.name.lower() in names:  # Hive ignores case
            raise ValueError(
                f"two partition fields are called {field.name!r}: give one another name, as in day=date(ts)"
            )
        names.add(field.name.lower())
    return tuple(fields)


def text_of(fields: Sequence[PartitionField]) -> str:
    """Write partition fields as ``parse_fields`` reads them, in the one spelling that a manifest has.

    >>> text_of(parse_fields(" ts_date = date( ts ), id=id, 07"))
    'date(ts),id,7'
    """
    return ",".join(_text(field) for field in fields)


def parse_field(text: str) -> PartitionField:
    """Read one partition field. Raises ValueError with the expected form.

    >>> parse_field("id, day=date(ts)")
    Traceback (most recent call last):
    ValueError: 'id, day=date(ts)' is not a partition field: expected store_id, day=date(ts) or bucket(id,16)
    """
    match = _SHAPE.match(text)
    if not match or not (inner := (match["source"] or match["inner"] or "").strip()):
        raise ValueError(f"{text.strip()!r} {_EXPECTED}")
    source = int(inner) if _ORDINAL.match(inner) else inner
    transform, argument = "identity", None
    if match["transform"] is not None:
        transform = match["transform"].strip()
        argument = _argument(transform, None if match["argument"] is None else match["argument"].strip())
    name = _default_name(source, transform) if match["name"] is None else match["name"].strip()
    return PartitionField(name, source, transform, argument)


def _argument(transform: str, text: str | None) -> int | str | None:
    if transform in TIMES:
        if text is not None and text not in TICKS:
            raise ValueError(f"{transform} expects a field and perhaps a unit, {', '.join(TICKS)}, not {text!r}")
        return text
    if transform not in _NUMBERED:
        known = ", ".join((*TIMES, *_NUMBERED))
        raise ValueError(f"{transform!r} is not a transform of a partition field: expected one of {known}")
    if text is None or not _ORDINAL.match(text) or int(text) == 0:
        raise ValueError(f"{transform} expects a field and a number from 1, as in {transform}(id,16)")
    return int(text)


def _default_name(source: str | int, transform: str) -> str:
    field = f"field_{source}" if isinstance(source, int) else source
    return field if transform == "identity" else f"{field}_{transform}"


def _check_name(name: str) -> None:
    if not name or name[0] in "_." or "/" in name or "=" in name or not name.isprintable():
        raise ValueError(
            f"{name!r} cannot be the name of a partition: expected one without '/', '=' and control characters, and "
            "without a leading '_' or '.', which hide a directory; rename it, as in day=date(ts)"
        )
    if len(directory_of((name,), (None,)).encode()) > MOST_BYTES:
        raise ValueError(f"{name!r} is too long for the name of a partition: it leaves no room for a value")


def _text(field: PartitionField) -> str:
    argument = "" if field.argument is None else f",{field.argument}"
    text = str(field.source) if field.transform == "identity" else f"{field.transform}({field.source}{argument})"
    return text if field.name == _default_name(field.source, field.transform) else f"{field.name}={text}"
