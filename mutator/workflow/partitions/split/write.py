"""Write the rows of a feed file in files of the same name, one a partition: of its kind, and compressed as it is.

While a file is read, the rows of each partition are put aside in pieces (in memory, or in a scratch file); then one
partition is written after the other, so that thousands of them need no thousands of open files.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from mutator.dataset.commit.staged_file import StagedFile
from mutator.dataset.file_content import WHOLE, FileContent, spooled
from mutator.dataset.split_record import SplitFile, SplitPart
from mutator.errors import MutatorError, error
from mutator.errors.failpoints import failpoint
from mutator.errors.redact import without_secrets
from mutator.formats.content import NotReadable, Reject, Window
from mutator.formats.files.avro_container import BlockWriter, opened
from mutator.formats.files.contract import Dialect
from mutator.formats.files.registry import FILE_FORMATS
from mutator.plan.inspect.probe import Source, whole
from mutator.rules.byte_columns import Ints, joined
from mutator.rules.partition_transforms import PartitionField, place
from mutator.storage import storage_for
from mutator.storage.compression import CorruptStream, compressor
from mutator.workflow.partitions.split.files import FeedFile
from mutator.workflow.partitions.split.rows import Chunk, chunks_of, header_of

__all__ = ["split_file"]


def split_file(
    staging: str, fields: Sequence[PartitionField], file: FeedFile, most: int
) -> tuple[SplitFile, list[Reject]]:
    """Write the rows of a feed file below a directory; return what was written, and the first rejects.

    most: how many rejects are returned; more are counted. An earlier attempt of the task may have written some of it.
    Raises the errors of the catalogue.
    """
    source = file.source
    window = Window(source.ending, 0, None, source.bom, source.header_end)
    content = FileContent(source.path, source.bytes, window, compression=source.compression, chunk=WHOLE)
    pieces, rejects = _Pieces(), _Rejects(most)
    try:
        way = _way_of(source)
        lines = ignored = 0
        for chunk in chunks_of(content, file):
            lines, ignored = lines + chunk.lines, ignored + chunk.ignored
            codes, names = _placed(fields, chunk, rejects)
            for code, start, end, order in _runs(codes):
                rows = chunk.rows.take(pa.array(order[start:end]))
                pieces.add(names[code], way.pack(rows), end - start)
        checksum = content.checksum()
    except (NotReadable, CorruptStream) as fault:
        raise error("damaged", path=source.path, why=fault) from None
    parts = [_write(staging, directory, source, way, pieces) for directory in pieces.names]
    return (
        SplitFile(
            without_secrets(source.path),
            source.name,
            source.bytes,
            checksum,
            lines - ignored,
            rejects.count,
            ignored,
            tuple(parts),
        ),
        rejects.first,
    )


class _Rejects:
    """The rows that belong nowhere: all are staged, and the first are kept."""

    def __init__(self, most: int) -> None:
        self.most, self.count, self.first = most, 0, list[Reject]()

    def take(self, found: Sequence[Reject]) -> None:
        self.count += len(found)
        self.first += found[: max(self.most - len(self.first), 0)]


def _placed(fields: Sequence[PartitionField], chunk: Chunk, rejects: _Rejects) -> tuple[Ints, list[str]]:
    """Return the partition of each row, and the names of partitions; note the rows that have none."""
    count = len(chunk.offsets)
    reasons = dict(chunk.reasons)
    missing = [field.source for field, column in zip(fields, chunk.columns, strict=True) if column is None]
    if missing:
        codes, names = np.full(count, -1, np.int64), list[str]()
        for row in range(count):
            reasons.setdefault(row, f"field {missing[0]} (partition) is missing")
    else:
        codes, names, why = place(fields, chunk.columns)
        for row, reason in why.items():
            reasons.setdefault(row, reason)
        codes[list(chunk.reasons)] = -1
    rows = sorted(reasons)
    shown = chunk.shown(np.array(rows[: rejects.most], np.int64)) if rows else []
    shown += [b""] * (len(rows) - len(shown))  # of rejects that are only staged
    found = [
        Reject(int(chunk.offsets[row]), int(chunk.numbers[row]), reasons[row], one)
        for row, one in zip(rows, shown, strict=True)
    ]
    rejects.take(sorted([*chunk.rejects, *found]))
    return codes, names


def _runs(codes: Ints) -> Iterator[tuple[int, int, int, Ints]]:
    """Yield for each partition its number and where its rows stand in an order of all rows, which keeps theirs."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1)).tolist()  # rows that are nowhere, -1, are no run
    for start, end in zip(starts, [*starts, len(order)][1:], strict=True):
        yield int(ordered[start]), start, end, order


class _Pieces:
    """What was read for each partition, in one spool."""

    def __init__(self) -> None:
        self.names: dict[str, list[tuple[int, int, int]]] = {}  # -> (place, bytes, rows)
        self._spool, self._end = spooled(()), 0

    def add(self, name: str, piece: bytes | memoryview, rows: int) -> None:
        self._spool.seek(self._end)
        self._spool.write(piece)
        self.names.setdefault(name, []).append((self._end, len(piece), rows))
        self._end += len(piece)

    def of(self, name: str) -> Iterator[tuple[bytes, int]]:
        for at, size, rows in self.names[name]:
            self._spool.seek(at)
            yield self._spool.read(size), rows


