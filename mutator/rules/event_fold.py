"""The fold of a table with history: it leaves each event, the last of the mutations of one key and order value."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mutator.rules.byte_columns import Ints
from mutator.rules.last_wins import competing, folded_columns
from mutator.rules.order_columns import ranks
from mutator.rules.register import Bag
from mutator.rules.sort_order import hash_order


class EventFold(NamedTuple):
    """Leaves the last mutation of each key and order value; with patches all, because several make one event."""

    leaves_one: bool

    def fold(self, bag: Bag) -> tuple[Ints, dict[str, Any]]:
        """Return the mutations that are left, by key and precedence, as ``Register.fold`` does."""
        rows = hash_order(bag.column("hashes"))
        if not len(rows):
            return rows, {}
        found = competing(bag, rows)
        rows, key, order = found.rows, found.key, ranks(bag.rows("orders", found.rows))
        differs = (key[1:] != key[:-1]) | (order[1:] != order[:-1])
        if not self.leaves_one or differs.all():
            return rows, {}
        last = np.flatnonzero(np.append(differs, True))
        return rows[last], folded_columns(bag, found, np.append(0, last[:-1] + 1))
