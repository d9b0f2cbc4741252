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
from typing import Any

import numpy as np
import numpy.typing as npt

from mutator.rules.byte_columns import ByteColumn, Ints, words_of

Hashes = npt.NDArray[np.uint64]
Prefixes = npt.NDArray[np.uint32]  # of hashes: their upper halves

HASH_NAME = "murmur64a"

_M = 0xC6A4A7935BD1E995
_MASK = 0xFFFFFFFFFFFFFFFF

_M64, _R64 = np.uint64(_M), np.uint64(47)
_TAILS = np.array([(1 << 8 * count) - 1 for count in range(8)], np.uint64)  # masks of the first bytes of eight

_LONG = 256  # bytes; many words of longer values are mixed at once
_AT_ONCE = 1 << 16  # words of long values that are mixed at once: 512 KB
_FEW = 8  # values for which calls of numpy for each word take longer than a loop over the values


def murmur64a(data: bytes, seed: int = 0) -> int:
    """Return MurmurHash64A of the bytes as an unsigned 64-bit integer.

    >>> murmur64a(b"") == 0
    True
    """
    length = len(data)
    if length > 4 * _LONG:  # for less, the loop is faster
        return int(hash_more(np.array([seed], np.uint64), ByteColumn.of([data]))[0])
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


def hash_columns(columns: Sequence[ByteColumn]) -> Hashes:
    """Return ``hash_key`` of many record IDs at once: a column of values for each ID field.

    >>> int(hash_columns([ByteColumn.of([b"ab"]), ByteColumn.of([b"c"])])[0]) == hash_key((b"ab", b"c"))
    True
    """
    h = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        h = hash_more(h, column)
    return h


def hash_more(seeds: Hashes, values: ByteColumn) -> Hashes:
    """Return the MurmurHash64A of each value with a seed of its own. seeds: one per value.

    >>> int(hash_more(np.array([5], np.uint64), ByteColumn.of([b"ab"]))[0]) == murmur64a(b"ab", 5)
    True
    """
    starts, lengths = values.starts, values.ends - values.starts
    words = words_of(values.data)
    h = seeds ^ (lengths.view(np.uint64) * _M64)
    longest = int(lengths.max(initial=0))
    if longest <= _LONG:
        h = _with_words(h, words, starts, lengths, longest)
    else:
        short, long = np.flatnonzero(lengths <= _LONG), np.flatnonzero(lengths > _LONG)
        h[short] = _with_words(h[short], words, starts[short], lengths[short], int(lengths[short].max(initial=0)))
        h[long] = _with_many_words(h[long], words, starts[long], lengths[long] >> 3)
    rest = lengths & 7
    tail = words[starts + (lengths - rest)] & _TAILS[rest]
    h = np.where(rest != 0, (h ^ tail) * _M64, h)
    h = (h ^ (h >> _R64)) * _M64
    mixed: Hashes = h ^ (h >> _R64)
    return mixed


def _with_words(h: Hashes, words: Hashes, starts: Ints, lengths: Ints, longest: int) -> Hashes:
    """Add the whole words of values to their hashes, the same word of all values at a time.

    words: one for each position in the data. longest: the highest of the lengths, in bytes.
    """
    equal = longest == int(lengths.min(initial=longest))
    for step in range(longest // 8):
        if equal:
            h = (h ^ _mixed(words[starts + 8 * step])) * _M64
        else:
            rows = np.flatnonzero(lengths >= 8 * (step + 1))
            h[rows] = (h[rows] ^ _mixed(words[starts[rows] + 8 * step])) * _M64
    return h


def _with_many_words(h: Hashes, words: Hashes, starts: Ints, counts: Ints) -> Hashes:
    """Do the same for long values, with many words of each value mixed at once. counts: number of words of each."""
    order = np.argsort(-counts, kind="stable")  # the values that have a word left come first
    h, starts, counts = h[order], starts[order], counts[order]
    step = 0
    while rows := int(np.count_nonzero(counts > step)):
        end = min(step + max(_AT_ONCE // rows, 1), int(counts[0]))
        positions = starts[:rows] + 8 * np.arange(step, end)[:, np.newaxis]
        # A row for each word, a column for each value. A shorter value has no such word, and any other is ignored.
        table = _mixed(words[np.minimum(positions, len(words) - 1)])
        if rows > _FEW:
            remaining = np.searchsorted(-counts, -np.arange(step, end))  # number of values that have the word
            for row, count in zip(table, remaining.tolist(), strict=True):
                alive = h[:count]
                np.bitwise_xor(alive, row[:count], out=alive)
                np.multiply(alive, _M64, out=alive)
        else:
            for number in range(rows):
                h[number] = _chained(int(h[number]), table[: counts[number] - step, number].tolist())
        step = end
    unordered = np.empty_like(h)
    unordered[order] = h
    return unordered


def _chained(h: int, mixed: Iterable[int]) -> int:
    for k in mixed:
        h = (h ^ k) * _M & _MASK
    return h


def _mixed(words: Hashes) -> Hashes:
    words = words * _M64
    mixed: Hashes = (words ^ (words >> _R64)) * _M64
    return mixed


def prefixes_of(hashes: Hashes) -> Prefixes:
    """Return the upper 32 bits of each hash.

    >>> prefixes_of(np.array([7 << 32 | 5], np.uint64)).tolist()
    [7]
    """
    return (hashes >> np.uint64(32)).astype(np.uint32)


class PrefixTable:
    """A flag for each value of the first bits of a hash: whether a known hash has them.

    >>> known = PrefixTable([np.array([1 << 63, 7], np.uint64)])
    >>> known.rows(np.array([1 << 62, 5, 1 << 63], np.uint64)).tolist()
    [1, 2]
    """

    def __init__(self, hashes: Sequence[Hashes | Prefixes]) -> None:
        """Take the known hashes, or their prefixes, in one or several arrays."""
        self._bits = min(24, max(12, sum(map(len, hashes)).bit_length() + 3))
        self._known = np.zeros(1 << self._bits, np.bool_)
        for own in hashes:
            self.add(own)

    def add(self, hashes: Hashes | Prefixes) -> None:
        """Add known hashes, or prefixes of them."""
        self._known[self._index(hashes)] = True

    def rows(self, hashes: Hashes | Prefixes) -> Ints:
        """Return the numbers of the hashes, or prefixes of hashes, that may be known."""
        found: Ints = np.flatnonzero(self._known[self._index(hashes)])
        return found

    def _index(self, hashes: Hashes | Prefixes) -> Any:
        bits = 8 * hashes.itemsize
        index = hashes >> hashes.dtype.type(bits - self._bits)
        return index.view(f"int{bits}")  # numpy would convert uint64
