"""Read a feed file as rows that can be written again just as they are, and the values that partitions are made of.

Rows of delimited files are their lines, records of Avro stay encoded, rows of Parquet and ORC are record batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.file_content import FileContent
from mutator.formats.blocks.avro_rows import shown_record
from mutator.formats.blocks.column_rows import shown_rows
from mutator.formats.blocks.row_layout import Unreadable
from mutator.formats.content import Reject
from mutator.formats.files import lines as text
from mutator.formats.files.avro import decoded
from mutator.formats.files.avro_container import blocks as avro_blocks
from mutator.formats.files.avro_container import faults, opened, split_records
from mutator.formats.files.avro_schema import parsed, physical
from mutator.formats.files.contract import Dialect
from mutator.formats.files.csv import headerless_schema
from mutator.formats.files.registry import FILE_FORMATS
from mutator.plan.inspect.probe import Source
from mutator.rules.byte_columns import Ints, packed
from mutator.rules.typed_values import canonical, out_of_years
from mutator.storage import blocks, storage_for
from mutator.storage.compression import decompress
from mutator.workflow.partitions.split.files import FeedFile

__all__ = ["Chunk", "chunks_of", "header_of"]

_ROWS = 1 << 14  # of a chunk, where rows are read one by one


class Chunk(NamedTuple):
    """Some consecutive rows of a feed file."""

    rows: Any  # an array of large binaries (lines, records), or a record batch
    columns: Sequence[Any]  # canonical text (large binaries) of the values for each partition field; None: are missing
    offsets: Ints
    numbers: Ints  # of the rows, from 1
    shown: Any  # numbers of rows (an array) -> the rows as a reject has them
    reasons: dict[int, str]  # rows that belong nowhere, whatever their values say
    rejects: Sequence[Reject]
    lines: int
    ignored: int


def chunks_of(content: FileContent, file: FeedFile) -> Iterator[Chunk]:
    """Read the rows of a feed file. Raises NotReadable, CorruptStream, and the errors of the catalogue."""
    kind = file.source.kind
    if kind == "avro":
        return _records(content, file)
    if FILE_FORMATS[kind].typed:
        return _batches(content, file)
    single = file.delimiter.literal is not None and len(file.delimiter.literal) == 1
    if kind == "text" and (not single or file.width is None or file.key_width is not None):
        return _rows(content, file)
    return _lines(content, file)


def header_of(source: Source) -> bytes:
    """Return the header lines of a delimited file, with line feeds; nothing where it has none."""
    if not source.header_end:
        return b""
    mark, held = b"\r" if source.ending == text.CR else b"\n", b""
    with storage_for(source.path).open(source.path) as stream:
        raw = blocks(stream)
        for block in decompress(raw, source.compression) if source.compression else raw:
            held += block
            if mark in held[source.header_end - 1 :]:
                break
    # Of text, the last header line begins before this place; of the others, their header ends here.
    end = held.find(mark, source.header_end - 1) if source.kind == "text" else source.header_end
    head = held[: end if end >= 0 else len(held)]
    head = head.removeprefix(text.UTF8_BOM) if source.bom else head
    if source.kind != "text":
        return head.lstrip(b"\r\n").removesuffix(b"\r") + b"\n"
    return (head.replace(b"\r", b"\n") if mark == b"\r" else head.replace(b"\r\n", b"\n").removesuffix(b"\r")) + b"\n"


def _lines(content: FileContent, file: FeedFile) -> Iterator[Chunk]:
    """Read a delimited file whose rows all have as many fields, by the block."""
    source = file.source
    if source.kind == "text":
        assert file.width is not None
        schema, dialect = headerless_schema(file.width, ()), Dialect(file.delimiter.literal or b",")
    else:
        assert source.file_schema is not None
        schema, dialect = source.file_schema.schema, source.dialect
    names = _names(schema, file)
    for found in FILE_FORMATS[source.kind].read(content, schema, list(dict.fromkeys(filter(None, names))), dialect):
        rows, reasons = pa.array([], pa.large_binary()), dict[int, str]()
        if found.raw is not None:
            rows = found.raw().take()
        columns = [None if name is None else found.batch.column(name) for name in names]
        yield Chunk(
            rows,
            columns,
            found.offsets,
            found.numbers,
            _shown_lines(rows),
            reasons,
            found.rejects,
            found.lines,
            found.ignored,
        )


def _shown_lines(rows: Any) -> Any:
    return lambda numbers: [row.removesuffix(b"\n") for row in rows.take(pa.array(numbers)).to_pylist()]


def _rows(content: FileContent, file: FeedFile) -> Iterator[Chunk]:
    """Read text row by row: its delimiter is a pattern, or rows may have other numbers of fields."""
    window, split = content.window, file.delimiter.split
    needed = 1 + max(place for place in file.places if place is not None)
    kept: list[tuple[int, int, bytes]] = []
    values: list[list[bytes | None]] = []
    rejects: list[Reject] = []
    lines = ignored = 0

    def chunk() -> Chunk:
        columns = [pa.array(column, pa.large_binary()) for column in zip(*values, strict=True)]
        columns = columns or [pa.array([], pa.large_binary()) for _ in file.places]
        rows = pa.array([row + b"\n" for _, _, row in kept], pa.large_binary())
        offsets, numbers = (np.array([one[part] for one in kept], np.int64) for part in (0, 1))
        return Chunk(rows, columns, offsets, numbers, _shown_lines(rows), {}, tuple(rejects), lines, ignored)

    for number, (offset, row) in enumerate(text.rows(content.blocks(), window.ending), 1):
        lines += 1
        header = offset < window.header_end
        if offset == 0 and window.bom:
            offset, row = len(text.UTF8_BOM), row[len(text.UTF8_BOM) :]
        if header or not row:
            ignored += 1
            continue
        try:
            values.append(_values(split(row), file, needed))
            kept.append((offset, number, row))
        except Unreadable as reason:
            rejects.append(Reject(offset, number, str(reason), row))
        if lines >= _ROWS:
            yield chunk()
            kept, values, rejects, lines, ignored = [], [], [], 0, 0
    yield chunk()


def _values(items: list[bytes], file: FeedFile, needed: int) -> list[bytes | None]:
    if len(items) == file.key_width and len(items) != file.width:
        if None in file.key_places:
            place = file.places[file.key_places.index(None)]
            raise Unreadable(f"has the ID alone, and field {place} (partition) is no part of it")
        return [items[place] for place in file.key_places if place is not None]
    if len(items) != file.width and (file.width is not None or len(items) < needed):
        expected = f"{needed} or more" if file.width is None else f"{file.width}"
        raise Unreadable(f"has {len(items)} fields and should have {expected}")
    return [items[place] for place in file.places if place is not None]


def _names(schema: Any, file: FeedFile) -> list[str | None]:
    return [None if place is None else schema.field(place).name for place in file.places]


def _batches(content: FileContent, file: FeedFile) -> Iterator[Chunk]:
    """Read a Parquet or ORC file."""
    source = file.source
    assert source.file_schema is not None
    schema = source.file_schema.schema
    names = _names(schema, file)
    for found in FILE_FORMATS[source.kind].read(content, schema, schema.names, source.dialect):
        batch, reasons = found.batch, dict[int, str]()
        columns = [None if name is None else _canonical(batch.column(name), name, reasons) for name in names]
        yield Chunk(
            batch,
            columns,
            found.offsets,
            found.numbers,
            _shown_batch(batch),
            reasons,
            found.rejects,
            found.lines,
            found.ignored,
        )


def _shown_batch(batch: Any) -> Any:
    return lambda numbers: shown_rows(batch.take(pa.array(numbers)))


def _records(content: FileContent, file: FeedFile) -> Iterator[Chunk]:
    """Read an Avro file; of its records only the values of partition fields are decoded."""
    seen = 0
    with content.file() as stream:
        known = opened(stream)
        assert file.source.file_schema is not None
        names = _names(file.source.file_schema.schema, file)
        fields = {one["name"]: one for one in known.expanded["fields"] if one["name"] in names}
        projected = physical({**known.expanded, "fields": list(fields.values())})
        whole = parsed(physical(known.expanded))
        for place, block in avro_blocks(stream, known, content.window, projected):
            with faults():
                values, data, ends = split_records(block)
            reasons: dict[int, str] = {}
            columns = [
                None
                if name is None
                else _canonical(decoded([row[name] for row in values], fields[name]), name, reasons)
                for name in names
            ]
            count = len(values)
            places = np.array(ends, np.int64)
            records = packed(np.frombuffer(data, np.uint8), places[1:] - places[:-1])
            yield Chunk(
                records,
                columns,
                place + np.arange(count),
                seen + np.arange(count) + 1,
                _shown_records(records, whole),
                reasons,
                (),
                count,
                0,
            )
            seen += count


def _shown_records(records: Any, schema: Any) -> Any:
    return lambda numbers: [shown_record(one, schema) for one in records.take(pa.array(numbers)).to_pylist()]


def _canonical(column: Any, name: str, reasons: dict[int, str]) -> Any:
    """Return the canonical text of values; notes those that ISO 8601 cannot write."""
    far = out_of_years(column)
    if far.any():
        for row in np.flatnonzero(far).tolist():
            reasons.setdefault(row, f"field {name} (partition) is not in the years 1 to 9999")
        column = pc.if_else(pa.array(~far), column, pa.scalar(None, column.type))
    return canonical(column)
