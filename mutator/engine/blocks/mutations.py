"""Mutations as columns, and the fold that leaves one mutation a key: the winner, with remarks on the others.

The fold is a semigroup: mutations may be folded in any grouping, in the map task and again in the reducer, with the
same winners, counts and notes. Tied, for example, combines as (top, winner, mixed): of two folds of one key the higher
top wins; where the tops are equal, the key is mixed if either fold is mixed or their winners differ.

Rows are sorted by the 64-bit hash of their key; keys are compared only where hashes are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.engine.blocks.rows_in_place import RowsInPlace
from mutator.formats.blocks.contract import Block, Hashes, unequal
from mutator.plan.run_plan import Plan
from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.order_columns import flags, ranks
from mutator.rules.partition_transforms import RowPartitions
from mutator.rules.sort_order import hash_order

# A record that changes its partition leaves one and arrives in another, as a mutation in each. A record whose tombstone
# is in another partition is revived, and the tombstone leaves.
STAYS, LEAVES, ARRIVES, REVIVES = range(4)

_COMPARED = 1 << 17  # mutations whose keys and precedence are compared at a time
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
    rows: Any  # as they were read; a pa.Array, or RowsInPlace
    written: Any  # as they would be written; the same
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
        return Mutations.of(Columns([self]).take(rows))


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
    # The row of a delete may lack fields; it is merged in the partition of its record.
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
    columns = Columns(parts)
    return Mutations.of({name: columns.joined(name) for name in columns})


class Columns:
    """The columns of mutations in several parts, joined when they are needed.

    Names that have the same arrays share the joined one, too: rows are often written as they were read.
    """

    def __init__(self, parts: Sequence[Mutations]) -> None:
        all_columns = [part.columns for part in parts]
        numbers: dict[tuple[int, ...], int] = {}
        self._numbers: dict[str, int] = {}  # of the arrays of each column
        self._arrays: list[list[Any]] = []
        for name in all_columns[0]:
            arrays = [columns[name] for columns in all_columns]
            self._numbers[name] = numbers.setdefault(tuple(map(id, arrays)), len(self._arrays))
            if self._numbers[name] == len(self._arrays):
                self._arrays.append(arrays)

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def joined(self, name: str) -> Any:
        """Return a column as one array."""
        return self._joined(self._numbers[name])

    def _joined(self, number: int) -> Any:
        arrays = self._arrays[number]
        if len(arrays) > 1:
            self._arrays[number] = [(np.concatenate if _is_numpy(arrays) else pa.concat_arrays)(arrays)]
        return self._arrays[number][0]

    def rows(self, name: str, rows: Any) -> Any:
        """Return some rows of a column. rows: int64 array."""
        return _rows(self.joined(name), rows)

    def take(self, rows: Any, names: Iterable[str] | None = None) -> dict[str, Any]:
        """Return some rows of columns, and forget each column once its rows are copied. names: of these; None: all."""
        numbers = self._numbers if names is None else {name: self._numbers[name] for name in names}
        taken: dict[int, Any] = {}
        for number in range(len(self._arrays)):
            if number in numbers.values():
                taken[number] = _rows(self._joined(number), rows)
            self._arrays[number] = []
        return {name: taken[number] for name, number in numbers.items()}


def _rows(column: Any, rows: Any) -> Any:
    return column[rows] if isinstance(column, np.ndarray) else column.take(pa.array(rows))


def _is_numpy(columns: Sequence[Any]) -> bool:
    return isinstance(columns[0], np.ndarray)


def fold(plan: Plan, found: Mutations) -> Mutations:
    """Return one mutation a key, the one with the highest precedence, sorted by the hash of the key."""
    return fold_parts(plan, [found])


def fold_parts(plan: Plan, parts: list[Mutations]) -> Mutations:
    """Fold mutations that are in several parts; see ``fold``.

    The list is emptied, so that the memory of each column is free for the next ones as soon as it is copied.
    """
    columns = Columns(parts)
    parts.clear()
    rows, remarks = last_of_each(plan, columns)
    return Mutations.of(columns.take(rows) | remarks)


def fold_in_place(plan: Plan, parts: list[Mutations]) -> Mutations:
    """Fold mutations for the last time, as ``fold_parts`` does; their rows are not copied if all of them are winners.

    Nothing compares the rows again as they were read, so both columns of rows are those to be written.
    """
    columns = Columns(parts)
    parts.clear()
    rows, remarks = last_of_each(plan, columns)
    if remarks:
        return Mutations.of(columns.take(rows) | remarks)
    written = RowsInPlace(columns.joined("written"), rows)
    taken = columns.take(rows, [name for name in columns if name not in ("rows", "written")])
    return Mutations.of(taken | {"rows": written, "written": written})


def last_of_each(plan: Plan, columns: Columns) -> tuple[Ints, dict[str, Any]]:
    """Return the winner of each key, one of the rows, by hash, and those columns of the winners that differ.

    These are counts, mixed and upserts; none where each key has one mutation.
    """
    hashes = columns.joined("hashes")
    order = hash_order(hashes)
    again = np.zeros(len(order) + 1, np.bool_)
    again[1:-1] = hashes[order[1:]] == hashes[order[:-1]]
    several = again[1:] | again[:-1]  # shares its hash with another
    if not several.any():
        return order, {}
    alone, rest = order[~several], order[several]
    found = [_last_of_several(plan, columns, rest[part]) for part in _slices(hashes[rest])]
    winners = np.concatenate([alone, *(last for last, _ in found)])
    remarks = {name: np.concatenate([part[name] for _, part in found]) for name in found[0][1]}
    order = hash_order(hashes[winners])
    changed = {name: np.concatenate([columns.rows(name, alone), column])[order] for name, column in remarks.items()}
    return winners[order], changed


def _slices(hashes: Hashes) -> Iterator[slice]:
    """Cut sorted hashes between two that differ, so that few mutations are compared at a time."""
    start = 0
    while start < len(hashes):
        last = min(start + _COMPARED, len(hashes)) - 1
        end = int(np.searchsorted(hashes, hashes[last], side="right"))
        yield slice(start, end)
        start = end


def _last_of_several(plan: Plan, columns: Columns, rows: Ints) -> tuple[Ints, dict[str, Any]]:
    """Return the winner of each key, one of the rows, and its columns counts, mixed and upserts.

    rows: mutations in the order of their hashes; so are the winners.
    """
    keys = [columns.rows(name, rows) for name in columns if name.startswith("key_")]
    inputs, deletes = columns.rows("inputs", rows), columns.rows("deletes", rows)
    key = groups_of_keys(columns.rows("hashes", rows), keys)
    order = ranks(columns.rows("orders", rows))
    sequence = plan.sequences[inputs]
    by = [columns.rows("offsets", rows), plan.ranks[inputs], sequence, order, key]
    sort = np.lexsort(by)
    equal = np.ones(len(sort) - 1, np.bool_)
    for column in by:
        equal &= column[sort[1:]] == column[sort[:-1]]
    if equal.any():  # files of one name in several directories, or rows of a table: the row's bytes decide
        # Equal rows are one mutation, of the last file: which one decides nothing but the outcomes by file.
        sort = np.lexsort([inputs, _content_ranks(plan, columns, rows, sort, equal), *by])
    key, order, sequence = key[sort], order[sort], sequence[sort]
    begins = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    lengths = np.diff(np.append(begins, len(sort)))
    ends = begins + lengths - 1
    winner = np.repeat(ends, lengths)
    top = (order == order[winner]) & (sequence == sequence[winner])
    mixed = columns.rows("mixed", rows)[sort] & top
    # Contents are compared only with those that have the winner's order value and sequence.
    rivals = np.flatnonzero(top & (winner != np.arange(len(sort))))
    if len(rivals):
        one, other = sort[rivals], sort[winner[rivals]]
        mixed[rivals] |= deletes[one] != deletes[other]
        mixed[rivals] |= unequal(columns.rows("written", rows[one]), columns.rows("written", rows[other]))
    return rows[sort[ends]], {
        "counts": np.add.reduceat(columns.rows("counts", rows)[sort], begins),
        "mixed": np.logical_or.reduceat(mixed, begins),
        "upserts": np.logical_or.reduceat(columns.rows("upserts", rows)[sort], begins),
    }


def _content_ranks(plan: Plan, columns: Columns, rows: Ints, sort: Ints, equal: Flags) -> Ints:
    """Return int64 values that compare as the bytes of the rows do, where nothing else decides; 0 for other rows.

    sort: an order of the rows. equal: whether a row in this order has the precedence of the next one, without bytes.
    """
    tied = sort[np.append(equal, False) | np.append(False, equal)]
    found = np.zeros(len(rows), np.int64)
    found[tied] = ranks(plan.block_type.contents(columns.rows("rows", rows[tied])))
    return found


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
