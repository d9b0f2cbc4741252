"""Locate the records of winners in a partitioned master: the step before a merge in which records may move.

A winner's row determines the partition it belongs to; the record or tombstone of its ID may be in another one. Filters
narrow down which partitions may contain the ID. If they exclude all but the winner's own, nothing is read: the winner
is routed there. Otherwise the key columns of the candidates are read:

    a record that is newer, or a tombstone    the winner is routed to its partition, and is late
    a record that is older                    it leaves its partition, and the winner arrives in its own
    a record of a replaced partition          the same, whichever is older
    an older tombstone, and an upsert         it leaves its partition, and the winner revives the record in its own
    nothing                                   the winner is routed to its own partition

A delete is routed to the partition of its record or tombstone, whatever partition its row belongs to; without either,
its tombstone is kept without a partition. An ID is in at most one partition, because earlier merges followed the same
rules.
"""

import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.file_entry import FileEntry
from mutator.dataset.partition_index import Files
from mutator.engine.blocks.carry import wanted_filters_of
from mutator.engine.blocks.fold import BlockBag
from mutator.engine.blocks.hash_parts import Parts
from mutator.engine.blocks.master import from_files
from mutator.engine.blocks.merge_bucket import Sections
from mutator.engine.blocks.mutations import ARRIVES, LEAVES, REVIVES, Columns, Mutations, directory_column
from mutator.engine.blocks.read_blocks import tombstones
from mutator.engine.blocks.tombstone_columns import at_as_of, floor_of, met_records, own_orders, raised_orders
from mutator.engine.blocks.winners import Winners
from mutator.engine.merging_task import MergingTask
from mutator.engine.partitions.routes import LEDGER, Route, routed_mutations
from mutator.engine.receipts import SplitNumber, SplitReceipt
from mutator.engine.split_content import DAMAGE, TALLY, Damage, check_tombstones, checksum_of, damage, damage_of
from mutator.engine.tally import Tally
from mutator.errors import MutatorError
from mutator.plan.partition_plan import inputs_of_files
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.plan.splits import Input, Split, splits_of
from mutator.rules.bloom_filter import Sought
from mutator.rules.byte_columns import Ints
from mutator.rules.key_moves import with_records
from mutator.rules.order_columns import flags
from mutator.rules.order_units import units_of
from mutator.rules.partition_paths import lacks_value
from mutator.rules.register import RECORD, TOMBSTONE, Events, Olds
from mutator.storage.compression import CorruptStream

NOWHERE = ""  # the directory of tombstones without a partition


def located(plan: Plan, group: int, elements: Iterable[Any], attempt: int) -> Iterator[Route]:
    """Fold the mutations of a group, and route each winner to the partition where its record is or will be."""
    with MergingTask.opened(plan, None, group, attempt, elements) as task:
        parts = Parts(plan, task.tally, task.stack)
        for found in Sections(plan, task.elements, task.stack).mutations():
            parts.append(found)
        try:
            for winners in parts:
                yield from _Search(plan, winners.found, task.tally).routes()
        except Damage as fault:
            yield LEDGER, {}, ((plan.ledger, (), DAMAGE, (0, group)), fault.fault)
    yield LEDGER, {}, ((plan.ledger, (), TALLY, (group, 0)), task.receipt())


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


@dataclass(frozen=True)
class _Located:
    """Records or tombstones of winners that one file contains."""

    directory: str  # of the partition
    numbers: Ints  # of the winners
    orders: Any  # order values, one for each
    kind: str  # RECORD or TOMBSTONE


