"""Entries of key indexes in memory, by key hash, and the codes of their partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.rules.byte_columns import ByteColumn, Ints
from mutator.rules.key_hash import Hashes, hash_columns


class PartitionCodes:
    """Numbers for the directories of partitions; 0 is that of a table without partitions."""

    def __init__(self) -> None:
        self.names: list[str | None] = [None]
        self._codes: dict[str | None, int] = {None: 0}
        self._salts: Hashes = np.zeros(0, np.uint64)

    def code(self, name: str | None) -> int:
        """Return the code of a directory."""
        if name not in self._codes:
            self._codes[name] = len(self.names)
            self.names.append(name)
        return self._codes[name]

    def known(self, name: str | None) -> int:
        """Return the code of a directory; -1 if it has none."""
        return self._codes.get(name, -1)

    def salts(self) -> Hashes:
        """Return a number for each code, which tells equal keys of different partitions apart."""
        if len(self._salts) < len(self.names):
            names = pa.array([(name or "").encode() for name in self.names], pa.large_binary())
            self._salts = hash_columns([ByteColumn.of_array(names)])
        return self._salts


@dataclass(frozen=True)
class KeyRun:
    """Entries of key indexes, by hash. All columns but the keys are arrays."""

    hashes: Hashes  # with the partition, if keys are unique only within it
    rows: Any  # numbers of the rows, uint32
    entries: Any  # of the key index of the row's file, uint32
    row_hashes: Any
    partitions: Any  # codes, uint32
    orders: Ints  # order values as numbers
    keys: Any  # encoded

    def taken(self, chosen: Ints) -> KeyRun:
        """Return some of the entries."""
        keys = self.keys.take(pa.array(chosen))
        return KeyRun(**{name: getattr(self, name)[chosen] for name in _ARRAYS}, keys=keys)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(getattr(self, one.name).nbytes for one in fields(self))

    def __len__(self) -> int:
        return len(self.hashes)


_ARRAYS = {"hashes": "u8", "rows": "u4", "entries": "u4", "row_hashes": "u4", "partitions": "u4", "orders": "i8"}
NO_ROWS = KeyRun(**{name: np.zeros(0, form) for name, form in _ARRAYS.items()}, keys=pa.array([], pa.large_binary()))


def joined_runs(runs: Sequence[KeyRun]) -> KeyRun:
    """Return the entries of all runs, one run after the other."""
    keys = pa.concat_arrays([run.keys for run in runs])
    return KeyRun(**{name: np.concatenate([getattr(run, name) for run in runs]) for name in _ARRAYS}, keys=keys)


def by_hash(run: KeyRun) -> KeyRun:
    """Return the same entries, by hash."""
    return run.taken(np.argsort(run.hashes, kind="stable"))
