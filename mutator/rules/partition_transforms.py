"""Partition transforms: read ``partitioned.by`` and ``--by``, and return the partition of each row.

Partition fields are separated by commas. Each is a field of the rows (its name, or an ordinal), or is derived from
one, and may be given a name:

    store_id, day=date(ts), date(ts,ms), year(ts), month(ts), prefix(id,2), bucket(id,16), store=0

``date``, ``year`` and ``month`` read ISO 8601 (UTC where there is no zone), or with a unit (``s``, ``ms``, ``us``,
``ns``) integers since 1970, and are in UTC: ``2026-01-31``, ``2026``, ``01``. A month is that of any year, so
``year(ts),month(ts)`` nest as in other systems. ``prefix`` counts characters; a byte that belongs to none counts as one
character. ``bucket`` is the key hash of the value alone, modulo a number. NULL and the empty value stay NULL.

``directory_of_row`` has the rules for one row and is the reference; ``partition_rows`` gives the same for columns.

>>> directory_of_row(parse_fields("store,date(ts)"), [b"7", b"2026-01-31T23:30:00-01:00"])
'store=7/ts_date=2026-02-01'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.display import quoted
from mutator.rules.byte_columns import ByteColumn, Flags, Ints, offsets_of
from mutator.rules.key_hash import hash_columns, murmur64a
from mutator.rules.order_columns import parse_column
from mutator.rules.order_values import parse_long
from mutator.rules.partition_paths import directory_of, number_combinations
from mutator.rules.timestamps import FIRST_SECOND, LAST_SECOND, TICKS, date_of, parse_timestamp, parse_timestamps

_TIMES: dict[str, Callable[[date], str]] = {
    "date": date.isoformat,
    "year": lambda day: f"{day.year:04}",
    "month": lambda day: f"{day.month:02}",
}
_NUMBERED = ("prefix", "bucket")
_SHAPE = re.compile(
    r"\s*(?:(?P<name>[^=(),]*)=)?\s*(?:(?P<transform>[^=(),]*)\((?P<inner>[^=(),]*)(?:,(?P<argument>[^=(),]*))?\)"
    r"|(?P<source>[^=(),]*))\s*\Z"
)
_COMMAS = re.compile(r",(?![^(]*\))")  # not those in parentheses
_EXPECTED = "is not a partition field: expected store_id, day=date(ts) or bucket(id,16)"
_ORDINAL = re.compile(r"[0-9]{1,9}\Z")
_MOST_BYTES = 255  # of a name, on nearly all storages


@dataclass(frozen=True)
class PartitionField:
    """One level of partition directories: its name, and the field and transform that give its value."""

    name: str
    source: str | int  # name or ordinal of a field
    transform: str = "identity"  # date | year | month | prefix | bucket
    argument: Any = None  # the unit of a time, the characters of a prefix, the number of buckets


class RowPartitions(NamedTuple):
    """The partitions of rows."""

    codes: Ints  # an index into ``names`` for each row; -1 for rows with a reason
    names: list[str]  # directories
    reasons: dict[int, str]  # row to the reason why it has no partition

    def only(self, rows: Ints | Flags) -> RowPartitions:
        """Return the partitions of some rows, without reasons."""
        return RowPartitions(self.codes[rows], self.names, {})


def parse_fields(text: str) -> tuple[PartitionField, ...]:
    """Read partition fields. Raises ValueError with the expected form.

    >>> parse_fields("day=date(ts)")
    (PartitionField(name='day', source='ts', transform='date', argument=None),)
    """
    return checked_fields(tuple(_field(part) for part in _COMMAS.split(text)))


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


def partition_rows(fields: Sequence[PartitionField], columns: Sequence[Any]) -> RowPartitions:
    """Return the partitions of rows, given for each field its source: a pa.Array of large_binary, canonical text.

    >>> partition_rows(parse_fields("store"), [pa.array([b"7", b"8", b"7"], pa.large_binary())]).names
    ['store=7', 'store=8']
    """
    reasons: dict[int, str] = {}
    numbered, levels = [], []
    for field, column in zip(fields, columns, strict=True):
        codes, names = _levels(field, column)
        rows = np.flatnonzero(codes < 0)
        for row, value in zip(rows.tolist(), column.take(pa.array(rows)).to_pylist(), strict=True):
            reasons.setdefault(row, _refusal(field, value))
        numbered.append(codes)
        levels.append(names)
    codes, derived_values = number_combinations(numbered)
    names = ["/".join(names[code] for names, code in zip(levels, one, strict=True)) for one in derived_values]
    return RowPartitions(codes, names, reasons)


def directory_of_row(fields: Sequence[PartitionField], values: Sequence[bytes | None]) -> str:
    """Return the directory of one row. Raises ValueError with the reason if it has none.

    >>> directory_of_row(parse_fields("bucket(id,16)"), [b"ab"])
    'id_bucket=8'
    """
    return "/".join(_level(field, _derived(field, value), value) for field, value in zip(fields, values, strict=True))


def _field(text: str) -> PartitionField:
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
    if transform in _TIMES:
        if text is not None and text not in TICKS:
            raise ValueError(f"{transform} expects a field and perhaps a unit, {', '.join(TICKS)}, not {text!r}")
        return text
    if transform not in _NUMBERED:
        known = ", ".join((*_TIMES, *_NUMBERED))
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
    if len(directory_of((name,), (None,)).encode()) > _MOST_BYTES:
        raise ValueError(f"{name!r} is too long for the name of a partition: it leaves no room for a value")


def _text(field: PartitionField) -> str:
    argument = "" if field.argument is None else f",{field.argument}"
    text = str(field.source) if field.transform == "identity" else f"{field.transform}({field.source}{argument})"
    return text if field.name == _default_name(field.source, field.transform) else f"{field.name}={text}"


# The rules for one row.


def _derived(field: PartitionField, value: bytes | None) -> bytes | None:
    """Return the partition value of a value. Raises ValueError with the reason if it has none."""
    if not value or field.transform == "identity":
        return value
    if field.transform == "bucket":
        return b"%d" % (murmur64a(value) % field.argument)
    if field.transform == "prefix":
        return value.decode("utf-8", "surrogateescape")[: field.argument].encode("utf-8", "surrogateescape")
    try:
        seconds = parse_timestamp(value)[0] if field.argument is None else parse_long(value) // TICKS[field.argument]
        if not FIRST_SECOND <= seconds <= LAST_SECOND:
            raise ValueError("is outside of the years 0001 to 9999 in UTC")
    except ValueError as reason:
        raise ValueError(_reason(field, f"{reason}", value)) from None
    return _day_text(field, seconds // 86400)


def _level(field: PartitionField, derived: bytes | None, value: bytes | None) -> str:
    """Return the name of a directory. Raises ValueError with the reason if there can be no such directory."""
    name = directory_of((field.name,), (None if derived is None else derived.decode("utf-8", "surrogateescape"),))
    if len(name.encode()) > _MOST_BYTES:
        why = f"is longer than a directory's name can be ({_MOST_BYTES} bytes)"
        raise ValueError(_reason(field, why, value or b""))
    return name


def _refusal(field: PartitionField, value: bytes | None) -> str:
    try:
        _level(field, _derived(field, value), value)
    except ValueError as reason:
        return str(reason)
    raise AssertionError(f"the rules for columns refuse {value!r}, and those for rows do not")


def _reason(field: PartitionField, why: str, value: bytes) -> str:
    return f"field {field.source} (partition) {why}: {quoted(value)}"


def _day_text(field: PartitionField, day: int) -> bytes:
    return _TIMES[field.transform](date_of(day)).encode()


# The same for columns: once for each different value, and once for each different partition value, mostly far fewer.


def _levels(field: PartitionField, column: Any) -> tuple[Ints, list[str]]:
    """Return the directory of each row as an index, -1 for none, and the directories of one level."""
    encoded = column.dictionary_encode()
    codes, derived_values = _derived_column(field, encoded.dictionary)
    numbers: dict[str, int] = {}
    codes_of = np.full(len(derived_values) + 1, -1, np.int64)  # the last one is for values without a partition
    for code, derived in enumerate(derived_values):
        try:
            name = _level(field, derived, None)
        except ValueError:
            continue
        codes_of[code] = numbers.setdefault(name, len(numbers))
    null = numbers.setdefault(_level(field, None, None), len(numbers)) if encoded.null_count else -1
    rows = encoded.indices.fill_null(len(codes)).to_numpy()
    return np.append(codes_of[codes], null)[rows], list(numbers)


def _derived_column(field: PartitionField, values: Any) -> tuple[Ints, list[bytes]]:
    """Return the partition value of each value as an index, -1 for none, and the partition values.

    These may have duplicates, and ones that no value has.
    """
    if field.transform == "identity":
        return np.arange(len(values)), values.to_pylist()
    empty = np.diff(offsets_of(values)[0]) == 0
    if field.transform == "prefix":
        found, bad = _prefixes(field, values), empty & False
    elif field.transform == "bucket":
        numbers = hash_columns([ByteColumn.of_array(values)]) % np.uint64(field.argument)
        found, bad = pa.array(numbers.view(np.int64)), empty & False
    else:
        days, bad = _days(field, ByteColumn.of_array(values))
        found, bad = pa.array(days, mask=bad), bad & ~empty
    encoded = pc.if_else(pa.array(empty), pa.scalar(None, found.type), found).dictionary_encode()
    derived_values = [_derived_text(field, value) for value in encoded.dictionary.to_pylist()]
    codes = encoded.indices.fill_null(len(derived_values)).to_numpy().astype(np.int64)
    codes[bad] = -1
    return codes, [*derived_values, b""]


def _derived_text(field: PartitionField, value: Any) -> bytes:
    if field.transform in _TIMES:
        return _day_text(field, value)
    return b"%d" % value if field.transform == "bucket" else value


def _prefixes(field: PartitionField, values: Any) -> Any:
    try:
        return pc.utf8_slice_codeunits(values.cast(pa.large_string()), 0, field.argument).cast(pa.large_binary())
    except pa.ArrowInvalid:  # some values are not UTF-8
        return pa.array([_derived(field, value) for value in values.to_pylist()], pa.large_binary())


def _days(field: PartitionField, values: ByteColumn) -> tuple[Ints, Flags]:
    """Return the days since 1970, and which values have none."""
    if field.argument is None:
        seconds, _, _, bad = parse_timestamps(values)
    else:
        ticks, bad = parse_column("long", values)
        seconds = ticks.to_numpy() // TICKS[field.argument]
    bad = bad | (seconds < FIRST_SECOND) | (seconds > LAST_SECOND)
    return seconds // 86400, bad
