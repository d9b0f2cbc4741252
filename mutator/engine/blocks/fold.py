"""Mutations in several parts are folded by the register of the run.

Rows that stay where they are until it is known which of them are written, and in which order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.engine.blocks.mutations import Columns, Mutations
from mutator.errors.quick_dataclass import dataclass
from mutator.plan.run_plan import Plan
from mutator.rules.byte_columns import Flags, Ints, Overrides
from mutator.rules.key_moves import has_arrivals, lowest
from mutator.rules.order_columns import flags, ranks
from mutator.rules.row_hash import RowHashes, row_hashes
from mutator.rules.typed_values import unequal


@dataclass(frozen=True)
class RowsInPlace:
    """A column of rows in another order than that of their array, which is not copied.

    >>> import numpy as np
    >>> RowsInPlace(pa.array([b"a", b"b", b"c"]), np.array([2, 0])).take(pa.array([0])).to_pylist()
    [b'c']
    """

    array: Any  # pa.Array
    places: Ints  # of each row in the array

    @classmethod
    def of(cls, rows: Any, places: Ints) -> RowsInPlace:
        """Return some rows. rows: pa.Array or RowsInPlace."""
        return cls(rows.array, rows.places[places]) if isinstance(rows, cls) else cls(rows, places)

    @classmethod
    def over(cls, rows: Any, others: Overrides) -> RowsInPlace:
        """Return rows, some of them replaced by others. rows: pa.Array or RowsInPlace."""
        own = cls.of(rows, np.arange(len(rows)))
        return cls(*others.over(own.array, own.places))

    def field(self, number: int) -> RowsInPlace:
        """Return a field of the rows, which are structs."""
        return RowsInPlace(pc.struct_field(self.array, number), self.places)

    def __len__(self) -> int:
        return len(self.places)

    @property
    def nbytes(self) -> int:
        """Number of bytes of the rows and their places."""
        return int(self.array.nbytes) + self.places.nbytes

    def rows(self) -> Any:
        """Return all rows, a pa.Array."""
        return self.array.take(pa.array(self.places))

    def take(self, rows: Any) -> Any:
        """Return some rows, a pa.Array. rows: pa.Array of int64, numbers of rows."""
        return self.array.take(pa.array(self.places[rows.to_numpy()]))


def row_hashes_of(rows: Any) -> RowHashes:
    """Return the row hash of each row. rows: pa.StructArray, or RowsInPlace of one.

    >>> import numpy as np
    >>> rows = pa.array([{"id": 7}, {"id": 8}])
    >>> bool((row_hashes_of(RowsInPlace(rows, np.array([1, 0]))) == row_hashes(rows)[::-1]).all())
    True
    """
    if isinstance(rows, RowsInPlace):
        found: RowHashes = row_hashes(rows.array)[rows.places]
        return found
    return row_hashes(rows)


def fold(plan: Plan, found: Mutations) -> Mutations:
    """Return the mutations that the register leaves of each key, sorted by the hash of the key."""
    return fold_parts(plan, [found])


def fold_parts(plan: Plan, parts: list[Mutations]) -> Mutations:
    """Fold mutations that are in several parts; see ``fold``.

    The list is emptied, so that the memory of each column is free for the next ones as soon as it is copied.
    """
    columns = _emptied(parts)
    rows, remarks = plan.folding.fold(BlockBag(plan, columns))
    return Mutations.of(columns.take(rows) | remarks)


def fold_in_place(plan: Plan, parts: list[Mutations]) -> Mutations:
    """Fold mutations for the last time, as ``fold_parts`` does; their rows are not copied if all of them are winners.

    Nothing compares the rows again as they were read, so both columns of rows are those to be written.
    """
    columns = _emptied(parts)
    rows, remarks = plan.register.fold(BlockBag(plan, columns))
    if remarks:
        return Mutations.of(columns.take(rows) | remarks)
    written = RowsInPlace(columns.joined("written"), rows)
    taken = columns.take(rows, [name for name in columns if name not in ("rows", "written")])
    return Mutations.of(taken | {"rows": written, "written": written})


def _emptied(parts: list[Mutations]) -> Columns:
    """Return the columns of mutations in several parts, and empty the list."""
    columns = Columns(parts)
    parts.clear()
    return columns


def last_of_keys(found: Mutations, *, by_partition: bool) -> tuple[Mutations, Ints, Ints]:
    """Return the last mutation of each key, with the remarks on all, and the numbers of the first and the last ones.

    found: as a fold left them, so that those of a key follow each other. by_partition: a key may have a record in each
    partition.
    """
    begins = np.ones(len(found), np.bool_)
    begins[1:] = found.hashes[1:] != found.hashes[:-1]
    for column in (*found.keys, found.directories.cast(pa.string())) if by_partition else found.keys:
        begins[1:] |= flags(pc.not_equal(column[1:], column[:-1]))
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(found))[: len(first)] - 1
    lows = found.lows
    if has_arrivals(lows):  # nothing else asks for them now
        lows = lowest(lows, found.orders, found.deletes, first)
    else:
        lows = pa.nulls(len(first), lows.type)
    if len(first) == len(found):
        return replace(found, lows=lows), first, last
    counts = np.add.reduceat(found.counts, first)
    mixed, upserts = (np.logical_or.reduceat(column, first) for column in (found.mixed, found.upserts))
    in_place = {"rows": RowsInPlace.of(found.rows, last), "written": RowsInPlace.of(found.written, last)}
    columns = Columns([found])
    taken = Mutations.of(columns.take(last, [name for name in columns if name not in ("rows", "written")]) | in_place)
    return replace(taken, counts=counts, mixed=mixed, upserts=upserts, lows=lows), first, last


class BlockBag:
    """Columns of mutations, as a register asks for them."""

    def __init__(self, plan: Plan, columns: Columns) -> None:
        """Take the mutations of a run."""
        self._plan, self._columns = plan, columns

    def column(self, name: str) -> Any:
        """Return a whole column."""
        found = self._columns.joined(name)
        return found.rows() if isinstance(found, RowsInPlace) else found

    def rows(self, name: str, rows: Ints) -> Any:
        """Return some rows of a column."""
        return self._columns.rows(name, rows)

    def keys(self, rows: Ints) -> list[Any]:
        """Return the key columns of some rows."""
        return [self.rows(name, rows) for name in self._columns if name.startswith("key_")]

    def precedence(self, rows: Ints) -> list[Any]:
        """Return the offset, the rank of the file's name, its sequence and the rank of the order value of some rows."""
        inputs = self.rows("inputs", rows)
        sequences, names = self._plan.sequences[inputs], self._plan.ranks[inputs]
        return [self.rows("offsets", rows), names, sequences, ranks(self.rows("orders", rows))]

    def content_ranks(self, rows: Ints) -> Ints:
        """Return numbers that compare as the bytes of some rows do."""
        return ranks(self._plan.block_type.contents(self.rows("rows", rows)))

    def differ(self, some: Ints, others: Ints) -> Flags:
        """Return whether the operations or contents of two rows differ."""
        deletes = self._columns.joined("deletes")
        found: Flags = deletes[some] != deletes[others]
        return found | unequal(self.rows("written", some), self.rows("written", others))
