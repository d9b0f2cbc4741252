"""The rows that changed between two snapshots of a table, as Arrow batches.

A row that a version hides, or whose file it removes, is an old image; a row of a file that it adds is a new one. An old
and a new image of one key are an update. Tombstones are not rows: a delete is a change if it removed a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.commits import COMPACT, OVERWRITES, RESTORE, Commit
from mutator.dataset.file_entry import DATA, FileEntry
from mutator.dataset.versions.hidden_rows import Hidden
from mutator.dataset.versions.key_index import encoded_keys
from mutator.dataset.versions.masks import Masks, index_of, older_rows, own_rows
from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.versions.earlier_forms import EarlierForms
from mutator.engine.versions.live_rows import LiveRows
from mutator.errors import MutatorError, error
from mutator.errors.display import counted
from mutator.plan.rows.row_plan import IGNORED
from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.order_columns import flags
from mutator.table.earlier_files import DataFiles
from mutator.table.images import (
    ImageReader,
    Images,
    OldImageReader,
    by_position,
    chosen_of,
    differing_rows,
    equal_pairs,
    keys_of,
    with_versions,
)
from mutator.table.scan import schema_of
from mutator.table.version_times import microseconds_of

INSERT, DELETE, BEFORE, AFTER = "insert", "delete", "update_preimage", "update_postimage"
FIELDS = (
    pa.field("_change_type", pa.string(), nullable=False),
    pa.field("_commit_version", pa.int64(), nullable=False),
    pa.field("_commit_timestamp", pa.timestamp("us", "UTC"), nullable=False),
)

_NONE = np.zeros(0, np.int64)


def changes_schema(snapshot: Snapshot) -> Any:
    """Return the pa.Schema of changes up to a version: the fields of a change, then those of its rows."""
    rows = schema_of(snapshot)
    for field in FIELDS:
        if rows.get_field_index(field.name) >= 0:
            raise error("table.changes.field", path=snapshot.table, name=field.name)
    return pa.schema([*FIELDS, *rows])


class ChangedRows:
    """The changes between two snapshots."""

    def __init__(
        self,
        before: Snapshot,
        after: Snapshot,
        versions: Iterable[Commit],
        files: DataFiles,
        typed_as: Snapshot | None = None,
    ) -> None:
        """Read nothing yet.

        versions: those between the snapshots. files: of the earlier one; the snapshots need none. typed_as: has the
        schema of the rows.
        """
        typed_as = typed_as or after
        self._before, self._after, self._files = before, after, files
        self._ignored: Sequence[str] = after.state.spec.get(IGNORED, ())  # later versions may ignore others
        self._added: dict[str, tuple[FileEntry, int]] = {}  # data files of the later snapshot, with their versions
        self._by_partition = typed_as.state.key_scope == "partition"
        self._live = LiveRows(after)
        rows = schema_of(typed_as)
        self._old_rows = OldImageReader(typed_as, rows, self._live, start=before.version.number)
        self._readers = self._old_rows, ImageReader(typed_as, rows, self._live)
        self._committed: dict[int, int] = {}  # version -> commit time in microseconds
        self._hidden: dict[str, list[Images]] = {}  # file of the earlier snapshot -> images
        self._ends: list[Images] = []  # of all hidden rows, in the order of the versions
        self._several = after.version.number > before.version.number + 1  # versions
        self._replaced = False  # some version wrote rows again
        self._overwrite: int | None = None  # the last version that is an overwrite
        self._moved = False  # some version was a compaction, or a restore
        self._restored = False  # some version was a restore
        self._away = set[str]()  # files of the earlier snapshot that were removed, and not added again
        self._written: list[Images] = []  # rows that other versions added, if some version moved rows, oldest first
        self._withdrawn = set[str]()  # files of versions that have withdrawn rows
        self._again: dict[str, FileEntry] = {}  # files of the earlier snapshot in which a restore shows more values
        self._chain = versions

    def batches(self) -> Iterator[Any]:
        """Yield the changes: old images first, then new ones. Raises StateError for damaged files."""
        try:
            self._survey(self._chain)
            yield from self._batches()
        except MutatorError as fault:
            if fault.kind != "table.file" or self._overwrite is None:
                raise
            fields = {name: fault.fields[name] for name in ("path", "why")}
            raise error("table.changes.damaged", **fields, version=self._overwrite) from None

    def _batches(self) -> Iterator[Any]:
        old, new = self._difference() if self._restored else (self._old(), self._new())
        if self._moved:
            old, new = self._without_moved(old, new)
        if not old:
            inserted = np.zeros(sum(len(images.positions) for images in new), np.bool_)
            yield from self._typed(1, new, inserted, ~inserted, (INSERT, AFTER))
            return
        old_keys, new_keys = keys_of(old), keys_of(new)
        partners = pc.index_in(old_keys, value_set=new_keys)
        updated_old, updated_new = flags(partners.is_valid()), flags(pc.is_in(new_keys, value_set=old_keys))
        pairs = partners.drop_null().cast(pa.int64()).to_numpy()
        kept_old, kept_new = np.ones(len(old_keys), np.bool_), np.ones(len(new_keys), np.bool_)
        if len(pairs) and (self._replaced or self._several or self._restored or self._ignored):
            unchanged = equal_pairs(self._readers, old, updated_old, new, pairs, self._ignored)
            kept_old[np.flatnonzero(updated_old)[unchanged]] = False
            kept_new[pairs[unchanged]] = False
        versions = self._versions(old_keys)
        versions[updated_old] = np.concatenate([_NONE, *(images.versions for images in new)])[pairs]
        yield from self._typed(0, with_versions(old, versions), updated_old, kept_old, (DELETE, BEFORE))
        yield from self._typed(1, new, updated_new, kept_new, (INSERT, AFTER))

    def _without_moved(self, old: list[Images], new: list[Images]) -> tuple[list[Images], list[Images]]:
        """Leave out the rows that compactions alone moved; return (old images, new ones with the version of each)."""

        def changed(parts: Sequence[Images], by: Sequence[Images]) -> Iterator[Images]:
            keys, last = keys_of(by[::-1]), np.concatenate([_NONE, *(images.versions for images in by[::-1])])
            for images in parts:
                at = pc.index_in(images.keys, value_set=keys)
                rows = np.flatnonzero(flags(at.is_valid()))
                if len(rows):
                    yield replace(images.chosen(rows), versions=last[at.drop_null().to_numpy()])

        return list(changed(old, self._ends)), list(changed(new, self._written))

    def _survey(self, versions: Iterable[Commit]) -> None:
        """Collect the hidden rows of data files, and the rows of files that were removed."""
        added: dict[str, FileEntry] = {}
        versions = list(versions)
        self._check_keys(versions)
        self._moved = any(version.action in (COMPACT, RESTORE) for version in versions)
        self._restored = any(version.action == RESTORE for version in versions)
        if self._restored:
            self._find_values_again()
        masks = self._before.masks
        for version in versions:
            self._committed[version.number] = microseconds_of(version.committed)
            earlier, masks = masks, masks.after(version)
            if version.restored is not None:
                self._restore(version, earlier, masks)
                added |= {file.path: file for file in version.files if file.role == DATA}
                continue
            is_change = version.action != COMPACT
            if version.action in OVERWRITES:
                self._overwrite = version.number
                self._old_rows.replaced.update(version.removed)
            index = index_of(version)
            self._withdrawn |= index.own
            for found in older_rows(self._after.table, index):
                known = self._files.find(found.files)
                if version.action in OVERWRITES:
                    self._old_rows.replaced.update(found.files)
                for path in found.files:
                    file = known.get(path) or added.get(path)
                    positions = found.hidden(path)
                    if file is None or not len(positions):
                        continue
                    images = self._images(file, positions, found.hidden_keys(path), version.number)
                    if is_change:
                        self._ends.append(images)
                    if path in known:
                        self._hidden.setdefault(path, []).append(images)
            self._replaced = self._replaced or bool(version.removed) or version.action in OVERWRITES
            known = self._files.find(version.removed)
            for path in version.removed:
                if path in known:
                    self._away.add(path)
                    images = self._removed(known[path], version.number, earlier)
                    self._hidden.setdefault(path, []).append(images)
                elif path in added and is_change:
                    images = self._removed(added[path], version.number, earlier)
                else:
                    continue
                if is_change:
                    self._ends.append(images)
            for path in version.removed:
                self._added.pop(path, None)
            new = {file.path: file for file in version.files if file.role == DATA}
            added |= new
            self._added |= {path: (file, version.number) for path, file in new.items()}
            if self._moved and is_change:
                out = own_rows(self._after.table, index)
                self._written += [self._of_version(file, version.number, out) for file in new.values()]

    def _find_values_again(self) -> None:
        """Find the files of the earlier snapshot with values that only the later one shows: all of their rows change.

        The fields were removed before the earlier snapshot, perhaps added again, and a restore undid that.
        """
        forms, known = (
            EarlierForms(self._after.state, self._after.table),
            EarlierForms(self._before.state, self._before.table),
        )
        earlier = {*known.schema().names}

        @cache
        def again(form: int) -> dict[str, Any]:
            names = (name for name in forms.schema().names if forms.has(form, name))
            fields = {name: known.schema().field(name) if name in earlier else None for name in names}
            return {
                name: None if field is None else known.value(form, field)
                for name, field in fields.items()
                if field is None or not known.has(form, name)
            }

        self._again = self._files.of_schemas(lambda form: bool(again(form)))
        self._old_rows.absent.update({path: again(file.form) for path, file in self._again.items()})

    def _check_keys(self, versions: Sequence[Commit]) -> None:
        """Raise StateError if a version has replaced records whose keys were not known."""
        for version in versions:
            if version.lost:
                lost = counted(version.lost, "record")
                raise error("table.changes.lost", path=self._after.table, version=version.number, lost=lost)

    def _restore(self, version: Commit, before: Masks, after: Masks) -> None:
        """Collect what a restore changes. before, after: the masks of the version before it, and its own."""
        removed = {path: file for path, (file, _) in self._added.items() if path in version.removed}
        removed |= self._files.find([path for path in version.removed if path not in self._away])
        new = {file.path: file for file in version.files if file.role == DATA}
        masked = (before.files() | after.files()) - self._away - removed.keys() - new.keys()
        both = {path: file for path, (file, _) in self._added.items() if path in masked} | self._files.find(masked)
        parts = self._differing(removed, both, new, before, after)
        hidden, shown = (self._at(rows, version.number) for rows in parts)
        if self._several:  # else they are compared later
            hidden, shown = self._without_equal(hidden, shown)
        self._ends += hidden
        self._written += shown
        again = self._files.find(new)
        self._away = (self._away | self._files.find(removed).keys()) - again.keys()
        for path in removed:
            self._added.pop(path, None)
        self._added |= {path: (file, version.number) for path, file in new.items() if path not in again}

    def _without_equal(self, old: list[Images], new: list[Images]) -> tuple[list[Images], list[Images]]:
        """Leave out the rows that are only in other files, because a restore undid a compaction."""
        partners = pc.index_in(keys_of(old), value_set=keys_of(new))
        updated, pairs = flags(partners.is_valid()), partners.drop_null().cast(pa.int64()).to_numpy()
        if not len(pairs):
            return old, new
        unchanged = equal_pairs(self._readers, old, updated, new, pairs, self._ignored)
        kept_old, kept_new = np.ones(len(updated), np.bool_), np.ones(len(keys_of(new)), np.bool_)
        kept_old[np.flatnonzero(updated)[unchanged]] = False
        kept_new[pairs[unchanged]] = False
        return chosen_of(old, kept_old), chosen_of(new, kept_new)

    def _difference(self) -> tuple[list[Images], list[Images]]:
        """Return the rows that only one of the snapshots has, of each of them."""
        before, after = self._before.masks, self._after.masks
        removed = self._files.find(self._away)
        both = self._files.find((before.files() | after.files()) - self._away)
        new = {path: file for path, (file, _) in self._added.items()}
        old_rows, new_rows = self._differing(removed, both, new, before, after)
        return self._at(old_rows), self._at(new_rows)

    def _differing(
        self,
        removed: Mapping[str, FileEntry],
        both: Mapping[str, FileEntry],
        new: Mapping[str, FileEntry],
        before: Masks,
        after: Masks,
    ) -> tuple[list[tuple[FileEntry, Ints]], list[tuple[FileEntry, Ints]]]:
        """Return what ``differing_rows`` does, and all rows of the files with more values."""
        kept = self._again.keys() - removed.keys() - new.keys() - self._away
        again = [self._again[path] for path in sorted(kept)]
        others = [file for path, file in both.items() if path not in kept]
        return differing_rows([*removed.values(), *again], others, [*new.values(), *again], before, after)

    def _at(self, rows: Sequence[tuple[FileEntry, Ints]], version: int = 0) -> list[Images]:
        return [self._images(file, positions, self._keys_at(file, positions), version) for file, positions in rows]

    def _of_version(self, file: FileEntry, version: int, withdrawn: Sequence[Hidden]) -> Images:
        """Return the rows of a file that a version added, without those that it has withdrawn."""
        gone = np.concatenate([_NONE, *(one.hidden(file.path) for one in withdrawn)])
        positions = np.setdiff1d(np.arange(file.rows), gone)
        return self._images(file, positions, self._keys_at(file, positions), version)

    def _removed(self, file: FileEntry, version: int, before: Masks) -> Images:
        """Return the rows of a file that were live when it was removed. before: the masks of the version before."""
        positions = np.setdiff1d(np.arange(file.rows), before.hidden(file.path))
        return self._images(file, positions, self._keys_at(file, positions), version)

    def _keys_at(self, file: FileEntry, positions: Ints) -> Any:
        """Return the encoded keys of the rows of a file at some positions."""
        keys = self._live.keys(file)
        return keys if len(positions) == file.rows else keys.take(pa.array(positions))

    def _images(self, file: FileEntry, positions: Ints, keys: Any, version: int) -> Images:
        if self._by_partition:
            ends = np.cumsum([extent.rows for extent in file.extents])
            numbers = np.searchsorted(ends, positions, "right")
            names = pa.array([(extent.partition or "").encode() for extent in file.extents], pa.large_binary())
            keys = encoded_keys([names.take(pa.array(numbers)), keys])
        return Images(file, positions, keys, np.full(len(positions), version))

    def _old(self) -> list[Images]:
        """Return the old images, file by file."""
        return [by_position(parts) for parts in self._hidden.values()]

    def _new(self) -> list[Images]:
        """Return the new images, file by file; without keys if there are no old ones."""
        found = []
        for file, version in self._added.values():
            # A version hides only older rows, but for those that it has withdrawn.
            is_masked = self._several or file.path in self._withdrawn
            hidden = self._after.masks.hidden(file.path) if is_masked else _NONE
            positions = np.setdiff1d(np.arange(file.rows), hidden) if len(hidden) else np.arange(file.rows)
            if self._hidden or self._moved:
                found.append(self._images(file, positions, self._keys_at(file, positions), version))
            else:  # all of them are inserts
                found.append(Images(file, positions, None, np.full(len(positions), version)))
        return found

    def _versions(self, keys: Any) -> Ints:
        """Return the last version that hid a row of each key."""
        latest = self._ends[::-1]
        rows = pc.index_in(keys, value_set=keys_of(latest)).to_numpy()
        found: Ints = np.concatenate([images.versions for images in latest])[rows]
        return found

    def _typed(
        self, side: int, parts: Sequence[Images], updated: Flags, kept: Flags, names: tuple[str, str]
    ) -> Iterator[Any]:
        """Yield images with the fields of a change.

        side: 0 for old images, 1 for new ones. names: of the change of a record alone, and of one of a pair.
        """
        reader, start = self._readers[side], 0
        schema = changes_schema(reader.snapshot)
        for images in parts:
            end = start + len(images.positions)
            rows, pair = np.flatnonzero(kept[start:end]), updated[start:end]
            start = end
            if not len(rows):
                continue
            own = images.chosen(rows)
            pair = pair[rows]
            times = _times(own.versions, self._committed)
            for first, batch in reader.batches(own):
                last = first + batch.num_rows
                types = pa.DictionaryArray.from_arrays(pa.array(pair[first:last].astype(np.int8)), pa.array(names))
                added = [
                    types.cast(pa.string()),
                    pa.array(own.versions[first:last]),
                    times.slice(first, batch.num_rows),
                ]
                yield pa.RecordBatch.from_arrays([*added, *batch.columns], schema=schema)


def _times(versions: Ints, committed: dict[int, int]) -> Any:
    """Return the commit time of each version."""
    known, numbers = np.unique(versions, return_inverse=True)
    times = np.array([committed[int(version)] for version in known], np.int64)
    return pa.array(times[numbers], pa.timestamp("us", "UTC"))
