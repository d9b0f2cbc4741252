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

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["HASH_NAME", "bucket_of", "hash_key", "murmur64a"]

HASH_NAME = "murmur64a"

_M = 0xC6A4A7935BD1E995
_MASK = 0xFFFFFFFFFFFFFFFF


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
    """Return the bucket of a record ID, 0 to ``buckets - 1``."""
    return hash_key(key) % buckets
