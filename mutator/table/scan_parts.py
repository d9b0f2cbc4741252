"""A scan in parts of about as many rows, each of which another process can read.

A part has what it needs: its files, their hidden rows, the columns and the filter. So a version is read as it was when
the parts were made, however many versions follow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.file_entry import FileEntry
from mutator.dataset.state import KnownFeed
from mutator.dataset.versions.checkpoint import FILES
from mutator.dataset.versions.masks import Masks
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.byte_columns import Ints
from mutator.rules.conditions import Where
from mutator.table.outlived import reading
from mutator.table.scan import scan_of

_ROWS = 1 << 16  # a file is cut at multiples of this: the row groups that mutator writes have no more


@dataclass(frozen=True)
class _Slice:
    """The row groups of a file that begin at some positions. ranges: of wanted rows, None for all."""

    file: FileEntry
    begin: int
    end: int
    ranges: Ints | None


@dataclass(frozen=True, eq=False)
class ScanPart:
    """Some row groups of a version, to be read with some columns and a filter."""

    snapshot: Snapshot  # without other files
    slices: tuple[_Slice, ...]
    columns: Sequence[str] | None
    where: Where

    def batches(self) -> Iterator[Any]:
        """Yield the live rows, as pa.RecordBatches. Raises StateError for lost and damaged files."""
        scan = scan_of(self.snapshot, self.columns, self.where)
        with reading(self.snapshot):
            for one in self.slices:
                yield from scan.of_file(one.file, one.ranges, (one.begin, one.end))


def parts_of(snapshot: Snapshot, columns: Sequence[str] | None, where: Where, number: int) -> list[ScanPart]:
    """Return the parts of a scan: at most a number of them, none without rows. Raises ConfigError as a scan does.

    columns, where: as for ``scan_of``.
    """
    with reading(snapshot):
        return _parts(snapshot, columns, where, number)


def _parts(snapshot: Snapshot, columns: Sequence[str] | None, where: Where, number: int) -> list[ScanPart]:
    pieces = [
        _Slice(file, begin, min(begin + _ROWS, file.rows), ranges)
        for file, ranges in scan_of(snapshot, columns, where).files()
        for begin in range(0, file.rows, _ROWS)
    ]
    rows = np.array([piece.end - piece.begin for piece in pieces], np.int64)
    middles = np.cumsum(rows) - rows / 2
    groups: dict[int, list[_Slice]] = {}
    for piece, group in zip(pieces, (middles * number // max(rows.sum(), 1)).tolist(), strict=True):
        slices = groups.setdefault(group, [])
        if slices and slices[-1].file is piece.file:
            slices[-1] = replace(slices[-1], end=piece.end)
        else:
            slices.append(piece)
    return [ScanPart(_of_files(snapshot, slices), tuple(slices), columns, where) for slices in groups.values()]


def _of_files(snapshot: Snapshot, slices: Sequence[_Slice]) -> Snapshot:
    """Return what a scan of some files needs of a snapshot."""
    nothing = np.zeros(0, np.int64), pa.array([], pa.large_binary())
    hidden = {one.file.path: (snapshot.masks.hidden(one.file.path), *nothing) for one in slices}
    return replace(
        snapshot,
        state=replace(snapshot.state, known=KnownFeed()),
        files=FILES.empty_table(),
        masks=Masks(snapshot.table, _read={"base": hidden}),
    )
