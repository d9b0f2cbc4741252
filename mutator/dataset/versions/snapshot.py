"""The snapshot of a version of a table: its live files, which of their rows are hidden, and its state.

A snapshot is a value: applying a version to it gives the next one. Files are columns (``checkpoint.FILES``), because a
table may have a million of them. Masks are read when they are needed.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset import checksum
from mutator.dataset.versions.checkpoint import State, file_columns, files_of, read_masks
from mutator.dataset.versions.hidden_rows import Hidden
from mutator.dataset.versions.kept_keys import KeptKeys
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.packs import inline_of
from mutator.dataset.versions.version import Extent, Stored, TableFile, TableVersion
from mutator.errors import MutatorError, error
from mutator.rules.byte_columns import Flags, Ints
from mutator.storage import read_file

_OfFiles = dict[str, tuple[Ints, Ints, Any]]  # path -> hidden rows, touched rows, order values of these

_NONE = np.zeros(0, np.int64)
_CHUNKS = 8  # of the columns of files, before they are combined


@dataclass(frozen=True)
class Masks:
    """Which rows of the live files are hidden or touched: those of a checkpoint, and of the versions after it.

    They are read when they are needed. By then a cleaning may have removed the checkpoint and the first of these
    versions, though not that of the snapshot: a later checkpoint has their masks.
    """

    table: str
    base: Callable[[], _OfFiles] = dict
    later: tuple[VersionIndex, ...] = ()
    since: int = 0  # version of the checkpoint
    until: int = 0  # version of the snapshot
    _read: dict[str, Any] = field(default_factory=dict, compare=False)  # what was read so far

    def after(self, version: TableVersion) -> Masks:
        """Return the masks after a version.

        After a cleaning they are those of the earliest version and of the versions after it: older files are removed.
        """
        if version.restored is not None:
            base = partial(restored_masks, self.table, version.restored.masks)
            # A cleaning up to it removes their file.
            return Masks(self.table, base, since=version.number - 1, until=version.number)
        if version.cleaned is not None and version.cleaned.left.earliest > self.since:
            earliest = version.cleaned.left.earliest
            base = partial(_masks_of_base, self.table, version.cleaned.left.bases[earliest])
            later = tuple(one for one in self.later if one.number > earliest)
            return Masks(self.table, base, later, earliest, version.number)
        index = index_of(version)
        later = (*self.later, index) if index.parts or index.withdrawn else self.later
        return replace(self, later=later, until=version.number)

    def hidden(self, file: str) -> Ints:
        """Return the positions of the hidden rows of a file, ascending."""
        parts = self.hidden_parts(file)
        if not parts:
            return _NONE
        return parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))

    def touched(self, file: str) -> tuple[Ints, Any]:
        """Return the positions of the touched rows of a file, ascending, and their newest order values as text."""
        base, indexes = self._parts()
        _, positions, orders = base.get(file, (_NONE, _NONE, pa.array([], pa.large_binary())))
        for found in indexes:
            if file not in found.files:
                continue
            newer, own = found.touched(file)
            if len(newer):
                keep = ~np.isin(positions, newer)
                positions = np.concatenate((positions[keep], newer))
                orders = pa.concat_arrays([orders.filter(pa.array(keep)), own])
                order = np.argsort(positions, kind="stable")
                positions, orders = positions[order], orders.take(pa.array(order))
        return positions, orders

    def files(self) -> set[str]:
        """Return the paths of all files with hidden or touched rows."""
        base, indexes = self._parts()
        return {*base, *(file for found in indexes for file in found.files)}

    def of_files(self) -> _OfFiles:
        """Return (hidden rows, touched rows, order values of these) of each file that has any."""
        base, indexes = self._parts()
        found, numbers = dict(base), dict[str, int]()
        files, positions, touched = [_NONE], [_NONE], set[str]()
        for places in (one.places() for one in indexes):
            own = np.array([numbers.setdefault(path, len(numbers)) for path in places.paths], np.int64)[places.files]
            files.append(own[places.hides])
            positions.append(places.positions[places.hides])
            touched.update(places.paths[number] for number in places.files[places.touched].tolist())
        number, position = np.concatenate(files), np.concatenate(positions)
        position = position[np.lexsort((position, number))]
        ends = np.cumsum(np.bincount(number, minlength=len(numbers))).tolist()
        for path, begin, end in zip(numbers, [0, *ends], ends, strict=False):
            before, *rest = found.get(path, (_NONE, _NONE, pa.array([], pa.large_binary())))
            hidden = position[begin:end]
            if len(before):
                hidden = np.sort(np.concatenate((before, hidden)))
            found[path] = hidden, *(self.touched(path) if path in touched else rest)
        return found

    def folded(self) -> Masks:
        """Return the same masks, without the indexes of versions."""
        newest = max((one.number for one in self.later), default=0)
        read = {"base": self.of_files()}
        return Masks(self.table, since=max(self.since, newest), until=self.until, _read=read)

    def hidden_parts(self, file: str) -> list[Ints]:
        """Return the positions of the hidden rows of a file, in a few ascending arrays."""
        base, indexes = self._parts()
        parts = [base.get(file, (_NONE,))[0]]
        parts += [found.hidden(file) for found in indexes if file in found.files]
        return [part for part in parts if len(part)]

    def _parts(self) -> tuple[_OfFiles, list[Hidden]]:
        """Return the masks that these begin with, and what later versions hide and touch. Raises StateError."""
        replaced: tuple[int, _OfFiles] | None = self._read.get("replaced")
        if replaced is None or replaced[0] > self.until:
            try:
                if "base" not in self._read:
                    self._read["base"] = self.base()
                return self._read["base"], self._after(self.since)
            except MutatorError as fault:
                may_be_gone = fault.kind in ("table.file", "table.version.gone")
                replaced = _later_masks(self.table, self.since, self.until) if may_be_gone else None
                if replaced is None:
                    raise
                self._read["replaced"] = replaced
        number, base = replaced
        return base, self._after(number)

    def _after(self, number: int) -> list[Hidden]:
        """Return what the versions after one hide and touch."""
        return [found for one in self.later if one.number > number for found in self.of_version(one)]

    def of_version(self, index: VersionIndex) -> list[Hidden]:
        """Return what a version hides and touches. Raises StateError if a file is damaged."""
        if not (index.parts or index.withdrawn):
            return []
        known: list[Hidden] | None = self._read.get(index.name)
        if known is not None:
            return known
        found = [*older_rows(self.table, index), *own_rows(self.table, index)]
        if index in self.later:
            self._read[index.name] = found
        return found


@dataclass(frozen=True)
class VersionIndex:
    """The rows that a version hides and touches, and those that it has withdrawn."""

    parts: tuple[Stored, ...]
    withdrawn: tuple[Stored, ...] = ()
    own: frozenset[str] = frozenset()  # paths of the version's files, if it has withdrawn anything
    number: int = 0  # of the version

    @property
    def name(self) -> str:
        """A path that no other version index has."""
        return (*self.parts, *self.withdrawn)[-1].path


def added_files(version: TableVersion) -> Any:
    """Return the files that a version adds, as a pa.Table with the columns of ``checkpoint.FILES``."""
    return file_columns(version.files, version.number, () if version.restored is None else version.restored.added)


def index_of(version: TableVersion) -> VersionIndex:
    """Return the version index of a version."""
    own = frozenset(file.path for file in version.files) if version.withdrawn else frozenset[str]()
    return VersionIndex(version.index, version.withdrawn, own, version.number)


def _masks_of_base(table: str, name: str) -> _OfFiles:
    """Return the masks of the checkpoint that a log begins with. Raises StateError if it is lost or damaged."""
    log = TableLog(table)
    read = log.checkpoint(name)
    found = None if read is None else {} if read[2] is None else log.masks(read[2])
    if found is None:
        raise error("table.file", path=log.checkpoint_path(name), why="it is missing or damaged")
    return found


def _later_masks(table: str, since: int, until: int) -> tuple[int, _OfFiles] | None:
    """Return (number, masks) of a version after one, up to another, that a checkpoint has; None if none can be read."""
    log = TableLog(table)
    for number, name in log.checkpoints():
        with suppress(MutatorError):  # then it is not known whether it is of this table
            read = log.checkpoint(name) if since < number <= until else None
            if read is None or log.read(number).id != read[1].version.id:
                continue
            found = {} if read[2] is None else log.masks(read[2])
            if found is not None:
                return number, found
    return None


def older_rows(table: str, index: VersionIndex) -> list[Hidden]:
    """Return the rows of older files that a version hides and touches. Raises StateError if a file is damaged."""
    withdrawn = [hidden_rows(table, one) for one in index.withdrawn]
    return [hidden_rows(table, one, withdrawn) for one in index.parts]


def own_rows(table: str, index: VersionIndex) -> list[Hidden]:
    """Return the rows of a version's own files that it has withdrawn. Raises StateError if a file is damaged."""
    return [hidden_rows(table, one).of_files(index.own) for one in index.withdrawn]


