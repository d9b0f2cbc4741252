"""Locate the records of winners in a partitioned master: the step before a merge in which records may move.

A winner's row determines the partition it belongs to; the record or tombstone of its ID may be in another one. Filters
narrow down which partitions may contain the ID. If they exclude all but the winner's own, nothing is read: the winner
is routed there. Otherwise the key columns of the candidates are read:

    a record that is newer, or a tombstone    the winner is routed to its partition, and is late
    a record that is older                    it leaves its partition, and the new one arrives in its own
    a record of a replaced partition          the same, whichever is older
    an older tombstone, and an upsert         it leaves its partition, and the record is inserted in its own
    nothing                                   the winner is routed to its own partition

A delete is routed to the partition of its record or tombstone, whatever partition its row belongs to; without either,
its tombstone is kept without a partition. An ID is in at most one partition, because earlier merges followed the same
rules.

Where the register makes records of several mutations, or of old rows, the partition is that of the record that it
makes. So the rows of the candidates are read, too, and also those in a winner's own partition, unless it is one upsert
that sets all fields. Everything is decided here, and again where the winner is routed. Records that move are counted
here.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.file_entry import FileEntry
from mutator.dataset.partition_index import Files
from mutator.engine.blocks.carry import wanted_filters_of
from mutator.engine.blocks.hash_parts import Parts
from mutator.engine.blocks.master import from_files
from mutator.engine.blocks.merge_bucket import Sections
from mutator.engine.blocks.mutations import LEAVES, LEAVES_KEPT, directory_column
from mutator.engine.blocks.read_blocks import tombstones
from mutator.engine.blocks.tombstone_columns import (
    floor_of,
    known_floor_of,
    met_records,
    own_orders,
    raised_orders,
    waiting_rows,
)
from mutator.engine.blocks.winner_keys import WinnerKeys
from mutator.engine.blocks.winners import Winners
from mutator.engine.merging_task import MergingTask
from mutator.engine.partitions.cleared import cleared
from mutator.engine.partitions.routes import ARRIVED, LEDGER, Route, routed, routed_mutations
from mutator.engine.receipts import SplitNumber, SplitReceipt
from mutator.engine.split_content import DAMAGE, TALLY, Damage, check_tombstones, checksum_of, damage, damage_of
from mutator.engine.tally import Tally
from mutator.errors import MutatorError
from mutator.errors.quick_dataclass import dataclass
from mutator.plan.partition_plan import inputs_of_files
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.plan.splits import Input, Split, splits_of
from mutator.rules.bloom_filter import Sought
from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.ignored_fields import inner_of
from mutator.rules.order_columns import flags
from mutator.rules.partition_paths import lacks_value
from mutator.rules.register import NOTHING, RECORD, TOMBSTONE, Olds
from mutator.storage.compression import CorruptStream

NOWHERE = ""  # the directory of tombstones without a partition


def located(plan: Plan, group: int, elements: Iterable[Any], attempt: int) -> Iterator[Route]:
    """Fold the mutations of a group, and route each winner to the partition where its record is or will be."""
    with MergingTask.opened(plan, None, group, attempt, elements) as task:
        parts = Parts(plan, task.tally, task.stack)
        for found in Sections(plan, task.elements, task.stack).mutations():
            parts.append(found)
        try:
            moved = [*cleared(plan, group)]
            for winners in parts:
                yield from _Search(plan, winners, task.tally).routes()
                moved = [_others(table, winners) for table in moved]
            for table in moved:
                if table.num_rows:
                    yield arrived(plan, table, None)
        except Damage as fault:
            yield LEDGER, {}, ((plan.ledger, (), DAMAGE, (0, group)), fault.fault)
    yield LEDGER, {}, ((plan.ledger, (), TALLY, (group, 0)), task.receipt())


def _others(table: Any, winners: Winners) -> Any:
    """Return the records of a table that have none of some winners."""
    alone = np.ones(table.num_rows, np.bool_)
    alone[winners.match_table(table)[0]] = False
    return table.filter(pa.array(alone)).combine_chunks()


def own_partitions(plan: Plan, elements: Iterable[Any]) -> set[str]:
    """Return the directories that the winners of a group name, upserts and deletes alike.

    A delete whose row has no value of a partition field names none: it deletes a record wherever it is.
    """
    found = set[str]()
    with ExitStack() as stack:
        parts = Parts(plan, Tally(), stack)
        for mutations in Sections(plan, elements, stack).mutations():
            parts.append(mutations)
        for winners in parts:
            column, deletes = winners.found.directories, pa.array(winners.found.deletes)
            upserts, others = column.filter(pc.invert(deletes)), column.filter(deletes)
            found.update(filter(None, upserts.unique().to_pylist()))
            found.update(name for name in filter(None, others.unique().to_pylist()) if not lacks_value(name))
    return found


def arrived(plan: Plan, table: Any, outcome: str | None) -> Route:
    """Return the route of records that arrive in their partitions.

    table: as ``Winners.inserted`` yields it. outcome: of the mutations that move them; None: a truncate does.
    """
    placed = plan.block_type.partitions(table.column("row").combine_chunks(), plan.rows.layouts["written"])
    outcomes = pa.array([outcome], pa.string()).take(pa.array(np.zeros(table.num_rows, np.int64)))
    directories = directory_column(placed.codes, placed.names)
    return routed(ARRIVED, table.append_column("outcome", outcomes), directories)


@dataclass(frozen=True)
class _Located:
    """Records or tombstones of winners that one file contains."""

    directory: str  # of the partition
    numbers: Ints  # of the winners
    kind: str  # RECORD or TOMBSTONE
    orders: Any  # order values, one for each
    seen: tuple[Any, ...]  # rows and side columns, if the register reads rows; of tombstones, of what waits

    def chosen(self, which: Ints) -> _Located:
        """Return some of them. which: their places."""
        orders, *seen = (column.take(pa.array(which)) for column in (self.orders, *self.seen))
        return replace(self, numbers=self.numbers[which], orders=orders, seen=tuple(seen))


class _Search:
    """The winners of a group, and the partitions that may contain their keys."""

    def __init__(self, plan: Plan, winners: Winners, tally: Tally) -> None:
        assert plan.master is not None
        self._plan, self._winners, self._found, self._tally = plan, winners, winners.found, tally
        self._reads = inner_of(plan.register).reads_rows
        self._open = plan.register.moves_by_record(winners.events(np.arange(len(winners))))
        self._files: dict[str, tuple[str, FileEntry]] = {}
        for directory, files in plan.master.partitions.items():
            self._files |= {part.path: (directory, part) for part in files.data}
            self._files |= {side.path: (directory, side) for side in files.tombstones}

    def routes(self) -> Iterator[Route]:
        """Yield the routes of the winners, and of the records that leave their partitions."""
        if not len(self._found):
            return
        candidates = self._candidates()
        own, doubt = self._own(candidates)
        self._tally.counts["looked for"] += len(doubt)
        yield from self._settled(own, self._locate(doubt, candidates, own))

    def _own(self, candidates: Mapping[str, Ints]) -> tuple[Any, Ints]:
        """Return the directory of each winner, as far as it is known, and the numbers of those that are in doubt."""
        found, count = self._found, len(self._found)
        own = found.directories.cast(pa.string()).fill_null(NOWHERE).to_numpy(zero_copy_only=False)
        own[found.deletes] = NOWHERE
        elsewhere = np.zeros(count, np.int64)  # number of other partitions that may contain the key
        only = np.array([""] * count, object)
        for directory, numbers in self._by_directory(candidates).items():
            other = numbers[(own[numbers] != directory) | found.deletes[numbers]]
            elsewhere[other] += 1
            only[other] = directory
        # A delete with one candidate is routed there without a search: that is right whether the key is there or not.
        alone = found.deletes & (elsewhere == 1) & ~self._open
        own[alone] = only[alone]
        doubt = np.zeros(count, np.bool_)
        for path, numbers in candidates.items():
            doubt[self._sought(path, numbers, own)] = True
        return own, np.flatnonzero(doubt & ~alone)

    def _sought(self, path: str, numbers: Ints, own: Any) -> Ints:
        """Return the winners, of those whose keys a file may contain, that the file must be searched for."""
        directory, part = self._files[path]
        if self._plan.buries_rows and not part.is_data:  # what waits may belong to another partition
            return numbers
        chosen: Ints = numbers[(own[numbers] != directory) | self._found.deletes[numbers] | self._open[numbers]]
        return chosen

    def _settled(self, own: Any, located: Iterable[_Located]) -> Iterator[Route]:
        """Yield all routes. own: the directory of each winner. located: what the search found."""
        winners, met, moved = self._winners, np.zeros(len(own), np.bool_), np.zeros(len(own), np.bool_)
        for part in located:
            numbers, replaced = part.numbers, self._replaced(part)
            met[numbers] = True
            for decision, keys, rows, *_ in winners.met_by(numbers, self._olds(part), replaced):
                if decision.result != "write":
                    continue
                placed = own[numbers[keys]] if rows is None else self._placed(rows)
                gone = keys[placed != part.directory]
                if len(gone):
                    moved[numbers[gone]] = True
                    yield from self._moved(part.chosen(gone), decision.winner, replaced)
            own[numbers] = part.directory
        self._place_unknown(own, np.flatnonzero(self._open & ~met))
        stay, of = winners.mutations_of(np.flatnonzero(~moved))
        if len(stay):
            yield routed_mutations(replace(stay, directories=pa.array(own[of], pa.string()).dictionary_encode()))

    def _place_unknown(self, own: Any, numbers: Ints) -> None:
        """Find the partitions of records that begin with some winners; what waits has none."""
        none, placed = np.zeros(len(numbers), np.bool_), np.full(len(numbers), NOWHERE, object)
        for decision, keys, rows, *_ in self._winners.met_by(numbers, Olds(NOTHING, none, none), None):
            if decision.result == "write":
                placed[keys] = own[numbers[keys]] if rows is None else self._placed(rows)
        own[numbers] = placed

    def _moved(self, part: _Located, outcome: str | None, replaced: Flags | None) -> Iterator[Route]:
        """Decide about records or tombstones that leave their partition, and count them; yield their routes.

        Their partitions count that they leave, and that they arrive. outcome: of their winners.
        """
        plan, numbers, every = self._plan, part.numbers, np.arange(len(part.numbers))
        replaced = None if replaced is None else replaced[every]
        winners = Winners(plan, self._winners.mutations_of(numbers)[0], self._tally)
        if part.kind == RECORD:
            olds, orders = self._olds(part), winners.found.orders
            winners.meet_living(every, olds.orders)
            winners.decide_rows(
                every,
                olds._replace(older=winners.older(olds.orders, orders)),
                flags(pc.equal(olds.orders, orders)),
                replaced,
            )
            self._tally.counts["master replaced" if outcome == "updated" else "master kept"] -= len(every)
        else:
            winners.meet_tombstones(every, part.orders, replaced, part.seen)
        self._tally.counts[f"feed {outcome}"] -= len(every) if outcome != "late" else 0
        winners.close()
        winners.insert(every)
        for table in winners.inserted(arrive=part.kind == RECORD):
            yield arrived(plan, table, outcome)
        found = self._found.take(numbers)
        left = replace(
            found,
            moves=np.full(len(found), LEAVES_KEPT if outcome == "late" else LEAVES),
            mixed=np.zeros(len(found), np.bool_),
            counts=np.ones(len(found), np.int64),
            lows=pa.nulls(len(found), found.lows.type),
            directories=directory_column(np.zeros(len(found), np.int64), [part.directory]),
        )
        yield routed_mutations(left)

    def _placed(self, rows: Any) -> Any:
        """Return the directories of rows, as they are written."""
        placed = self._plan.block_type.partitions(rows, self._plan.rows.layouts["written"])
        return np.array([*placed.names], object)[placed.codes]

    def _replaced(self, part: _Located) -> Flags | None:
        return np.ones(len(part.numbers), np.bool_) if self._plan.replaces(part.directory) else None

    def _olds(self, part: _Located) -> Olds:
        """Return records or tombstones as a register meets them."""
        plan, count = self._plan, len(part.numbers)
        if part.kind == RECORD:
            met = met_records(plan, part.orders)
        else:
            floor = floor_of(plan)
            met = part.orders if floor is None else pc.max_element_wise(part.orders, floor)
        older = flags(pc.greater(met, self._found.orders.take(pa.array(part.numbers))))
        olds = Olds(part.kind, older, np.zeros(count, np.bool_), met, *part.seen)
        return olds._replace(floor=known_floor_of(plan)) if part.kind == RECORD else olds

    def _candidates(self) -> dict[str, Ints]:
        """Return the numbers of the winners whose keys each file may contain, by its path."""
        assert self._plan.master is not None
        firsts = self._found.keys[0]
        order = pc.sort_indices(firsts).to_numpy().astype(np.int64)
        sorted_firsts = firsts.take(pa.array(order)).to_pylist()
        sought = Sought(self._found.hashes[order])

        def between(low: bytes, high: bytes | None) -> tuple[int, int]:
            end = len(order) if high is None else bisect.bisect_right(sorted_firsts, high)
            return bisect.bisect_left(sorted_firsts, low), end

        def has_winners(low: bytes, high: bytes | None) -> bool:
            begin, end = between(low, high)
            return begin < end

        packs = {path: part.filter for path, (_, part) in self._files.items()}
        found: dict[str, Ints] = {}
        for pack in sorted({pack for pack in packs.values() if pack is not None}):
            try:
                for one in wanted_filters_of(self._plan.master.path, pack, packs, has_winners):
                    self._tally.counts["filters"] += 1
                    if one is None:
                        continue
                    begin, end = between(one.low, one.high)
                    hit = order[begin:end][sought.may_be_in(one.words, begin, end)]
                    if len(hit):
                        found[one.path] = hit
            except MutatorError as fault:
                why = f"a pack of filters: {fault}"
                raise damage(f"{self._plan.master.path}/{pack}", why) from None
        # A file without a filter may contain any key.
        everything = np.arange(len(self._found))
        return found | {path: everything for path, pack in packs.items() if pack is None}

    def _by_directory(self, candidates: Mapping[str, Ints]) -> dict[str, Ints]:
        found: defaultdict[str, list[Ints]] = defaultdict(list)
        for path, positions in candidates.items():
            found[self._files[path][0]].append(positions)
        return {directory: np.unique(np.concatenate(positions)) for directory, positions in found.items()}

    def _locate(self, doubt: Ints, candidates: Mapping[str, Ints], own: Any) -> Iterator[_Located]:
        """Read the keys of the files that may contain winners in doubt; their rows, if the register reads rows."""
        assert self._plan.master is not None
        for path in sorted(candidates):
            positions = candidates[path][np.isin(candidates[path], doubt)]
            directory, part = self._files[path]
            positions = np.sort(self._sought(path, positions, own))  # by hash, as winners are
            if not len(positions):
                continue
            self._tally.counts["files looked into"] += 1
            keys = WinnerKeys(self._plan, self._found.take(positions), Tally())
            files = self._plan.master.partitions[directory]
            buried = not part.is_data
            one = Files((), (part,), ()) if buried else Files((part,), (), files.orders)
            inputs = inputs_of_files(self._plan, one)
            plan = replace(self._plan, inputs=tuple(inputs))
            splits = splits_of(inputs, plan.chunks.master, plan.chunks.feed)
            for numbers, orders, *seen in (_tombstones if buried else _rows)(plan, splits, keys, self._reads):
                yield _Located(directory, positions[numbers], TOMBSTONE if buried else RECORD, orders, tuple(seen))


def _rows(plan: Reading, splits: list[Split], keys: WinnerKeys, reads: bool) -> Iterator[Any]:
    receipts: dict[SplitNumber, SplitReceipt] = {}

    def done(split: Split, _: Input, __: Any, receipt: SplitReceipt) -> None:
        receipts[split.input, split.number] = receipt

    found = []
    for block in from_files(plan, splits, done):
        rows, positions = keys.match_block(block)
        if len(rows):
            index = pa.array(rows)
            seen = (block.block.written().take(index), block.sides.take(index)) if reads else ()
            found.append((positions, block.orders(rows), *seen))
    source, text = plan.inputs[0].source, checksum_of(plan, 0, receipts)
    if text != source.checksum:
        why = f"its checksum is {text} and should be {source.checksum}"
        raise damage(source.path, why)
    yield from found


def _tombstones(plan: Plan, splits: list[Split], keys: WinnerKeys, reads: bool) -> Iterator[Any]:
    (split,) = splits
    one = plan.inputs[0]
    try:
        check_tombstones(plan, split, one)
        for table in tombstones(plan, split, one):
            rows, positions = keys.match_table(table)
            if len(rows):
                met = table.take(pa.array(rows))
                seen = waiting_rows(plan, met) if reads and plan.buries_rows else ()
                yield positions, (own_orders if plan.register.full else raised_orders)(plan, met), *seen
    except (CorruptStream, MutatorError) as fault:
        raise damage_of(one, fault) from None
