"""The feed of a reduce task: whole, or in parts by the hash of the key if it exceeds the task's memory."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.engine.blocks.fold import fold_parts
from mutator.engine.blocks.mutations import Mutations, joined_mutations, mutations_of_table, table_of_mutations
from mutator.engine.blocks.spool import write_tables
from mutator.engine.blocks.winners import Winners
from mutator.engine.malloc import release_freed_memory
from mutator.engine.scratch import scratch_directory
from mutator.engine.tally import Tally
from mutator.formats.blocks.block_type import Hashes
from mutator.plan.run_plan import Plan
from mutator.rules.byte_columns import Flags

_PARTS = 256
_PART_BITS = np.uint64(56)  # the highest eight bits of a hash are the number of its part
Fold = Callable[[Plan, list[Mutations]], Mutations]


class Parts:
    """The folded feed of a task: whole, or in parts by hash if it exceeds the task's memory."""

    def __init__(self, plan: Plan, tally: Tally, stack: ExitStack, fold: Fold = fold_parts) -> None:
        """Begin without mutations. fold: makes the winners."""
        self._plan, self._tally, self._stack, self._fold = plan, tally, stack, fold
        self._held: list[Mutations] = []
        self._bytes = 0
        self._directory: str | None = None
        self._none: Mutations | None = None  # no mutations, with the columns of all
        self._files: list[list[str]] = [[] for _ in range(_PARTS)]
        self._sizes = [0] * _PARTS

    def append(self, found: Mutations) -> None:
        """Add folded mutations."""
        self._held.append(found)
        self._bytes += found.nbytes
        if self._bytes > self._plan.memory:
            whole = fold_parts(self._plan, self._held)
            self._held, self._bytes = [whole], whole.nbytes
            if self._bytes > self._plan.memory // 2:  # most keys have one mutation: folding again would not help
                self._spill()

    def __len__(self) -> int:
        return _PARTS if self._directory else len(self._held) and 1

    def _has(self, winners: Winners, hashes: Hashes) -> Flags:
        assert winners.parts is not None
        part = (hashes >> _PART_BITS).astype(np.int64)
        found: Flags = (part >= winners.parts.start) & (part < winners.parts.stop)
        return found

    def __iter__(self) -> Iterator[Winners]:
        """Yield the winners, of as many neighbouring parts at a time as fit into memory."""
        if self._directory is None:
            if self._held:
                self._held = [self._fold(self._plan, self._held)]
                release_freed_memory(self._bytes)
                yield Winners(self._plan, self._held[0], self._tally)
            return
        self._spill()
        start = 0
        while start < _PARTS:
            end, size = start + 1, self._sizes[start]
            while end < _PARTS and size + self._sizes[end] <= self._plan.memory:
                size += self._sizes[end]
                end += 1
            found = [_read(os.path.join(self._directory, name)) for names in self._files[start:end] for name in names]
            assert self._none is not None
            folded = self._fold(self._plan, found or [self._none])
            release_freed_memory(size)
            winners = Winners(self._plan, folded, self._tally, range(start, end))
            del folded
            yield winners
            del winners
            release_freed_memory(size)
            start = end

    def _spill(self) -> None:
        if not self._held:
            return
        if self._directory is None:
            self._directory = scratch_directory(self._stack)
        found = joined_mutations(self._held)
        self._none = found.take(np.zeros(0, np.int64))
        parts = found.hashes >> _PART_BITS
        for part in np.unique(parts).astype(np.int64).tolist():
            table = table_of_mutations(found.take(np.flatnonzero(parts == part)))
            if found.rows is found.written:
                table = table.drop_columns(["rows"])
            self._files[part].append(f"{part}.{len(self._files[part])}")
            self._sizes[part] += table.nbytes
            write_tables(os.path.join(self._directory, self._files[part][-1]), iter([table]))
        del found, table
        freed, self._held, self._bytes = self._bytes, [], 0
        release_freed_memory(freed)

    def filtered(self, tables: Iterator[Any], winners: Winners) -> Iterator[Any]:
        """Yield the rows of tables with a column "hash" that belong to the parts of some winners."""
        if len(self) <= 1:
            yield from tables
            return
        for table in tables:
            chosen = self._has(winners, table.column("hash").to_numpy())
            if chosen.any():
                yield table.filter(pa.array(chosen))


def _read(path: str) -> Mutations:
    with pa.OSFile(path, "rb") as source:
        return mutations_of_table(pa.ipc.open_stream(source).read_all())
