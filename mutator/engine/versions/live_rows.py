"""Rows of the live files of a table at some positions, and the entries of their key indexes."""

from __future__ import annotations

import io
import posixpath
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from mutator.dataset.versions.key_index import KeyIndex
from mutator.dataset.versions.paged_file import DamagedPage
from mutator.dataset.versions.snapshot import LiveExtent, Snapshot, content_of, damaged
from mutator.dataset.versions.version import Stored, TableFile
from mutator.engine.versions.earlier_forms import Forms
from mutator.errors import MutatorError
from mutator.formats.blocks.column_rows import ColumnBlock, ColumnLayout, trusted_block
from mutator.formats.content import NotReadable
from mutator.formats.files.arrow_files import faults
from mutator.formats.files.parquet import opened
from mutator.rules.byte_columns import Ints
from mutator.rules.key_hash import Hashes
from mutator.rules.row_hash import RowHashes
from mutator.storage import storage_for

_BATCH = 1 << 12  # rows that are decoded at once


class LiveRows:
    """The live files of a snapshot, read where they are needed."""

    def __init__(self, snapshot: Snapshot, *, by_file_name: bool) -> None:
        """Read nothing yet. by_file_name: the key indexes have sequences."""
        self.snapshot = snapshot
        self._by_file_name = by_file_name
        self._indexes: dict[str, KeyIndex] = {}
        self.forms = Forms(snapshot.state, snapshot.table)

    def find(self, extent: LiveExtent, hashes: Hashes, keys: Any) -> tuple[Ints, Ints, Ints]:
        """Return (numbers of the wanted keys, entries, positions) of the live rows of an extent with wanted keys.

        hashes, keys: as ``KeyIndex.find`` takes them. Raises StateError for a damaged index.
        """
        file = extent.file
        with self._verified(file):
            index = self.index(file)
            numbers, entries = index.find(hashes, keys, extent.start, extent.end)
            positions = index.positions(entries)
        live = self.are_live(file, positions)
        return numbers[live], entries[live], positions[live]

    def are_live(self, file: TableFile, positions: Ints) -> Any:
        """Return which rows of a file are not hidden."""
        hidden = self.snapshot.masks.hidden(file.path)
        if not len(hidden):
            return np.ones(len(positions), np.bool_)
        at = np.minimum(np.searchsorted(hidden, positions), len(hidden) - 1)
        return hidden[at] != positions

    def entries(self, extent: LiveExtent) -> tuple[Hashes, Any, Ints]:
        """Return (hashes, encoded keys, positions) of all rows of an extent, hidden ones too, by hash."""
        with self._verified(extent.file):
            index = self.index(extent.file)
            entries = np.arange(extent.start, extent.end)
            return index.hashes(extent.start, extent.end), index.keys(entries), index.positions(entries)

    def keys(self, file: TableFile) -> Any:
        """Return the encoded keys of all rows of a file, in the order of the rows."""
        with self._verified(file):
            return self.index(file).keys(self.entry_numbers(file))

    def entry_numbers(self, file: TableFile) -> Ints:
        """Return the number of the entry of each row of a file, in the order of the rows."""
        with self._verified(file):
            entries = np.arange(file.rows)
            found = np.empty(file.rows, np.int64)
            found[self.index(file).positions(entries)] = entries
            return found

    def row_hashes(self, file: TableFile, entries: Ints) -> RowHashes:
        """Return the row hashes of some entries."""
        with self._verified(file):
            return self.index(file).row_hashes(entries)

    def sequences(self, file: TableFile, entries: Ints) -> Ints:
        """Return the sequences of the rows of some entries."""
        with self._verified(file):
            return self.index(file).sequences(entries)

    @contextmanager
    def _verified(self, file: TableFile) -> Iterator[None]:
        try:
            yield
        except DamagedPage as fault:
            raise damaged(self.snapshot.table, file.index, fault) from None

    def index(self, file: TableFile) -> KeyIndex:
        """Return the key index of a file. Raises DamagedPage, StateError."""
        if file.index.path not in self._indexes:
            stored, table = file.index, self.snapshot.table
            path = posixpath.join(table, stored.path)
            try:
                self._indexes[stored.path] = KeyIndex.open(
                    path,
                    file.rows,
                    stored.bytes,
                    stored.checksum,
                    sequences=self._by_file_name,
                    content=stored.inline,
                )
            except MutatorError as fault:
                if fault.kind != "storage.missing":
                    raise
                raise damaged(table, stored, "it is missing") from None
        return self._indexes[file.index.path]

    def rows(self, file: TableFile, positions: Ints, layout: ColumnLayout) -> ColumnBlock:
        """Return the rows of a file at some positions, which are ascending, with the types of a layout's result."""
        present = self.forms.schema()
        layout = replace(layout, schema=present)
        wanted = pa.schema([present.field(name) for name in layout.wanted])
        names = self.forms.stored(file.schema, wanted.names)
        table, data = self.snapshot.table, file.data
        try:
            found = taken_rows(table, data, file.rows, positions, names)
            evolved = (self.forms.evolved(part, file.schema, wanted).combine_chunks() for part in found)
            batches = [batch for part in evolved for batch in part.to_batches()]
        except NotReadable as fault:
            raise damaged(table, data, fault) from None
        return trusted_block(batches, positions, layout)


