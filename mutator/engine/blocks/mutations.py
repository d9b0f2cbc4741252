"""Mutations as columns, from a block of rows, in several parts, and as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.block_type import Block, Hashes
from mutator.plan.reading import Reading
from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.key_moves import no_lows
from mutator.rules.partition_transforms import RowPartitions

# What a record or tombstone of a mutation's key does that is in another partition now. Such a mutation does no more. A
# record is replaced by the one there; or it is still the same, and only lost fields.
STAYS, LEAVES, LEAVES_KEPT = range(3)

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
    unset: Any  # the mask of the fields that each leaves unset, a pa.Array of binary or of NULLs
    rows: Any  # as they were read; a pa.Array, or RowsInPlace
    written: Any  # as they would be written; the same
    counts: Ints  # number of mutations that it is the winner of, itself included
    mixed: Flags  # those with its order value and sequence are not all the same
    upserts: Flags  # one of them is an upsert
    moves: Ints  # STAYS, LEAVES or LEAVES_KEPT
    directories: Any  # of their partitions, a pa.DictionaryArray; NULLs where mutations carry none
    lows: Any  # as in ``rules.key_moves``; NULLs where no row changes a key

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
    plan: Reading,
    block: Block,
    inputs: Ints,
    offsets: Ints,
    directories: Any,
    known: tuple[Ints, Flags, Flags] | None = None,
    lows: Any = None,
) -> Mutations:
    """Return the mutations of a block of the feed.

    inputs, offsets, directories: one per row. known: counts, mixed and upserts of rows that were folded before.
    lows: None: NULLs.
    """
    count = len(block)
    deletes = block.deletes()
    orders = plan.orders_of(block, inputs, offsets)
    counts, mixed, upserts = known or (np.ones(count, np.int64), np.zeros(count, np.bool_), ~deletes)
    return Mutations(
        block.hashes(),
        tuple(block.keys()),
        orders,
        inputs,
        offsets,
        deletes,
        block.unset(),
        block.rows,
        block.written(),
        counts,
        mixed,
        upserts,
        np.zeros(count, np.int64),
        directories,
        no_lows(count, plan.rows.order_type if plan.changes_keys else None) if lows is None else lows,
    )


def directories_of(plan: Reading, block: Block) -> Any:
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


def partitions_of(plan: Reading, block: Block) -> RowPartitions:
    """Return the partitions of a block's rows; they are derived again only if reading has not found them."""
    return _derived(plan, block.written()) if block.partitions is None else block.partitions


def _derived(plan: Reading, rows: Any) -> RowPartitions:
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
        return rows_of(self.joined(name), rows)

    def take(self, rows: Any, names: Iterable[str] | None = None) -> dict[str, Any]:
        """Return some rows of columns, and forget each column once its rows are copied. names: of these; None: all."""
        numbers = self._numbers if names is None else {name: self._numbers[name] for name in names}
        taken: dict[int, Any] = {}
        for number in range(len(self._arrays)):
            if number in numbers.values():
                taken[number] = rows_of(self._joined(number), rows)
            self._arrays[number] = []
        return {name: taken[number] for name, number in numbers.items()}


def rows_of(column: Any, rows: Any) -> Any:
    """Return some rows of a numpy or Arrow array. rows: int64 array."""
    return column[rows] if isinstance(column, np.ndarray) else column.take(pa.array(rows))


def _is_numpy(columns: Sequence[Any]) -> bool:
    return isinstance(columns[0], np.ndarray)


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
