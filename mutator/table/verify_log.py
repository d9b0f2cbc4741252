"""Verify the log of a table: follow its versions, and compare files, version indexes, counts and checkpoints."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from mutator.dataset.commits import COMPACT, OVERWRITES, Commit, Left
from mutator.dataset.directory import not_a_table
from mutator.dataset.file_entry import DATA, TOMBSTONES, WITH_ROWS, FileEntry
from mutator.dataset.versions.checkpoint import is_base, owner_of_base, version_of_checkpoint
from mutator.dataset.versions.hidden_rows import Hidden
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.masks import hidden_rows
from mutator.dataset.versions.opening import forward
from mutator.dataset.versions.packs import RESTORE, content_of, packed
from mutator.dataset.versions.snapshot import Snapshot, first_snapshot
from mutator.errors import MutatorError, error
from mutator.errors.display import command
from mutator.pipeline.verify import Difference
from mutator.rules.byte_columns import Ints
from mutator.rules.truth_table import check_sums
from mutator.storage import entries_of, storage_for
from mutator.table.outlived import newest_or_none
from mutator.table.verify_restore import difference_of, followed, what_is_left

_LOG = "restore the log from a copy of the table"
_ENTRY = "restore the entry from a copy of the table, or if this file is of another table, remove it"


class Walk:
    """The versions of a table, one after the other from the first."""

    def __init__(self, table: str) -> None:
        """Read which versions are left, the hint, and the names of the checkpoints."""
        self.table, self._log = table, TableLog(table)
        self._again = f"make it again: {command('table', 'verify', '--repair', table)}"
        self._left = _left_of(table)  # before all else: if a file vanishes that is needed, a later cleaning removed it
        self.snapshot: Snapshot | None = None
        self.whole = False  # all entries can be read
        self.differences: list[Difference] = []
        self.files: dict[str, FileEntry] = {}
        self.orders: dict[str, Mapping[str, Any]] = {}  # file -> the order that it was written in
        self.named: set[str] = set()  # paths of the files of all versions
        self.hidden: dict[str, list[tuple[Ints, Any]]] = {}  # file -> positions and keys of hidden rows
        self._ever: dict[str, list[tuple[Ints, Any]]] = {}  # the same, with rows that restores have shown again
        self._has_base = False  # the first versions were cleaned
        self._hint = self._log.hinted()  # read first, so that no version that it or a checkpoint names is yet to come
        self._checkpoints: dict[int, list[str]] = {}  # version -> names
        for number, name in self._log.checkpoints():
            self._checkpoints.setdefault(number, []).append(name)
        self._damaged: list[Difference] = []
        self._live = dict.fromkeys(WITH_ROWS, 0)  # rows of the present version
        self._counted = True  # all version indexes so far could be read

    def read_log(self) -> None:
        """Read all entries; collect the differences that need no rows."""
        newest = self._log.newest()
        if newest is None:
            raise error("table.missing", path=self.table, cure=not_a_table(self.table))
        first = self._begin()
        for number in range(first, newest + 1):
            try:
                version = self._log.read(number)
                self.snapshot = self._after(version)
            except MutatorError as fault:
                path = posixpath.relpath(self._log.entry_path(number), self.table)
                self.differences.append(Difference(fault.why, path, _LOG))
                return
            self._stored(version)
            self._counts(version)
            self._compare_checkpoint()
        self.whole = True
        self.differences += self._beyond()

    def is_cleaned_since(self) -> bool:
        """Return whether a cleaning has taken versions away since the walk began."""
        return _left_of(self.table) != self._left

    def _begin(self) -> int:
        """Begin with the versions that cleanings have left; return the number of the first entry to follow."""
        has_base = any(is_base(name) for names in self._checkpoints.values() for name in names)
        if not has_base and not self._log.archive.last():
            return 0
        found = what_is_left(self.table)
        self.differences += found.differences
        self.named |= found.named
        if found.snapshot is None:
            return 0
        self.snapshot, self.files = found.snapshot, found.files
        self.orders |= dict.fromkeys(found.files, found.snapshot.state.spec.get("order", {}))
        for path, positions in found.hidden.items():
            self.hidden[path], self._ever[path] = [(positions, None)], [(positions, None)]
        self._live, self._has_base = dict(found.live), True
        return found.snapshot.version.number + 1

    def _after(self, version: Commit) -> Snapshot:
        if self.snapshot is None:
            return first_snapshot(self.table, version)
        return self.snapshot.after(version)

    def _stored(self, version: Commit) -> None:
        """Collect the files and hidden rows of a version; verify those that have no rows."""
        added = {file.path: file for file in version.files}
        assert self.snapshot is not None
        for path in added:  # a restore adds files again
            self.orders.setdefault(path, self.snapshot.state.spec.get("order", {}))
        self.named |= {stored.path for stored in version.stored()}
        withdrawn = self._parts(version.withdrawn)
        index = self._parts(version.index, list(withdrawn.values()))
        self._compare_withdrawn(withdrawn, list(index.values()), added)
        for stored, found in index.items():
            for path in found.files:
                # A compaction hides rows of its own files that were hidden elsewhere meanwhile.
                file = self.files.get(path) or (added.get(path) if version.action == COMPACT else None)
                if file is None:
                    what = f"it names {path}, which no earlier version has"
                    self.differences.append(Difference(what, stored.path))
                    continue
                keys = found.known_keys(path) if version.lost else found.hidden_keys(path)
                self._hide(file, found.hidden(path), keys)
                if (found.touched(path)[0] >= file.rows).any():
                    self.differences.append(Difference(f"it touches rows that {path} does not have", stored.path))
        for stored in version.rejected:
            try:
                content_of(self.table, stored)
            except MutatorError as fault:
                self.differences.append(_of_fault(fault, stored.path))
        for path in version.removed:
            if path not in self.files:
                entry = posixpath.relpath(self._log.entry_path(version.number), self.table)
                self.differences.append(Difference(f"it removes {path}, which no earlier version has", entry))
                continue
            file, parts = self.files[path], self.hidden.get(path, ())
            self._live[file.role] -= file.rows - sum(len(positions) for positions, _ in parts)
        for file in version.files:
            self._live[file.role] += file.rows
        self.files |= added
        if version.restored is not None:
            self._restored(version)

    def _parts(self, stored: Sequence[FileEntry], withdrawn: Sequence[Hidden] = ()) -> dict[FileEntry, Hidden]:
        """Read parts of a version index; those that are damaged are differences."""
        found = {}
        for one in stored:
            try:
                found[one] = hidden_rows(self.table, one, withdrawn)
            except MutatorError as fault:
                self.differences.append(_of_fault(fault, one.path))
                self._counted = False
        return found

    def _compare_withdrawn(
        self, withdrawn: Mapping[FileEntry, Hidden], index: Sequence[Hidden], added: Mapping[str, FileEntry]
    ) -> None:
        """Hide the rows of its own files that a version has withdrawn; compare the others with its index."""
        for stored, part in withdrawn.items():
            for path in part.files:
                if path in added:
                    self._hide(added[path], part.hidden(path), part.hidden_keys(path))
                    continue
                named = np.concatenate([np.zeros(0, np.int64), *(one.positions(path) for one in index)])
                if not np.isin(part.positions(path), named).all():
                    what = f"it withdraws rows of {path}, which its version neither hides nor touches"
                    self.differences.append(Difference(what, stored.path))

    def _restored(self, version: Commit) -> None:
        """Go on with the hidden rows of a restore."""
        assert self.snapshot is not None
        hidden, found = followed(self.snapshot, version, self._ever, has_base=self._has_base)
        self.differences += [Difference(what, self._relative(self._log.entry_path(version.number))) for what in found]
        if hidden is None:
            self._counted = False
            return
        self._live = dict.fromkeys(self._live, 0)
        for path in self.snapshot.files.column("path").to_pylist():
            self.hidden[path], file = hidden.get(path, []), self.files[path]
            self._live[file.role] += file.rows - sum(len(positions) for positions, _ in self.hidden[path])

    def _hide(self, file: FileEntry, positions: Ints, keys: Any) -> None:
        self.hidden.setdefault(file.path, []).append((positions, keys))
        self._ever.setdefault(file.path, []).append((positions, keys))
        self._live[file.role] -= len(positions)

    def _counts(self, version: Commit) -> None:
        """Compare the counts of a version with its files and its hidden rows."""
        path = posixpath.relpath(self._log.entry_path(version.number), self.table)
        for name, stated, found in (
            ("records", version.records, self._live[DATA]),
            ("tombstones", version.tombstones, self._live[TOMBSTONES]),
        ):
            if stated != found and self._counted:
                what = f"it counts {stated:,} {name}, and its files and hidden rows give {found:,}"
                self.differences.append(Difference(what, path))
        if version.feed or version.action in ("apply", *OVERWRITES):
            self.differences += [
                Difference(f"its counts do not add up: {one}", path) for one in check_sums(version.counts)
            ]

    # --- what is derived

    def _compare_checkpoint(self) -> None:
        """Compare the checkpoints of the present version with the log."""
        assert self.snapshot is not None
        for name in self._checkpoints.get(self.snapshot.version.number, ()):
            self._compare_one(self.snapshot, name)

    def _compare_one(self, own: Snapshot, name: str) -> None:
        path = self._log.checkpoint_path(name)
        with suppress(MutatorError):  # of a version index, which is a difference already
            what = difference_of(own, name)
            if what is not None and storage_for(path).stat(path) is not None:  # else an apply has just removed it
                self._damaged.append(Difference(what, self._relative(path), self._again))

    def derived(self) -> list[Difference]:
        """Return the differences of the checkpoints and the hint."""
        found, hint = list(self._damaged), self._hint
        path = self._relative(self._log.hint_path)
        if hint.number is None:
            found.append(Difference("it is missing or damaged", path, self._again))
        elif hint.checkpoint is not None and self._is_lost(hint.checkpoint):
            found.append(Difference(f"it names a checkpoint that does not exist: {hint.checkpoint}", path, self._again))
        return found

    def _is_lost(self, checkpoint: str) -> bool:
        """Return whether a checkpoint is missing that no later one has replaced."""
        number = version_of_checkpoint(checkpoint)
        return checkpoint not in self._checkpoints.get(number, ()) and number >= max(self._checkpoints, default=0)

    def _beyond(self) -> list[Difference]:
        """Return what shows that the newest entries are lost, or are of another table."""
        assert self.snapshot is not None
        newest, hint = self.snapshot.version, self._hint
        witnesses = [
            (number, self._log.checkpoint_path(name)) for number, names in self._checkpoints.items() for name in names
        ]
        if hint.number is not None:
            witnesses.append((hint.number, self._log.hint_path))
        found = []
        for number, path in witnesses:
            if number > newest.number:
                name = posixpath.basename(self._log.entry_path(number))
                what = f"it is of version {number}, whose log entry {name} is missing"
                found.append(Difference(what, self._relative(path), _ENTRY))
        if hint.number == newest.number and hint.id not in (None, newest.id):
            what = "it names another version than the log entry of its number"
            found.append(Difference(what, self._relative(self._log.hint_path), _ENTRY))
        return found

    def _relative(self, path: str) -> str:
        return posixpath.relpath(path, self.table)

    def write_derived(self, derived: Sequence[Difference]) -> list[str]:
        """Remove damaged checkpoints, write one of the newest version, and the hint; return what was done."""
        assert self.snapshot is not None
        done, bases = list[str](), {owner_of_base(name) for name in self.snapshot.state.cleaning.left.bases.values()}
        for one in derived:
            if one.file is not None and one.file.endswith(".files"):
                directory, name = posixpath.split(posixpath.join(self.table, one.file))
                for entry in entries_of(directory):
                    of_version = entry.name.startswith(name.partition("-")[0])  # the file of masks, too
                    # Later checkpoints name packs, and what the log begins with is not derived.
                    if of_version and not entry.name.endswith(".pack") and owner_of_base(entry.name) not in bases:
                        storage_for(directory).remove(entry.path)
                done.append(f"{one.file}: removed; the log has all of it")
        own = forward(self._log, self.snapshot)  # with the versions that were committed during the verification
        files = packed(self._log, own.version.number, own.files, lambda name: self._log.pack(name) is not None)
        name = self._log.write_checkpoint(files, own.state, own.mask_rows())
        if (self._log.hinted().number or 0) <= own.version.number:
            self._log.write_hint(own.version, name, own.state.cleaning.left)
        return [*done, f"made the checkpoint of version {own.version.number} and the hint again"]


def _left_of(table: str) -> Left | None:
    """Return which versions are left; None if the table cannot be opened, which reading the log explains."""
    head = newest_or_none(table)
    return None if head is None else head.state.cleaning.left


def _of_fault(fault: MutatorError, path: str) -> Difference:
    return Difference(fault.why, path, RESTORE)
