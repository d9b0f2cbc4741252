"""Old and new images of rows that versions of a table changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.file_entry import FileEntry
from mutator.dataset.versions.masks import Masks
from mutator.dataset.versions.packs import damaged
from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.versions.earlier_forms import EarlierForms
from mutator.engine.versions.live_rows import LiveRows, opened_file, verified_file
from mutator.formats.content import NotReadable
from mutator.formats.files.arrow_files import faults
from mutator.formats.files.parquet import opened
from mutator.rules.byte_columns import Flags, Ints


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
