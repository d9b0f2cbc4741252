"""Files of a table: opened, verified, and their rows at some positions."""

from __future__ import annotations

import io
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from mutator.dataset import checksum
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.versions.packs import content_of, damaged, inline_of
from mutator.errors import MutatorError
from mutator.formats.content import NotReadable
from mutator.formats.files.arrow_files import faults
from mutator.formats.files.parquet import opened
from mutator.rules.byte_columns import Ints
from mutator.storage import blocks, storage_for

IN_MEMORY = 64 << 20  # bytes of a remote file that is read once
_BATCH = 1 << 12  # rows that are decoded at once


def taken_rows(
    table: str, data: FileEntry, rows: int, positions: Ints, names: Sequence[str], *, is_verified: bool = False
) -> list[Any]:
    """Return the rows of a Parquet file of a table at some positions: a pa.Table for each row group that has any.

    rows: of the file. positions: ascending. names: of the wanted columns. is_verified: as of ``opened``.
    """
    try:
        with faults("Parquet"), opened_file(table, data) as stream:
            file = opened(stream, is_verified=is_verified)
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


class VerifiedFile:
    """A Parquet file of a table whose bytes all have been verified, for several threads to read."""

    def __init__(self, table: str, stored: FileEntry) -> None:
        """Verify the file, and read its footer. Raises StateError if it is lost or damaged; else as ``opened`` does."""
        self._table, self._stored = table, stored
        self._shared = _verified_source(table, stored)
        if self._shared is None:
            _verified_stream(table, stored).close()
        self.metadata: Any = None  # pq.FileMetaData
        with self.opened() as file:
            self.metadata = file.metadata

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Open the file as a pq.ParquetFile of its own. A large one of a remote storage is sent again."""
        with self.source() as source:
            yield opened(source, is_verified=self._shared is not None, metadata=self.metadata)

    @contextmanager
    def source(self) -> Iterator[Any]:
        """Yield a pa.NativeFile that all threads share, or a stream of a large file of a remote storage."""
        if self._shared is not None:
            yield self._shared
            return
        with opened_file(self._table, self._stored) as stream:
            yield stream


def opened_file(table: str, stored: FileEntry) -> BinaryIO:
    """Open a file of a table for reading. Raises StateError if it is lost or has another size."""
    content = inline_of(table, stored)
    if content is not None:
        return io.BytesIO(content)
    path = posixpath.join(table, stored.path)
    with _there(table, stored):
        stream = storage_for(path).open(path)
    size = stream.seek(0, 2)
    stream.seek(0)
    if size != stored.bytes:
        stream.close()
        raise damaged(table, stored, f"it has {size:,} bytes and should have {stored.bytes:,}")
    return stream


@contextmanager
def _there(table: str, stored: FileEntry) -> Iterator[None]:
    """Raise StateError for a file of a table that is missing."""
    try:
        yield
    except MutatorError as fault:
        if fault.kind != "storage.missing":
            raise
        raise damaged(table, stored, "it is missing") from None


def verified_file(table: str, stored: FileEntry) -> Any:
    """Open a file of a table whose bytes all have been verified. Raises StateError if it is lost or damaged."""
    source = _verified_source(table, stored)
    return _verified_stream(table, stored) if source is None else source


def _verified_source(table: str, stored: FileEntry) -> Any:
    """Open a file whose bytes have been verified as a pa.NativeFile; None for a large one of a remote storage.

    Several threads can read it at the same time: a local file without the lock of Python, any other in memory.
    """
    path = posixpath.join(table, stored.path)
    storage = storage_for(path)
    if not stored.is_apart or (stored.bytes <= IN_MEMORY and not storage.holds):
        return pa.BufferReader(content_of(table, stored))
    if not storage.holds:
        return None
    opened_file(table, stored).close()
    with _there(table, stored):
        source = storage.native(path)
    if source is not None:
        _compare(table, stored, blocks(source))
        source.seek(0)
    return source


def _verified_stream(table: str, stored: FileEntry) -> BinaryIO:
    """Open a file whose bytes have been verified. A storage may give other bytes when they are read again."""
    stream = opened_file(table, stored)
    try:
        _compare(table, stored, blocks(stream))
    except MutatorError:
        stream.close()
        raise
    stream.seek(0)
    return stream


def _compare(table: str, stored: FileEntry, content: Iterable[Any]) -> None:
    """Raise StateError for bytes that have another checksum than the file should have."""
    found = checksum.of_blocks(content, checksum.chunk_of(stored.checksum))
    if found != stored.checksum:
        raise damaged(table, stored, f"its checksum is {found} and should be {stored.checksum}")


def stays_verified(table: str, stored: FileEntry) -> bool:
    """Return whether a file that was verified has the same bytes when it is opened again: it is local, or in the log.

    A remote storage sends a file twice, and the second time its bytes may differ.
    """
    return not stored.is_apart or storage_for(posixpath.join(table, stored.path)).holds


def taken_tombstones(table: str, data: FileEntry, rows: int, positions: Ints) -> Any:
    """Return the tombstones of a file at some positions, a pa.Table. rows: of the file."""
    try:
        with faults("Parquet"), io.BytesIO(content_of(table, data)) as stream:
            found = opened(stream).read()
            if found.num_rows != rows:
                raise NotReadable(f"it has {found.num_rows:,} rows and should have {rows:,}")
            return found.take(pa.array(positions)).combine_chunks()
    except NotReadable as fault:
        raise damaged(table, data, fault) from None