def taken_rows(table: str, data: Stored, rows: int, positions: Ints, names: Sequence[str]) -> list[Any]:
    """Return the rows of a Parquet file of a table at some positions: a pa.Table for each row group that has any.

    rows: of the file. positions: ascending. names: of the wanted columns.
    """
    try:
        with faults("Parquet"), opened_file(table, data) as stream:
            file = opened(stream)
            if file.metadata.num_rows != rows:
                raise NotReadable(f"it has {file.metadata.num_rows:,} rows and should have {rows:,}")
            return list(_taken(file, positions, names))
    except NotReadable as fault:
        raise damaged(table, data, fault) from None


def _taken(file: Any, positions: Ints, names: Sequence[str]) -> Iterator[Any]:
    """Yield the rows at some positions of each row group that has any, a pa.Table."""
    start = 0
    for number in range(file.metadata.num_row_groups):
        end = start + file.metadata.row_group(number).num_rows
        first, last = np.searchsorted(positions, [start, end])
        if first < last:
            wanted = positions[first:last] - start
            yield _head(file, number, list(names), int(wanted[-1]) + 1).select(names).take(pa.array(wanted))
        start = end


def _head(file: Any, number: int, names: list[str], count: int) -> Any:
    """Return the first rows of a row group, a pa.Table of at least ``count`` rows."""
    if count > file.metadata.row_group(number).num_rows // 2:  # this is faster than batches
        return file.read_row_group(number, columns=names, use_threads=False)
    found = []
    for batch in file.iter_batches(_BATCH, row_groups=[number], columns=names, use_threads=False):
        found.append(batch)
        count -= batch.num_rows
        if count <= 0:
            break
    return pa.Table.from_batches(found)


def opened_file(table: str, stored: Stored) -> BinaryIO:
    """Open a file of a table for reading. Raises StateError if it is lost or has another size."""
    content = stored.inline
    if content is not None:
        return io.BytesIO(content)
    path = posixpath.join(table, stored.path)
    try:
        stream = storage_for(path).open(path)
    except MutatorError as fault:
        if fault.kind != "storage.missing":
            raise
        raise damaged(table, stored, "it is missing") from None
    size = stream.seek(0, 2)
    stream.seek(0)
    if size != stored.bytes:
        stream.close()
        raise damaged(table, stored, f"it has {size:,} bytes and should have {stored.bytes:,}")
    return stream


def taken_tombstones(table: str, data: Stored, rows: int, positions: Ints) -> Any:
    """Return the tombstones of a file at some positions, a pa.Table. rows: of the file."""
    try:
        with faults("Parquet"), io.BytesIO(content_of(table, data)) as stream:
            found = opened(stream).read()
            if found.num_rows != rows:
                raise NotReadable(f"it has {found.num_rows:,} rows and should have {rows:,}")
            return found.take(pa.array(positions)).combine_chunks()
    except NotReadable as fault:
        raise damaged(table, data, fault) from None
