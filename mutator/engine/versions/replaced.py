"""What an insert overwrite replaces: everything in a table, or some of its partitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.byte_columns import Flags, Ints


@dataclass(frozen=True)
class Replaced:
    """The partitions that an insert overwrite replaces, and the data files that it removes."""

    partitions: frozenset[str] | None = None  # directories; None: everything
    removed: frozenset[str] = frozenset()  # paths: none of their rows needs to be hidden

    def among(self, names: Sequence[str | None], codes: Ints) -> Flags:
        """Return which rows and tombstones are in partitions that are replaced, or in none.

        names: of partitions. codes: of each row's partition. A tombstone without a partition is in none that is kept.

        >>> Replaced(frozenset({"p=1"})).among(["p=1", "p=2", ""], np.array([1, 0, 2]))
        array([False,  True,  True])
        """
        if self.partitions is None:
            return np.ones(len(codes), np.bool_)
        found: Flags = np.array([not name or name in self.partitions for name in names], np.bool_)[codes]
        return found
