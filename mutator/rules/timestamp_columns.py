"""Columns of timestamps in ISO 8601.

The usual forms are read with numpy; every other one is left to ``parse_timestamp``, which is the reference.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

from mutator.rules.byte_columns import ByteColumn, Bytes, Flags, Ints
from mutator.rules.timestamps import parse_timestamp


def parse_timestamps(fields: ByteColumn) -> tuple[Ints, Ints, Flags, Flags]:
    """Read a column of timestamps, as ``parse_timestamp`` reads each of them.

    Returns their seconds since 1970 in UTC, their nanoseconds, which of them have finer fractions (cut here), and
    which fields are not timestamps (0 here).

    >>> seconds, nanos, finer, bad = parse_timestamps(ByteColumn.of([b"1970-01-01T00:00:01.25", b"1970-01-02", b"x"]))
    >>> seconds.tolist(), nanos.tolist(), bad.tolist()
    ([1, 86400, 0], [250000000, 0, 0], [False, False, True])
    """
    seconds, nanos, usual = parse_usual(fields)
    finer, bad = np.zeros(len(fields), np.bool_), np.zeros(len(fields), np.bool_)
    rows = np.flatnonzero(~usual)
    for row, field in zip(rows.tolist(), fields.take(rows).to_pylist(), strict=True):
        try:
            seconds[row], fraction = parse_timestamp(field)
        except ValueError:
            seconds[row], fraction, bad[row] = 0, b"", True
        nanos[row], finer[row] = int(fraction[:9].ljust(9, b"0")), len(fraction) > 9
    return seconds, nanos, finer, bad


_ROWS = 1 << 14  # at a time, so that all that is made of them stays in the processor's cache
_DATE, _TIME = len("2026-01-31"), len("2026-01-31T10:00:00")
_TENS = np.array([0, 2, 5, 8, 11, 14, 17])  # offsets of the tens of century, year, month, day, hour, minute, second
_HIGHEST = np.array([[99], [99], [12], [31], [23], [59], [59]], np.uint8)


@cache  # most runs have no timestamps
def _month_starts() -> npt.NDArray[np.int32]:
    """Return the days from 1970-01-01 to the first day of each month, from 0001-01 to 10000-01."""
    return np.arange("0001-01", "10000-02", dtype="datetime64[M]").astype("datetime64[D]").astype(np.int32)


def parse_usual(fields: ByteColumn) -> tuple[Ints, Ints, Flags]:
    """Read the timestamps of a column that have a usual form.

    That is a date, or a date and time with seconds, up to nine digits of a fraction, and "Z", " UTC" or no zone.

    Returns their seconds since 1970 in UTC, their nanoseconds, and which fields have a usual form (others are
    undefined).

    >>> parse_usual(ByteColumn.of([b"1970-01-02T00:00:00Z", b"1970-01-02T00:00:00+01"]))[2].tolist()
    [True, False]
    """
    seconds, nanos = np.zeros(len(fields), np.int64), np.zeros(len(fields), np.int64)
    usual = np.zeros(len(fields), np.bool_)
    for start in range(0, len(fields), _ROWS):
        part = slice(start, start + _ROWS)
        chunk = fields.only(part)
        lengths = chunk.ends - chunk.starts
        lengths -= (lengths > _TIME) & ((chunk.data[chunk.ends - 1] | 32) == ord("z"))
        utc = lengths > _TIME + 3
        for place, byte in enumerate(b"CTU ", 1):
            utc &= chunk.data[chunk.ends - place] == byte
            if not utc.any():
                break
        lengths -= 4 * utc
        for length in np.flatnonzero(np.bincount(np.minimum(lengths, _TIME + 11))).tolist():
            if length in (_DATE, _TIME) or _TIME + 2 <= length <= _TIME + 10:
                alike = lengths == length
                rows = slice(None) if alike.all() else np.flatnonzero(alike)
                # Items of many bytes: one copy a row, and not one a byte.
                windows = np.ndarray((len(chunk.data) - length + 1,), f"V{length}", chunk.data, strides=(1,))
                text = windows[chunk.starts[rows]].view(np.uint8).reshape(-1, length)
                found = _parse_alike(np.ascontiguousarray(text.T))
                seconds[part][rows], nanos[part][rows], usual[part][rows] = found
    return seconds, nanos, usual


def _parse_alike(text: Bytes) -> tuple[Ints, npt.NDArray[np.int32], Flags]:
    """Read fields of one length, given a row of bytes for each offset in them."""
    length, count = text.shape
    digits = text - ord("0")  # bytes that are not digits are above 9
    tens = _TENS[:4] if length == _DATE else _TENS
    pairs = digits[tens] * 10 + digits[tens + 1]
    good = ((digits[tens] <= 9) & (digits[tens + 1] <= 9) & (pairs <= _HIGHEST[: len(tens)])).all(axis=0)
    good &= (text[[4, 7]] == ord("-")).all(axis=0)
    century, year, month, day, *clock = pairs.astype(np.int32)
    months = (100 * century + year) * 12 + month - 13
    good &= (months >= 0) & (month > 0)
    months[~good] = 0
    starts = _month_starts()
    days = starts[months] + day - 1
    good &= (day > 0) & (days < starts[months + 1])
    seconds, nanos = days.astype(np.int64) * 86400, np.zeros(count, np.int32)  # up to 999,999,999
    if clock:
        good &= (text[[13, 16]] == ord(":")).all(axis=0)
        good &= (text[10] == ord(" ")) | ((text[10] | 32) == ord("t"))
        seconds += (clock[0] * 60 + clock[1]) * 60 + clock[2]
    if length > _TIME:
        good &= (text[19] == ord(".")) | (text[19] == ord(","))
        good &= (digits[20:] <= 9).all(axis=0)
        for digit in digits[20:]:
            nanos = nanos * 10 + digit
        nanos *= 10 ** (29 - length)
    return seconds, nanos, good
