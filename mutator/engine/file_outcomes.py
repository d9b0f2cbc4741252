"""The outcomes of winners by feed file: the parts of a run's counts that one file has.

Only winners are counted: the other mutations of a file that were read are superseded. Counting takes one pass over the
file numbers of the winners of a block, which a merge has anyway, because they decide ties.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from mutator.rules.byte_columns import Ints

# outcome -> pairs of a file's number in the plan and its winners, an int64 array as bytes
Packed = Mapping[str, bytes]


class FileOutcomes:
    """The number of winners of each outcome and feed file."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[int]] = {}

    def add(self, outcome: str | None, files: Ints) -> None:
        """Count winners of one outcome. files: the number of each one's file in the plan."""
        if outcome is None or not len(files):
            return
        lowest = int(files.min())  # files of the master may come before those of the feed
        counts = np.bincount(files - lowest)
        found = np.flatnonzero(counts)
        kept = self._counts.setdefault(outcome, Counter())
        kept.update(dict(zip((found + lowest).tolist(), counts[found].tolist(), strict=True)))

    def add_one(self, outcome: str, file: int) -> None:
        """Count one winner."""
        self._counts.setdefault(outcome, Counter())[file] += 1

    def packed(self) -> Packed:
        """Return the counts as a receipt has them: a task of many files would send many small objects."""
        return {outcome: np.array(list(counts.items()), np.int64).tobytes() for outcome, counts in self._counts.items()}


def joined_outcomes(parts: Iterable[Packed | None]) -> dict[int, Counter[str]] | None:
    """Return the outcomes of each file, by its number; None if one of the parts does not know them."""
    found: dict[int, Counter[str]] = {}
    sums: dict[str, Counter[int]] = {}
    for part in parts:
        if part is None:
            return None
        for outcome, pairs in part.items():
            counts = sums.setdefault(outcome, Counter())
            files, rows = np.frombuffer(pairs, np.int64).reshape(-1, 2).T.tolist()
            counts.update(dict(zip(files, rows, strict=True)))
    for outcome, counts in sums.items():
        for file, count in counts.items():
            found.setdefault(file, Counter())[outcome] = count
    return found
