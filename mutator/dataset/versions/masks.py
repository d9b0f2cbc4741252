"""Masks: which rows of the live files of a version are hidden or touched.

A mask is derived: a checkpoint has those of its version, and each later version has an index (``hidden_rows``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.commits import Commit
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.versions.checkpoint import read_masks
from mutator.dataset.versions.hidden_rows import Hidden
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.packs import RESTORE, content_of, damaged
from mutator.errors import MutatorError, error
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.byte_columns import Ints

_OfFiles = dict[str, tuple[Ints, Ints, Any]]  # path -> hidden rows, touched rows, order values of these

_NONE = np.zeros(0, np.int64)


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

    def after(self, version: Commit) -> Masks:
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

    parts: tuple[FileEntry, ...]
    withdrawn: tuple[FileEntry, ...] = ()
    own: frozenset[str] = frozenset()  # paths of the version's files, if it has withdrawn anything
    number: int = 0  # of the version

    @property
    def name(self) -> str:
        """A path that no other version index has."""
        return (*self.parts, *self.withdrawn)[-1].path


def index_of(version: Commit) -> VersionIndex:
    """Return the version index of a version."""
    own = frozenset(file.path for file in version.files) if version.withdrawn else frozenset[str]()
    return VersionIndex(version.index, version.withdrawn, own, version.number)


def _masks_of_base(table: str, name: str) -> _OfFiles:
    """Return the masks of the checkpoint that a log begins with. Raises StateError if it is lost or damaged."""
    log = TableLog(table)
    found = _of_checkpoint(log, name)
    if found is None:
        raise error("table.file", path=log.checkpoint_path(name), why="it is missing or damaged", cure=RESTORE)
    return found[1]


def _of_checkpoint(log: TableLog, name: str) -> tuple[Commit, _OfFiles] | None:
    """Return the version and the masks of a checkpoint; None if they are missing or damaged."""
    read = log.checkpoint(name)
    found = None if read is None else {} if read[2] is None else log.masks(read[2])
    return None if read is None or found is None else (read[1].commit, found)


def _later_masks(table: str, since: int, until: int) -> tuple[int, _OfFiles] | None:
    """Return (number, masks) of a version after one, up to another, that a checkpoint has; None if none can be read."""
    log = TableLog(table)
    for number, name in log.checkpoints():
        with suppress(MutatorError):  # then it is not known whether it is of this table
            found = _of_checkpoint(log, name) if since < number <= until else None
            if found is not None and log.read(number).id == found[0].id:
                return number, found[1]
    return None


def older_rows(table: str, index: VersionIndex) -> list[Hidden]:
    """Return the rows of older files that a version hides and touches. Raises StateError if a file is damaged."""
    withdrawn = [hidden_rows(table, one) for one in index.withdrawn]
    return [hidden_rows(table, one, withdrawn) for one in index.parts]


def own_rows(table: str, index: VersionIndex) -> list[Hidden]:
    """Return the rows of a version's own files that it has withdrawn. Raises StateError if a file is damaged."""
    return [hidden_rows(table, one).of_files(index.own) for one in index.withdrawn]


def hidden_rows(table: str, index: FileEntry, withdrawn: Sequence[Hidden] = ()) -> Hidden:
    """Read a part of a version index. withdrawn: by its version. Raises StateError if it is lost or damaged."""
    content = content_of(table, index)
    try:
        return Hidden(content, withdrawn)
    except ValueError as fault:
        raise damaged(table, index, str(fault)) from None


def restored_masks(table: str, masks: FileEntry | None) -> _OfFiles:
    """Return the masks that a restore has. Raises StateError if their file is lost or damaged."""
    if masks is None:
        return {}
    content = content_of(table, masks)
    try:
        return read_masks(content)
    except ValueError as fault:
        raise damaged(table, masks, fault) from None
