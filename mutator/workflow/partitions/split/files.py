"""Find the feed files to split, and the positions of the partition fields in their rows.

Read a feed file as rows that can be written unchanged, with the values of its partition fields.

Rows are a pa.Array: lines and encoded Avro records are large_binary, rows of Parquet and ORC are structs.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.config.settings import Config, RowSpec, TextSpec
from mutator.dataset import manifest
from mutator.dataset.directory import read_manifest
from mutator.dataset.file_content import FileContent
from mutator.dataset.partition_index import IN_PATH
from mutator.errors import error
from mutator.errors.display import counted
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.blocks.avro_rows import shown_record
from mutator.formats.blocks.row_layout import Unreadable
from mutator.formats.blocks.shown_rows import shown_rows
from mutator.formats.content import Reject, Window, undecodable
from mutator.formats.files import lines as text
from mutator.formats.files.avro_schema import expanded, parsed, physical
from mutator.formats.files.csv import headerless_schema
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.plan.inspect import control_files
from mutator.plan.inspect.delete_files import has_ids_alone, is_delete_source, may_have_ids_alone
from mutator.plan.inspect.feed_files import feed_entries
from mutator.plan.inspect.headers import check_headers, other_number_of_names
from mutator.plan.inspect.probe import probe_file
from mutator.plan.inspect.source import Source
from mutator.plan.inspect.survey import Survey
from mutator.plan.mistakes.delimiters import check_delimiters
from mutator.plan.mistakes.samples import samples_of
from mutator.rules.byte_columns import Ints
from mutator.rules.delimiter.field_delimiter import Delimiter
from mutator.rules.encodings import UTF8, has_lost
from mutator.rules.partition_fields import PartitionField
from mutator.rules.schema_evolution import nearest
from mutator.rules.typed_values import canonical, out_of_years
from mutator.storage import absolute, storage_for

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
    if not source.format.stores_schema:
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
    window = Window(encoding=source.encoding)
    for block in FileContent(source.path, source.bytes, window, compression=source.compression).blocks():
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
    is_columnar = source.format.stores_schema and source.file_format != "avro"
    wanted = schema.names if is_columnar else list(dict.fromkeys(filter(None, names)))
    for found in file_format.read(content, schema, wanted, dialect):
        if is_columnar:
            rows = found.batch.to_struct_array()
        else:
            rows = pa.array([], pa.large_binary()) if found.raw is None else found.raw().take()
        columns = [None if name is None else found.batch.column(name) for name in names]
        reasons: dict[int, str] = {}
        if not found.as_text:
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
            if content.window.encoding != UTF8 and has_lost(row):
                raise Unreadable(undecodable(row, content.window.encoding))
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


@dataclass(frozen=True)
class UnsplitFile:
    """One feed file and how it is read."""

    source: Source
    delimiter: Delimiter
    width: int | None  # number of fields of a row of text; None: any
    positions: tuple[int | None, ...]  # of the partition fields in a row; None: the file lacks the field


def feed_files(
    config: Config, fields: Sequence[PartitionField], feed: Sequence[str]
) -> tuple[tuple[UnsplitFile, ...], tuple[str, ...]]:
    """Find and probe the files of a feed; return them and the paths with hidden names.

    Raises ConfigError if a file has no such partition field, or none has the delimiter; DataError for two files of one
    name, and for files that cannot be read or have another delimiter than the others.
    """
    found, hidden = feed_entries([absolute(path) for path in feed], config.inputs.control_suffix)
    wanted = [_known_field(config.rows.text, field.source) for field in fields]
    # As with names of ID fields in a run, a CSV file has a header if partition fields are named.
    key, text, inputs = config.rows.key, config.rows.text, config.inputs
    probing = replace(config.rows, key=replace(key, ids=(*key.ids, *(one for one in wanted if isinstance(one, str)))))
    named = bool(text.names) or any(isinstance(one, str) for one in probing.key.ids)
    named = named or bool({inputs.feed_format, config.output.format, inputs.master_format} - {None, "text"})
    for directory in {_above_partitions(path) for path in found}:
        check_fields(directory)
    sources = [
        probe_file(probing, storage_for(path), entry, inputs.feed_format, named=named) for path, entry in found.items()
    ]
    check_headers(config.rows, sources)
    survey = Survey(master_path="", state=None, master=(), feed=tuple(sources))
    check_delimiters(probing, None, samples_of(probing, survey))
    if config.inputs.control_suffix is not None:
        control_files.check(config.inputs.control_suffix, sources)
    names: dict[str, Source] = {}
    for source in sources:
        other = names.setdefault(source.name, source)
        if other is not source:
            raise error("split.names", path=source.path, other=other.path)
    _check_names(fields, wanted, sources)
    width = _width(config.rows, sources)
    return tuple(_feed_file(config.rows, fields, wanted, replace(one, head=b""), width) for one in sources), hidden


def check_fields(directory: str) -> None:
    """Raise ConfigError for the directory of a master whose files have fields in their paths alone."""
    storage = storage_for(directory)
    is_there = storage.stat(posixpath.join(directory, manifest.PATH)) is not None
    known = read_manifest(storage, directory) if is_there else None
    in_path = () if known is None else known.spec.get(IN_PATH, ())
    if in_path:
        raise error("partition.in.path", path=directory, fields=", ".join(in_path))


def _above_partitions(path: str) -> str:
    """Return the directory of a dataset that a file may be in: it is above the partitions."""
    directory = posixpath.dirname(path)
    while "=" in posixpath.basename(directory)[1:]:
        directory = posixpath.dirname(directory)
    return directory


def _check_names(fields: Sequence[PartitionField], wanted: Sequence[str | int], sources: Sequence[Source]) -> None:
    """Raise ConfigError for a name that no file has, if there are files with names."""
    schemas = [source.file_schema.schema for source in sources if source.file_schema is not None]
    known = list(dict.fromkeys(name for schema in schemas for name in schema.names))
    if not known or all(source.file_format == "text" for source in sources):
        return
    for field, name in zip(fields, wanted, strict=True):
        if isinstance(name, str) and name not in known:
            near = nearest(name, known)
            cure = f"did you mean {near}?" if near else f"they have {', '.join(known)}"
            raise error("width", where=f"partition field {field.name}", what=f"no input has a field {name}", cure=cure)


def _known_field(text: TextSpec, source: str | int) -> str | int:
    """Return the ordinal of a field named in ``field.names``; any other field as it is given."""
    return text.names.index(source) if source in text.names else source


def _width(rows: RowSpec, sources: Sequence[Source]) -> int | None:
    """Return the number of fields of rows of text, as a run without a master does; None for any.

    Raises ConfigError if ``field.names`` has fewer or more names.
    """
    if rows.text.count == "any":
        return None
    if isinstance(rows.text.count, int):
        return rows.text.count
    whole = [one for one in sources if one.file_format == "text" and not may_have_ids_alone(rows, one)]
    ordered = sorted(whole, key=lambda one: one.name.encode("utf-8", "surrogateescape"))
    first = next((one for one in ordered if one.width is not None), None)
    if first is None or first.width is None:
        return None
    if rows.text.names and len(rows.text.names) != first.width:
        what = f"its first row has {counted(first.width, 'field')}"
        raise other_number_of_names(first.path, what, rows.text.names, single=first.width == 1)
    return first.width


def _feed_file(
    rows: RowSpec,
    fields: Sequence[PartitionField],
    wanted: Sequence[str | int],
    source: Source,
    width: int | None,
) -> UnsplitFile:
    if source.file_format == "text":
        ordinals = [_ordinal(field, one, source, width) for field, one in zip(fields, wanted, strict=True)]
        ids = rows.key.ids
        needed = 1 + max(one for one in (*ids, *ordinals) if isinstance(one, int))
        if not has_ids_alone(rows, source, needed if width is None else width):
            return UnsplitFile(source, rows.text.delimiter, width, tuple(ordinals))
        positions = tuple(ids.index(one) if one in ids else None for one in ordinals)
        return UnsplitFile(source, rows.text.delimiter, len(ids), positions)
    positions = tuple(_position(rows, field, one, source) for field, one in zip(fields, wanted, strict=True))
    return UnsplitFile(source, rows.text.delimiter, source.width, positions)


def _ordinal(field: PartitionField, wanted: str | int, source: Source, width: int | None) -> int:
    if isinstance(wanted, str):
        what = f"'{wanted}' is a name, and the fields of delimited text have none"
        raise error("width", where=f"{source.path}: field {field.source}", what=what, cure=_NAMES)
    if width is not None and wanted >= width:
        what = f"field {wanted} is beyond the {counted(width, 'field')} of a row"
        cure = "correct the ordinal (they count from 0), the delimiter or field.count"
        raise error("width", where=source.path, what=what, cure=cure)
    return wanted


_NAMES = "give its ordinal (from 0), or set field.names"


def _position(rows: RowSpec, field: PartitionField, wanted: str | int, source: Source) -> int | None:
    """Return the position of a field in a file with named fields; None if a delete file lacks it."""
    assert source.file_schema is not None
    schema = source.file_schema.schema
    if not len(schema):
        return None  # without fields, it has no rows
    name = wanted
    if isinstance(wanted, int):
        names = rows.text.names or tuple(schema.names)
        if wanted >= len(names):
            what = f"field {wanted} is beyond the {counted(len(names), 'field')} of a row"
            raise error("width", where=source.path, what=what, cure="correct the ordinal (they count from 0)")
        name = names[wanted]
    found = int(schema.get_field_index(name))
    if found < 0:
        if is_delete_source(rows.ops, source):
            return None
        raise error("schema.field", path=source.path, field=name, what="is missing, and the partition depends on it")
    _check_type(source, name, schema.field(found).type)
    return found


def _check_type(source: Source, name: Any, data_type: Any) -> None:
    types = pa.types
    odd = types.is_nested(data_type) or types.is_dictionary(data_type)
    odd = odd or types.is_null(data_type) or types.is_duration(data_type)
    if odd:
        what = f"is {data_type}, which cannot determine a partition"
        raise error("schema.field", path=source.path, field=name, what=what)
