"""The row hash: 32 bits that differ between most rows that differ. It is part of the table format and never changes.

A table compares a mutation with the record that it replaces. Where the row hashes differ, so do the rows, and the old
row need not be read; where they are equal, the rows are compared.

``hash(row)`` = for each field in order ``h = mix(h, value)``, from ``h = 0``; the row hash is its upper 32 bits. A
value of at most 64 bits (a number, time or truth value) is one word, its bits as a signed integer. Text and bytes are
hashed by MurmurHash64A with the seed ``h``, and so is the Python literal of a decimal, list, map or struct. NULL is a
word of its own.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mutator.rules.byte_columns import ByteColumn, concatenated
from mutator.rules.key_hash import Hashes, hash_more
from mutator.rules.order_columns import flags
from mutator.rules.typed_values import comparable

RowHashes = npt.NDArray[np.uint32]

_M = np.uint64(0x9E3779B97F4A7C15)  # the odd multiplier of Fibonacci hashing
_R = np.uint64(32)
_NULL = np.uint64(0xD6E8FEB86659FD93)


def row_hashes(rows: Any) -> RowHashes:
    """Return the row hash of each struct of a pa.StructArray.

    >>> one, other = row_hashes(pa.array([{"id": 7, "name": "a"}, {"id": 7, "name": None}])).tolist()
    >>> one == other
    False
    """
    h = np.zeros(len(rows), np.uint64)
    for column in rows.flatten():
        h = _with_column(h, column)
    return (h >> _R).astype(np.uint32)


def _with_column(h: Hashes, column: Any) -> Hashes:
    if pa.types.is_null(column.type):
        return _mixed(h, np.full(len(h), _NULL))
    null = flags(column.is_null()) if column.null_count else None
    found = _with_values(h, column if null is None else _filled(column))
    return found if null is None else np.where(null, _mixed(h, np.full(len(h), _NULL)), found)


def _with_values(h: Hashes, column: Any) -> Hashes:
    """Mix values into hashes. column: without nulls."""
    data_type = column.type
    if pa.types.is_boolean(data_type):
        return _mixed(h, flags(column).astype(np.uint64))
    if pa.types.is_integer(data_type) or pa.types.is_floating(data_type) or pa.types.is_temporal(data_type):
        words = comparable(column).to_numpy(zero_copy_only=False)
        return _mixed(h, words.astype(np.int64, copy=False).view(np.uint64) if words.dtype != np.uint64 else words)
    return hash_more(h, ByteColumn.of_array(_bytes(column)))


def _bytes(column: Any) -> Any:
    data_type = column.type
    if pa.types.is_string(data_type) or pa.types.is_large_string(data_type) or pa.types.is_binary(data_type):
        return column.cast(pa.large_binary())
    if pa.types.is_large_binary(data_type):
        return column
    if pa.types.is_fixed_size_binary(data_type):
        return column.cast(pa.binary()).cast(pa.large_binary())
    if pa.types.is_decimal(data_type):  # its text has nothing that a literal would escape
        return concatenated(b"'", comparable(column).cast(pa.large_string()).cast(pa.large_binary()), b"'")
    return pa.array([repr(value).encode() for value in comparable(column).to_pylist()], pa.large_binary())


def _filled(column: Any) -> Any:
    """Return a column with a value in place of each NULL; the hash of such a row is not used."""
    if column.null_count == len(column):
        return pa.repeat(b"", len(column)).cast(pa.large_binary())
    valid = column.is_valid()
    first = int(np.argmax(flags(valid)))
    return column.take(pc.if_else(valid, pa.array(np.arange(len(column))), first))


def _mixed(h: Hashes, words: Hashes) -> Hashes:
    h = (h ^ words) * _M
    h = (h ^ (h >> _R)) * _M
    return h ^ (h >> _R)
