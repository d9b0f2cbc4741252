"""The keys of winners: which rows of a master, or tombstones, have one of them, and remarks on them."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.engine.blocks.block_spellings import FEWEST, OtherSpellings
from mutator.engine.blocks.master import MasterBlock
from mutator.engine.blocks.mutations import Mutations, key_columns, key_names
from mutator.engine.blocks.tombstone_columns import own_orders
from mutator.engine.receipts import LateOrders
from mutator.engine.tally import SPELLED_OTHERWISE, Tally
from mutator.formats.blocks.block_type import Hashes
from mutator.plan.reading import SAMPLES
from mutator.plan.run_plan import Plan
from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.first_values import FirstValues
from mutator.rules.key_hash import PrefixTable
from mutator.rules.order_columns import flags, to_value
from mutator.rules.order_units import units_of


class WinnerKeys:
    """The keys of some winners, one of each, sorted by hash."""

    def __init__(self, plan: Plan, found: Mutations, tally: Tally) -> None:
        """Make the table of hashes. found: the winners."""
        self.plan, self.found, self.tally = plan, found, tally
        self._identity = (*found.keys, found.orders) if plan.register.by_order else found.keys
        # Most rows of a master have no mutation: a table of some bits of the hashes excludes them without a search.
        self._seen = PrefixTable([found.hashes])
        self._looks_at_firsts = True  # before rows are hashed; not again once that has excluded too few
        self.others: OtherSpellings | None = None

    def __len__(self) -> int:
        return len(self.found)

    def look_for_other_spellings(self) -> None:
        """Look, among the rows to be matched, for the keys of a sample of the winners in other spellings."""
        if len(self.found) <= FEWEST:
            return
        self.others = OtherSpellings(self.plan, self.found)
        self._seen.add(self.others.hashes)
        vars(self).pop("_firsts", None)

    @cached_property
    def _firsts(self) -> FirstValues:
        return FirstValues([self.found.keys[0], *(self.others.columns[:1] if self.others else ())])

    def match_block(self, block: MasterBlock, *, hashed: bool = False) -> tuple[Ints, Ints]:
        """Return for the rows of a block what ``match`` does. hashed: all of them are hashed in any case."""
        likely = None if hashed else self._likely(block)
        if likely is None:
            return self.match(block.hashes, block.keys, block.orders)
        rows, positions = self.match(
            block.hashes_of(likely),
            lambda chosen: block.keys(likely[chosen]),
            lambda chosen: block.orders(likely[chosen]),
        )
        return likely[rows], positions

    def _likely(self, block: MasterBlock) -> Ints | None:
        """Return the numbers of the rows that may have a winner; None where all must be hashed."""
        if block.prefixes is not None:
            return self._seen.rows(block.prefixes)
        found = block.block.likely(self._firsts) if self._looks_at_firsts else None
        self._looks_at_firsts = found is not None
        return found

    def match_table(self, table: Any) -> tuple[Ints, Ints]:
        """Match the tombstones of a pa.Table that has key columns and "hash"."""
        columns, hashes = key_columns(table), table.column("hash").to_numpy()
        if self.plan.register.by_order:
            columns.append(own_orders(self.plan, table))
        return self._match(
            self._seen.rows(hashes), hashes, lambda rows: [column.take(pa.array(rows)) for column in columns]
        )

    def match(self, hashes: Hashes, keys: Callable[[Ints], Any], orders: Callable[[Ints], Any]) -> tuple[Ints, Ints]:
        """Return the numbers of the records that have a winner, ascending, and the number of each one's winner.

        hashes: of the keys, one per row. keys, orders: return the key columns and order values of the rows with some
        numbers.
        """
        rows = self._seen.rows(hashes)
        if self.others and len(rows):
            self.others.look(hashes, rows, keys)
        if self.plan.register.by_order:
            return self._match(rows, hashes, lambda rows: [*keys(rows), orders(rows)])
        return self._match(rows, hashes, keys)

    def _match(self, rows: Ints, hashes: Hashes, keys: Callable[[Ints], Any]) -> tuple[Ints, Ints]:
        known = self.found.hashes
        if not len(rows) or not len(known):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        positions = np.searchsorted(known, hashes[rows])
        positions[positions == len(known)] = 0
        hit = known[positions] == hashes[rows]
        rows, positions = rows[hit], positions[hit]
        found_rows, found_positions = [], []
        while len(rows):  # once, but where two keys of the feed have one hash
            equal = self._equal(keys(rows), positions)
            found_rows.append(rows[equal])
            found_positions.append(positions[equal])
            rows, positions = rows[~equal], positions[~equal] + 1
            same = positions < len(known)
            rows, positions = rows[same], positions[same]
            same = known[positions] == hashes[rows]
            rows, positions = rows[same], positions[same]
        if not found_rows:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        rows, positions = np.concatenate(found_rows), np.concatenate(found_positions)
        order = np.argsort(rows, kind="stable")
        return rows[order], positions[order]

    def _equal(self, keys: Any, positions: Ints) -> Flags:
        index = pa.array(positions)
        equal = np.ones(len(positions), np.bool_)
        for column, known in zip(keys, self._identity, strict=True):
            equal &= flags(pc.equal(column, known.take(index)))
        return equal

    def older(self, old_orders: Any, orders: Any) -> Flags:
        """Return which winners are older than the records or tombstones that they meet; note the order values."""
        self.tally.note_units(units_of(self.plan.rows.order_type, old_orders))
        return flags(pc.greater(old_orders, orders))

    def note_late(self, orders: Any, old_orders: Any, late: Flags) -> None:
        """Note the order values of late winners and of the records or tombstones that they meet."""
        if late.any():
            bounds = (pc.min_max(values.filter(pa.array(late))) for values in (orders, old_orders))
            found = [to_value(self.plan.rows.order_type, bound.as_py()) for pair in bounds for bound in pair.values()]
            self.tally.note_late(LateOrders(*found))

    def note(self, remark: str, positions: Ints) -> None:
        """Count a remark on the keys of some winners, and keep the smallest few keys."""
        if not len(positions):
            return
        self.tally.counts[remark] += len(positions)
        index = pa.array(positions)
        names = key_names(len(self.found.keys))
        keys = pa.table([column.take(index) for column in self.found.keys], names)
        order = [(name, "ascending") for name in names]
        few = keys.take(pc.select_k_unstable(keys, k=min(SAMPLES, len(positions)), sort_keys=order))
        self.tally.sample(remark, zip(*(column.to_pylist() for column in few.columns), strict=True))

    def note_other_spellings(self, positions: Ints) -> None:
        """Count the winners to be inserted of which a record has the ID in another spelling; keep both IDs of a few."""
        found = self.others.of(positions) if self.others else {}
        keys = ((*(column[number].as_py() for column in self.found.keys), *key) for number, key in found.items())
        self.tally.note_all(SPELLED_OTHERWISE, keys)
