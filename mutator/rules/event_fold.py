"""The fold of a table with history: it leaves each event, the last of the mutations of one key and order value."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mutator.rules.byte_columns import Ints
from mutator.rules.last_wins import competing, folded_lows
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
        last, winner = np.flatnonzero(np.append(differs, True)), found.last[key]
        begins = np.append(0, last[:-1] + 1)
        mixed = bag.rows("mixed", rows) & found.top
        rivals = np.flatnonzero(found.top & (winner != np.arange(len(rows))))
        if len(rivals):
            mixed[rivals] |= bag.differ(rows[rivals], rows[winner[rivals]])
        return rows[last], {
            **folded_lows(bag, found._replace(begins=begins, last=last)),
            "counts": np.add.reduceat(bag.rows("counts", rows), begins),
            "mixed": np.logical_or.reduceat(mixed, begins),
            "upserts": np.logical_or.reduceat(bag.rows("upserts", rows), begins),
        }
