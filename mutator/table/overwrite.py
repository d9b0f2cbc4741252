"""What an insert overwrite replaces in a table: files that it removes, rows that it hides, and what is lost.

A data file all of whose live rows are in partitions that are replaced is removed, and its masks vanish with it. The
other files with rows of such partitions are packed ones: the version index hides these rows, and the file stays. No
file of another partition is rewritten. Tombstone files stay, because the tombstones of keys that the input lacks do.

A record is *lost* if the key index of its file is damaged: it can still be replaced, because the log and the masks have
the number of records, but it leaves no tombstone. Instead, the horizon rises to its order value, as when its tombstone
expires.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.checksum import whole
from mutator.dataset.file_entry import DATA, TOMBSTONES, FileEntry, stored_here
from mutator.dataset.versions.checkpoint import FILES, files_of
from mutator.dataset.versions.hidden_rows import index_table, written_index
from mutator.dataset.versions.log import DIRECTORY
from mutator.dataset.versions.masks import Masks
from mutator.dataset.versions.merged_keys import opened_index
from mutator.dataset.versions.paged_file import DamagedPage
from mutator.dataset.versions.snapshot import LiveExtent, Snapshot
from mutator.engine.receipts import MergeReceipt
from mutator.engine.versions.delta_files import ApplyTarget, order_bytes
from mutator.engine.versions.live_extents import OfFiles
from mutator.engine.versions.replaced import Replaced
from mutator.errors import MutatorError, error
from mutator.errors.quick_dataclass import dataclass
from mutator.plan.reading import Reading
from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.order_columns import from_texts, to_value

_Names = frozenset[str] | None  # directories of partitions; None: everything


@dataclass(frozen=True)
class Replacement:
    """The partitions that an insert overwrite replaces."""

    live: Snapshot  # with the files whose rows winners can meet
    target: ApplyTarget
    partitions: tuple[str, ...] | None  # that are replaced; None without partitions
    removed: tuple[str, ...] = ()  # paths of files
    lost: int = 0  # records whose keys are not known
    receipt: MergeReceipt | None = None  # of what is lost
    index: tuple[FileEntry, ...] = ()  # the version index of lost records in files that stay

    @property
    def is_everything(self) -> bool:
        """Whether partitions that do not exist yet are replaced, too."""
        return self.target.replaced is None or self.target.replaced.partitions is None


def replacement(snapshot: Snapshot, plan: Reading, target: ApplyTarget, names: _Names, *, damaged: bool) -> Replacement:
    """Find what an insert overwrite replaces. names: of the partitions. damaged: what is lost may be replaced.

    Raises StateError for lost tombstones that share a file with those of other partitions.
    """
    known = snapshot.partitions if names is None else names
    partitions = tuple(sorted(known)) if plan.is_partitioned else None
    try:
        masks = OfFiles(snapshot)
    except MutatorError as fault:
        if fault.kind != "table.file" or not damaged or names is not None:
            raise
        return _of_unknown_masks(snapshot, plan, target, partitions)
    inside = _in_partitions(snapshot, names)
    lost = _Lost(snapshot, plan, names, masks, inside) if damaged else None
    removed = _removed(snapshot, names, masks, inside)
    if lost is not None:
        removed += lost.tombstone_files
    live = snapshot if names is None or plan.by_table else snapshot.only(_files(snapshot, inside))
    if lost is not None and lost.files:
        # np.isin compares each pair of texts: a minute for 100,000 files.
        is_gone = pc.is_in(live.files.column("path"), value_set=pa.array(sorted(lost.files)))
        live = live.only(~is_gone.to_numpy())
    target = replace(target, replaced=Replaced(names, frozenset(removed)))
    if lost is None:
        return Replacement(live, target, partitions, tuple(removed))
    index = lost.index(frozenset(removed), target)
    return Replacement(live, target, partitions, tuple(removed), lost.records, lost.receipt(), index)


def _of_unknown_masks(
    snapshot: Snapshot, plan: Reading, target: ApplyTarget, partitions: tuple[str, ...] | None
) -> Replacement:
    """Return what is replaced where a version index is damaged: everything, and all of it is lost."""
    version = snapshot.version
    counts = {
        "master deleted by absence": version.records,
        "expired": version.records + version.tombstones,
        "tombstones hidden": version.tombstones,
    }
    highs = [extent.extent.high for role in (DATA, TOMBSTONES) for extent in snapshot.extents(role)]
    highs += _of_snapshots(snapshot)
    receipt = MergeReceipt(counts=counts, expired=_highest(plan, highs))
    empty = replace(snapshot, files=FILES.empty_table(), masks=Masks(snapshot.table))
    removed = tuple(snapshot.files.column("path").to_pylist())
    target = replace(target, replaced=Replaced(None))
    return Replacement(empty, target, partitions, removed, version.records, receipt)


def _in_partitions(snapshot: Snapshot, names: _Names) -> Flags:
    """Return which extents of a snapshot are in some partitions, in the order of ``Snapshot.places``."""
    places = snapshot.places
    if names is None:
        return np.ones(len(places["file"]), np.bool_)
    return snapshot.in_partitions(names)


def _files(snapshot: Snapshot, chosen: Flags) -> Ints:
    """Return the numbers of the files that some extents are in. chosen: extents."""
    return np.unique(snapshot.places["file"][chosen])


def _removed(snapshot: Snapshot, names: _Names, masks: OfFiles, inside: Flags) -> list[str]:
    """Return the paths of the data files that have no live rows in other partitions. inside: extents."""
    places, paths = snapshot.places, snapshot.files.column("path")
    is_data = np.zeros(snapshot.files.num_rows, np.bool_)
    is_data[places["file"][places["role"] == DATA]] = True
    if names is None:
        return paths.take(pa.array(np.flatnonzero(is_data))).to_pylist()  # type: ignore[no-any-return]
    some, others = (np.zeros(len(is_data), np.bool_) for _ in range(2))
    some[places["file"][inside]] = True
    others[places["file"][~inside]] = True
    found = np.flatnonzero(is_data & some & ~others)
    shared = np.flatnonzero(is_data & some & others)
    dead = [
        number
        for number, file in zip(shared.tolist(), files_of(snapshot.files, shared), strict=True)
        if not any(_live(masks, one) for one in _extents(file) if one.extent.partition not in names)
    ]
    return paths.take(pa.array(np.sort(np.append(found, dead)).astype(np.int64))).to_pylist()  # type: ignore[no-any-return]


def _extents(file: FileEntry) -> Iterator[LiveExtent]:
    start = 0
    for extent in file.extents:
        yield LiveExtent(file, extent, start)
        start += extent.rows


def _live(masks: OfFiles, extent: LiveExtent) -> int:
    return extent.extent.rows - len(masks.hidden(extent))


class _Lost:
    """The records and tombstones that are replaced, and whose keys are not known."""

    def __init__(self, snapshot: Snapshot, plan: Reading, names: _Names, masks: OfFiles, inside: Flags) -> None:
        """Verify the key indexes of all files with extents in partitions. inside: these extents."""
        self._plan, self._masks, self._raised = plan, masks, _of_snapshots(snapshot)
        self._extents: dict[str, list[LiveExtent]] = {}  # by path
        self._tombstones: list[LiveExtent] = []
        for file in files_of(snapshot.files, _files(snapshot, inside)):
            if not _is_damaged(snapshot, file):
                continue
            own = [one for one in _extents(file) if names is None or one.extent.partition in names]
            if file.role == DATA:
                self._extents[file.path] = own
                continue
            if sum(_live(masks, one) for one in own) < sum(_live(masks, one) for one in _extents(file)):
                raise error(
                    "table.overwrite.tombstones", path=f"{snapshot.table}/{file.keys.path}", table=snapshot.table
                )
            self._tombstones += own
        self.tombstone_files = list(dict.fromkeys(one.file.path for one in self._tombstones))
        self.records = sum(_live(masks, one) for own in self._extents.values() for one in own)

    @property
    def files(self) -> frozenset[str]:
        """The paths of the files whose key indexes are damaged."""
        return frozenset(self._extents) | frozenset(self.tombstone_files)

    def receipt(self) -> MergeReceipt:
        """Return the counts of what is lost: it is deleted by absence, and its tombstones have expired already."""
        tombstones = sum(_live(self._masks, one) for one in self._tombstones)
        counts = {
            "master deleted by absence": self.records,
            "expired": self.records + tombstones,
            "tombstones hidden": tombstones,
        }
        extents = [one for own in (*self._extents.values(), self._tombstones) for one in own]
        highs = [one.extent.high for one in extents] + (self._raised if self._tombstones else [])
        touched = [text for one in extents for text in self._masks.touched(one)[1].to_pylist()]
        return MergeReceipt(counts=counts, expired=_highest(self._plan, highs, touched))

    def index(self, removed: frozenset[str], target: ApplyTarget) -> tuple[FileEntry, ...]:
        """Return a version index that hides the lost records of files that stay, without their keys."""
        tables = []
        for path, extents in self._extents.items():
            if path in removed:
                continue
            rows = np.concatenate([np.arange(one.start, one.end) for one in extents])
            hidden = np.concatenate([self._masks.hidden(one) for one in extents])
            positions = np.setdiff1d(rows, hidden)
            keys = pa.array([b""] * len(positions), pa.large_binary())
            orders = pa.nulls(len(positions), pa.large_binary())
            hashes = np.zeros(len(positions), np.uint64)
            tables.append(index_table(path, positions, hashes, keys, orders, touched=False))
        content = written_index(tables)
        if content is None or target.table is None:
            return ()
        return (stored_here(f"{DIRECTORY}/hidden/lost-{self._plan.run}.hidden", content, whole(content)),)


def _of_snapshots(snapshot: Snapshot) -> list[str | None]:
    """Return the order values that tombstones by absence may have for deltas, as text."""
    return [high or None for _, high in snapshot.state.absences]


def _is_damaged(snapshot: Snapshot, file: FileEntry) -> bool:
    """Return whether the key index of a file is damaged."""
    try:
        opened_index(snapshot.table, file).verify()
    except DamagedPage:
        return True
    except MutatorError as fault:
        if fault.kind != "table.file":
            raise
        return True
    return False


def _highest(plan: Reading, highs: Sequence[str | None], touched: Sequence[bytes | None] = ()) -> Any:
    """Return the highest of some order values; None without any. highs: as text."""
    order_type, texts = plan.rows.order_type, [*map(order_bytes, highs), *touched]
    if not texts:
        return None
    values = from_texts(order_type, pa.array(texts, pa.large_binary()))
    return to_value(order_type, pc.max(values).as_py())