class _Search:
    """The winners of a group, and the partitions that may contain their keys."""

    def __init__(self, plan: Plan, found: Mutations, tally: Tally) -> None:
        assert plan.master is not None
        self._plan, self._found, self._tally = plan, at_as_of(plan, found), tally
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
        alone = found.deletes & (elsewhere == 1)
        own[alone] = only[alone]
        return own, np.flatnonzero((elsewhere > 0) & ~alone)

    def _settled(self, own: Any, located: Iterable[_Located]) -> Iterator[Route]:
        """Yield all routes. own: the directory of each winner. located: what the search found."""
        found = self._found
        moves, mixed, lows = found.moves.copy(), found.mixed.copy(), found.lows
        bag = BlockBag(self._plan, Columns([found]))
        leaving: list[tuple[str, Ints]] = []
        for part in located:
            numbers = part.numbers
            order = found.orders.take(pa.array(numbers))
            register = self._plan.register
            register = register.replacing if self._plan.replaces(part.directory) else register
            met, floor = part.orders, floor_of(self._plan, part.kind)
            if part.kind == RECORD:
                met = met_records(self._plan, met)
            elif floor is not None:
                met = pc.max_element_wise(met, floor)
            olds = Olds(part.kind, flags(pc.greater(met, order)), np.zeros(len(numbers), np.bool_), met)
            stays = own[numbers] == part.directory
            for decision, keys, *_ in register.meet(Events(bag, numbers, numbers), olds, floor):
                stays[keys] |= decision.result != "write"
            own[numbers[stays]] = part.directory
            gone = numbers[~stays]
            if not len(gone):
                continue
            met = part.orders.filter(pa.array(~stays))
            self._tally.note_units(units_of(self._plan.rows.order_type, met))
            leaving.append((part.directory, gone))
            moves[gone] = REVIVES if part.kind == TOMBSTONE else ARRIVES
            mixed[gone] |= flags(pc.equal(part.orders, order))[~stays]
            if part.kind == RECORD:
                lows = with_records(lows, found.orders, found.deletes, gone, met)
        own = pa.array(own, pa.string()).dictionary_encode()
        yield routed_mutations(replace(found, moves=moves, mixed=mixed, directories=own, lows=lows))
        for directory, numbers in leaving:
            count = len(numbers)
            left = replace(
                found.take(numbers),
                moves=np.full(count, LEAVES),
                mixed=np.zeros(count, np.bool_),
                counts=np.ones(count, np.int64),
                lows=pa.nulls(count, lows.type),
                directories=directory_column(np.zeros(count, np.int64), [directory]),
            )
            yield routed_mutations(left)

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
        """Read the keys of the files that may contain winners in doubt."""
        assert self._plan.master is not None
        for path in sorted(candidates):
            positions = candidates[path][np.isin(candidates[path], doubt)]
            directory, part = self._files[path]
            positions = positions[(own[positions] != directory) | self._found.deletes[positions]]
            if not len(positions):
                continue
            self._tally.counts["files looked into"] += 1
            positions = np.sort(positions)  # by hash, as winners are
            winners = Winners(self._plan, self._found.take(positions), Tally())
            files = self._plan.master.partitions[directory]
            buried = not part.is_data
            one = Files((), (part,), ()) if buried else Files((part,), (), files.orders)
            inputs = inputs_of_files(self._plan, one)
            plan = replace(self._plan, inputs=tuple(inputs))
            splits = splits_of(inputs, plan.chunks.master, plan.chunks.feed)
            for rows, orders in (_tombstones if buried else _rows)(plan, splits, winners):
                yield _Located(directory, positions[rows], orders, TOMBSTONE if buried else RECORD)


def _rows(plan: Reading, splits: list[Split], winners: Winners) -> Iterator[tuple[Ints, Any]]:
    receipts: dict[SplitNumber, SplitReceipt] = {}

    def done(split: Split, _: Input, __: Any, receipt: SplitReceipt) -> None:
        receipts[split.input, split.number] = receipt

    found = []
    for block in from_files(plan, splits, done):
        rows, positions = winners.match(block.hashes, block.keys, block.orders)
        if len(rows):
            found.append((positions, block.orders(rows)))
    source, text = plan.inputs[0].source, checksum_of(plan, 0, receipts)
    if text != source.checksum:
        why = f"its checksum is {text} and should be {source.checksum}"
        raise damage(source.path, why)
    yield from found


def _tombstones(plan: Plan, splits: list[Split], winners: Winners) -> Iterator[tuple[Ints, Any]]:
    (split,) = splits
    one = plan.inputs[0]
    try:
        check_tombstones(plan, split, one)
        for table in tombstones(plan, split, one):
            rows, positions = winners.match_table(table)
            if len(rows):
                yield positions, (own_orders if plan.register.full else raised_orders)(plan, table.take(pa.array(rows)))
    except (CorruptStream, MutatorError) as fault:
        raise damage_of(one, fault) from None
