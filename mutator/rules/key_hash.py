"""The key hash: which bucket a record belongs to. It is part of the file format and never changes.

``hash(key)`` = for each ID value in turn ``h = MurmurHash64A(canonical bytes of the value, seed=h)``, from ``h = 0``;
``bucket = h mod P``, with ``h`` an unsigned 64-bit integer. When P doubles, bucket *b* becomes *b* and *b + P*.

MurmurHash64A is Austin Appleby's 64-bit MurmurHash2 for 64-bit platforms (public domain): 8 bytes a step, so it can be
computed over a whole column at once, and the length of each value goes in, so ("ab", "c") and ("a", "bc") differ.

Canonical bytes do not depend on the file format: bytes as they are; text as UTF-8; integers as decimal digits, with a
"-" where negative (so a key ``12`` hashes alike as text, Avro long or Parquet int32); booleans as ``true`` and
``false``; dates, timestamps (UTC, "Z", fraction without trailing zeros) as ISO 8601; decimals in plain notation
without trailing zeros in the fraction.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from mutator.rules.byte_columns import ByteColumn

HASH_NAME = "murmur64a"

_M = 0xC6A4A7935BD1E995
_MASK = 0xFFFFFFFFFFFFFFFF

_M64, _R64 = np.uint64(_M), np.uint64(47)
_TAILS = np.array([(1 << 8 * count) - 1 for count in range(8)], np.uint64)  # masks of the first bytes of eight


def murmur64a(data: bytes, seed: int = 0) -> int:
    """Return MurmurHash64A of the bytes as an unsigned 64-bit integer.

    >>> murmur64a(b"") == 0
    True
    """
    length = len(data)
    h = seed ^ (length * _M & _MASK)
    whole = length & ~7
    for start in range(0, whole, 8):
        k = int.from_bytes(data[start : start + 8], "little") * _M & _MASK
        k = (k ^ (k >> 47)) * _M & _MASK
        h = (h ^ k) * _M & _MASK
    if whole != length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ (h >> 47)) * _M & _MASK
    return h ^ (h >> 47)


def hash_key(key: Iterable[bytes]) -> int:
    """Return the hash of a record ID, given the canonical bytes of its values.

    >>> hash_key((b"ab", b"c")) != hash_key((b"a", b"bc"))
    True
    """
    h = 0
    for value in key:
        h = murmur64a(value, h)
    return h


def bucket_of(key: Iterable[bytes], buckets: int) -> int:
    """Return the bucket of a record ID, 0 to ``buckets - 1``.

    >>> bucket_of((b"ab", b"c"), 7)
    6
    """
    return hash_key(key) % buckets


def hash_columns(columns: Sequence[ByteColumn]) -> npt.NDArray[np.uint64]:
    """Return ``hash_key`` of many record IDs at once: a column of values for each ID field.

    >>> int(hash_columns([ByteColumn.of([b"ab"]), ByteColumn.of([b"c"])])[0]) == hash_key((b"ab", b"c"))
    True
    """
    h = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        h = _murmur64a_of(column, h)
    return h


# Longer values are rare, and a loop over their bytes costs no more than one over all rows.
_LONG = 256


def _murmur64a_of(values: ByteColumn, seeds: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    lengths = values.ends - values.starts
    longest = int(lengths.max(initial=0))
    if longest > _LONG:
        return _with_long_values(values, seeds, lengths)
    # The eight bytes from any place on, as one integer.
    words = np.ndarray((len(values.data) - 7,), "<u8", values.data, strides=(1,))
    h = seeds ^ (lengths.view(np.uint64) * _M64)
    equal = longest == int(lengths.min(initial=longest))
    for step in range(longest // 8):
        if equal:
            h = _mixed(h, words[values.starts + 8 * step])
        else:
            rows = np.flatnonzero(lengths >= 8 * (step + 1))
            h[rows] = _mixed(h[rows], words[values.starts[rows] + 8 * step])
    rest = lengths & 7
    tail = words[values.starts + (lengths - rest)] & _TAILS[rest]
    h = np.where(rest != 0, (h ^ tail) * _M64, h)
    h = (h ^ (h >> _R64)) * _M64
    mixed: npt.NDArray[np.uint64] = h ^ (h >> _R64)
    return mixed


def _mixed(h: npt.NDArray[np.uint64], k: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    k = k * _M64
    k = (k ^ (k >> _R64)) * _M64
    mixed: npt.NDArray[np.uint64] = (h ^ k) * _M64
    return mixed


def _with_long_values(
    values: ByteColumn, seeds: npt.NDArray[np.uint64], lengths: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    short, long = np.flatnonzero(lengths <= _LONG), np.flatnonzero(lengths > _LONG)
    h = np.empty(len(lengths), np.uint64)
    h[short] = _murmur64a_of(values.only(short), seeds[short])
    for row in long:
        start, end = int(values.starts[row]), int(values.ends[row])
        h[row] = murmur64a(values.data[start:end].tobytes(), int(seeds[row]))
    return h
