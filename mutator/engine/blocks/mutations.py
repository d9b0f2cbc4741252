"""Mutations as columns, and the fold that leaves one mutation a key: the winner, with remarks on the others.

The fold is a semigroup: mutations may be folded in any grouping, in the map task and again in the reducer, with the
same winners, counts and notes. Tied, for example, combines as (top, winner, mixed): of two folds of one key the higher
top wins; where the tops are equal, the key is mixed if either fold is mixed or their winners differ.

Rows are sorted by the 64-bit hash of their key; keys are compared only where hashes are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.formats.blocks.contract import Block, Hashes, unequal
from mutator.plan.run_plan import Plan
from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.order_columns import flags, ranks
from mutator.rules.partition_transforms import RowPartitions

# A record that changes its partition leaves one and arrives in another, as a mutation in each. A record whose tombstone
# is in another partition is revived, and the tombstone leaves.
STAYS, LEAVES, ARRIVES, REVIVES = range(4)

_NUMPY = {"hashes", "inputs", "offsets", "deletes", "counts", "mixed", "upserts", "moves"}  # columns of numpy arrays


@dataclass(frozen=True)
class Mutations:
    """Mutations as columns; each may be the winner of several."""

    hashes: Hashes
    keys: tuple[Any, ...]  # a column of canonical bytes for each ID field
    orders: Any
    inputs: Ints  # numbers of the files in the plan
    offsets: Ints
    deletes: Flags
    rows: Any  # as they were read
    written: Any  # as they would be written
    counts: Ints  # number of mutations that it is the winner of, itself included
    mixed: Flags  # those with its order value and sequence are not all the same
    upserts: Flags  # one of them is an upsert
    moves: Ints  # STAYS, LEAVES, ARRIVES or REVIVES
    directories: Any  # of their partitions, a pa.DictionaryArray; NULLs where mutations carry none

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def columns(self) -> dict[str, Any]:
        """All columns by name, those of the keys too: numpy and Arrow arrays."""
        columns = {name: column for name, column in vars(self).items() if name != "keys"}
        return columns | dict(zip(key_names(len(self.keys)), self.keys, strict=True))

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Mutations:
        """Return the mutations that have these columns."""
        keys = tuple(column for name, column in columns.items() if name.startswith("key_"))
        return cls(keys=keys, **{name: column for name, column in columns.items() if not name.startswith("key_")})

    @property
    def nbytes(self) -> int:
        """Number of bytes of all columns."""
        return sum(column.nbytes for column in self.columns.values())

    def take(self, rows: Any) -> Mutations:
        """Return the mutations with some numbers. rows: int64 array."""
        index = pa.array(rows)
        return _each_once([self], lambda parts: parts[0][rows] if _is_numpy(parts) else parts[0].take(index))


def mutations_of(
    plan: Plan,
    block: Block,
    inputs: Ints,
    offsets: Ints,
    directories: Any,
    known: tuple[Ints, Flags, Flags] | None = None,
) -> Mutations:
    """Return the mutations of a block of the feed.

    inputs, offsets, directories: one per row. known: counts, mixed and upserts of rows that were folded before.
    """
    count = len(block)
    deletes = block.deletes()
    if plan.by_file_name:
        orders = pa.array(plan.sequences[inputs])
    else:
        orders = block.orders()
    counts, mixed, upserts = known or (np.ones(count, np.int64), np.zeros(count, np.bool_), ~deletes)
    return Mutations(
        block.hashes(),
        tuple(block.keys()),
        orders,
        inputs,
        offsets,
        deletes,
        block.rows,
        block.written(),
        counts,
        mixed,
        upserts,
        np.zeros(count, np.int64),
        directories,
    )


def directories_of(plan: Plan, block: Block) -> Any:
    """Return the directory of each row's partition, a pa.DictionaryArray; NULLs where mutations carry none."""
    if not plan.feed_has_directories:
        return pa.nulls(len(block))
    if block.partitions is not None or not plan.by_table:
        return directory_column(*partitions_of(plan, block)[:2])
    # The row of a delete may lack fields; its partition is that of its record.
    upserts = np.flatnonzero(~block.deletes())
    codes = np.full(len(block), -1)
    codes[upserts], names, _ = _derived(plan, block.written().take(pa.array(upserts)))
    return directory_column(codes, names)


def partitions_of(plan: Plan, block: Block) -> RowPartitions:
    """Return the partitions of a block's rows; they are derived again only if reading has not found them."""
    return _derived(plan, block.written()) if block.partitions is None else block.partitions


def _derived(plan: Plan, rows: Any) -> RowPartitions:
    return plan.block_type.partitions(rows, plan.rows.layouts["written"])


def directory_column(codes: Ints, names: Sequence[str]) -> Any:
    """Return directories as a pa.DictionaryArray. codes: an index into names for each row, negative for NULL."""
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int32), mask=codes < 0), pa.array(names, pa.string())
    )


def joined_mutations(parts: Sequence[Mutations]) -> Mutations:
    """Concatenate mutations."""
    if len(parts) == 1:
        return parts[0]
    return _each_once(parts, lambda columns: (np.concatenate if _is_numpy(columns) else pa.concat_arrays)(columns))


