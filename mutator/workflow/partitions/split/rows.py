"""Read a feed file as rows that can be written unchanged, with the values of its partition fields.

Rows are a pa.Array: lines and encoded Avro records are large_binary, rows of Parquet and ORC are structs.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.file_content import FileContent
from mutator.errors.display import counted
from mutator.formats.blocks.avro_rows import shown_record
from mutator.formats.blocks.column_rows import shown_rows
from mutator.formats.blocks.row_layout import Unreadable
from mutator.formats.content import Reject
from mutator.formats.files import lines as text
from mutator.formats.files.avro_schema import expanded, parsed, physical
from mutator.formats.files.csv import headerless_schema
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.plan.inspect.source import Source
from mutator.rules.byte_columns import Ints
from mutator.rules.typed_values import canonical, out_of_years
from mutator.workflow.partitions.split.files import UnsplitFile

_ROWS = 1 << 14  # of a chunk, where rows are read one by one


class Chunk(NamedTuple):
    """Some consecutive rows of a feed file."""

    rows: Any  # pa.Array
    columns: Sequence[
        Any
    ]  # pa.Array of large_binary, canonical text, for each partition field; None: the file lacks it
    offsets: Ints
    numbers: Ints  # of the rows in the file, from 1
    reasons: dict[int, str]  # index of a row -> why it belongs to no partition
    rejects: Sequence[Reject]
    lines: int
    ignored: int


def read_chunks(content: FileContent, file: UnsplitFile) -> Iterator[Chunk]:
    """Read the rows of a feed file; raises NotReadable, CorruptStream and MutatorError."""
    single = file.delimiter.literal is not None and len(file.delimiter.literal) == 1
    if file.source.file_format == "text" and (not single or file.width is None or None in file.positions):
        return _text_rows(content, file)
    return _row_batches(content, file)


def shown_by(source: Source) -> Callable[[Any], list[bytes]]:
    """Return the function that shows rows of a feed file as its rejects have them."""
    if not FILE_FORMATS[source.file_format].typed:
        return lambda rows: pc.binary_slice(rows, 0, -1).to_pylist()
    if source.file_format != "avro":
        return lambda rows: shown_rows(pa.RecordBatch.from_struct_array(rows))
    assert source.file_schema is not None
    schema = parsed(physical(expanded(source.file_schema.native)))
    return lambda rows: [shown_record(record, schema) for record in rows.to_pylist()]


def header_of(source: Source) -> bytes:
    """Return the header lines of a delimited file, each with a line feed; empty if it has none."""
    if not source.header_end:
        return b""
    mark, head = b"\r" if source.ending == text.CR else b"\n", b""
    for block in FileContent(source.path, source.bytes, compression=source.compression).blocks():
        head += block
        if mark in head[source.header_end - 1 :]:
            break
    # In text, the last header line begins before header_end; in other formats the header ends there.
    end = head.find(mark, source.header_end - 1) if source.file_format == "text" else source.header_end
    head = head[: end if end >= 0 else len(head)]
    head = head.removeprefix(text.UTF8_BOM) if source.bom else head
    if source.file_format != "text":
        return head.lstrip(b"\r\n").removesuffix(b"\r") + b"\n"
    return (head.replace(b"\r", b"\n") if mark == b"\r" else head.replace(b"\r\n", b"\n").removesuffix(b"\r")) + b"\n"


def _row_batches(content: FileContent, file: UnsplitFile) -> Iterator[Chunk]:
    """Read a file as its format does."""
    source, file_format = file.source, FILE_FORMATS[file.source.file_format]
    if source.file_format == "text":
        assert file.width is not None
        schema, dialect = headerless_schema(file.width, ()), Dialect(file.delimiter.literal or b",")
    else:
        assert source.file_schema is not None
        schema, dialect = source.file_schema.schema, source.dialect
    names = [None if position is None else schema.field(position).name for position in file.positions]
    is_columnar = file_format.typed and source.file_format != "avro"
    wanted = schema.names if is_columnar else list(dict.fromkeys(filter(None, names)))
    for found in file_format.read(content, schema, wanted, dialect):
        if is_columnar:
            rows = found.batch.to_struct_array()
        else:
            rows = pa.array([], pa.large_binary()) if found.raw is None else found.raw().take()
        columns = [None if name is None else found.batch.column(name) for name in names]
        reasons: dict[int, str] = {}
        if file_format.typed:
            columns = [
                None if name is None else _canonical(column, name, reasons)
                for name, column in zip(names, columns, strict=True)
            ]
        yield Chunk(rows, columns, found.offsets, found.numbers, reasons, found.rejects, found.lines, found.ignored)


def _canonical(column: Any, name: str, reasons: dict[int, str]) -> Any:
    """Return the canonical text of values; add the rows whose times ISO 8601 cannot write to the reasons."""
    far = out_of_years(column)
    if far.any():
        for row in np.flatnonzero(far).tolist():
            reasons.setdefault(row, f"field {name} (partition) is not in the years 1 to 9999")
        column = pc.if_else(pa.array(~far), column, pa.scalar(None, column.type))
    return canonical(column)


def _text_rows(content: FileContent, file: UnsplitFile) -> Iterator[Chunk]:
    """Read text row by row: its delimiter is a pattern or has many bytes, or its rows differ in width."""
    split, chunk = file.delimiter.split, _TextChunk(len(file.positions))
    for number, offset, row in text.numbered_rows(content):
        chunk.lines += 1
        if row is None:
            chunk.ignored += 1
            continue
        try:
            chunk.values.append(_values(split(row), file))
            chunk.rows.append((offset, number, row))
        except Unreadable as reason:
            chunk.rejects.append(Reject(offset, number, str(reason), row))
        if chunk.lines >= _ROWS:
            yield chunk.built()
            chunk = _TextChunk(len(file.positions))
    yield chunk.built()


class _TextChunk:
    """A chunk that grows row by row."""

    def __init__(self, width: int) -> None:
        self._width = width  # number of partition fields
        self.rows: list[tuple[int, int, bytes]] = []  # offset, number, row
        self.values: list[list[bytes]] = []
        self.rejects: list[Reject] = []
        self.lines = self.ignored = 0

    def built(self) -> Chunk:
        columns = [pa.array([row[field] for row in self.values], pa.large_binary()) for field in range(self._width)]
        rows = pa.array([row + b"\n" for _, _, row in self.rows], pa.large_binary())
        offsets, numbers = (np.array([row[part] for row in self.rows], np.int64) for part in (0, 1))
        return Chunk(rows, columns, offsets, numbers, {}, self.rejects, self.lines, self.ignored)


def _values(items: list[bytes], file: UnsplitFile) -> list[bytes]:
    """Return the values of the partition fields of a row of text."""
    positions = [position for position in file.positions if position is not None]
    needed = 1 + max(positions, default=0)
    if len(items) != file.width and (file.width is not None or len(items) < needed):
        expected = f"{needed} or more" if file.width is None else f"{file.width}"
        raise Unreadable(f"has {counted(len(items), 'field')} and should have {expected}")
    if len(positions) < len(file.positions):
        raise Unreadable("has the ID alone, without the fields of its partition")
    return [items[position] for position in positions]
