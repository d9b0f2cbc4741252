"""Times in text, in ISO 8601, to columns of timestamps, dates and times of the day: UTC where no zone is given."""

from typing import Any

import numpy as np
import pyarrow as pa

from mutator.rules.byte_columns import ByteColumn, Flags, Ints, concatenated
from mutator.rules.order_columns import flags
from mutator.rules.timestamp_columns import parse_timestamps
from mutator.rules.timestamps import TICKS

_SURE = 2**63 // 10**9 - 1  # seconds whose nanoseconds fit into 64 bits


def parse_times(column: Any, data_type: Any) -> tuple[Any, Flags, str]:
    """Read a pa.Array of large_binary to a timestamp, date or time type; nothing is rounded.

    Returns the column, which rows could not be read (they are null), and why.

    >>> column, bad, _ = parse_times(pa.array([b"1970-01-02", b"1970-01-02T01"], pa.large_binary()), pa.date32())
    >>> column.view(pa.int32()).to_pylist(), bad.tolist()
    ([1, None], [False, True])
    """
    if pa.types.is_time(data_type):  # of the first day
        column = concatenated(b"1970-01-01T", column)
    texts = column.drop_null() if column.null_count else column
    seconds, nanos, finer, bad = parse_timestamps(ByteColumn.of_array(texts.cast(pa.large_binary())))
    ticks, beyond = _ticks_of(seconds, nanos, data_type)
    bad |= finer | beyond
    ticks[bad] = 0
    missing = bad
    if column.null_count:
        null = flags(column.is_null())
        all_ticks, all_bad = np.zeros(len(column), np.int64), np.zeros(len(column), np.bool_)
        all_ticks[~null], all_bad[~null] = ticks, bad
        ticks, bad, missing = all_ticks, all_bad, null | all_bad
    plain = np.int64 if data_type.bit_width == 64 else np.int32
    found = pa.array(ticks.astype(plain, copy=False), mask=missing if missing.any() else None).view(data_type)
    return found, bad, f"is not of type {data_type}, in ISO 8601 and without more digits"


def _ticks_of(seconds: Ints, nanos: Ints, data_type: Any) -> tuple[Ints, Flags]:
    """Return times in the unit of a type, and which of them the type does not hold."""
    if pa.types.is_date(data_type):
        return seconds // 86400, (seconds % 86400 != 0) | (nanos != 0)
    ticks_a_second = TICKS[data_type.unit]
    fraction, rest = np.divmod(nanos, TICKS["ns"] // ticks_a_second)
    ticks, bad = seconds * ticks_a_second + fraction, rest != 0
    if data_type.unit == "ns":
        for row in np.flatnonzero((seconds > _SURE) | (seconds < -_SURE)).tolist():
            exact = int(seconds[row]) * ticks_a_second + int(fraction[row])
            bad[row] |= not -(2**63) <= exact < 2**63
    if pa.types.is_time(data_type):
        bad |= (ticks < 0) | (ticks >= 86400 * ticks_a_second)
    return ticks, bad
