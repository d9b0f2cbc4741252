"""Write the rows of a feed file to a file in each partition, with the same name, format, encoding and compression.

While the file is read, the rows of each partition go to a scratch file, in pieces. Then one partition is written after
the other, so that thousands of partitions do not need thousands of open files.
"""

import posixpath
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from mutator.dataset.commit.staging import StagedFile
from mutator.dataset.file_content import WHOLE, FileContent, spooled
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.split_record import SplitFile
from mutator.errors import MutatorError
from mutator.errors.display import without_secrets
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.block_types import BLOCK_TYPES
from mutator.formats.blocks.column_rows import ColumnOutput
from mutator.formats.content import NotReadable, Reject, unreadable
from mutator.formats.files.avro_container import opened
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.formats.files.lines import UTF8_BOM
from mutator.plan.inspect.source import Source
from mutator.rules.byte_columns import Ints
from mutator.rules.encodings import UTF8, restored
from mutator.rules.partition_fields import PartitionField
from mutator.rules.partition_transforms import partition_rows
from mutator.storage import storage_for
from mutator.storage.compression import CorruptStream, compressor
from mutator.workflow.partitions.split.files import Chunk, UnsplitFile, header_of, read_chunks, shown_by


def split_file(
    staging: str, fields: Sequence[PartitionField], file: UnsplitFile, most: int
) -> tuple[SplitFile, list[Reject]]:
    """Write the rows of a feed file below a directory; return its record and the first rejects.

    most: how many rejects are returned; more are only counted. Files of an earlier attempt of the task are replaced.
    Raises MutatorError.
    """
    source = file.source
    window = source.window()
    content = FileContent(source.path, source.bytes, window, compression=source.compression, chunk=WHOLE)
    pieces, rejects = _Pieces(), _Rejects(most)
    try:
        output, show = _output_of(source), shown_by(source)
        lines = ignored = 0
        for chunk in read_chunks(content, file):
            lines, ignored = lines + chunk.lines, ignored + chunk.ignored
            codes, names = _placed(fields, chunk, show, rejects)
            for code, start, end, order in _runs(codes):
                pieces.add(names[code], chunk.rows.take(pa.array(order[start:end])))
        checksum = content.checksum()
    except (NotReadable, CorruptStream) as fault:
        raise unreadable(source.path, fault) from None
    parts = [_write(staging, directory, source, output, pieces) for directory in pieces.by_partition]
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


@dataclass(frozen=True)
class _Output:
    """How the files of the partitions are written."""

    block_type: str  # a key of BLOCK_TYPES
    settings: Any  # of its writer
    header: bytes = b""


class _Rejects:
    """The rejected rows: all are counted, and the first are kept."""

    def __init__(self, most: int) -> None:
        self.most, self.count, self.first = most, 0, list[Reject]()

    def take(self, found: Sequence[Reject]) -> None:
        self.count += len(found)
        self.first += found[: max(self.most - len(self.first), 0)]


def _placed(
    fields: Sequence[PartitionField], chunk: Chunk, show: Callable[[Any], list[bytes]], rejects: _Rejects
) -> tuple[Ints, list[str]]:
    """Return the partition of each row, -1 for none, and the names of the partitions; rows without one are rejected."""
    count = len(chunk.offsets)
    reasons = dict(chunk.reasons)
    missing = [field.source for field, column in zip(fields, chunk.columns, strict=True) if column is None]
    if missing:
        codes, names = np.full(count, -1, np.int64), list[str]()
        for row in range(count):
            reasons.setdefault(row, f"field {missing[0]} (partition) is missing")
    else:
        codes, names, why = partition_rows(fields, chunk.columns)
        for row, reason in why.items():
            reasons.setdefault(row, reason)
        codes[list(chunk.reasons)] = -1
    rows = sorted(reasons)
    shown = show(chunk.rows.take(pa.array(rows[: rejects.most], pa.int64()))) if rows else []
    shown += [b""] * (len(rows) - len(shown))  # rejects that are only counted
    found = [
        Reject(int(chunk.offsets[row]), int(chunk.numbers[row]), reasons[row], one)
        for row, one in zip(rows, shown, strict=True)
    ]
    rejects.take(sorted([*chunk.rejects, *found]))
    return codes, names


