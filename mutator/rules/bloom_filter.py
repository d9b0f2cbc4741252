"""A Bloom filter of record IDs: which files may hold an ID, so that the others need not be read to look for it.

A filter is blocks of 16 words of 64 bits. A key belongs to one block and sets one bit in each of its words, so a key
that is not there is mostly told by the first word. Of 32 bits a key, about four of ten million absent keys are taken
for present: with thousands of keys that are looked for in thousands of files, hardly a file is read in vain.

After Bloom, Space/time trade-offs in hash coding with allowable errors (1970), and the split blocks of Putze, Sanders
and Singler, Cache-, hash- and space-efficient Bloom filters (2007), which Parquet has too, with 8 words of 32 bits.

>>> words = filter_of(np.array([1, 2, 3], np.uint64))
>>> may_contain(words, np.array([2], np.uint64)).tolist()
[True]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mutator.rules.byte_columns import Flags
from mutator.rules.key_hash import murmur64a

__all__ = ["Words", "filter_of", "may_contain"]

Words = npt.NDArray[np.uint64]

_WORDS = 16  # of a block
_KEYS = 32  # of a block, on average: 32 bits a key
# A salt a word: multiples of one number would make all bits of a key follow from its first.
_SALTS = [np.uint64(murmur64a(b"word", number) | 1) for number in range(_WORDS)]


def filter_of(hashes: Words) -> Words:
    """Return the words of a filter of some key hashes."""
    words = np.zeros(_WORDS * max(-(-len(hashes) // _KEYS), 1), np.uint64)
    block = _blocks(words, hashes)
    for number in range(_WORDS):
        np.bitwise_or.at(words, block + number, _bit(hashes, number))
    return words


def may_contain(words: Words, hashes: Words) -> Flags:
    """Tell which key hashes may be in a filter; those that are, are."""
    block = _blocks(words, hashes)
    found = np.zeros(len(hashes), np.bool_)
    rows = np.arange(len(hashes))
    for number in range(_WORDS):
        hit = words[block + number] & _bit(hashes, number) != 0
        if not hit.all():
            rows, block, hashes = rows[hit], block[hit], hashes[hit]
            if not len(rows):
                return found
    found[rows] = True
    return found


def _blocks(words: Words, hashes: Words) -> npt.NDArray[np.int64]:
    """Return the first word of each key's block."""
    count = np.uint64(len(words) // _WORDS)
    block = (hashes >> np.uint64(32)) * count >> np.uint64(32)
    return block.view(np.int64) * _WORDS


def _bit(hashes: Words, number: int) -> Words:
    spread = hashes * _SALTS[number]
    bit: Words = np.uint64(1) << (spread >> np.uint64(58))
    return bit
