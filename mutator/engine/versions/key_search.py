"""The search for the live rows that the winners of a task meet: in the table or in a partition.

Wanted keys by bucket: extents have different numbers of buckets where a partition outgrew its number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.file_entry import Extent, FileEntry
from mutator.dataset.versions.key_index import WantedHashes
from mutator.dataset.versions.merged_keys import MergedKeys, PartitionCodes
from mutator.dataset.versions.snapshot import LiveExtent, Snapshot
from mutator.engine.versions.delta_files import order_bytes
from mutator.engine.versions.live_rows import LiveRows
from mutator.engine.versions.met_rows import MetRows, RowsOfFile, RowsOfSmallFiles
from mutator.rules.byte_columns import Ints, chosen
from mutator.rules.key_hash import Hashes
from mutator.rules.order_columns import from_texts
from mutator.rules.sort_order import hash_order, number_order, then_by

# Wanted hashes that are kept, each with up to 4 MB: in the scope of a table, those of a bucket are looked up in every
# partition.
_KEPT = 8
_Keys = tuple[Ints, Hashes]  # numbers of some keys by hash, and their hashes
_NONE: _Keys = np.zeros(0, np.int64), np.zeros(0, np.uint64)


class KeysByBucket:
    """The numbers of some keys, by scope and bucket: a scope is a partition, or the whole table."""

    def __init__(self, hashes: Hashes, scopes: Ints) -> None:
        """Sort nothing yet. hashes, scopes: of each key."""
        self._hashes, self._scopes = hashes, scopes
        self._known: dict[int, dict[tuple[int, int], _Keys]] = {}
        self._kept: dict[tuple[int, int, int], tuple[Ints, WantedHashes]] = {}  # by scope, and number of a bucket

    def buckets(self, count: int) -> set[int]:
        """Return those of a number of buckets that any of the keys may be in."""
        return {bucket for _, bucket in self._of(count)}

    def of(self, scope: int, extent: Extent) -> tuple[Ints, WantedHashes]:
        """Return the numbers of the keys, by hash, that an extent of a scope may have, and their hashes."""
        place = scope, extent.buckets, extent.bucket
        if place not in self._kept:
            if len(self._kept) == _KEPT:
                self._kept.pop(next(iter(self._kept)))
            numbers, hashes = self._of(extent.buckets).get((scope, extent.bucket), _NONE)
            self._kept[place] = numbers, WantedHashes(hashes)
        return self._kept[place]

    def _of(self, count: int) -> dict[tuple[int, int], _Keys]:
        if count not in self._known:
            self._known[count] = self._sorted(count)
        return self._known[count]

    def _sorted(self, count: int) -> dict[tuple[int, int], _Keys]:
        bucket = (self._hashes % np.uint64(count)).astype(np.int64)
        order = then_by(then_by(hash_order(self._hashes), bucket), self._scopes)
        hashes = self._hashes[order]
        found: dict[tuple[int, int], _Keys] = {}
        if len(order):
            pairs = self._scopes[order] * count + bucket[order]
            begins = np.flatnonzero(np.diff(pairs, prepend=pairs[0] - 1))
            for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(order)], strict=True):
                first = order[begin]
                found[int(self._scopes[first]), int(bucket[first])] = order[begin:end], hashes[begin:end]
        return found


_FEW = 4  # extents of a file that are searched one by one, so that only some pages of its key index are read


class Search:
    """Finds the live rows with the keys of winners.

    hashes, keys: of the winners, keys encoded. own: codes of the partitions within which the winners' keys are unique;
    None if they are unique in the table. keeps_orders: rows do not have their order values, so that touches raise them.
    """

    def __init__(
        self,
        live: LiveRows,
        hashes: Hashes,
        keys: Any,
        partitions: PartitionCodes,
        own: Ints | None,
        order_type: str,
        *,
        keeps_orders: bool,
    ) -> None:
        self._live, self._hashes, self._keys, self._partitions = live, hashes, keys, partitions
        self._by_partition, self._order_type, self._keeps_orders = own is not None, order_type, keeps_orders
        self._scope_of = np.zeros(len(hashes), np.int64) if own is None else own
        self._wanted = KeysByBucket(hashes, self._scope_of)

    def met(self, role: str) -> Iterator[MetRows]:
        """Yield the live rows of a role with keys of winners: those of small files at once, the others file by file."""
        if len(self._hashes):
            small = self._in_small_files(role)
            if len(small.numbers):
                yield small
        scopes = np.unique(self._scope_of).tolist() if self._by_partition else ()
        names = {self._partitions.names[scope] for scope in scopes} if self._by_partition else None
        extents = self._others.extents(role, self._wanted.buckets, names)
        for _, group in groupby(extents, key=lambda one: one.file.path):
            of_file = list(group)
            found = self._in_extents(of_file) if len(of_file) <= _FEW else self._in_file(of_file)
            if len(found[0]):
                yield self._of_file(of_file, *found)

    def _in_small_files(self, role: str) -> RowsOfSmallFiles:
        own = self._scope_of if self._by_partition else None
        merged, names = self._merged, self._partitions.names
        found = merged.find(role, self._hashes, self._keys, names, own)
        order = np.lexsort((found.positions, found.files))
        codes, which = np.unique(found.partitions[order], return_inverse=True)
        partitions = np.array([self._partitions.code(merged.codes.names[code]) for code in codes.tolist()], np.int64)
        return RowsOfSmallFiles(
            snapshot=self._live.snapshot,
            files=found.files[order],
            numbers=found.numbers[order],
            entries=found.entries[order],
            positions=found.positions[order],
            partitions=partitions[which],
            highs=found.orders.take(pa.array(order)),
            hashes=found.row_hashes[order],
        )

    @cached_property
    def _merged(self) -> MergedKeys:
        """The merged keys of small files."""
        return self._live.merged_keys(self._order_type, self._by_partition)

    @cached_property
    def _others(self) -> Snapshot:
        """The snapshot with the files that are searched one by one."""
        inside = self._merged.inside
        return self._live.snapshot.only(~inside) if inside.any() else self._live.snapshot

    def _in_extents(self, extents: Sequence[LiveExtent]) -> tuple[Ints, Ints, Ints]:
        """Return (numbers of winners, entries, positions) of the rows that they meet, found extent by extent."""
        none = np.zeros(0, np.int64)
        parts = [(none, none, none)]
        for extent in extents:
            numbers, wanted = self._wanted.of(self._scope(extent), extent.extent)
            which, entries = self._live.find_hashes(extent, wanted)
            if len(which):
                numbers = numbers[which]
                parts.append(self._live.with_keys(extent.file, numbers, entries, chosen(self._keys, numbers)))
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
        order = hash_order(hashes)
        return hashes[order], order

    def _scope(self, extent: LiveExtent) -> int:
        return self._partitions.code(extent.extent.partition) if self._by_partition else 0

    def _of_file(self, extents: Sequence[LiveExtent], numbers: Ints, entries: Ints, positions: Ints) -> RowsOfFile:
        order = number_order(positions)
        numbers, entries, positions = numbers[order], entries[order], positions[order]
        which = np.searchsorted(np.array([one.start for one in extents]), entries, "right") - 1
        highs = pa.array([order_bytes(one.extent.high) for one in extents], pa.large_binary())
        codes = np.array([self._partitions.code(one.extent.partition) for one in extents])
        return RowsOfFile(
            live=self._live,
            file=extents[0].file,
            numbers=numbers,
            entries=entries,
            positions=positions,
            partitions=codes[which],
            highs=self._raised(extents[0].file, from_texts(self._order_type, highs).take(pa.array(which))),
        )

    def _raised(self, file: FileEntry, highs: Any) -> Any:
        """Return the highest order value of the extent of each row, touches included."""
        if not self._keeps_orders:
            return highs
        _, texts = self._live.snapshot.masks.touched(file.path)
        if not len(texts):
            return highs
        raised = pc.max(from_texts(self._order_type, texts)).as_py()
        return pc.max_element_wise(highs, pa.scalar(raised, highs.type))


def _scoped(hashes: Hashes, scopes: Ints) -> Hashes:
    """Return hashes that differ between equal keys of different scopes. scopes: codes of partitions."""
    return hashes ^ (scopes.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