def _runs(codes: Ints) -> Iterator[tuple[int, int, int, Ints]]:
    """Yield (partition, start, end, order) for each partition: its rows are ``order[start:end]``, in file order."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1)).tolist()  # rows without a partition, -1, do not form a run
    for start, end in zip(starts, [*starts, len(order)][1:], strict=True):
        yield int(ordered[start]), start, end, order


class _Pieces:
    """The rows of each partition, in pieces of one scratch file."""

    def __init__(self) -> None:
        self.by_partition: dict[str, list[tuple[int, int]]] = {}  # directory -> (offset, bytes) of its pieces
        self._spool, self._end = spooled(()), 0

    def add(self, directory: str, rows: Any) -> None:
        """Append rows, a pa.Array, to a partition."""
        sink, batch = pa.BufferOutputStream(), pa.record_batch([rows], ["rows"])
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        piece = sink.getvalue()
        self._spool.seek(self._end)
        self._spool.write(piece)
        self.by_partition.setdefault(directory, []).append((self._end, piece.size))
        self._end += piece.size

    def of(self, directory: str) -> Iterator[Any]:
        """Yield the pieces of a partition, each a pa.Array."""
        for offset, size in self.by_partition[directory]:
            self._spool.seek(offset)
            with pa.ipc.open_stream(self._spool.read(size)) as reader:
                yield reader.read_next_batch().column(0)


def _write(staging: str, directory: str, source: Source, output: _Output, pieces: _Pieces) -> FileEntry:
    """Write the file of one partition."""
    path = posixpath.join(staging, directory, source.name)
    storage = storage_for(path)
    storage.make_directory(posixpath.dirname(path), within=staging)
    for again in (False, True):
        try:
            with storage.create_new(path) as stream:
                staged = StagedFile(stream, f"{directory}/{source.name}", WHOLE)
                rows = _fill(staged, source, output, pieces.of(directory))
            break
        except MutatorError as fault:
            # An earlier attempt wrote the same rows, though not always the same bytes.
            if fault.kind != "storage.exists" or again:
                raise
            storage.remove(path)
    failpoint("split.part.written")
    return staged.entry(rows)


def _fill(staged: StagedFile, source: Source, output: _Output, pieces: Iterator[Any]) -> int:
    target = staged if source.compression is None else _Compressed(staged, source.compression)
    # A writer may ask for its position, which is that in the uncompressed content.
    stream = staged if target is staged else StagedFile(cast(BinaryIO, target), staged.path, WHOLE)
    if source.encoding != UTF8:
        stream = StagedFile(cast(BinaryIO, _Encoded(stream, source.encoding)), staged.path, WHOLE)
        stream.write(UTF8_BOM if source.bom else b"")
    stream.write(output.header)
    writer, total = BLOCK_TYPES[output.block_type].writer(cast(BinaryIO, stream), output.settings, None), 0
    for rows in pieces:
        writer.write(rows)
        total += len(rows)
    writer.close()
    if isinstance(target, _Compressed):
        target.end()
    return total


class _Encoded:
    """A stream that writes whole lines of UTF-8 in another encoding."""

    def __init__(self, stream: StagedFile, encoding: str) -> None:
        self._stream, self._encoding = stream, encoding

    def write(self, data: bytes | memoryview) -> int:
        self._stream.write(restored(bytes(data), self._encoding))
        return len(data)

    def flush(self) -> None:
        """Do nothing: all is written."""


class _Compressed:
    """A stream that compresses the data written to it."""

    def __init__(self, stream: StagedFile, compression: str) -> None:
        self._stream, self._compressor = stream, compressor(compression)

    def write(self, data: bytes | memoryview) -> int:
        self._stream.write(self._compressor.compress(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing: the compressor decides when it has enough."""

    def end(self) -> None:
        self._stream.write(self._compressor.flush())


def _output_of(source: Source) -> _Output:
    """Return how files with rows of a feed file are written: as that file is."""
    if not source.format.stores_schema:
        return _Output("text", None, header_of(source))
    with FileContent(source.path, source.bytes, compression=source.compression).file() as stream:
        if source.file_format == "avro":
            return _Output("avro", opened(stream).output)
        codec = _codec(source.file_format, stream)
    assert source.file_schema is not None
    codecs = FILE_FORMATS[source.file_format].codecs
    known = {name.lower(): name for name in codecs.values()}
    dialect = Dialect(codec=known.get(codec.lower(), codecs.get(codec.lower())))
    return _Output("columns", ColumnOutput(source.file_format, source.file_schema.schema, dialect))


def _codec(file_format: str, stream: BinaryIO) -> str:
    """Return the codec inside a file, as its library names it; an unknown name if the file has no data."""
    if file_format == "orc":
        return str(orc.ORCFile(stream).compression)
    found = pq.ParquetFile(stream).metadata
    if not found.num_row_groups or not found.num_columns:
        return ""
    codec = str(found.row_group(0).column(0).compression).lower()
    return "none" if codec == "uncompressed" else codec
