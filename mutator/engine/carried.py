"""What changes of keys carry, found before a merge reads the feed: ``rules.carried_fields``.

    arrivals   the feed's rows with a new key that leave fields unset; only where there are any, the other steps follow
    deletes    those that are their other halves, where these are not in the same rows or right before them
    rows       the mutations of their old keys in the feed, and what the place has of old and new keys

The values go with the inputs of the plan to where the rows are read, so engines and runners see rows that send them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.engine.blocks.tombstone_columns import with_each
from mutator.engine.receipts import Key, MergeReceipt, Receipts
from mutator.engine.runner import Runner
from mutator.engine.split_content import Damage, RowSides, SplitContent
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.block_type import Batch, Hashes
from mutator.formats.content import NotReadable
from mutator.plan.reading import SAMPLES, Reading
from mutator.plan.run_plan import Plan
from mutator.plan.splits import Input, Split
from mutator.rules.byte_columns import ByteColumn, Flags, Ints
from mutator.rules.carried_fields import Arrival, CarriedValues, Change, FedMutation, Filled, filled
from mutator.rules.envelope import DELETE, UPSERT, Envelope
from mutator.rules.ignored_fields import inner_of
from mutator.rules.key_hash import hash_columns
from mutator.rules.key_moves import arrivals
from mutator.rules.order_columns import flags, to_value
from mutator.rules.order_types import has_position
from mutator.rules.order_values import lowest_order, order_parser, precedence
from mutator.rules.patches import Patches
from mutator.rules.register import RECORD, TOMBSTONE, Mutation, Old
from mutator.rules.truth_table import MOVED_INCOMPLETE
from mutator.storage import storage_for
from mutator.storage.compression import CorruptStream

_NEAR = 4  # rows before an arrival in which its other half usually is


@dataclass(frozen=True)
class WantedKeys:
    """Some keys."""

    keys: frozenset[Key]

    @cached_property
    def columns(self) -> list[Any]:
        """A column for each field of the ID."""
        return [pa.array(values, pa.large_binary()) for values in zip(*sorted(self.keys), strict=True)]

    @cached_property
    def hashes(self) -> Hashes:
        """The hashes of the keys, in the order of the columns."""
        return hash_columns([ByteColumn.of_array(column) for column in self.columns])

    def rows(self, block: Any) -> tuple[Ints, list[Key]]:
        """Return the rows of a block that have one of the keys, and their keys."""
        likely = np.flatnonzero(np.isin(block.hashes(), self.hashes))
        keys = list(zip(*(column.to_pylist() for column in block.keys(likely)), strict=True))
        same = [number for number, key in enumerate(keys) if key in self.keys]
        return likely[same], [keys[number] for number in same]


# Given a plan and keys, returns what the place has of them: nothing of those that are left out
HeldOf = Callable[[Plan, WantedKeys], Mapping[Key, Old]]
Find = Callable[[Plan, Split, Input], Iterator[Any]]


def with_carried(runner: Runner, plan: Plan, held: HeldOf) -> tuple[Plan, MergeReceipt | None]:
    """Return a plan whose feed has what its rows carry, and the note on incomplete ones; None without such rows."""
    register = inner_of(plan.register)
    if not isinstance(register, Patches) or not any(_carries(one) for one in plan.inputs):
        return plan, None
    found: list[Arrival] = _read(runner, plan, _arrivals)
    if not found:
        return plan, None
    found = _paired(runner, plan, found)
    wanted = WantedKeys(frozenset(key for one in found for key in (one.fed.key, one.old_key) if key is not None))
    fed, truncates = defaultdict[Key, list[FedMutation]](list), list[Any]()
    for one in _read(runner, plan, partial(_mutations, wanted)):
        if isinstance(one, FedMutation):
            fed[one.key].append(one)
        else:
            truncates.append(one[0])
    truncates += [] if plan.known_floor is None else [plan.known_floor]
    carried = filled(register, found, fed, held(plan, wanted), truncates)
    keys = sorted({*carried.incomplete})
    note = MergeReceipt(
        counts={MOVED_INCOMPLETE: len(keys)} if keys else {},
        samples={MOVED_INCOMPLETE: keys[:SAMPLES]} if keys else {},
    )
    return _with_values(plan, register, carried), note


def with_note(receipts: Receipts, note: MergeReceipt | None) -> Receipts:
    """Return receipts with the note on what rows carry."""
    if note is None:
        return receipts
    ledger = replace(receipts.ledger, tallies=(*receipts.ledger.tallies, note))
    return replace(receipts, ledger=ledger, carries=True)


def held_in_files(runner: Runner) -> HeldOf:
    """Return what finds keys in the files of a directory, as a plan reads them."""

    def held(plan: Plan, wanted: WantedKeys) -> Mapping[Key, Old]:
        buckets = plan.master_buckets
        chosen = None if not buckets else {*(wanted.hashes % np.uint64(buckets)).tolist()}

        def is_chosen(split: Split) -> bool:
            one = plan.inputs[split.input]
            return one.side != "feed" and (chosen is None or one.source.bucket in (None, *chosen))

        splits = [split for split in plan.splits if is_chosen(split)]
        found = dict[Key, tuple[Any, Old]]()
        for key, place, old in _read_splits(runner, plan, partial(_held, wanted), [(one,) for one in splits]):
            if key not in found or place > found[key][0]:
                found[key] = place, old
        return {key: old for key, (_, old) in found.items()}

    return held


def _carries(one: Input) -> bool:
    """Return whether the rows of an input may carry fields."""
    envelope = _envelope(one)
    return one.side == "feed" and envelope is not None and envelope.carries and envelope.leaves_unset


def _envelope(one: Input) -> Envelope | None:
    return None if one.source.wrapped is None else one.source.wrapped.envelope


def _read(runner: Runner, plan: Plan, find: Find) -> list[Any]:
    """Return what a function finds in the splits of the feed."""
    tasks = [tuple(split for split in task if plan.inputs[split.input].side == "feed") for task in plan.tasks]
    return _read_splits(runner, plan, find, [task for task in tasks if task])


def _read_splits(runner: Runner, plan: Plan, find: Find, tasks: Sequence[tuple[Split, ...]]) -> list[Any]:
    size = sum(plan.inputs[split.input].source.bytes for task in tasks for split in task)
    with runner.shared(plan) as shared:
        return runner.tasks(tasks).reading(size).map(partial(_found, find), shared).collect() if tasks else []


def _found(find: Find, plan: Plan, number: int, attempt: int, tasks: Iterable[tuple[Split, ...]]) -> Iterator[Any]:
    for splits in tasks:
        for split in splits:
            with suppress(NotReadable, Damage, CorruptStream):  # the merge reads the file again, and says what is wrong
                yield from find(plan, split, plan.inputs[split.input])


@dataclass(frozen=True)
class _Rows:
    """A batch of the feed."""

    plan: Reading
    split: Split
    file: Input
    batch: Batch
    beside: Any  # pa.RecordBatch of what both halves of a changed key share, for each row
    offsets: Ints  # of each row in the file

    @cached_property
    def deletes(self) -> Flags:
        """Which rows are deletes."""
        return self.batch.block.deletes()

    def change(self, row: int, order: Any) -> Change:
        """Return what both halves of a change share. order: of the row."""
        if not self.beside.num_columns:
            is_place = self.plan.by_file_name or has_position(self.plan.rows.order_type)
            return None if is_place else (order,)
        found = tuple(column[row].as_py() for column in self.beside.columns)
        return None if all(one is None for one in found) else found

    def mutations(self, rows: Ints, keys: Sequence[Key] | None = None) -> list[FedMutation]:
        """Return some rows. keys: of the rows, if they are known."""
        block, plan, types = self.batch.block, self.plan, self.plan.block_type
        index, number, source = pa.array(rows), self.split.input, self.file.source
        keys = list(zip(*(one.to_pylist() for one in block.keys(rows)), strict=True)) if keys is None else keys
        offsets = self.offsets[rows]
        orders = plan.orders_of(block, np.full(len(rows), number), offsets, rows).to_pylist()
        raw = types.contents(block.rows.take(index)).to_pylist()
        written = types.contents(block.written().take(index)).to_pylist()
        masks = block.unset().take(index).to_pylist()
        found = []
        for at, row in enumerate(rows.tolist()):
            order, offset = to_value(plan.rows.order_type, orders[at]), int(offsets[at])
            is_table = source.is_table
            place = precedence(order, self.file.sequence, self.file.rank, 0 if is_table else offset, raw[at])
            place = (*place, *([offset] if is_table else []), number)
            one = Mutation(place, bool(self.deletes[row]), written[at], masks[at])
            found.append(FedMutation(keys[at], one, self.change(row, order), (number, offset)))
        return found


def _batches(plan: Plan, split: Split, file: Input, near: int | None = None) -> Iterator[_Rows]:
    """Yield the rows of a split of the feed; with ``near``, those that may carry fields, and few others."""
    layout = plan.rows.layouts[file.layout]
    for found in plan.block_type.read_changes(SplitContent(plan, split, file), layout, near):
        yield _Rows(plan, split, file, *found)


def _arrivals(plan: Plan, split: Split, file: Input) -> Iterator[Arrival]:
    """Yield the rows with a new key that leave fields unset; with their old keys where these are near."""
    envelope = _envelope(file)
    if envelope is None or not _carries(file):
        return
    for rows in _batches(plan, split, file, _NEAR):
        block, said = rows.batch.block, rows.batch.said
        patches = np.flatnonzero(flags(block.unset().is_valid()))
        if not len(patches) or said is None:
            continue
        moved = arrivals(block.offsets, rows.deletes)
        codes = said.only(said.are(UPSERT) | said.are(DELETE)).only(patches).codes()
        own = [row for row, one in zip(patches.tolist(), codes, strict=True) if moved[row] or one == envelope.arrival]
        for row, one in zip(own, rows.mutations(np.array(own, np.int64)), strict=True):
            near = [row - 1] if moved[row] else list(range(max(row - _NEAR, 0), row))
            near = [other for other in near if rows.deletes[other]]
            halves = rows.mutations(np.array(near, np.int64)) if near else []
            half = next((other for other in halves if moved[row] or _are_halves(one, other)), None)
            yield Arrival(one, None) if half is None else Arrival(one, half.key, half.mutation.place)


def _are_halves(one: FedMutation, other: FedMutation) -> bool:
    return one.change is not None and one.change == other.change and one.key != other.key


def _paired(runner: Runner, plan: Plan, found: list[Arrival]) -> list[Arrival]:
    """Return arrivals with their old keys."""
    wanted = {one.fed.change for one in found if one.old_key is None} - {None}
    halves: list[FedMutation] = _read(runner, plan, partial(_deletes, wanted)) if wanted else []
    by_change = defaultdict[Change, list[FedMutation]](list)
    for half in halves:
        by_change[half.change].append(half)

    def paired(one: Arrival) -> Arrival:
        own = [] if one.old_key is not None else by_change.get(one.fed.change, [])
        half = min((half for half in own if _are_halves(one.fed, half)), key=lambda half: half[1], default=None)
        return one if half is None else Arrival(one.fed, half.key, half.mutation.place)

    return [*map(paired, found)]


def _deletes(wanted: set[Change], plan: Plan, split: Split, file: Input) -> Iterator[FedMutation]:
    """Yield the deletes that share something with an arrival."""
    for rows in _batches(plan, split, file):
        if rows.beside.num_columns:
            own = [row for row in np.flatnonzero(rows.deletes).tolist() if rows.change(row, None) in wanted]
            yield from rows.mutations(np.array(own, np.int64))


def _mutations(wanted: WantedKeys, plan: Plan, split: Split, file: Input) -> Iterator[FedMutation | tuple[Any]]:
    """Yield the mutations of some keys, and the order value of each truncate in a tuple."""
    for rows in _batches(plan, split, file):
        yield from rows.mutations(*wanted.rows(rows.batch.block))
        for one in () if rows.batch.truncates is None else rows.batch.truncates.to_pylist():
            order = None if one is None else to_value(plan.rows.order_type, one)
            yield (plan.order_of_truncate(order, file.sequence),)


def _held(wanted: WantedKeys, plan: Plan, split: Split, file: Input) -> Iterator[tuple[Key, Any, Old]]:
    """Yield the keys that a file of a directory has, with their precedence."""
    if file.side == "tombstones":
        parse_order, lowest = order_parser(plan.rows.order_type), lowest_order(plan.rows.order_type)
        with storage_for(file.source.path).open(file.source.path) as stream:
            for (key, order, _), kept in with_each(plan, stream):
                if key in wanted.keys:
                    beside = (kept[0], tuple(kept[1:])) if any(kept) else ()
                    yield key, (), Old(TOMBSTONE, lowest if order is None else parse_order(order), *beside)
        return
    sides, types = RowSides(plan, split, file), plan.block_type
    for batch in types.read(SplitContent(plan, split, file), plan.rows.layouts[file.layout], False):
        own, block = sides.of(batch), batch.block
        rows, keys = wanted.rows(block) if len(block) else (np.zeros(0, np.int64), [])
        if len(rows):
            index = pa.array(rows)
            own, contents = own.take(index), types.contents(block.written().take(index)).to_pylist()
            raw = types.contents(block.rows.take(index)).to_pylist()
            orders = plan.orders_in(own) if plan.keeps_orders else block.orders(rows)
            sequences, beside_rows = own.field(0).to_pylist(), [one.to_pylist() for one in plan.kept(own).flatten()]
            for at, key in enumerate(keys):
                order = to_value(plan.rows.order_type, orders[at].as_py())
                place = precedence(order, sequences[at], file.rank, int(block.offsets[rows[at]]), raw[at])
                yield key, place, Old(RECORD, order, contents[at], tuple(column[at] for column in beside_rows))


def _with_values(plan: Plan, register: Patches, carried: Filled) -> Plan:
    """Return a plan whose inputs have the values that their rows carry."""
    names, by_input = register.fields.names, defaultdict[int, dict[str, list[tuple[int, Any]]]](dict)
    for (number, offset), own in sorted(carried.parts.items()):
        for field, value in own.items():
            by_input[number].setdefault(names[field], []).append((offset, value))
    inputs = list(plan.inputs)
    for number, fields in by_input.items():
        offsets = {name: np.array([offset for offset, _ in pairs], np.int64) for name, pairs in fields.items()}
        values = {name: pa.concat_arrays([value for _, value in pairs]) for name, pairs in fields.items()}
        source = inputs[number].source
        assert source.wrapped is not None
        wrapped = source.wrapped._replace(carried=CarriedValues(offsets, values))
        inputs[number] = replace(inputs[number], source=replace(source, wrapped=wrapped))
    return replace(plan, inputs=tuple(inputs))
