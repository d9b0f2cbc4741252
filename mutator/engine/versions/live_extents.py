"""The extents of a table that have live rows, by bucket."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.file_entry import DATA, TOMBSTONES, FileEntry
from mutator.dataset.state import coarsest
from mutator.dataset.versions.snapshot import LiveExtent, Snapshot
from mutator.plan.merge_unit import MergeUnit
from mutator.rules.byte_columns import Ints

_UNMASKED = np.zeros(0, np.int64), np.zeros(0, np.int64), pa.array([], pa.large_binary())


class OfFiles:
    """The masks of a snapshot, looked up once for each file: a file may have thousands of extents."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Read which files have hidden or touched rows."""
        self._masks = snapshot.masks
        self._known: dict[str, tuple[Ints, Ints, Any] | None] = dict.fromkeys(snapshot.masks.files())

    def hidden(self, extent: LiveExtent) -> Ints:
        """Return the positions of the hidden rows of an extent."""
        hidden, _, _ = self._of(extent.file.path)
        first, last = np.searchsorted(hidden, [extent.start, extent.end])
        return hidden[first:last]

    def hidden_in(self, file: FileEntry) -> Ints:
        """Return the positions of all hidden rows of a file."""
        return self._of(file.path)[0]

    def touched(self, extent: LiveExtent) -> tuple[Ints, Any]:
        """Return the positions of the touched rows of an extent, and their order values as text."""
        _, positions, orders = self._of(extent.file.path)
        first, last = np.searchsorted(positions, [extent.start, extent.end])
        return positions[first:last], orders.slice(first, last - first)

    def _of(self, path: str) -> tuple[Ints, Ints, Any]:
        if path not in self._known:
            return _UNMASKED
        found = self._known[path]
        if found is None:
            found = self._known[path] = self._masks.hidden(path), *self._masks.touched(path)
        return found


def units_of(snapshot: Snapshot, masks: OfFiles) -> dict[MergeUnit, list[LiveExtent]]:
    """Return the buckets that have live rows or tombstones, with the extents of these.

    A bucket and those that it becomes are one unit, as long as there are extents of both.
    """
    live = [
        extent
        for role in (DATA, TOMBSTONES)
        for extent in snapshot.extents(role)
        if len(masks.hidden(extent)) < extent.extent.rows
    ]
    known: dict[str | None, dict[int, set[int]]] = {}  # partition -> number of buckets -> some of these
    for one in (one.extent for one in live):
        known.setdefault(one.partition, {}).setdefault(one.buckets, set()).add(one.bucket)
    found: dict[MergeUnit, list[LiveExtent]] = {}
    for extent in live:
        own, partition = extent.extent, extent.extent.partition
        groups, group = coarsest((own.buckets, own.bucket), known[partition])
        unit = MergeUnit(group, groups, max(known[partition]), partition)
        found.setdefault(unit, []).append(extent)
    return dict(sorted(found.items(), key=lambda item: (item[0].partition or "", item[0].group, item[0].groups)))
