"""Inserted records whose IDs are those of other records in another spelling, found by a sample of the winners.

A record of the master is in the task of its own hash, so an ID and its other spelling meet in a task only by chance.
Of many winners, those are looked for whose other spelling belongs to their own task.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.engine.blocks.mutations import Mutations
from mutator.engine.receipts import Key
from mutator.formats.blocks.block_type import Hashes
from mutator.plan.run_plan import Plan
from mutator.rules.byte_columns import Ints
from mutator.rules.id_spellings import have_spellings, others_of
from mutator.rules.key_hash import hash_key

_MOST = 64  # winners of a task: looking for their spellings must cost less than a hundredth of its time
FEWEST = 32  # winners; the first rows of the feed are compared with the master's before the merge


class OtherSpellings:
    """Keys that some winners would have in other spellings, sorted by hash, and those that records have."""

    def __init__(self, plan: Plan, found: Mutations, among: Ints | None = None) -> None:
        """Take a sample of the winners. among: the numbers of some; None for all upserts."""
        made: list[tuple[int, int, Key]] = []  # hash, number of the winner, key
        if have_spellings(plan.rows.spec["key"]):
            among = np.flatnonzero(~found.deletes) if among is None else among
            numbers = among[:: max(len(among) // _MOST, 1)][:_MOST]
            index = pa.array(numbers)
            keys = list(zip(*(column.take(index).to_pylist() for column in found.keys), strict=True))
            for number, key, own in zip(numbers.tolist(), keys, found.hashes[numbers].tolist(), strict=True):
                hashed = ((hash_key(other), other) for other in others_of(key))
                made += [(value, number, other) for value, other in hashed if _are_together(plan, own, value)]
        gone = _deleted(found, np.array([value for value, _, _ in made], np.uint64))
        made = sorted((one for one, is_gone in zip(made, gone, strict=True) if not is_gone), key=lambda one: one[0])
        self.hashes: Hashes = np.array([value for value, _, _ in made], np.uint64)
        self.keys: Sequence[Key] = [key for _, _, key in made]
        self._numbers = [number for _, number, _ in made]
        self._met: dict[int, Key] = {}

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def columns(self) -> list[Any]:
        """The keys as a pa.Array for each ID field."""
        return [pa.array(values, pa.large_binary()) for values in zip(*self.keys, strict=True)]

    def look(self, hashes: Hashes, rows: Ints, keys: Callable[[Ints], Any]) -> None:
        """Look for the keys among some rows. hashes: of all rows. keys: returns the key columns of some of them."""
        at = np.searchsorted(self.hashes, hashes[rows])
        at[at == len(self)] = 0
        same = self.hashes[at] == hashes[rows]
        if same.any():
            columns = (column.to_pylist() for column in keys(rows[same]))
            for number, key in zip(at[same].tolist(), zip(*columns, strict=True), strict=True):
                if key == self.keys[number]:
                    self.meet(number)

    def meet(self, number: int) -> None:
        """Note that a record has the key with a number."""
        self._met.setdefault(self._numbers[number], self.keys[number])

    def of(self, positions: Ints) -> dict[int, Key]:
        """Return the keys of records that some winners have in another spelling. positions: of the winners."""
        return {number: self._met[number] for number in self._met.keys() & set(positions.tolist())}


def _deleted(found: Mutations, hashes: Hashes) -> list[bool]:
    """Return of which keys a winner is a delete, as where a feed corrects their spelling. hashes: of the keys."""
    at = np.searchsorted(found.hashes, hashes)
    at[at == len(found)] = 0
    return ((found.hashes[at] == hashes) & found.deletes[at]).tolist() if len(found) else [False] * len(hashes)


def _are_together(plan: Plan, one: int, other: int) -> bool:
    """Return whether the keys of two hashes are merged by one task."""
    buckets = plan.strategy.buckets
    if buckets is None:
        return True
    return one % buckets % plan.groups == other % buckets % plan.groups