def _each_once(parts: Sequence[Mutations], make: Callable[[list[Any]], Any]) -> Mutations:
    """Return mutations whose columns are made of those of the parts.

    One column made of the same arrays as another is the same array, too: rows are often written as they were read.
    """
    all_columns = [part.columns for part in parts]
    made: dict[tuple[int, ...], Any] = {}
    columns: dict[str, Any] = {}
    for name in all_columns[0]:
        sources = [own[name] for own in all_columns]
        key = tuple(map(id, sources))
        if key not in made:
            made[key] = make(sources)
        columns[name] = made[key]
    return Mutations.of(columns)


def _is_numpy(columns: Sequence[Any]) -> bool:
    return isinstance(columns[0], np.ndarray)


def fold(plan: Plan, found: Mutations) -> Mutations:
    """Return one mutation a key, the one with the highest precedence, sorted by the hash of the key."""
    # A stable sort merges runs that are sorted already.
    order = np.argsort(found.hashes, kind="stable")
    hashes = found.hashes[order]
    again = np.zeros(len(order) + 1, np.bool_)
    again[1:-1] = hashes[1:] == hashes[:-1]
    several = again[1:] | again[:-1]  # shares its hash with another
    if not several.any():
        return found.take(order)
    alone, rest = order[~several], found.take(order[several])
    last, counts, mixed, upserts = _last_of_each(plan, rest)
    folded = replace(rest.take(last), counts=counts, mixed=mixed, upserts=upserts)
    if not len(alone):
        return folded
    both = joined_mutations([found.take(alone), folded])
    return both.take(np.argsort(both.hashes, kind="stable"))


def _last_of_each(plan: Plan, found: Mutations) -> tuple[Ints, Ints, Flags, Flags]:
    """Return, key by key in the order of their hashes: number of the winner, count, mixed, upserts."""
    key = groups_of_keys(found.hashes, found.keys)
    order = ranks(found.orders)
    sequence = plan.sequences[found.inputs]
    name = plan.ranks[found.inputs]
    by = [found.offsets, name, sequence, order, key]
    sort = np.lexsort(by)
    equal = np.ones(len(sort) - 1, np.bool_)
    for column in by:
        equal &= column[sort[1:]] == column[sort[:-1]]
    if equal.any():  # files of one name in several directories: the row's bytes decide, where they have any
        sort = np.lexsort([ranks(plan.block_type.contents(found.rows)), *by])
    key, order, sequence = key[sort], order[sort], sequence[sort]
    begins = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    lengths = np.diff(np.append(begins, len(sort)))
    ends = begins + lengths - 1
    winner = np.repeat(ends, lengths)
    top = (order == order[winner]) & (sequence == sequence[winner])
    mixed = found.mixed[sort] & top
    # Contents are compared only with those that have the winner's order value and sequence.
    rivals = np.flatnonzero(top & (winner != np.arange(len(sort))))
    if len(rivals):
        one, other = sort[rivals], sort[winner[rivals]]
        mixed[rivals] |= found.deletes[one] != found.deletes[other]
        mixed[rivals] |= unequal(found.written.take(pa.array(one)), found.written.take(pa.array(other)))
    return (
        sort[ends],
        np.add.reduceat(found.counts[sort], begins),
        np.logical_or.reduceat(mixed, begins),
        np.logical_or.reduceat(found.upserts[sort], begins),
    )


def groups_of_keys(hashes: Hashes, keys: Sequence[Any]) -> Ints:
    """Return a number for each row, equal for equal keys and ascending with the hash. hashes: sorted."""
    begins = np.zeros(len(hashes), np.bool_)
    begins[1:] = hashes[1:] != hashes[:-1]
    number: Ints = np.cumsum(begins)
    differ = np.zeros(max(len(hashes) - 1, 0), np.bool_)
    for column in keys:
        differ |= flags(pc.not_equal(column[1:], column[:-1]))
    differ &= ~begins[1:]
    if not differ.any():
        return number
    # Two keys with one hash: nearly impossible by chance, but they may have been constructed.
    known: dict[tuple[Any, ...], int] = {}
    values = zip(number.tolist(), *(column.to_pylist() for column in keys), strict=True)
    return np.array([known.setdefault(value, len(known)) for value in values], np.int64)


def key_names(width: int) -> list[str]:
    """Return the names of the key columns of a table.

    >>> key_names(2)
    ['key_0', 'key_1']
    """
    return [f"key_{number}" for number in range(width)]


def key_columns(table: Any) -> list[Any]:
    """Return the key columns of a pa.Table, each as one pa.Array."""
    return [table.column(name).combine_chunks() for name in table.column_names if name.startswith("key_")]


def table_of_columns(columns: Mapping[str, Any]) -> Any:
    """Return a pa.Table of numpy and Arrow arrays."""
    return pa.table(
        {name: pa.array(column) if isinstance(column, np.ndarray) else column for name, column in columns.items()}
    )


def table_of_mutations(found: Mutations) -> Any:
    """Return mutations as a pa.Table, to be written."""
    return table_of_columns(found.columns)


def mutations_of_table(table: Any) -> Mutations:
    """Return the mutations of a pa.Table that ``table_of_mutations`` returned; it may lack rows written as read."""
    columns: dict[str, Any] = {"directories": pa.nulls(table.num_rows)}
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        columns[name] = column.to_numpy(zero_copy_only=False) if name in _NUMPY else column
    columns.setdefault("rows", columns["written"])
    return Mutations.of(columns)
