"""Rows of a table with everything that a key index says of them, and several sorted runs of them as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.file_entry import FileEntry
from mutator.dataset.versions.key_index import encoded_keys
from mutator.engine.versions.live_rows import LiveRows
from mutator.engine.versions.old_values import order_values
from mutator.errors.quick_dataclass import dataclass
from mutator.plan.reading import Reading
from mutator.rules.byte_columns import Ints
from mutator.rules.key_hash import Hashes
from mutator.rules.row_hash import RowHashes, row_hashes
from mutator.rules.sort_order import key_order


@dataclass(frozen=True)
class IndexedRows:
    """Live rows of a table, in the present form of its files."""

    positions: Ints  # in the file that they were read from
    rows: Any  # pa.StructArray
    keys: tuple[Any, ...]  # a pa.Array of canonical bytes for each ID field
    hashes: Hashes
    row_hashes: RowHashes
    orders: Any  # order values, touches included
    sides: Any  # side columns, a pa.StructArray

    def __len__(self) -> int:
        return len(self.hashes)

    def slice(self, first: int, last: int) -> IndexedRows:
        """Return some of the rows."""
        count = last - first
        return IndexedRows(
            self.positions[first:last],
            self.rows.slice(first, count),
            tuple(column.slice(first, count) for column in self.keys),
            self.hashes[first:last],
            self.row_hashes[first:last],
            self.orders.slice(first, count),
            self.sides.slice(first, count),
        )

    def sorted(self) -> IndexedRows:
        """Return the rows by key."""
        return self.taken(key_order(self.keys))

    def taken(self, numbers: Ints) -> IndexedRows:
        """Return the rows with some numbers."""
        index = pa.array(numbers)
        return IndexedRows(
            self.positions[numbers],
            self.rows.take(index),
            tuple(column.take(index) for column in self.keys),
            self.hashes[numbers],
            self.row_hashes[numbers],
            self.orders.take(index),
            self.sides.take(index),
        )

    def encoded(self) -> Any:
        """Return the keys as a key index has them."""
        return encoded_keys(self.keys)

    def key(self, row: int) -> tuple[bytes, ...]:
        """Return the key of a row."""
        return tuple(column[row].as_py() for column in self.keys)

    def count_to(self, key: tuple[bytes, ...]) -> int:
        """Return the number of rows up to a key. The rows must be sorted."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self.key(middle) <= key:
                low = middle + 1
            else:
                high = middle
        return low

    def is_sorted(self) -> bool:
        """Return whether each key is higher than the one before it."""
        ties = np.ones(max(len(self) - 1, 0), np.bool_)  # rows whose first ID values are those of the row before
        for column in self.keys:
            one, other = column.slice(0, len(ties)), column.slice(1)
            if (_flags(pc.greater(one, other)) & ties).any():
                return False
            ties &= _flags(pc.equal(one, other))
        return not ties.any()


def _flags(values: Any) -> Any:
    return values.to_numpy(zero_copy_only=False)


def joined(parts: Sequence[IndexedRows]) -> IndexedRows:
    """Return the rows of some parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return IndexedRows(
        np.concatenate([part.positions for part in parts]),
        pa.concat_arrays([part.rows for part in parts]),
        tuple(map(pa.concat_arrays, zip(*(part.keys for part in parts), strict=True))),
        np.concatenate([part.hashes for part in parts]),
        np.concatenate([part.row_hashes for part in parts]),
        pa.concat_arrays([part.orders for part in parts]),
        pa.concat_arrays([part.sides for part in parts]),
    )


def merged(runs: Sequence[Iterator[IndexedRows]]) -> Iterator[IndexedRows]:
    """Yield the rows of some runs by key. A part of each run is in memory.

    A run that is not sorted is read whole from where that shows, and the rows since then are sorted.
    """
    found = [cursor for cursor in map(_Cursor, runs) if cursor.part is not None]
    while found:
        more = [cursor.last for cursor in found if not cursor.is_final]
        bound = min(more) if more else None
        parts = [part for part in (cursor.taken(bound) for cursor in found) if len(part)]
        yield parts[0] if len(parts) == 1 and parts[0].is_sorted() else joined(parts).sorted()
        found = [cursor for cursor in found if cursor.part is not None]


class _Cursor:
    """A run, of which a part is in memory."""

    def __init__(self, parts: Iterator[IndexedRows]) -> None:
        """Read the first part, and the one after it."""
        self._parts = (part for part in parts if len(part))
        self.part = next(self._parts, None)
        self._following = next(self._parts, None)
        self._is_sorted = True
        if self.part is not None and not self.part.is_sorted():
            self._read_rest(self.part)

    @property
    def is_final(self) -> bool:
        """Whether no part follows."""
        return self._following is None

    @property
    def last(self) -> tuple[bytes, ...]:
        """The last key of the part in memory."""
        assert self.part is not None
        return self.part.key(len(self.part) - 1)

    def taken(self, bound: tuple[bytes, ...] | None) -> IndexedRows:
        """Return the rows up to a key, and go on to the others. bound: None for all."""
        assert self.part is not None
        if bound is not None and not self._is_sorted:
            self.part, self._is_sorted = self.part.sorted(), True
        part = self.part
        count = len(part) if bound is None else part.count_to(bound)
        if count < len(part):
            self.part = part.slice(count, len(part))
        else:
            last = self.last
            self.part, self._following = self._following, next(self._parts, None)
            if self.part is not None and not (self.part.key(0) > last and self.part.is_sorted()):
                self._read_rest(self.part)
        return part.slice(0, count)

    def _read_rest(self, part: IndexedRows) -> None:
        """Read all parts. They are sorted when a part of them is taken: all are sorted with those of the other runs."""
        rest = [] if self._following is None else [self._following]
        self.part, self._following, self._is_sorted = joined([part, *rest, *self._parts]), None, False


def read_rows(plan: Reading, live: LiveRows, file: FileEntry, positions: Ints, entries: Ints | None) -> IndexedRows:
    """Read live rows of a file. entries: of the rows in its key index."""
    assert entries is not None
    block = live.rows_of_whole(file, positions, plan.rows.layouts["master"])
    rows = block.written()
    is_present = file.form == live.snapshot.state.schema
    return IndexedRows(
        positions,
        rows,
        tuple(block.keys()),
        live.hashes(file)[entries],
        live.row_hashes(file, entries) if is_present else row_hashes(rows),
        order_values(plan, live, file, entries, positions),
        live.sides(file, positions, plan.side_columns),
    )
