"""Old and new images of rows that versions of a table changed.

An overwrite needs no old data file, so its changes do not need one either: the key of an image is in the key index of
its file, or in the version index, and the partition is in the log. Where the data file is damaged, the image has NULL
in all other fields, which is enough to remove the record from a copy of the table, and changes go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.file_entry import FileEntry
from mutator.dataset.partition_index import stored_fields
from mutator.dataset.versions.key_index import decoded_keys
from mutator.dataset.versions.masks import Masks
from mutator.dataset.versions.packs import damaged
from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.versions.earlier_forms import EarlierForms
from mutator.engine.versions.live_rows import LiveRows
from mutator.engine.versions.stored_rows import opened_file, verified_file
from mutator.errors import MutatorError
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.content import NotReadable
from mutator.formats.files.arrow_files import faults
from mutator.formats.files.parquet import opened
from mutator.formats.values.convert import converted
from mutator.formats.values.nested import nulls
from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.partition_paths import values_of
from mutator.rules.typed_values import canonical, unequal
from mutator.table.outlived import check_kept

_TEXT = pa.large_binary()


@dataclass(frozen=True)
class Images:
    """Old or new images: rows of one data file."""

    file: FileEntry
    positions: Ints  # ascending
    keys: Any  # encoded, with the partition where keys are unique only within one; None: not read
    versions: Ints  # that changed the records

    def chosen(self, rows: Ints) -> Images:
        """Return some of the images."""
        keys = None if self.keys is None else self.keys.take(pa.array(rows))
        return replace(self, positions=self.positions[rows], keys=keys, versions=self.versions[rows])


@dataclass(frozen=True)
class ImageReader:
    """Reads the images of a table with the types of one version."""

    snapshot: Snapshot  # of that version
    wanted: Any  # pa.Schema of the rows
    live: LiveRows

    def batches(self, images: Images) -> Iterator[tuple[int, Any]]:
        """Yield (number of the first image, pa.RecordBatch of some images)."""
        table, file = self.snapshot.table, images.file
        forms = EarlierForms(self.snapshot.state, table)
        names, is_whole = forms.stored(file.form, self.wanted.names), len(images.positions) == file.rows
        read = names if is_whole else forms.schema(file.form).names
        try:
            with faults("Parquet"), (verified_file if is_whole else opened_file)(table, file) as stream:
                found = opened(stream)
                if found.metadata.num_rows != file.rows:
                    raise NotReadable(f"it has {found.metadata.num_rows:,} rows and should have {file.rows:,}")
                start = 0
                entries = None if is_whole else self.live.entry_numbers(file)[images.positions]
                for number in range(found.metadata.num_row_groups):
                    end = start + found.metadata.row_group(number).num_rows
                    first, last = np.searchsorted(images.positions, [start, end])
                    if first < last:
                        rows = found.read_row_group(number, columns=read, use_threads=False)
                        rows = rows.take(pa.array(images.positions[first:last] - start))
                        if entries is not None:
                            rows = self.live.checked(file, rows, entries[first:last])
                        batches = forms.evolved(rows.select(names), file.form, self.wanted).to_batches()
                        for batch in batches:
                            yield int(first), batch
                            first += batch.num_rows
                    start = end
        except NotReadable as fault:
            raise damaged(table, file, fault) from None

    def rows(self, parts: Sequence[Images]) -> Any:
        """Return all images as a pa.StructArray, in order."""
        found = [batch for images in parts for _, batch in self.batches(images)]
        return pa.StructArray.from_arrays(
            [column.combine_chunks() for column in pa.Table.from_batches(found, self.wanted).columns],
            fields=list(self.wanted),
        )


def differing_rows(
    removed: Iterable[FileEntry],
    both: Iterable[FileEntry],
    added: Iterable[FileEntry],
    before: Masks,
    after: Masks,
) -> tuple[list[tuple[FileEntry, Ints]], list[tuple[FileEntry, Ints]]]:
    """Return the rows, by file and position, that only the first of two snapshots has, and those of the second alone.

    removed, both, added: files of the first one, of both, and of the second one. before, after: their masks.
    """
    old, new = list[tuple[FileEntry, Ints]](), list[tuple[FileEntry, Ints]]()
    for file in removed:
        old.append((file, np.setdiff1d(np.arange(file.rows), before.hidden(file.path))))
    for file in both:
        first, second = before.hidden(file.path), after.hidden(file.path)
        old.append((file, np.setdiff1d(second, first)))
        new.append((file, np.setdiff1d(first, second)))
    for file in added:
        new.append((file, np.setdiff1d(np.arange(file.rows), after.hidden(file.path))))
    return [one for one in old if len(one[1])], [one for one in new if len(one[1])]


def keys_of(parts: Sequence[Images]) -> Any:
    """Return the keys of images, one part after the other."""
    return pa.concat_arrays([pa.array([], pa.large_binary()), *(images.keys for images in parts)])


def by_position(parts: Sequence[Images]) -> Images:
    """Return images of one file as one, by position."""
    positions = np.concatenate([part.positions for part in parts])
    versions = np.concatenate([part.versions for part in parts])
    whole = Images(parts[0].file, positions, keys_of(parts), versions)
    return whole.chosen(np.argsort(positions))


def with_versions(parts: Sequence[Images], versions: Ints) -> list[Images]:
    """Return images with other versions. versions: of all images, in order."""
    ends = np.cumsum([len(images.positions) for images in parts])
    return [replace(images, versions=own) for images, own in zip(parts, np.split(versions, ends[:-1]), strict=True)]


def chosen_of(parts: Sequence[Images], rows: Flags) -> list[Images]:
    """Return some of the images of several files. rows: for each image, whether it is wanted."""
    ends = np.cumsum([len(images.positions) for images in parts])
    return [images.chosen(np.flatnonzero(own)) for images, own in zip(parts, np.split(rows, ends[:-1]), strict=True)]


@dataclass(frozen=True)
class OldImageReader(ImageReader):
    """Reads the images of rows that are gone; those that an overwrite replaced may be in damaged data files."""

    replaced: set[str] = field(default_factory=set)  # paths of files whose rows an overwrite removed or hid
    lost: set[str] = field(default_factory=set)  # those of them whose rows could not be read so far
    start: int = 0  # version of the earlier snapshot
    # Path of a file -> the fields whose values it has, but the earlier snapshot does not show, and what this has
    # instead: a pa.Array of one value, or None for NULL.
    absent: dict[str, dict[str, Any]] = field(default_factory=dict)

    def batches(self, images: Images) -> Iterator[tuple[int, Any]]:
        """Yield as ``ImageReader.batches`` does; from where a file is damaged on, images with keys alone."""
        done = 0
        try:
            for first, batch in super().batches(images):
                yield first, self._without_absent(images.file.path, batch)
                done = first + batch.num_rows
        except MutatorError as fault:
            if fault.kind != "table.file" or images.file.path not in self.replaced:
                raise
            check_kept(self.snapshot, self.start)  # else the file is not lost, but cleaned
            rest = self._with_keys_alone(images.chosen(np.arange(done, len(images.positions))))
            if rest is None:
                raise
            self.lost.add(images.file.path)
            yield done, rest

    def _without_absent(self, path: str, batch: Any) -> Any:
        absent = self.absent.get(path)
        if absent is None:
            return batch
        columns = []
        for one, column in zip(batch.schema, batch.columns, strict=True):
            value = absent.get(one.name, column)
            if value is None:
                column = nulls(batch.num_rows, one.type)
            elif value is not column:
                column = pa.repeat(converted(value, one.type, True)[0][0], batch.num_rows)
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def _with_keys_alone(self, images: Images) -> Any:
        """Return images, a pa.RecordBatch; None if what is known of a row does not identify its record."""
        spec, count = self.snapshot.state.spec, len(images.positions)
        names, fields = list(spec["key"]["fields"]), stored_fields(spec)
        by_partition = self.snapshot.state.key_scope == "partition"
        derived = (one.source for one in fields if one.transform != "identity")
        if by_partition and any(source not in names for source in derived):
            return None
        columns = dict(zip(names, decoded_keys(images.keys, len(names) + by_partition)[by_partition:], strict=True))
        known = {one.name: one.source for one in fields if one.transform == "identity" and one.source not in columns}
        for name, column in _partition_columns(images).items():
            if name in known:
                columns[str(known[name])] = column
        arrays = []
        for one in self.wanted:
            column = columns.get(one.name, pa.nulls(count, _TEXT))
            found, bad, _ = converted(column, one.type, typed=one.name not in columns)
            is_whole = not bad.any() and (one.nullable or not found.null_count)
            if not is_whole or (one.name in names and not canonical(found).equals(column)):
                return None
            arrays.append(found)
        return pa.RecordBatch.from_arrays(arrays, schema=self.wanted)


def _partition_columns(images: Images) -> dict[str, Any]:
    """Return the values of the partition fields of images, as text (pa.Array of large_binary), by name."""
    extents = images.file.extents
    numbers = np.searchsorted(np.cumsum([one.rows for one in extents]), images.positions, "right")
    values = [dict(values_of(one.partition)) if one.partition else {} for one in extents]
    found = {}
    for name in dict.fromkeys(name for own in values for name in own):
        texts = [own.get(name) for own in values]
        encoded = [None if text is None else text.encode("utf-8", "surrogateescape") for text in texts]
        found[name] = pa.array(encoded, _TEXT).take(pa.array(numbers))
    return found


def equal_pairs(
    readers: tuple[OldImageReader, ImageReader],
    old: Sequence[Images],
    updated: Flags,
    new: Sequence[Images],
    pairs: Ints,
    ignored: Sequence[str],
) -> Flags:
    """Return which pairs have two images that are equal, but for fields that do not count.

    updated: of the old ones. pairs: numbers of the new ones. ignored: names of those fields. Of old images with keys
    alone, the row hashes decide, as in the overwrite.
    """
    order = np.argsort(pairs)
    chosen = np.zeros(sum(len(images.positions) for images in new), np.bool_)
    chosen[pairs] = True
    parts = chosen_of(old, updated), chosen_of(new, chosen)
    one, other = (_counted(reader.rows(own), ignored) for reader, own in zip(readers, parts, strict=True))
    back = np.empty(len(pairs), np.int64)
    back[order] = np.arange(len(pairs))
    equal = ~unequal(one, other.take(pa.array(back)))
    lost = readers[0].lost
    is_lost = np.concatenate([np.full(len(own.positions), own.file.path in lost) for own in parts[0]])
    if is_lost.any():
        (first, form), (second, later) = (_row_hashes(reader, own) for reader, own in zip(readers, parts, strict=True))
        alike = (first == second[back]) & (form == later[back])
        equal = np.where(is_lost, alike, equal)
    return equal


def _counted(rows: Any, ignored: Sequence[str]) -> Any:
    """Return the fields that count of rows, a pa.StructArray."""
    if not ignored:
        return rows
    fields = [one for one in rows.type if one.name not in ignored]
    return pa.StructArray.from_arrays([rows.field(one.name) for one in fields], fields=fields)


def _row_hashes(reader: ImageReader, parts: Sequence[Images]) -> tuple[Any, Ints]:
    """Return (row hash, schema) of each image."""
    hashes, forms = [np.zeros(0, np.uint32)], [np.zeros(0, np.int64)]
    for own in parts:
        if len(own.positions):
            entries = reader.live.entry_numbers(own.file)[own.positions]
            hashes.append(reader.live.row_hashes(own.file, entries))
            forms.append(np.full(len(own.positions), own.file.form))
    return np.concatenate(hashes), np.concatenate(forms)
