"""Tables that may be larger than memory: kept, or kept in order, with the rest in files of the task's own.

A spool keeps a limited number of bytes in memory; more rows go to files in Spark's local directory, in the order in
which they will be read, and come back a batch at a time.
"""

import bisect
import itertools
import os
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.engine.scratch import scratch_directory

BATCH = 1 << 16  # rows that come back at a time
_BATCHES = 64  # a spool's memory has room for at least as many batches: one of each file is in memory at once
_SMALLEST = 1 << 16  # bytes of a batch that are too few to cut


def write_tables(path: str, tables: Iterator[Any], most: int | None = None) -> None:
    """Write tables as an Arrow file that is read back in batches of at most some bytes, if its rows are not larger.

    tables: at least one.
    """
    first = next(tables)
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, first.schema) as writer:
        for table in itertools.chain([first], tables):
            writer.write_table(table, max_chunksize=BATCH if most is None else rows_within(most, table))


def rows_within(most: int, table: Any) -> int:
    """Return how many rows of a table have about so many bytes: at least one, and at most ``BATCH``."""
    rows: int = most * table.num_rows // max(table.nbytes, 1)
    return max(min(BATCH, rows), 1)


def _batches(path: str) -> Iterator[Any]:
    with pa.OSFile(path, "rb") as source:
        for batch in pa.ipc.open_stream(source):
            yield pa.Table.from_batches([batch])  # ``pa.table`` cuts names of fields at a NUL


class SortedSpool:
    """Tables that come back sorted by some columns."""

    def __init__(self, by: list[str], most: int, stack: ExitStack) -> None:
        """Keep about ``most`` bytes in memory, twice as many while they are sorted; files live as long as the stack."""
        self._by, self._most, self._stack = by, most, stack
        self._tables: list[Any] = []
        self._bytes = 0
        self._directory: str | None = None
        self._files: list[str] = []
        self._last_runs: list[Iterator[Any]] = []

    def append(self, table: Any) -> None:
        """Add the rows of a table."""
        if not table.num_rows:
            return
        self._tables.append(table)
        self._bytes += table.nbytes
        if self._bytes > self._most:
            self.write_run(iter([self._sorted()]))

    def write_run(self, tables: Iterator[Any]) -> None:
        """Add tables that follow each other in order, by way of a file."""
        first = next(tables, None)
        if first is None:
            return
        if self._directory is None:
            self._directory = scratch_directory(self._stack)
        self._files.append(os.path.join(self._directory, f"{len(self._files)}.arrow"))
        write_tables(self._files[-1], itertools.chain([first], tables), max(self._most // _BATCHES, _SMALLEST))

    def keep_run(self, tables: Iterator[Any]) -> None:
        """Add tables that follow each other in order; they are read when all rows are, which is possible once."""
        self._last_runs.append(tables)

    def tables(self) -> Iterator[Any]:
        """Yield all rows in their order, in tables of about ``BATCH`` rows."""
        runs = [*map(_batches, self._files), *self._last_runs]
        if self._tables:
            rest = self._sorted()
            self._tables, self._bytes = [rest], rest.nbytes  # for the next call
            runs.append(rest.slice(start, BATCH) for start in range(0, rest.num_rows, BATCH))
        yield from runs[0] if len(runs) == 1 else _merged(runs, self._by)

    def _sorted(self) -> Any:
        """Return the rows in memory, sorted, and forget them."""
        whole = pa.concat_tables(self._tables).combine_chunks()
        self._tables, self._bytes = [], 0  # before the rows are copied again
        return _in_order(whole, self._by)


class Ahead:
    """Tables that are sorted by a column, read up to a value at a time."""

    def __init__(self, tables: Iterator[Any], by: str) -> None:
        """Read the first table. by: the name of the column, which has integers."""
        self._tables, self._by = tables, by
        self._head = next(tables, None)

    def until(self, end: int) -> Iterator[Any]:
        """Yield the next rows whose values are below ``end``."""
        while self._head is not None:
            head = self._head
            count = int(np.searchsorted(head.column(self._by).to_numpy(), end))
            is_whole = count == head.num_rows
            self._head = next(self._tables, None) if is_whole else head.slice(count)
            yield head.slice(0, count)
            if not is_whole:
                return


def _merged(runs: list[Iterator[Any]], by: list[str]) -> Iterator[Any]:
    """Merge sorted runs: rows not above the lowest of the last rows at hand can be sorted and yielded."""
    heads = {number: head for number, run in enumerate(runs) if (head := next(run, None)) is not None}
    while heads:
        mark = min(_row(head, by, head.num_rows - 1) for head in heads.values())
        ready = []
        for number, head in list(heads.items()):
            count = bisect.bisect_right(range(head.num_rows), mark, key=partial(_row, head, by))
            ready.append(head.slice(0, count))
            rest = head.slice(count) if count < head.num_rows else next(runs[number], None)
            if rest is None:
                del heads[number]
            else:
                heads[number] = rest
        yield _in_order(pa.concat_tables(ready), by)


def _in_order(table: Any, by: list[str]) -> Any:
    table = table.combine_chunks()
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in by])
    positions = order.to_numpy()
    if np.array_equal(positions, np.arange(len(positions))):
        return table
    return table.take(order).combine_chunks()


def _row(table: Any, by: list[str], row: int) -> tuple[Any, ...]:
    return tuple(table.column(name)[row].as_py() for name in by)
