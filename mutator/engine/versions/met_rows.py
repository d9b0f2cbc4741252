"""The live rows of a table that the winners of a task meet: those with their keys, in the table or in a partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.versions.snapshot import LiveExtent
from mutator.dataset.versions.version import TableFile
from mutator.engine.versions.delta_files import order_bytes
from mutator.engine.versions.live_rows import LiveRows
from mutator.rules.byte_columns import Ints
from mutator.rules.key_hash import Hashes
from mutator.rules.order_columns import from_texts

_FEW = 4  # extents of a file that are searched one by one, so that only some pages of its key index are read


class PartitionCodes:
    """Numbers for the directories of partitions; 0 is that of a table without partitions."""

    def __init__(self) -> None:
        self.names: list[str | None] = [None]
        self._codes: dict[str | None, int] = {None: 0}

    def code(self, name: str | None) -> int:
        """Return the code of a directory."""
        if name not in self._codes:
            self._codes[name] = len(self.names)
            self.names.append(name)
        return self._codes[name]


@dataclass(frozen=True)
class MetRows:
    """Live rows of one file that winners meet, in the order of the rows."""

    file: TableFile
    numbers: Ints  # of the winners
    entries: Ints  # of the key index
    positions: Ints  # of the rows
    partitions: Ints  # codes of the partitions of the rows
    highs: Any  # highest order value of each row's extent


class Search:
    """Finds the live rows with the keys of winners.

    hashes, keys: of the winners, keys encoded. own: codes of the partitions within which the winners' keys are unique;
    None if they are unique in the table.
    """

    def __init__(
        self,
        live: LiveRows,
        hashes: Hashes,
        keys: Any,
        buckets: int,
        partitions: PartitionCodes,
        own: Ints | None,
        order_type: str,
    ) -> None:
        self._live, self._hashes, self._keys, self._partitions = live, hashes, keys, partitions
        self._by_partition, self._order_type = own is not None, order_type
        self._scope_of = np.zeros(len(hashes), np.int64) if own is None else own
        self._scopes = self._sorted_scopes(buckets)

    def met(self, role: str) -> Iterator[MetRows]:
        """Yield the live rows of a role with keys of winners, file by file."""
        names = {self._partitions.names[scope] for scope, _ in self._scopes} if self._by_partition else None
        buckets = {bucket for _, bucket in self._scopes}
        extents = self._live.snapshot.extents(role, buckets, names)  # type: ignore[arg-type]  # no partition is None
        for _, group in groupby(extents, key=lambda one: one.file.path):
            of_file = list(group)
            found = self._in_extents(of_file) if len(of_file) <= _FEW else self._in_file(of_file)
            if len(found[0]):
                yield self._of_file(of_file, *found)

    def _sorted_scopes(self, buckets: int) -> dict[tuple[int, int], Ints]:
        """Return the numbers of the winners, by hash, of each bucket of each scope: a partition, or the whole table."""
        bucket = (self._hashes % np.uint64(buckets)).astype(np.int64)
        order = np.lexsort((self._hashes, bucket, self._scope_of))
        found: dict[tuple[int, int], Ints] = {}
        if len(order):
            pairs = self._scope_of[order] * buckets + bucket[order]
            begins = np.flatnonzero(np.diff(pairs, prepend=pairs[0] - 1))
            for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(order)], strict=True):
                first = order[begin]
                found[int(self._scope_of[first]), int(bucket[first])] = order[begin:end]
        return found

    def _in_extents(self, extents: Sequence[LiveExtent]) -> tuple[Ints, Ints, Ints]:
        """Return (numbers of winners, entries, positions) of the rows that they meet, found extent by extent."""
        none = np.zeros(0, np.int64)
        parts = [(none, none, none)]
        for extent in extents:
            wanted = self._scopes.get((self._scope(extent), extent.extent.bucket))
            if wanted is not None:
                keys = self._keys.take(pa.array(wanted))
                numbers, entries, positions = self._live.find(extent, self._hashes[wanted], keys)
                parts.append((wanted[numbers], entries, positions))
        numbers, entries, positions = map(np.concatenate, zip(*parts, strict=True))
        return numbers, entries, positions

    def _in_file(self, extents: Sequence[LiveExtent]) -> tuple[Ints, Ints, Ints]:
        """Return the same, found by one search for all extents: a packed file may have thousands of them."""
        file = extents[0].file
        entries = np.concatenate([np.arange(one.start, one.end) for one in extents])
        scopes = np.repeat(np.array([self._scope(one) for one in extents]), [one.extent.rows for one in extents])
        hashes = _scoped(self._live.hashes(file)[entries], scopes)
        known, order = self._by_scoped_hash
        first = np.searchsorted(known, hashes, "left")
        counts = np.searchsorted(known, hashes, "right") - first
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        numbers, which = order[np.repeat(first, counts) + within], np.repeat(np.arange(len(entries)), counts)
        same = self._scope_of[numbers] == scopes[which]
        numbers, entries = numbers[same], entries[which[same]]
        return self._live.with_keys(file, numbers, entries, self._keys.take(pa.array(numbers)))

    @cached_property
    def _by_scoped_hash(self) -> tuple[Hashes, Ints]:
        """Scoped key hashes of the winners, ascending, and the winners' numbers."""
        hashes = _scoped(self._hashes, self._scope_of)
        order = np.argsort(hashes, kind="stable")
        return hashes[order], order

    def _scope(self, extent: LiveExtent) -> int:
        return self._partitions.code(extent.extent.partition) if self._by_partition else 0

    def _of_file(self, extents: Sequence[LiveExtent], numbers: Ints, entries: Ints, positions: Ints) -> MetRows:
        order = np.argsort(positions)
        numbers, entries, positions = numbers[order], entries[order], positions[order]
        which = np.searchsorted(np.array([one.start for one in extents]), entries, "right") - 1
        highs = pa.array([order_bytes(one.extent.high) for one in extents], pa.large_binary())
        codes = np.array([self._partitions.code(one.extent.partition) for one in extents])
        return MetRows(
            file=extents[0].file,
            numbers=numbers,
            entries=entries,
            positions=positions,
            partitions=codes[which],
            highs=from_texts(self._order_type, highs).take(pa.array(which)),
        )


def _scoped(hashes: Hashes, scopes: Ints) -> Hashes:
    """Return hashes that differ between equal keys of different scopes. scopes: codes of partitions."""
    return hashes ^ (scopes.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