def _write(staging: str, directory: str, source: Source, way: _Way, pieces: _Pieces) -> SplitPart:
    """Write the file of one partition."""
    path = posixpath.join(staging, directory, source.name)
    storage = storage_for(path)
    storage.make_directory(posixpath.dirname(path))
    for again in (False, True):
        try:
            with storage.create_new(path) as stream:
                staged = StagedFile(stream, f"{directory}/{source.name}", WHOLE)
                rows = _fill(staged, source, way, pieces.of(directory))
            break
        except MutatorError as fault:
            # An attempt before this one may have come so far. It wrote the same rows; its bytes need not be the same.
            if fault.kind != "storage.exists" or again:
                raise
            storage.remove(path)
    failpoint("split.part.written")
    return SplitPart(staged.path, rows, staged.bytes, staged.checksum.text())


def _fill(staged: StagedFile, source: Source, way: _Way, pieces: Iterator[tuple[bytes, int]]) -> int:
    target = staged if source.compression is None else _Compressed(staged, source.compression)
    # A writer may ask where it is, which is a matter of the uncompressed content.
    stream = staged if target is staged else StagedFile(cast(BinaryIO, target), staged.path, WHOLE)
    writer, total = way.writer(cast(BinaryIO, stream)), 0
    for piece, rows in pieces:
        writer.write(way.unpack(piece))
        total += rows
    writer.close()
    if isinstance(target, _Compressed):
        target.end()
    return total


class _Compressed:
    """A stream that compresses what is written to it."""

    def __init__(self, stream: StagedFile, kind: str) -> None:
        self._stream, self._compressor = stream, compressor(kind)

    def write(self, data: bytes | memoryview) -> int:
        self._stream.write(self._compressor.compress(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing: what is compressed comes when it is much."""

    def end(self) -> None:
        self._stream.write(self._compressor.flush())


class _Way(Protocol):
    """How the rows of a kind of files are put aside, and written again."""

    def pack(self, rows: Any) -> bytes | memoryview: ...

    def unpack(self, piece: bytes) -> Any: ...

    def writer(self, stream: BinaryIO) -> Any: ...


class _Lines:
    """Lines of delimited files: bytes that stay as they are, below the header that each file gets."""

    def __init__(self, header: bytes) -> None:
        self._header = header

    def pack(self, rows: Any) -> memoryview:
        return cast(memoryview, joined(rows))

    def unpack(self, piece: bytes) -> bytes:
        return piece

    def writer(self, stream: BinaryIO) -> Any:
        stream.write(self._header)
        return _LineWriter(stream)


class _LineWriter:
    def __init__(self, stream: BinaryIO) -> None:
        self.write = stream.write

    def close(self) -> None:
        pass


class _Records:
    """Avro records, encoded: with the schema, the codec and the head of the file that they come from."""

    def __init__(self, source: Source) -> None:
        with storage_for(source.path).open(source.path) as stream:
            self._head = opened(whole(stream, source.compression))

    def pack(self, rows: Any) -> bytes:
        return _table_bytes(pa.record_batch([rows], ["record"]))

    def unpack(self, piece: bytes) -> Any:
        return (record for batch in _batches(piece) for record in batch.column(0).to_pylist())

    def writer(self, stream: BinaryIO) -> BlockWriter:
        head = self._head
        return BlockWriter(stream, head.schema, head.codec, head.metadata, head.sync)


class _Batches:
    """Rows of Parquet and ORC, with the schema of the file and its compression."""

    def __init__(self, source: Source) -> None:
        assert source.file_schema is not None
        self._kind, self._schema = FILE_FORMATS[source.kind], source.file_schema.schema
        with storage_for(source.path).open(source.path) as stream:
            said = _codec(source.kind, whole(stream, source.compression))
        known = {name.lower(): name for name in self._kind.codecs.values()}
        self._dialect = Dialect(codec=known.get(said.lower(), self._kind.codecs.get(said.lower())))

    def pack(self, rows: Any) -> bytes:
        return _table_bytes(rows)

    def unpack(self, piece: bytes) -> Any:
        (batch,) = _batches(piece)
        return batch

    def writer(self, stream: BinaryIO) -> Any:
        return self._kind.writer(stream, self._schema, self._dialect)


def _way_of(source: Source) -> _Way:
    if not FILE_FORMATS[source.kind].typed:
        return _Lines(header_of(source))
    return _Records(source) if source.kind == "avro" else _Batches(source)


def _codec(kind: str, stream: BinaryIO) -> str:
    """Return how the file is compressed inside, as its library calls it; an unknown word where it holds nothing."""
    if kind == "orc":
        return str(orc.ORCFile(stream).compression)
    found = pq.ParquetFile(stream).metadata
    if not found.num_row_groups or not found.num_columns:
        return ""
    said = str(found.row_group(0).column(0).compression).lower()
    return "none" if said == "uncompressed" else said


def _table_bytes(batch: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _batches(piece: bytes) -> Any:
    with pa.ipc.open_stream(piece) as reader:
        return list(reader)
