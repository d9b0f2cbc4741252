"""Partition transforms: return the partition of each row, as its partition fields say (``partition_fields``).

``date``, ``year`` and ``month`` read ISO 8601 (UTC where there is no zone), or with a unit (``s``, ``ms``, ``us``,
``ns``) integers since 1970, and are in UTC: ``2026-01-31``, ``2026``, ``01``. A month is that of any year, so
``year(ts),month(ts)`` nest as in other systems. ``prefix`` counts characters; a byte that belongs to none counts as one
character. ``bucket`` is the key hash of the value alone, modulo a number. NULL and the empty value stay NULL.

``directory_of_row`` has the rules for one row and is the reference; ``partition_rows`` gives the same for columns.

>>> fields = [PartitionField("store", "store"), PartitionField("ts_date", "ts", "date")]
>>> directory_of_row(fields, [b"7", b"2026-01-31T23:30:00-01:00"])
'store=7/ts_date=2026-02-01'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from mutator.rules.partition_fields import MOST_BYTES, PartitionField
from mutator.rules.partition_paths import directory_of
from mutator.rules.timestamp_columns import parse_timestamps
from mutator.rules.timestamps import FIRST_SECOND, LAST_SECOND, TICKS, date_of, parse_timestamp

_TIMES: dict[str, Callable[[date], str]] = {
    "date": date.isoformat,
    "year": lambda day: f"{day.year:04}",
    "month": lambda day: f"{day.month:02}",
}


class RowPartitions(NamedTuple):
    """The partitions of rows."""

    codes: Ints  # an index into ``names`` for each row; -1 for rows with a reason
    names: list[str]  # directories
    reasons: dict[int, str]  # row to the reason why it has no partition

    def only(self, rows: Ints | Flags) -> RowPartitions:
        """Return the partitions of some rows, without reasons."""
        return RowPartitions(self.codes[rows], self.names, {})


def partition_rows(fields: Sequence[PartitionField], columns: Sequence[Any]) -> RowPartitions:
    """Return the partitions of rows, given for each field its source: a pa.Array of large_binary, canonical text.

    >>> partition_rows([PartitionField("store", 0)], [pa.array([b"7", b"8", b"7"], pa.large_binary())]).names
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


def number_combinations(columns: Sequence[Ints]) -> tuple[Ints, list[tuple[int, ...]]]:
    """Number the different combinations of the values of several columns, in the order of their first rows.

    Returns the number of each row, and the values of each number. A row with a negative value in any of the columns
    has no combination, and gets -1.

    >>> numbers, combinations = number_combinations([np.array([5, 5, 0, 5]), np.array([1, -1, 1, 1])])
    >>> numbers.tolist(), combinations
    ([0, -1, 1, 0], [(5, 1), (0, 1)])
    """
    codes = np.zeros(len(columns[0]), np.int64)
    combinations: list[tuple[int, ...]] = [()]
    for column in columns:
        # Numbered anew for each column, so that no number outgrows its type.
        size = int(column.max(initial=0)) + 1
        pairs = pa.array(codes * size + column, mask=(codes < 0) | (column < 0)).dictionary_encode()
        codes = pairs.indices.fill_null(-1).to_numpy().astype(np.int64)
        combinations = [(*combinations[pair // size], pair % size) for pair in pairs.dictionary.to_pylist()]
    return codes, combinations


def directory_of_row(fields: Sequence[PartitionField], values: Sequence[bytes | None]) -> str:
    """Return the directory of one row. Raises ValueError with the reason if it has none.

    >>> directory_of_row([PartitionField("id_bucket", "id", "bucket", 16)], [b"ab"])
    'id_bucket=8'
    """
    return "/".join(_level(field, _derived(field, value), value) for field, value in zip(fields, values, strict=True))


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
    if len(name.encode()) > MOST_BYTES:
        why = f"is longer than a directory's name can be ({MOST_BYTES} bytes)"
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