def hidden_rows(table: str, index: Stored, withdrawn: Sequence[Hidden] = ()) -> Hidden:
    """Read a part of a version index. withdrawn: by its version. Raises StateError if it is lost or damaged."""
    content = content_of(table, index)
    try:
        return Hidden(content, withdrawn)
    except ValueError as fault:
        raise damaged(table, index, str(fault)) from None


def restored_masks(table: str, masks: Stored | None) -> _OfFiles:
    """Return the masks that a restore has. Raises StateError if their file is lost or damaged."""
    if masks is None:
        return {}
    content = content_of(table, masks)
    try:
        return read_masks(content)
    except ValueError as fault:
        raise damaged(table, masks, fault) from None


def content_of(table: str, stored: Stored) -> bytes:
    """Return the bytes of a file of a table. Raises StateError if it is lost or damaged."""
    content = inline_of(table, stored)
    if content is None:
        try:
            content = read_file(posixpath.join(table, stored.path))
        except MutatorError as fault:
            if fault.kind != "storage.missing":
                raise
            raise damaged(table, stored, "it is missing") from None
    found = checksum.of_blocks([content], checksum.chunk_of(stored.checksum))
    if found != stored.checksum:
        raise damaged(table, stored, f"its checksum is {found} and should be {stored.checksum}")
    return content


def damaged(table: str, stored: Stored, why: object) -> MutatorError:
    """Return the error of a file of a table that is lost or damaged."""
    return error("table.file", path=posixpath.join(table, stored.path), why=why)


@dataclass(frozen=True)
class LiveExtent:
    """An extent of a live file."""

    file: TableFile
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
    def version(self) -> TableVersion:
        """The version, without its files."""
        return self.state.version

    def after(self, version: TableVersion) -> Snapshot:
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

    def of_role(self, role: str) -> Iterable[TableFile]:
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
        known: tuple[int, TableFile] | None = None
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
