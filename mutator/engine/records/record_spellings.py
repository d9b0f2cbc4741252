"""Inserted records whose IDs are those of other records in another spelling, among keys that come sorted."""

from collections import deque

from mutator.engine.receipts import Key
from mutator.engine.tally import SPELLED_OTHERWISE, Tally
from mutator.rules.id_spellings import others_of

_NEAR = 16  # keys of records that are remembered: many spellings of an ID begin alike
_MOST = 64  # samples, after which every other inserted key is one, and so on


class SortedSpellings:
    """Remembers a sample of inserted keys, and notes the records that have one of them in another spelling."""

    def __init__(self, tally: Tally) -> None:
        """Begin without keys. tally: gets the remarks."""
        self._tally = tally
        self._near: deque[Key] = deque(maxlen=_NEAR)
        self._awaited: dict[Key, Key] = {}  # spellings that may still come -> the inserted key
        self._inserted, self._sampled, self._step = 0, 0, 1

    def record(self, key: Key) -> None:
        """Add the next key, of a record of the master."""
        self._near.append(key)
        if key in self._awaited:
            self._note(self._awaited.pop(key), key)

    def insert(self, key: Key) -> None:
        """Add the next key, of an inserted record."""
        self._inserted += 1
        if self._inserted % self._step:
            return
        self._sampled += 1
        if self._sampled == _MOST:
            self._sampled, self._step = 0, 2 * self._step
        for other in others_of(key):
            if other > key:
                self._awaited[other] = key
            elif other in self._near:
                self._note(key, other)

    def _note(self, key: Key, other: Key) -> None:
        self._tally.note_all(SPELLED_OTHERWISE, [(*key, *other)])
