"""The reduce step of the blocks engine: winners meet the master block by block, and changed rows are replaced.

The rows of the master are never sorted: they are read and written in the order of their files. A block that no winner
meets is written with the bytes it was read with; where a winner meets a row, only that row is replaced or left out.
Inserted rows follow, by key. If the feed of a task exceeds its memory, it is merged in parts by the hash of the key:
each part meets all of the master, and the decisions are sorted by row and applied at the end.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.engine.blocks.hash_parts import Parts
from mutator.engine.blocks.master import MasterBlock
from mutator.engine.blocks.mutations import STAYS, key_names
from mutator.engine.blocks.spool import Ahead, SortedSpool
from mutator.engine.blocks.tombstone_columns import (
    cleared,
    covered,
    floor_of,
    own_orders,
    raised_orders,
    tombstone_table,
    waiting_rows,
    waits,
)
from mutator.engine.blocks.winners import DROPPED, GONE, LEAVE, OUTRANKED, REWRITE, TOUCH, WRITE, Winners
from mutator.engine.changed_rows import ChangedRowFile
from mutator.engine.merging_task import MergingTask
from mutator.formats.blocks.block_type import Hashes, patched
from mutator.plan.merge_unit import MergeUnit
from mutator.plan.reading import SAMPLES, Reading
from mutator.plan.run_plan import Plan
from mutator.rules.byte_columns import Flags, Ints, exchanged
from mutator.rules.changes import BEFORE, DELETE
from mutator.rules.order_columns import flags, from_texts, newest, to_texts, to_value
from mutator.rules.order_units import units_of
from mutator.rules.register import RECORD, Olds

Blocks = Callable[[], Iterator[MasterBlock]]
# Rows, how many they are, their hashes (None unless ``Output.hashed``), their side columns (None unless
# ``Output.exact``).
Kept = tuple[Any, int, Hashes | None, Any]


class Output:
    """Inserted rows and tombstones, which are written by key after all other rows, and the form of these rows."""

    def __init__(
        self,
        task: MergingTask,
        *,
        exact: bool,
        hashed: bool = False,
        unit: MergeUnit | None = None,
    ) -> None:
        """Set up the rewriting of rows.

        exact: rows must stay one element each, because they go to several files or are numbered. hashed: the hashes of
        their keys are needed. unit: that is merged; None where nothing is replaced.
        """
        plan = self.plan = task.plan
        self.tally, self.changes, self.exact, self.hashed = task.tally, task.changes, exact, hashed
        self.replaced = unit is not None and unit.replaced
        # Rows of several partitions, of which some are replaced: they get their partitions once they are merged.
        self._mixed = self.replaced and plan.is_partitioned and unit is not None and unit.partition is None
        self._partition = unit.partition if unit is not None and plan.by_table else None  # that records may leave
        self._floor = floor_of(plan)
        self.run_together = plan.block_type.run_together
        keys = key_names(plan.key_width)
        self.inserted = SortedSpool(keys, plan.set_aside, task.stack)
        self.tombstones = SortedSpool(keys, plan.set_aside, task.stack)

    def replaced_rows(self, block: MasterBlock) -> Flags | None:
        """Return which rows of a block are in partitions that are replaced; None if none can be."""
        if not self.replaced:
            return None
        if not self._mixed:
            return np.ones(len(block.block), np.bool_)
        placed = self.plan.block_type.partitions(block.block.written(), self.plan.rows.layouts["written"])
        return np.array([*map(self.plan.replaces, placed.names), False], np.bool_)[placed.codes]

    def truncated(self, block: MasterBlock, alone: Flags) -> Flags:
        """Return which rows of a block are below the floor. alone: those that no winner met."""
        found = np.zeros(len(alone), np.bool_)
        if self.plan.truncates:
            rows = np.flatnonzero(alone)
            orders = block.orders(rows)
            below = pc.less(orders, self._floor)
            found[rows] = flags(below)
            self.tally.note_units(units_of(self.plan.rows.order_type, orders.filter(below)))
        return found

    def leaving(self, rows: Any) -> Flags:
        """Return which rows, as they are written, belong to another partition."""
        if self._partition is None:
            return np.zeros(len(rows), np.bool_)
        placed = self.plan.block_type.partitions(rows, self.plan.rows.layouts["written"])
        return np.array([name != self._partition for name in placed.names], np.bool_)[placed.codes]

    def absent(self, rows: Any, alone: Flags, replaced: Flags | None) -> Flags:
        """Return which rows of a block are deleted by absence. rows: as they are written. alone: as above."""
        found: Flags = alone & self.plan.register.absent(replaced)
        if self.plan.scope is not None:
            which = np.flatnonzero(found)
            found[which] = self.plan.inside(rows.take(pa.array(which)))
        return found

    def inserted_rows(self) -> Iterator[Any]:
        """Yield tables of the inserted rows, by key; once."""
        tables = self.inserted.tables()
        return tables if self.changes is None else self.changes.noting(tables)

    def kept_tombstones(self) -> Iterator[Any]:
        """Yield tables of the tombstones that the floor does not cover, by key; once.

        Those by absence from this snapshot are never covered: deltas meet its highest order value, yet to be known.
        """
        for table in self.tombstones.tables():
            if self._floor is not None and not self.plan.register.full:
                gone = covered(self.plan, table)
                self.tally.counts["covered"] += int(gone.sum())
                table = table.filter(pa.array(~gone))
            if table.num_rows:
                yield table


def merge_blocks(
    parts: Parts | Sequence[Winners],
    blocks: Blocks,
    dropped: Ints,
    output: Output,
    finish: Callable[[Winners], None],
    stack: ExitStack,
) -> Iterator[Kept]:
    """Yield the rows that survive, in their order.

    blocks: returns all blocks of the master, as often as it is called. dropped: numbers of the duplicate rows that do
    not survive, ascending. finish: called with the winners of each part, once they have met all rows.
    """
    if len(parts) <= 1:
        winners = next(iter(parts), None)
        if winners is not None:
            winners.look_for_other_spellings()
        for block in blocks():
            replaced = output.replaced_rows(block)
            met = _with_truncated(block, _met(winners, block, dropped, output, replaced), dropped, output)
            yield _applied(block, met, dropped, output, replaced)
        if winners is not None:
            finish(winners)
        return
    decided = SortedSpool(["row"], output.plan.set_aside, stack)
    for winners in parts:
        for block in blocks() if len(winners) else ():
            met = _met(winners, block, dropped, output, output.replaced_rows(block))
            if met is not None:
                decided.append(met.set_column(0, "row", pc.add(met.column("row"), block.base)))
        finish(winners)
        del winners  # before the next ones are made
    ahead = Ahead(decided.tables(), "row")
    for block in blocks():
        met = None
        if tables := [table for table in ahead.until(block.base + len(block.block)) if table.num_rows]:
            met = pa.concat_tables(tables).combine_chunks()
            met = met.set_column(0, "row", pc.subtract(met.column("row"), block.base))
        met = _with_truncated(block, met, dropped, output)
        yield _applied(block, met, dropped, output, output.replaced_rows(block))


def _met(winners: Winners | None, block: MasterBlock, dropped: Ints, output: Output, replaced: Flags | None) -> Any:
    """Return a pa.Table of the rows that winners met, with "row", "action", "sides" and "written"; None without any.

    replaced: which rows of the block are in partitions that are replaced.
    """
    if winners is None:
        return None
    rows, positions = winners.match_block(block, hashed=output.hashed)
    out = _dropped_in(block, dropped)
    if len(out):
        live = ~np.isin(rows, out)
        rows, positions = rows[live], positions[live]
    if not len(rows):
        return None
    records = block.block.written().take(pa.array(rows))
    of_rows = None if replaced is None else replaced[rows]
    actions = winners.meet_rows(positions, block.orders(rows), records, block.sides.take(pa.array(rows)), of_rows)
    gone = np.flatnonzero(actions == GONE)
    winners.bury(positions[gone])
    _, written, sides = winners.left(positions)
    return pa.table({"row": pa.array(rows), "action": pa.array(actions), "sides": sides, "written": written})


def _with_truncated(block: MasterBlock, met: Any, dropped: Ints, output: Output) -> Any:
    """Return the rows that winners met, and those that no winner met and that a truncate changes, as ``_met`` does."""
    plan = output.plan
    if not (plan.truncates and plan.side_columns):
        return met
    alone = np.ones(len(block.block), np.bool_)
    alone[_dropped_in(block, dropped)] = False
    if met is not None:
        alone[met.column("row").to_numpy()] = False
    rows = np.flatnonzero(alone)
    orders = block.orders(rows)
    rows = rows[flags(pc.greater_equal(orders, floor_of(plan)))]
    index, none = pa.array(rows), np.zeros(len(rows), np.bool_)
    olds = Olds(RECORD, none, none, block.orders(rows), block.block.written().take(index), block.sides.take(index))
    tables = [] if met is None else [met]
    for met_alone, names, content, sides in cleared(plan, output.tally, olds, lambda keys: block.keys(rows[keys])):
        own, result = rows[met_alone.keys], met_alone.decision.result
        if result == "wait":
            waiting = content, sides
            found = tombstone_table(plan, block.hashes_of(own), names, met_alone.orders, plan.now, waiting)
            output.tombstones.append(found)
        action = {"write": WRITE, "touch": TOUCH}.get(result, DROPPED)
        actions = np.full(len(own), action, np.int64)
        if result == "write":
            leaves = output.leaving(content)
            actions[leaves] = LEAVE
            output.tally.counts["moved out"] += int(leaves.sum())
        tables.append(pa.table({"row": pa.array(own), "action": pa.array(actions), "sides": sides, "written": content}))
    return pa.concat_tables(tables).combine_chunks().sort_by("row") if tables else None


def _dropped_in(block: MasterBlock, dropped: Ints) -> Ints:
    first, last = np.searchsorted(dropped, [block.base, block.base + len(block.block)])
    return dropped[first:last] - block.base


def _applied(block: MasterBlock, met: Any, dropped: Ints, output: Output, replaced: Flags | None) -> Kept:
    """Return the rows of a block after the decisions about them."""
    count, tally = len(block.block), output.tally
    out = _dropped_in(block, dropped)
    rows = met.column("row").to_numpy() if met is not None else np.zeros(0, np.int64)
    actions = met.column("action").to_numpy() if met is not None else rows
    gone = np.zeros(count, np.bool_)
    gone[rows[actions >= GONE]] = True
    gone[out] = True
    alone = np.ones(count, np.bool_)  # rows that no winner met
    alone[rows] = False
    alone[out] = False
    truncated = output.truncated(block, alone)
    tally.counts["master truncated"] += int(truncated.sum())
    gone |= truncated
    alone &= ~truncated
    content = block.block.written()
    absent = output.absent(content, alone, replaced)
    tally.counts["master deleted by absence"] += int(absent.sum())
    tally.counts["master kept"] += int((alone & ~absent).sum())
    gone |= absent
    # Their tombstones have the order values of the rows.
    buried = np.sort(np.concatenate((np.flatnonzero(absent), rows[actions == OUTRANKED])))
    if len(buried):
        hashes, keys, orders = block.hashes_of(buried), block.keys(buried), block.orders(buried)
        if replaced is not None:
            tally.high(to_value(output.plan.rows.order_type, pc.max(orders).as_py()))
        elif output.plan.register.full:
            tally.note_absent(newest(output.plan.rows.order_type, orders, keys, SAMPLES))
        output.tombstones.append(tombstone_table(output.plan, hashes, keys, orders, output.plan.now))
    changed = gone.copy()
    is_written = (actions == WRITE) | (actions == REWRITE)
    changed[rows[is_written]] = True
    positions = np.flatnonzero(changed)
    if output.changes is not None:
        _note_changes(output.changes, content, met, absent | truncated)
    if len(positions):
        written = np.flatnonzero(is_written)
        changes = []
        if len(written):
            changes = [(rows[written], met.column("written").combine_chunks().take(pa.array(written)))]
        if output.exact or not output.run_together:
            content = exchanged(content, changes, ~gone)
        else:
            values = content.take(pa.array(positions))
            own = [(np.searchsorted(positions, places), new) for places, new in changes]
            content = patched(content, positions, exchanged(values, own), gone[positions])
    live = count - int(gone.sum())
    kept_hashes = block.hashes[~gone] if output.hashed else None
    if not output.exact:
        return content, live, kept_hashes, None
    changes = []
    if output.plan.has_sides and met is not None:
        touched = np.flatnonzero((actions == TOUCH) | is_written)
        changes = [(rows[touched], met.column("sides").combine_chunks().take(pa.array(touched)))]
    return content, live, kept_hashes, exchanged(block.sides, changes, ~gone)


def _note_changes(changes: ChangedRowFile, content: Any, met: Any, absent: Flags) -> None:
    """Note the rows of a block that change. content: as they were. absent: that go, and that no winner met."""
    if met is not None:
        rows, actions = met.column("row").to_numpy(), met.column("action").to_numpy()
        updated = np.flatnonzero(actions == WRITE)
        after = met.column("written").combine_chunks().take(pa.array(updated))
        changes.update(content.take(pa.array(rows[updated])), after)
        gone = (actions >= GONE) & (actions != LEAVE)
        changes.add(DELETE, content.take(pa.array(rows[gone])))
        changes.add(BEFORE, content.take(pa.array(rows[actions == LEAVE])))  # the row after it is in another partition
    changes.add(DELETE, content.take(pa.array(np.flatnonzero(absent))))


def merge_tombstones(plan: Plan, winners: Winners | None, tables: Iterator[Any], output: Output) -> None:
    """Let winners meet the tombstones of their keys; keep the tombstones that remain."""
    tally = output.tally
    for table in tables:
        tally.counts["tombstones in"] += table.num_rows
        stay = np.ones(table.num_rows, np.bool_)
        if winners is not None:
            rows, positions = winners.match_table(table)
            stay[rows[winners.met[positions]]] = False  # beside a record: the sums will not add up
            fresh, leaves = ~winners.met[positions], winners.found.moves[positions] != STAYS
            stay[rows[fresh & leaves]] = False  # it is revived in another partition
            winners.met[positions[leaves]] = True
            rows, positions = rows[fresh & ~leaves], positions[fresh & ~leaves]
            if len(rows):
                orders = (own_orders if plan.register.full else raised_orders)(plan, table.take(pa.array(rows)))
                replaced = np.ones(len(rows), np.bool_) if output.replaced else None
                waiting = waiting_rows(plan, table.take(pa.array(rows))) if plan.buries_rows else ()
                for decision, chosen, *_ in winners.meet_tombstones(positions, orders, replaced, waiting):
                    if decision.result == "write":
                        stay[rows[chosen]] = False
                        winners.insert(positions[chosen])
                    elif decision.result == "wait":
                        stay[rows[chosen]] = False
                        winners.bury(positions[chosen])
                    elif decision.result == "touch tombstone":
                        raised = winners.left_orders(positions[chosen])
                        table = _touched(plan, table, rows[chosen], raised)
        keep_tombstones(plan, table.filter(pa.array(stay)), output)


def _touched(plan: Reading, table: Any, rows: Ints, orders: Any) -> Any:
    """Return tombstones with some rows raised to the order values of the deletes that met them."""
    index = np.arange(table.num_rows)
    index[rows] = table.num_rows + np.arange(len(rows))
    old = table.take(pa.array(rows))
    # The same delete again changes nothing, so it does not make the tombstone newer.
    newer = pc.greater(orders, from_texts(plan.rows.order_type, old.column("order").combine_chunks()))
    times = pc.if_else(newer, pa.scalar(plan.now, pa.int64()), old.column("committed").combine_chunks())
    new = old.set_column(old.column_names.index("order"), "order", to_texts(plan.rows.order_type, orders))
    new = new.set_column(new.column_names.index("committed"), "committed", times)
    return pa.concat_tables([table, new]).take(pa.array(index)).combine_chunks()


def keep_tombstones(plan: Plan, table: Any, output: Output) -> None:
    """Keep tombstones that have not expired."""
    if plan.expire_before is not None and table.num_rows:
        old = flags(pc.less(table.column("committed").combine_chunks(), plan.expire_before)) & ~waits(table)
        if old.any():
            expired = raised_orders(plan, table.filter(pa.array(old)))
            output.tally.expire(int(old.sum()), to_value(plan.rows.order_type, pc.max(expired).as_py()))
            table = table.filter(pa.array(~old))
    output.tombstones.append(table)


def insert_and_bury(winners: Winners, output: Output, remark: str | None = None) -> None:
    """Insert or bury the winners that met nothing, and count the remarks on all winners.

    remark: on those that are buried, if the feed did not insert their records.
    """
    insert, bury = winners.meet_nothing()
    if remark is not None:
        winners.note(remark, bury[~winners.found.upserts[bury]])
    winners.note_other_spellings(insert)
    winners.insert(insert)
    winners.bury(bury)
    winners.close()
    for spool, tables in ((output.tombstones, winners.buried()), (output.inserted, winners.inserted())):
        if winners.parts is None:
            spool.keep_run(tables)  # the winners stay in memory, without a copy
        else:
            spool.write_run(tables)
