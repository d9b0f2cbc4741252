"""The meeting of an apply: winners and the live rows of their keys.

Only what the register needs is read: key indexes say which rows the winners meet; an old order value is read only where
a winner is not newer than every row of the extent; an old row only where its row hash is that of the winner, or where
the register must see it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.file_entry import DATA, TOMBSTONES, FileEntry
from mutator.dataset.versions.hidden_rows import table_of_files
from mutator.dataset.versions.key_index import encoded_keys
from mutator.dataset.versions.merged_keys import PartitionCodes
from mutator.engine.blocks.block_spellings import FEWEST, OtherSpellings
from mutator.engine.blocks.fold import row_hashes_of
from mutator.engine.blocks.tombstone_columns import beside_columns, floor_of, known_floor_of, met_records
from mutator.engine.blocks.winners import DROPPED, GONE, OUTRANKED, REWRITE, TOUCH, WRITE, Winners
from mutator.engine.tally import DELETE_WITHOUT_PARTITION, MET_IN_PART
from mutator.engine.versions.absent import inside_of
from mutator.engine.versions.decided_rows import DecidedRows, Written
from mutator.engine.versions.delta_files import ApplyTarget
from mutator.engine.versions.key_search import Search
from mutator.engine.versions.live_rows import LiveRows
from mutator.engine.versions.met_rows import MetRows, meet_living, met_tombstone_orders, old_rows
from mutator.engine.versions.waiting import waiting_of
from mutator.errors import MutatorError
from mutator.plan.run_plan import Plan
from mutator.rules.byte_columns import Flags, Ints, exchanged
from mutator.rules.key_hash import Hashes
from mutator.rules.order_columns import flags, to_column, to_texts
from mutator.rules.order_units import units_of
from mutator.rules.partition_paths import values_of
from mutator.rules.register import RECORD, Olds, no_sides, with_values
from mutator.rules.row_hash import RowHashes, row_hashes
from mutator.rules.typed_values import unequal

NOWHERE = ""  # partition of tombstones whose records never had one


class Meeting:
    """Some winners and the live rows of their keys."""

    def __init__(
        self, plan: Plan, live: LiveRows, target: ApplyTarget, winners: Winners, positions: dict[str, list[Ints]]
    ) -> None:
        """Sort the winners by bucket. positions: of the records that winners meet, to be filled, by file."""
        self._plan, self._live, self._target, self._winners = plan, live, target, winners
        self._positions = positions
        found = winners.found
        self._keys = encoded_keys(found.keys)
        self._partitions = PartitionCodes()
        self._own = self._own_partitions()
        self._indexed: list[Any] = []
        self._hashed: RowHashes | None = None  # row hashes of all winners, if they were needed
        self._insert: list[Written] = []
        self._bury: list[Written] = []
        self._raised: list[tuple[Ints, Any]] = []  # numbers of winners, order values of their tombstones

    def decided(self) -> DecidedRows:
        """Decide about all winners, and count the outcomes."""
        own = self._own if self._plan.rows.partitioning.by_partition else None
        search = self._search(self._winners.found.hashes, self._keys, own)
        for met in self._met(search, DATA):
            self._meet_records(met)
        for met in self._met(search, TOMBSTONES):
            self._meet_tombstones(met)
        self._meet_nothing()
        self._winners.close()
        sides, every = None, np.arange(len(self._winners))
        beside: Sequence[Any] = ()
        if self._plan.side_columns:
            sides = self._winners.all_sides()
        is_buried = any(len(rows) for rows, _ in self._bury)
        if is_buried and (waiting := self._winners.waiting(every)) is not None:
            beside = beside_columns(self._plan, *waiting)
        if self._winners.settle():
            self._hashed = None
        written = {DATA: _joined(self._insert), TOMBSTONES: _joined(self._bury)}
        orders = self._winners.found.orders if self._plan.as_of is None else self._orders_as_of(every)
        orders = exchanged(orders, self._raised)
        hashed = self._hashed
        return DecidedRows(
            self._keys,
            self._partitions.names,
            written,
            self._indexed,
            self._winners.settled,
            orders,
            hashed,
            sides,
            beside,
        )

    def _orders_as_of(self, every: Ints) -> Any:
        """Return the order values to store: those of a snapshot count as higher ones, but the rows have their own.

        A register may leave a higher one, as that of a patch that waited.
        """
        left, at = self._winners.left_orders(every), to_column(self._plan.rows.order_type, [self._plan.as_of])[0]
        return pc.if_else(pc.greater(left, at), left, self._winners.row_orders)

    def _search(self, hashes: Hashes, keys: Any, own: Ints | None) -> Search:
        order_type, keeps = self._plan.rows.order_type, self._plan.keeps_orders
        return Search(self._live, hashes, keys, self._partitions, own, order_type, keeps_orders=keeps)

    def _met(self, search: Search, role: str) -> Iterator[MetRows]:
        for met in search.met(role):
            if self._plan.register.by_order:
                old = met.orders(self._plan, np.arange(len(met.numbers)))
                same = flags(pc.equal(old, self._winners.found.orders.take(pa.array(met.numbers))))
                met = met.chosen(np.flatnonzero(same))
            yield met

    def _own_partitions(self) -> Ints:
        """Return the code of the partition that each winner's row belongs to."""
        column, count = self._winners.found.directories, len(self._winners)
        if not self._plan.is_partitioned:
            return np.zeros(count, np.int64)
        if not pa.types.is_dictionary(column.type):
            column = column.cast(pa.string()).dictionary_encode()
        codes = np.array(
            [self._partitions.code(name) for name in column.dictionary.to_pylist()] + [self._partitions.code(NOWHERE)]
        )
        return codes[pc.fill_null(column.indices, len(codes) - 1).to_numpy()]  # type: ignore[no-any-return]

    def _place(self, numbers: Ints) -> None:
        """Find the partitions of the rows that some winners leave, if these are not their own rows."""
        plan = self._plan
        if not (plan.by_table and plan.side_columns and len(numbers)):
            return
        found = plan.block_type.partitions(self._winners.left(numbers)[1], plan.rows.layouts["written"])
        self._own[numbers] = np.array([*map(self._partitions.code, found.names)], np.int64)[found.codes]

    def _replaced(self, codes: Ints) -> Flags | None:
        """Return which partitions an overwrite replaces; None if it replaces none. codes: of partitions."""
        replaced = self._target.replaced
        return None if replaced is None else replaced.among(self._partitions.names, codes)

    def _meet_records(self, met: MetRows) -> None:
        replaced = self._replaced(met.partitions)
        if not self._plan.register.reads_rows:
            self._meet_some(met, replaced)
            return
        kept = self._kept(met, replaced)
        beside, newer = with_values(kept), np.ones(len(met.numbers), np.bool_)
        rows = np.flatnonzero(beside)
        old = met_records(self._plan, met.orders(self._plan, rows))
        newer[rows] = flags(pc.less(old, self._winners.found.orders.take(pa.array(met.numbers[rows]))))
        reads = self._winners.reads(met.numbers, beside, newer, replaced)
        for one in (True, False):
            rows = np.flatnonzero(reads == one)
            if len(rows):
                own = None if replaced is None else replaced[rows]
                self._meet_some(met.chosen(rows), own, kept.take(pa.array(rows)), reads=one)

    def _meet_some(self, met: MetRows, replaced: Flags | None, kept: Any = None, *, reads: bool = False) -> None:
        """Let winners meet records. replaced: whether the partition of each is.

        kept: their side columns, a pa.StructArray; None without any. reads: the register must see the records.
        """
        winners, plan = self._winners, self._plan
        found = winners.found
        twice = self._twice(met.numbers)
        if twice.any():
            winners.note("met twice", met.numbers[twice])
        if plan.truncates or plan.register.buries_absent or replaced is not None:
            for file, rows in met.by_file(np.arange(len(met.numbers))):
                self._positions.setdefault(file.path, []).append(met.positions[rows])
        # Old order values are seldom read, but the highest ones show their units.
        winners.tally.note_units(units_of(plan.rows.order_type, met.highs))
        highs = met_records(plan, met.highs)
        orders = found.orders.take(pa.array(met.numbers))
        is_needed = not (reads and plan.register.compares_rows)
        same = self._same(met, replaced) if is_needed else np.zeros(len(met.numbers), np.bool_)
        if plan.scope is not None:
            winners.tally.counts[MET_IN_PART] += int(same.sum())
            for file, rows in met.by_file(np.flatnonzero(~same)):
                inside = inside_of(plan, self._live, file, np.sort(met.positions[rows]))
                winners.tally.counts[MET_IN_PART] += len(inside)
        older, level = np.zeros(len(same), np.bool_), np.zeros(len(same), np.bool_)
        # Those of extents with a row that is not older than the winner.
        rows, old = np.flatnonzero(flags(pc.less_equal(orders, highs))), None
        seen: tuple[Any, ...] = ()
        if reads:
            rows = np.arange(len(same))
            old = met.orders(plan, rows)
            sides = plan.sides(len(rows), old, kept.flatten()) if plan.side_columns else None
            unread: Sequence[str] = ()
            if not plan.keeps_orders and plan.as_of is None and floor_of(plan, RECORD) is None:
                unread = winners.unread(met.numbers, met_records(plan, old))
            seen = met_records(plan, old), old_rows(plan, self._live, met, found.written, unread), sides
        if len(rows):
            old = met_records(plan, met.orders(plan, rows) if old is None else old)
            new = orders.take(pa.array(rows))
            older[rows] = winners.older(old, new)
            level[rows] = flags(pc.equal(old, new))
        if plan.truncates and not seen:
            # A winner that is newer than all rows of an extent is below the floor only if they are, too.
            seen = (highs if old is None else exchanged(highs, [(rows, old)]),)
        meet_living(winners, met, highs, old if reads else None)
        olds = Olds(RECORD, older, same, *seen)._replace(floor=known_floor_of(plan))
        actions = winners.decide_rows(met.numbers, olds, level, replaced)
        if len(rows):
            winners.note_late(new, old, winners.late[met.numbers[rows]])
        outranked, touched = (np.flatnonzero(actions == action) for action in (OUTRANKED, TOUCH))
        if len(outranked) and old is not None:
            values = old.take(pa.array(np.searchsorted(rows, outranked)))
            self._raised.append((met.numbers[outranked], values))
        written = np.flatnonzero((actions == WRITE) | (actions == REWRITE))
        gone = np.flatnonzero((actions == GONE) | (actions == OUTRANKED))
        dropped = np.flatnonzero(actions == DROPPED)
        if replaced is not None or plan.side_columns:
            # An equal row is written again if its file is removed, or if its side columns change.
            is_again = np.zeros(len(touched), np.bool_) if replaced is None else replaced[touched]
            if plan.side_columns and len(touched):
                is_again |= unequal(winners.left_sides(met.numbers[touched]), kept.take(pa.array(touched)))
            again, touched = touched[is_again], touched[~is_again]
            winners.tally.counts["rows rewritten"] += len(again)
            written = np.sort(np.concatenate((written, again)))
        if plan.keeps_orders:
            # An equal row with an equal order value changes nothing.
            self._note(met, touched[~level[touched]], touched=True)
        self._note(met, np.sort(np.concatenate((written, gone, dropped))), touched=False)
        numbers = met.numbers[written]
        self._place(numbers)
        self._insert.append((numbers, self._own[numbers]))
        self._bury.append((met.numbers[gone], met.partitions[gone]))
        if plan.by_table:
            moved = int((self._own[numbers] != met.partitions[written]).sum())
            for count in ("moved in", "moved out"):
                winners.tally.counts[count] += moved

    def _twice(self, numbers: Ints) -> Flags:
        """Return which winners have been met before."""
        before = self._winners.met[numbers]
        found = np.zeros(len(self._winners), np.bool_)
        found[numbers] = True
        if len(numbers) == np.count_nonzero(found):  # as nearly always
            return before
        twice = np.ones(len(numbers), np.bool_)
        twice[np.unique(numbers, return_index=True)[1]] = False
        return twice | before

    def _same(self, met: MetRows, replaced: Flags | None) -> Flags:
        """Return which winners are upserts with the bytes of the rows that they meet."""
        found = self._winners.found
        upserts = np.flatnonzero(~found.deletes[met.numbers])
        is_likely = met.schemas(upserts) != self._target.schema
        ours = np.flatnonzero(~is_likely)
        if len(ours):
            hashes = self._row_hashes(met.numbers[upserts[ours]])
            is_likely[ours] = hashes == met.row_hashes(upserts[ours])
        same = np.zeros(len(met.numbers), np.bool_)
        for file, rows in met.by_file(upserts[is_likely]):
            same[rows] = self._equal(file, met, rows, replaced)
        return same

    def _kept(self, met: MetRows, replaced: Flags | None) -> Any:
        """Return the side columns of the rows that winners meet, a pa.StructArray; NULLs in replaced partitions."""
        wanted = self._plan.side_columns
        found = no_sides(len(met.numbers), wanted)
        has_sides = met.have_sides()
        rows = np.flatnonzero(has_sides if replaced is None else has_sides & ~replaced)
        if not wanted or not len(rows):
            return found
        parts = [self._live.sides(file, met.positions[own], wanted) for file, own in met.by_file(rows)]
        return exchanged(found, [(rows, pa.concat_arrays(parts))])

    def _row_hashes(self, numbers: Ints) -> RowHashes:
        """Return the row hashes of some winners. Those of all are made at once, unless these are few."""
        written = self._winners.found.written
        if self._hashed is None:
            if len(numbers) < len(written) // 2:
                return row_hashes(written.take(pa.array(numbers)))
            self._hashed = row_hashes_of(written)
        return self._hashed[numbers]

    def _equal(self, file: FileEntry, met: MetRows, rows: Ints, replaced: Flags | None) -> Flags:
        """Return which winners have the bytes of the rows of a file that they meet, whose row hashes agree.

        Of damaged rows that are replaced, the row hashes decide: they differ between most rows that differ.
        """
        own = self._winners.found.written.take(pa.array(met.numbers[rows]))
        try:
            layout = self._plan.rows.layouts["master"]
            old = self._live.rows(file, met.positions[rows], met.entries[rows], layout).written()
            return ~unequal(old, own)
        except MutatorError as fault:
            if fault.kind != "table.file" or replaced is None or not replaced[rows].any():
                raise
        found: Flags = np.full(len(rows), file.form == self._target.schema)
        competing = ~replaced[rows]
        if competing.any():
            found[competing] = self._equal(file, met, rows[competing], replaced)
        return found

    def _meet_tombstones(self, met: MetRows) -> None:
        winners = self._winners
        fresh = np.flatnonzero(~self._twice(met.numbers))
        if len(fresh) < len(met.numbers):  # beside a record
            winners.note("met twice", np.delete(met.numbers, fresh))
        numbers, replaced = met.numbers[fresh], self._replaced(met.partitions[fresh])
        own = met.orders(self._plan, fresh)
        orders = met_tombstone_orders(self._plan, met, fresh, own, self._replaced(met.partitions))
        hidden = []
        waiting = waiting_of(self._plan, self._live, met, fresh)
        for decision, rows, *_ in winners.meet_tombstones(numbers, orders, replaced, waiting):
            if decision.result == "write":
                hidden.append(rows)
                self._place(numbers[rows])
                self._insert.append((numbers[rows], self._own[numbers[rows]]))
            elif decision.result == "touch tombstone":
                raised = winners.left_orders(numbers[rows])
                rows = rows[flags(pc.greater(raised, own.take(pa.array(rows))))]
            if decision.result in ("touch tombstone", "wait"):
                hidden.append(rows)
                self._bury.append((numbers[rows], met.partitions[fresh[rows]]))
        if hidden:
            rows = np.sort(np.concatenate(hidden))
            winners.tally.counts["tombstones hidden"] += len(rows)
            self._note(met, fresh[rows], touched=False)

    def _meet_nothing(self) -> None:
        winners, partitioning = self._winners, self._plan.rows.partitioning
        insert, bury = winners.meet_nothing()
        if len(insert) > FEWEST and not partitioning.by_partition:
            self._note_other_spellings(insert)
        self._place(insert)
        self._insert.append((insert, self._own[insert]))
        codes = np.full(len(bury), self._partitions.code(NOWHERE)) if partitioning.by_table else self._own[bury]
        self._bury.append((bury, codes))
        if partitioning.by_partition:
            lacking = [None in dict(values_of(name)).values() if name else False for name in self._partitions.names]
            unplaced = bury[np.array(lacking)[codes]] if len(bury) else bury
            winners.note(DELETE_WITHOUT_PARTITION, unplaced[~winners.found.upserts[unplaced]])

    def _note_other_spellings(self, insert: Ints) -> None:
        """Look for the keys of a sample of the winners to be inserted in other spellings."""
        winners = self._winners
        winners.others = others = OtherSpellings(self._plan, winners.found, insert)
        if len(others):
            for met in self._search(others.hashes, encoded_keys(others.columns), None).met(DATA):
                for number in met.numbers.tolist():
                    others.meet(number)
        winners.note_other_spellings(insert)

    def _staying(self, met: MetRows, rows: Ints, removed: frozenset[str]) -> Ints:
        """Return the rows whose files are not among some."""
        paths, files, _ = met.places(rows)
        found: Ints = rows[~np.array([path in removed for path in paths], np.bool_)[files]]
        return found

    def _note(self, met: MetRows, rows: Ints, *, touched: bool) -> None:
        """Add rows to the version index, but for those of files that are removed."""
        if self._target.replaced is not None:
            rows = self._staying(met, rows, self._target.replaced.removed)
        if not len(rows):
            return
        found, numbers = self._winners.found, met.numbers[rows]
        index = pa.array(numbers)
        orders = to_texts(self._plan.rows.order_type, self._winners.left_orders(numbers))
        paths, files, positions = met.places(rows)
        self._indexed.append(
            table_of_files(
                paths,
                files,
                positions,
                found.hashes[numbers],
                self._keys.take(index),
                orders,
                touched=touched,
            )
        )


def _joined(parts: list[Written]) -> Written:
    numbers, codes = (np.concatenate([np.zeros(0, np.int64), *column]) for column in zip(*parts, strict=True))
    return numbers, codes
