"""Winners meet the records and tombstones of their keys, a block at a time, as the register of the run decides."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.engine.blocks.fold import BlockBag, RowsInPlace, last_of_keys
from mutator.engine.blocks.mutations import LEAVES_KEPT, STAYS, Columns, Mutations, key_names
from mutator.engine.blocks.spool import BATCH
from mutator.engine.blocks.tombstone_columns import at_as_of, floor_of, known_floor_of, met_records, tombstone_table
from mutator.engine.blocks.winner_keys import WinnerKeys
from mutator.engine.tally import MET_IN_PART, Tally
from mutator.plan.run_plan import Plan
from mutator.rules.byte_columns import Flags, Ints, Overrides, rows_between
from mutator.rules.key_moves import Landed
from mutator.rules.order_columns import flags, to_column, to_value
from mutator.rules.register import NOTHING, RECORD, TOMBSTONE, Events, Met, Olds, Register, no_sides, with_values
from mutator.rules.sort_order import key_order
from mutator.rules.truth_table import MOVED_ONTO, REVIVED, SEALED, Decision
from mutator.rules.typed_values import unequal

# Actions on a master row that a winner met. OUTRANKED: it is gone, and its tombstone has its own order value.
# DROPPED: it is gone, and has no tombstone.
KEEP, TOUCH, WRITE, REWRITE, GONE, LEAVE, OUTRANKED, DROPPED = range(8)
_ACTIONS = {"keep": KEEP, "touch": TOUCH, "write": WRITE, "bury": GONE, "bury record": OUTRANKED, "drop": DROPPED}
_ACTIONS |= {"wait": GONE, "rewrite": REWRITE}  # with a row beside its tombstone; counts as kept


class Winners(WinnerKeys):
    """One mutation a key, sorted by hash, and the decisions so far."""

    def __init__(self, plan: Plan, found: Mutations, tally: Tally, parts: range | None = None) -> None:
        """Take the winners of a task. parts: the numbers of their hash parts; None if the feed is not divided."""
        self.row_orders, found = found.orders, at_as_of(plan, found)
        self.folded, self._bag = found, BlockBag(plan, Columns([found]))
        self._ends: tuple[Ints, Ints] | None = None  # first and last mutation of each key; None: it has one
        if not plan.register.leaves_one:
            found, first, last = last_of_keys(found, by_partition=plan.rows.partitioning.by_partition)
            self._ends = first, last
        self._combined = np.zeros(len(self.folded), np.bool_)  # with the last mutation of the key
        if len(found) < len(self.folded) and self._ends is not None:
            self._combined[:] = True
            self._combined[self._ends[1]] = False
        self._left = {name: Overrides(len(found)) for name in ("orders", "rows", "sides")}  # that are not the winners'
        self._waits = np.zeros(len(found) if plan.buries_rows else 0, np.bool_)  # has a row beside its tombstone
        super().__init__(plan, found, tally)
        self.parts = parts
        self.met = np.zeros(len(found), np.bool_)
        self.late = np.zeros(len(found), np.bool_)  # and nothing is written because of them
        self._copied: tuple[Ints, Any] | None = None
        self.mixed = found.mixed.copy()
        self.landed = Landed.of(found.lows)
        self._met, self._inserted, self._buried, self._rejected = (list[Ints]() for _ in range(4))

    def meet_rows(self, positions: Ints, old_orders: Any, old_rows: Any, sides: Any, replaced: Flags | None) -> Ints:
        """Decide about records and their winners, and count them; return the action on each record.

        positions: numbers of the winners. old_orders, old_rows, sides: of the records. replaced: whether the partition
        of each record is replaced; None if none was met.
        """
        found, old_orders = self.found, met_records(self.plan, old_orders)
        actions = np.zeros(len(positions), np.int64)
        self.met[positions] = True
        self._met.append(positions)
        moves = found.moves[positions]
        leaves = moves != STAYS
        actions[leaves] = LEAVE
        kept = int((moves == LEAVES_KEPT).sum())
        self.tally.counts["master kept"] += kept
        self.tally.counts["master replaced"] += int(leaves.sum()) - kept
        if self.plan.scope is not None:
            self.tally.counts[MET_IN_PART] += int(self.plan.inside(old_rows).sum())
        self.tally.counts["moved out"] += int(leaves.sum())
        rows: Any = slice(None)
        if leaves.any():
            rows = np.flatnonzero(~leaves)
            old_orders, old_rows, sides = (one.take(pa.array(rows)) for one in (old_orders, old_rows, sides))
            positions, replaced = positions[rows], None if replaced is None else replaced[rows]
        orders = found.orders.take(pa.array(positions))
        self.meet_living(positions, old_orders)
        older = self.older(old_orders, orders)
        same = ~found.deletes[positions] & ~unequal(old_rows, self._written(positions))
        seen: tuple[Any, ...] = (old_orders,) if self.plan.truncates else ()
        if self.plan.register.reads_rows:
            newer = flags(pc.less(old_orders, orders))
            if self.reads(positions, with_values(self.plan.kept(sides)), newer, replaced).any():
                seen = old_orders, old_rows, sides
        olds = Olds(RECORD, older, same, *seen)._replace(floor=known_floor_of(self.plan))
        actions[rows] = self.decide_rows(positions, olds, flags(pc.equal(old_orders, orders)), replaced)
        self.note_late(orders, old_orders, self.late[positions])
        return actions

    def decide_rows(self, positions: Ints, olds: Olds, level: Flags, replaced: Flags | None = None) -> Ints:
        """Decide about records and their winners, and count them; return the action on each record.

        positions: numbers of the winners. level: the order values are equal. replaced: as in ``meet_rows``.
        """
        self.met[positions] = True
        actions = np.zeros(len(positions), np.int64)
        tied = level & ~olds.same
        for decision, chosen, *_, own, _, _ in self._decided(positions, olds, replaced):
            actions[chosen] = _ACTIONS[decision.result]
            self._count(decision, positions[chosen])
            if own is not None:
                tied[chosen] = own
                if decision.winner == "late" and decision.result in ("write", "wait"):
                    self.note("partly cleared", positions[chosen])
                if decision.winner == "updated":
                    self.note("out of order", positions[chosen[olds.older[chosen]]])
                if decision.result in ("write", "touch"):
                    self.note_horizon(positions[chosen])
            if decision.master == "kept" and decision.result in ("write", "rewrite"):
                self.tally.counts["rows rewritten"] += len(chosen)
        self.mixed[positions] |= tied
        return actions

    def reads(self, positions: Ints, beside: Flags, newer: Flags, replaced: Flags | None) -> Flags:
        """Return which records the register must see. beside, newer: as in ``Register.reads``."""
        register, events = self.plan.register, self.events(positions)
        found = register.reads(events, beside, newer)
        return found if replaced is None else np.where(replaced, register.replacing.reads(events, beside, newer), found)

    def unread(self, positions: Ints, old_orders: Any) -> Sequence[str]:
        """Return the fields that records may lack which the register must see. old_orders: of the records."""
        return self.plan.register.unread(self.events(positions), old_orders)

    def left(self, positions: Ints) -> tuple[Any, Any, Any]:
        """Return the order values, rows and sides that some winners leave, once it is decided about them."""
        orders, kept = self.left_orders(positions), self.left_sides(positions)
        rows = self._left["rows"].among(self._written(positions), positions)
        return orders, rows, self.plan.sides(len(positions), orders, kept.flatten())

    def _written(self, positions: Ints) -> Any:
        """Return the rows of some winners, which are copied once where two steps ask for the same ones."""
        if self._copied is None or self._copied[0] is not positions:
            self._copied = positions, self.found.written.take(pa.array(positions))
        return self._copied[1]

    def left_orders(self, positions: Ints) -> Any:
        """Return the order values alone: rows are costly."""
        orders = self.found.orders if self.plan.as_of is None else self.row_orders
        return self._left["orders"].among(orders.take(pa.array(positions)), positions)

    def left_sides(self, positions: Ints) -> Any:
        """Return the side columns of the register alone, a pa.StructArray."""
        return self._left["sides"].among(no_sides(len(positions), self.plan.side_columns), positions)

    def settle(self) -> bool:
        """Give the winners the order values and rows that they leave; return whether these are others."""
        if not any(self._left.values()):
            return False
        rows = RowsInPlace.over(self.found.written, self._left["rows"])
        orders, self._copied = self.left_orders(np.arange(len(self.found))), None
        self.found = replace(self.found, orders=orders, rows=rows, written=rows)
        return True

    def all_sides(self) -> RowsInPlace:
        """Return the side columns of the register that all winners leave."""
        return RowsInPlace.over(no_sides(len(self.found), self.plan.side_columns), self._left["sides"])

    def _decided(self, positions: Ints, olds: Olds, replaced: Flags | None) -> Iterator[Met]:
        """Let some winners meet what is there."""
        for met in self.met_by(positions, olds, replaced):
            numbers = positions[met.keys]
            if met.late is not None:
                self.note(SEALED, numbers[met.late])
            if met.clash is not None:
                self.mixed[numbers[met.clash]] = True
            for name, left in self._left.items():
                if (values := getattr(met, name)) is not None:
                    left.add(numbers, values)
            if self.plan.buries_rows and met.decision.result in ("bury", "wait") and met.rows is not None:
                self._waits[numbers] = flags(met.rows.is_valid())
            yield met

    def mutations_of(self, positions: Ints) -> tuple[Mutations, Ints]:
        """Return the mutations of some winners, as the fold left them, and the number of each one's winner."""
        _, first, last = self.events(positions)
        own = replace(self.folded, orders=self.row_orders).take(rows_between(first, last))
        return own, np.repeat(positions, last - first + 1)

    def events(self, positions: Ints) -> Events:
        """Return the mutations of some winners, as a register asks for them."""
        first, last = (positions, positions) if self._ends is None else (end[positions] for end in self._ends)
        return Events(self._bag, first, last)

    def met_by(self, positions: Ints, olds: Olds, replaced: Flags | None) -> Iterator[Met]:
        """Yield what the register decides about some winners; count nothing."""
        register, floor, events = self.plan.register, floor_of(self.plan, olds.kind), self.events(positions)
        if replaced is None:
            yield from self._with_sides(register, register.meet(events, olds, floor), olds)
            return
        for one, keys in ((register, np.flatnonzero(~replaced)), (register.replacing, np.flatnonzero(replaced))):
            own = olds.chosen(keys)
            for met in self._with_sides(one, one.meet(events.chosen(keys), own, floor), own):
                yield met._replace(keys=keys[met.keys])

    def _with_sides(self, register: Register, results: Iterable[Met], olds: Olds) -> Iterator[Met]:
        """Yield decisions of a register. Touched records keep their side columns, unless it gives others."""
        keeps = bool(register.side_columns) and olds.sides is not None
        for met in results:
            if keeps and met.sides is None and met.decision.result == "touch":
                met = met._replace(sides=self.plan.kept(olds.sides.take(pa.array(met.keys))))
            yield met

    def meet_living(self, positions: Ints, old_orders: Any) -> None:
        """Let the arrivals of some winners meet records. old_orders: of the records, as ``met_records`` has them."""
        if self.landed is not None:
            self.landed.meet(positions, old_orders, floor_of(self.plan, RECORD))

    def met_rows(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Return numbers of winners.

        Those that rows met, as often as they were met; tied ones; those to be buried; those moved onto a record.
        """
        none = np.zeros(0, np.int64)
        landed = none if self.landed is None else self.landed.numbers
        met, buried = np.concatenate([*self._met, none]), np.concatenate([*self._buried, none])
        return met, np.flatnonzero(self.mixed), buried, landed

    def meet_tombstones(
        self, positions: Ints, old_orders: Any, replaced: Flags | None = None, waiting: tuple[Any, ...] = ()
    ) -> list[Met]:
        """Decide about tombstones and their winners, and count them; return the rows of each case.

        positions: numbers of the winners. old_orders: order values of the tombstones. replaced: as in ``meet_rows``.
        waiting: as ``waiting_rows`` returns it, if the register buries rows.
        """
        orders = self.found.orders.take(pa.array(positions))
        deletes = self.found.deletes[positions]
        floor = floor_of(self.plan)
        if floor is not None:
            if replaced is not None:  # a covered tombstone is as good as none, in ``meet_nothing``
                replaced = replaced | flags(pc.less_equal(old_orders, floor))
            old_orders = pc.max_element_wise(old_orders, floor)
        older = self.older(old_orders, orders)
        self.met[positions] = True
        self.mixed[positions] |= flags(pc.equal(old_orders, orders)) & ~deletes
        seen = (old_orders, *waiting) if self.plan.register.reads_rows else ()
        olds = Olds(TOMBSTONE, older, np.zeros(len(positions), np.bool_), *seen)
        decided = [*self._decided(positions, olds, replaced)]
        for decision, chosen, *_ in decided:
            self._count(decision, positions[chosen])
            if decision.winner == "inserted":
                self.note(decision.reason or REVIVED, positions[chosen])
            if decision.winner == "inserted" or decision.result == "wait":
                self.note_horizon(positions[chosen])
        self.note_late(orders, old_orders, self.late[positions])
        return decided

    def meet_nothing(self) -> tuple[Ints, Ints]:
        """Decide about the winners that met nothing; return the numbers of those to insert and of those to bury."""
        rest = np.flatnonzero(~self.met)
        if (self.found.moves[rest] != STAYS).any():
            raise AssertionError("a record that should leave its partition is not there")
        none = np.zeros(len(rest), np.bool_)
        # A row of an overwrite is in a partition that it replaces: the floor, like a tombstone, does not make it late.
        replaced = None if self.plan.operation == "apply" else ~none
        insert, bury = [rest[:0]], [rest[:0]]
        for decision, chosen, *_ in self._decided(rest, Olds(NOTHING, none, none), replaced):
            self._count(decision, rest[chosen])
            if decision.result == "write":
                insert.append(rest[chosen])
                self.note_horizon(rest[chosen])
            elif decision.result in ("bury", "wait"):
                bury.append(rest[chosen])
                if decision.result == "bury":
                    self.note("inserted and deleted", bury[-1][self.found.upserts[bury[-1]]])
                else:
                    self.note_horizon(bury[-1])
        return np.concatenate(insert), np.concatenate(bury)

    def close(self) -> None:
        """Count the remarks on all winners, once each has met the record or tombstone of its key."""
        found, order_type = self.found, self.plan.rows.order_type
        if len(found):
            self.tally.counts["feed superseded"] += int(found.counts.sum()) - len(self.folded)
            self.tally.high(to_value(order_type, pc.max(found.orders).as_py()))
        self.tally.counts["feed combined"] += int(self._combined.sum())
        self.tally.won.add("combined", self.folded.inputs[self._combined])
        self.note("tied", np.flatnonzero(self.mixed))
        if self.landed is not None:
            self.note(MOVED_ONTO, self.landed.numbers)

    def insert(self, positions: Ints) -> None:
        """Mark winners to be inserted."""
        self._inserted.append(positions)

    def bury(self, positions: Ints) -> None:
        """Mark winners to be remembered as deletes."""
        self._buried.append(positions)

    def inserted(self, *, arrive: bool = False) -> Iterator[Any]:
        """Yield the winners to insert, by key, as pa.Tables of key columns, "hash", "row" and "sides".

        With "arrives" if changed rows are written: whether the record comes from another partition. arrive: all do.
        """
        found = self.found
        columns = [*found.keys, pa.array(found.hashes)]
        names = [*key_names(len(found.keys)), "hash", "row", "sides", *(["arrives"] if self.plan.changes else [])]
        for positions in self._by_key(self._inserted):
            index = pa.array(positions)
            _, rows, sides = self.left(positions)
            arrives = [pa.array(np.full(len(positions), arrive))] if self.plan.changes else []
            yield pa.table([*(column.take(index) for column in columns), rows, sides, *arrives], names)

    def buried(self) -> Iterator[Any]:
        """Yield the new tombstones, by key, as ``tombstone_table`` returns them."""
        for positions in self._by_key(self._buried):
            index = pa.array(positions)
            keys = [column.take(index) for column in self.found.keys]
            orders, waiting = self.left_orders(positions), self.waiting(positions)
            yield tombstone_table(self.plan, self.found.hashes[positions], keys, orders, self.plan.now, waiting)

    def waiting(self, positions: Ints) -> tuple[Any, Any] | None:
        """Return the rows that some winners let wait, NULL for none, and their side columns; None if none can."""
        if not self.plan.buries_rows:
            return None
        _, rows, sides = self.left(positions)
        return pc.if_else(pa.array(self._waits[positions]), rows, pa.scalar(None, rows.type)), sides

    def _by_key(self, positions: Sequence[Ints]) -> Iterator[Ints]:
        """Yield positions in the order of the keys, so many at a time that their rows are few."""
        whole = np.concatenate([*positions, np.zeros(0, np.int64)])
        if not len(whole):
            return
        order = key_order([column.take(pa.array(whole)) for column in self.found.keys])
        size = max(min(BATCH, self.plan.set_aside * len(self.found) // max(self.found.nbytes, 1)), 1)
        for start in range(0, len(whole), size):
            yield whole[order[start : start + size]]

    def note_horizon(self, positions: Ints) -> None:
        """Note inserts below the horizon, also where a tombstone is forgotten: a newer one may have expired.

        So may one that is newer than a field which a patch sets.
        """
        if self.plan.horizon is not None and len(positions):
            horizon = to_column(self.plan.rows.order_type, [self.plan.horizon])[0]
            lowest = positions if self._ends is None else self._ends[0][positions]
            orders = (self.found if self._ends is None else self.folded).orders.take(pa.array(lowest))
            below = flags(pc.less(orders, horizon))
            self.note("below horizon", positions[below])

    def _count(self, decision: Decision, positions: Ints) -> None:
        self.tally.count(decision, len(positions))
        if decision.winner == "late" and decision.result in ("keep", "keep tombstone"):
            self.late[positions] = True
        if decision.winner == "rejected":
            self._reject(decision.reason, positions)
        self.tally.won.add(decision.winner, self.found.inputs[positions])

    def _reject(self, reason: str, positions: Ints) -> None:
        self._rejected.append(positions)
        found = self.found
        if self._ends is not None:  # all mutations that are left of a key are rejects, as its last one is
            first, last = (end[positions] for end in self._ends)
            found, positions = self.folded, rows_between(first, last)
            others = np.setdiff1d(positions, last)
            self.tally.counts["feed rejected"] += len(others)
            self.tally.won.add("rejected", found.inputs[others])
            self._combined[positions] = False
        positions = positions[: self.tally.room]
        rows, written = (column.take(pa.array(positions)) for column in (found.rows, found.written))
        shown = self.plan.block_type.shown(rows, written, self.plan.rows.spec)
        places = found.inputs[positions].tolist(), found.offsets[positions].tolist()
        self.tally.reject(reason, zip(*places, shown, strict=True))

    @property
    def settled(self) -> Flags:
        """Whether a winner is late or rejected: whatever others do, nothing is written because of it."""
        found = self.late.copy()
        found[np.concatenate([*self._rejected, np.zeros(0, np.int64)])] = True
        return found
