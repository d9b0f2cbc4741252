"""The snapshot of a version of a table: its live files, which of their rows are hidden, and its state.

A snapshot is a value: applying a version to it gives the next one. Files are columns (``checkpoint.FILES``), because a
table may have a million of them. Masks are read when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import field, replace
from functools import cached_property
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.config.feed_settings import keeps_history
from mutator.dataset.commits import Commit
from mutator.dataset.file_entry import Extent, FileEntry
from mutator.dataset.state import State, first_state
from mutator.dataset.versions.checkpoint import FILES, file_columns, files_of
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.masks import Masks
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.byte_columns import Flags, Ints

_MOST = 64  # versions that wait to be added: a table that is only read needs no merged keys
_T = TypeVar("_T")
_CHUNKS = 8  # of the columns of files, before they are combined


class KeptKeys(Generic[_T]):
    """Merged keys of a snapshot: those of an earlier one, and the versions since, until they are asked for.

    They are not sent to other processes.
    """

    def __init__(self, found: _T | None = None, waiting: tuple[Commit, ...] = ()) -> None:
        """found: merged keys. waiting: the versions after them."""
        self._found, self._waiting, self._lock = found, waiting, Lock()

    def __reduce__(self) -> tuple[type[KeptKeys[_T]], tuple[()]]:
        return KeptKeys, ()

    def after(self, version: Commit) -> KeptKeys[_T]:
        """Return those of the snapshot after the next version, of which nothing is read yet."""
        with self._lock:
            # A cleaning removes the version indexes of those that wait, and a restore goes back behind them.
            is_other = version.removed or version.cleaned or version.restored
            if self._found is None or is_other or len(self._waiting) == _MOST:
                return KeptKeys()
            return KeptKeys(self._found, (*self._waiting, version))

    def get(self, fits: Callable[[_T], bool], begin: Callable[[], _T], add: Callable[[_T, Sequence[Commit]], _T]) -> _T:
        """Return the merged keys, which are made now if they are not known.

        fits: whether merged keys can be used. begin: makes them. add: returns those after some versions.
        """
        with self._lock:
            found = self._found
            if found is None or not fits(found):
                found = begin()
            elif self._waiting:
                found = add(found, self._waiting)
            self._found, self._waiting = found, ()
            return found


def added_files(version: Commit) -> Any:
    """Return the files that a version adds, as a pa.Table with the columns of ``checkpoint.FILES``."""
    return file_columns(version.files, version.number, () if version.restored is None else version.restored.added)


def first_snapshot(table: str, version: Commit) -> Snapshot:
    """Return the snapshot of version 0 of a table."""
    return Snapshot(table, first_state(version), FILES.empty_table(), Masks(table))


@dataclass(frozen=True)
class LiveExtent:
    """An extent of a live file."""

    file: FileEntry
    extent: Extent
    start: int  # position of its first row

    @property
    def end(self) -> int:
        """Position after its last row."""
        return self.start + self.extent.rows


@dataclass(frozen=True)
class Snapshot:
    """One version of a table."""

    table: str  # path
    state: State
    files: Any  # pa.Table with the columns of ``checkpoint.FILES``
    masks: Masks
    keys: KeptKeys[Any] = field(default_factory=KeptKeys, compare=False, repr=False)  # of ``MergedKeys``

    @property
    def version(self) -> Commit:
        """The version, without its files."""
        return self.state.commit

    @property
    def has_history(self) -> bool:
        """Whether the table keeps all versions of its records."""
        return keeps_history(self.state.settings)

    def after(self, version: Commit) -> Snapshot:
        """Return the snapshot after the next version. Raises StateError if the version follows another one."""
        TableLog(self.table).check_parent(version, self.version)
        files, masks = self.files, self.masks
        if version.removed:
            gone = pc.is_in(files.column("path"), value_set=pa.array(version.removed, pa.string()))
            files = files.filter(pc.invert(gone))
            if self.files.num_rows and not files.num_rows:  # nothing needs their masks, which may be damaged
                masks = Masks(self.table)
        if version.files:
            files = pa.concat_tables([files, added_files(version)])
            if files.column(0).num_chunks > _CHUNKS:
                files = files.combine_chunks()
        masks, keys = masks.after(version), self.keys.after(version)
        return Snapshot(self.table, self.state.after(version), files, masks, keys)

    def only(self, chosen: Any) -> Snapshot:
        """Return a snapshot with some of the files. chosen: flags, or their numbers."""
        if chosen.dtype == np.bool_:
            chosen = np.flatnonzero(chosen)
        return replace(self, files=self.files.take(pa.array(chosen)), keys=KeptKeys())

    def of_role(self, role: str) -> Iterable[FileEntry]:
        """Yield the live files of a role, in the order in which they were added."""
        rows = np.flatnonzero(pc.equal(self.files.column("role"), role).to_numpy())
        return files_of(self.files, rows)

    def extents(
        self,
        role: str,
        buckets: Callable[[int], Collection[int]] | None = None,
        partitions: Collection[str] | None = None,
    ) -> Iterator[LiveExtent]:
        """Yield the extents of the live files of a role, in the order in which the files were added.

        buckets: number of buckets -> those that are wanted; None for all. partitions: that are wanted; None for all.
        """
        found = self.places
        chosen = found["role"] == role
        if buckets is not None:
            wanted = np.zeros(len(chosen), np.bool_)
            for count in np.unique(found["buckets"]).tolist():
                own = np.array(sorted(buckets(count)), np.int64)
                wanted |= (found["buckets"] == count) & np.isin(found["bucket"], own)
            chosen &= wanted
        if partitions is not None:
            chosen &= self.in_partitions(partitions)
        rows = np.flatnonzero(chosen)
        files = files_of(self.files, np.unique(found["file"][rows]))
        known: tuple[int, FileEntry] | None = None
        for row in rows.tolist():
            number = int(found["file"][row])
            if known is None or known[0] != number:
                known = number, next(files)
            yield LiveExtent(known[1], known[1].extents[int(found["number"][row])], int(found["start"][row]))

    @property
    def extent_count(self) -> int:
        """Number of the extents of all live files."""
        return pc.sum(pc.list_value_length(self.files.column("extents"))).as_py() or 0

    def in_partitions(self, names: Collection[str]) -> Flags:
        """Return which extents are in some partitions, in the order of ``places``."""
        codes = [code for code, name in enumerate(self._partitions) if name in names]
        return np.isin(self.places["partition"], codes)

    @cached_property
    def places(self) -> dict[str, Any]:
        """One row for each extent: numbers of the file and in it, first row, bucket of how many, partition, role."""
        column = self.files.column("extents").combine_chunks()
        counts = pc.list_value_length(column).to_numpy()
        values = column.flatten()
        file = np.repeat(np.arange(len(counts)), counts)
        number = np.arange(len(file)) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = values.field("rows").to_numpy()
        before = np.cumsum(rows) - rows
        start = before - np.repeat(before[np.flatnonzero(number == 0)], counts[counts > 0])
        roles = self.files.column("role").to_numpy(zero_copy_only=False)[file] if len(file) else np.array([], object)
        partitions = values.field("partition").dictionary_encode()
        return {
            "file": file,
            "number": number,
            "start": start,
            "bucket": values.field("bucket").to_numpy(),
            "buckets": values.field("buckets").to_numpy(),
            "partition": pc.fill_null(partitions.indices, -1).to_numpy(),
            "role": roles,
        }

    @cached_property
    def _partitions(self) -> list[str]:
        """The directories that the codes of ``places`` stand for."""
        column = self.files.column("extents").combine_chunks().flatten().field("partition")
        return column.dictionary_encode().dictionary.to_pylist()  # type: ignore[no-any-return]

    @property
    def partitions(self) -> list[str]:
        """The directories of all partitions that live files have rows or tombstones of."""
        return [name for name in self._partitions if name]

    def folded(self) -> Snapshot:
        """Return the same snapshot with one mask for each file, instead of the indexes of many versions."""
        return replace(self, files=self.files.combine_chunks(), masks=self.masks.folded())

    def mask_rows(self) -> list[tuple[str, Ints, Ints, Any]]:
        """Return the masks of all live files, for a checkpoint."""
        live = set(self.files.column("path").to_pylist())
        masks = self.masks.of_files()
        return [(path, *masks[path]) for path in sorted(masks) if path in live]
