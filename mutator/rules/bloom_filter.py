"""Bloom filters of record IDs: a run only reads the files that may contain an ID.

A filter consists of blocks of 16 words of 64 bits. A key belongs to one block and sets one bit in each of its words, so
the first word rules out most absent keys. With 32 bits per key, about four in ten million absent keys look present:
with thousands of keys and thousands of files, hardly a file is read in vain.

After Bloom, Space/time trade-offs in hash coding with allowable errors (1970), and the split blocks of Putze, Sanders
and Singler, Cache-, hash- and space-efficient Bloom filters (2007), which Parquet has too, with 8 words of 32 bits.

>>> words = filter_of(np.array([1, 2, 3], np.uint64))
>>> may_contain(words, np.array([2], np.uint64)).tolist()
[True]
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from mutator.rules.byte_columns import Flags
from mutator.rules.key_hash import murmur64a

Words = npt.NDArray[np.uint64]

_WORDS = 16  # of a block
BLOCK = 8 * _WORDS  # bytes of a block
_KEYS = 32  # of a block, on average: 32 bits a key
_UNPACKED = 4  # words of a block whose bits become bytes, if a filter is asked for many keys
_UNPACKS = 4  # keys for each block that are many
# A salt a word: multiples of one number would make all bits of a key follow from its first.
_SALTS = [np.uint64(murmur64a(b"word", number) | 1) for number in range(_WORDS)]
_ALL_SALTS = np.array(_SALTS)
_FEW = 1024  # keys of which all words are compared together, in arrays of 128 KB


def filter_of(hashes: Words, keys: int = _KEYS) -> Words:
    """Return the words of a filter of key hashes. keys: of a block, on average.

    >>> len(filter_of(np.array([1, 2, 3], np.uint64)))
    16
    """
    words = np.zeros(_WORDS * max(-(-len(hashes) // keys), 1), np.uint64)
    if not len(hashes):
        return words
    hashes = np.sort(hashes)  # blocks ascend with the hashes, so the keys of one are side by side
    block = _blocks(words, hashes)
    starts = np.flatnonzero(np.concatenate(([True], block[1:] != block[:-1])))
    for number in range(_WORDS):
        words[block[starts] + number] = np.bitwise_or.reduceat(_bit(hashes, number), starts)
    return words


def block_of(words: int, hashes: Words) -> npt.NDArray[np.int64]:
    """Return the number of the first word of each key's block. words: of the filter."""
    count = np.uint64(words // _WORDS)
    block = (hashes >> np.uint64(32)) * count >> np.uint64(32)
    return block.view(np.int64) * _WORDS


def read_words(content: Any) -> Words:
    """Return the words of a filter from the buffer that stores them. Raises ValueError if they are not whole blocks.

    >>> read_words(bytes(64))
    Traceback (most recent call last):
    ValueError: a key filter of 64 bytes
    """
    words: Words = np.frombuffer(content, "<u8")
    if not len(words) or len(words) % _WORDS:
        raise ValueError(f"a key filter of {len(content)} bytes")
    return words


def may_contain(words: Words, hashes: Words) -> Flags:
    """Return which key hashes may be in a filter: True for all that are, and by chance for others.

    >>> may_contain(filter_of(np.array([1], np.uint64)), np.array([1, 2], np.uint64)).tolist()
    [True, False]
    """
    return Sought(hashes).may_be_in(words, 0, len(hashes))


class Sought:
    """Key hashes that are looked for in many filters.

    Most filters have none of them, and are done with their first words. So what these take is kept: the bit of each
    key, and the block, which is the same in filters of the same size.
    """

    def __init__(self, hashes: Words) -> None:
        """Compute the bit of each key in its first word."""
        self._hashes = hashes
        self._bits = _bit(hashes, 0)
        self._size = -1
        self._block = np.zeros(0, np.int64)
        self._places: list[npt.NDArray[np.int64]] = []

    def may_be_in(self, words: Words, begin: int, end: int) -> Flags:
        """Return for some of the key hashes, by their numbers, which may be in a filter; as ``may_contain`` does.

        >>> Sought(np.array([2, 1, 3], np.uint64)).may_be_in(filter_of(np.array([1], np.uint64)), 1, 3).tolist()
        [True, False]
        """
        hashes, again = self._hashes[begin:end], len(words) == self._size
        if not again and len(hashes) == len(self._hashes):
            self._size, self._block, self._places = len(words), _blocks(words, hashes), []
        block = self._block[begin:end] if len(words) == self._size else _blocks(words, hashes)
        found = np.zeros(len(hashes), np.bool_)
        if again and len(hashes) * _WORDS >= _UNPACKS * len(words):
            rows, done = self._in_first_words(words, begin, end), _UNPACKED
        else:
            rows, done = np.flatnonzero(words[block] & self._bits[begin:end]), 1
        hashes, block = hashes[rows], block[rows]
        while done < _WORDS and len(rows) > _FEW:
            hit = words[block + done] & _bit(hashes, done) != 0
            rows, block, hashes, done = rows[hit], block[hit], hashes[hit], done + 1
        if len(rows) and done < _WORDS:
            bits = np.uint64(1) << (hashes[:, np.newaxis] * _ALL_SALTS[done:] >> np.uint64(58))
            rows = rows[(words.reshape(-1, _WORDS)[block // _WORDS, done:] & bits != 0).all(axis=1)]
        found[rows] = True
        return found

    def _in_first_words(self, words: Words, begin: int, end: int) -> npt.NDArray[np.int64]:
        """Return which of some keys have their bits in the first words of their blocks.

        Each bit becomes a byte, so that a look-up answers for a key. This takes half the time if keys are many.
        """
        if not self._places:
            blocks = self._block // _WORDS * 64
            self._places = [blocks + _place(self._hashes, number).view(np.int64) for number in range(_UNPACKED)]
        by_word = np.ascontiguousarray(words.reshape(-1, _WORDS)[:, :_UNPACKED].T)
        rows: Any = slice(None)
        for number, places in enumerate(self._places):
            bits = np.unpackbits(by_word[number].view(np.uint8), bitorder="little")
            wanted = places[begin:end][rows]
            # With a mode, numpy takes without a copy for the case of an error.
            hit = np.flatnonzero(bits.take(wanted, mode="clip").view(np.bool_))
            rows = hit if number == 0 else rows[hit]
        return rows  # type: ignore[no-any-return]


def _blocks(words: Words, hashes: Words) -> npt.NDArray[np.int64]:
    """Return the first word of each key's block."""
    return block_of(len(words), hashes)


def _bit(hashes: Words, number: int) -> Words:
    bit: Words = np.uint64(1) << _place(hashes, number)
    return bit


def _place(hashes: Words, number: int) -> Words:
    """Return the number of each key's bit in a word of its block. number: of the word."""
    place: Words = hashes * _SALTS[number] >> np.uint64(58)
    return place
