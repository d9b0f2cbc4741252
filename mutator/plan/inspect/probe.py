"""Look at one file: its compression, its encoding, its first row, or what it says of its fields.

No file is read further than its first row or line end.
"""

from __future__ import annotations

import io
import json
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, cast

import pyarrow as pa

from mutator.config import Config
from mutator.dataset.manifest import Part, SideFile
from mutator.errors import error
from mutator.formats.content import NotReadable
from mutator.formats.files import lines, registry
from mutator.formats.files.contract import Dialect, FileSchema
from mutator.formats.files.csv import headerless_schema
from mutator.formats.files.escaped import separates
from mutator.formats.files.registry import FILE_FORMATS
from mutator.rules import file_names
from mutator.storage import Entry, Storage, absolute, blocks, storage_for
from mutator.storage.compression import CorruptStream, decompress, sniff

_CONTAINERS = {"Parquet": "parquet", "ORC": "orc", "Avro": "avro"}  # as first bytes name them -> kind

__all__ = ["Source", "probe_file", "read_schema", "whole"]

# Suffixes of compressions that are not read here: a mistake on text, and unreadable with the content they promise.
_OTHER = {".lz4", ".snappy", ".zip", ".7z", ".lzo", ".z", ".br", ".deflate"}


@dataclass(frozen=True)
class Source:
    """One input file."""

    path: str
    name: str
    bytes: int
    sequence: int | None = None
    compression: str | None = None
    ending: str = lines.LF
    bom: bool = False  # begins with a UTF-8 byte order mark, which is no part of the first row
    header_end: int = 0  # lines that begin before this offset are headers
    width: int | None = None  # number of fields of the first row; None where there is no row
    order_path: str | None = None  # sequences of the rows, in a managed master
    order_checksum: str | None = None
    checksum: str | None = None  # as the manifest has it
    bucket: int | None = None
    part: Part | None = None  # what the manifest says of it
    order_part: SideFile | None = None  # and of the file with the sequences
    dialect: Dialect = field(default_factory=Dialect)  # of delimited files whose fields have names
    kind: str = "text"  # of file: a key of ``formats.kinds.FILE_FORMATS``
    file_schema: FileSchema | None = None  # what it says of its fields; text may have none
    stored: Mapping[str, Any] = field(default_factory=dict, hash=False)  # how a manifest says that it was written
    quotes: bool = False  # it is called CSV, is read as delimited text, and its first row has quotes

    @property
    def is_packed(self) -> bool:
        """Tell whether its rows take far more room than its bytes: it is compressed, or of columns or records."""
        return self.compression is not None or FILE_FORMATS[self.kind].typed

    def place(self, offset: int, line: int) -> str:
        """Say where a row is."""
        return FILE_FORMATS[self.kind].position(offset, line)


def probe_file(
    config: Config,
    storage: Storage,
    entry: Entry,
    kind: str | None,
    *,
    named: bool,
    places: tuple[str, ...] = (),
) -> Source:
    """Look at a file's first bytes: compression, encoding, line ends, header, number of fields of the first row.

    kind: what the user says that it is. named: something in the run has names for its fields, so that .csv means CSV;
    where nothing has, it is delimited text as ever. places: the names of the fields of delimited text, which is escaped
    where the master says them.
    """
    path, name = entry.path, entry.name
    with storage.open(path) as stream:
        head = stream.read(64)
    promised, content = file_names.compression(name), sniff(head)
    suffix = posixpath.splitext(name)[1].lower()
    container = _CONTAINERS.get(content or "")
    if container is not None:
        if kind not in (None, container):
            what = f"is {content}, and no {kind}"
            raise error("format", path=path, what=what, cure="leave out the setting that says so")
        content = None
    if content is not None and content not in file_names.COMPRESSIONS.values():
        raise error("compression.unknown", path=path, content=content)
    if suffix in _OTHER:
        raise error("compression", path=path, name=suffix[1:], content=content or "plain text")
    if promised != content:
        if not head:
            raise error("damaged", path=path, why=f"it is empty, and no {promised} file is")
        raise error("compression", path=path, name=promised or "plain text", content=content or "plain text")

    def content_blocks(opened: BinaryIO) -> Iterator[bytes]:
        raw = blocks(opened)
        return decompress(raw, content) if content else raw

    if kind is None and content is not None:
        try:
            with storage.open(path) as stream:
                unpacked = next((block for block in content_blocks(stream) if block), b"")
        except CorruptStream as fault:
            raise error("damaged", path=path, why=fault) from None
        container = _CONTAINERS.get(sniff(unpacked[:64]) or "")
    if kind is None:
        said = registry.format_of_suffix(posixpath.splitext(name)[0] if promised else name)
        kind = container or (said if said != "csv" or named else None) or ("escaped" if places else "text")
    if kind != "text":
        return _look_at_fields(config, storage, entry, kind, content, places)
    try:
        with storage.open(path) as stream:
            first = next((block for block in content_blocks(stream) if block), b"")
        wide = lines.wide_encoding(first)
        if wide:
            raise error("encoding", path=path, encoding=wide)
        with storage.open(path) as stream:
            ending = lines.line_end(content_blocks(stream))
        bom, header_end, width, quotes = first.startswith(lines.UTF8_BOM), 0, None, False
        with storage.open(path) as stream:
            for number, (offset, row) in enumerate(lines.rows(content_blocks(stream), ending)):
                if offset == 0 and bom:
                    row = row[len(lines.UTF8_BOM) :]
                if number < config.header_lines:
                    header_end = offset + 1
                elif row:
                    quotes = b'"' in row and ".csv" in name.lower()
                    width = len(config.delimiter.split(row))
                    break
    except CorruptStream as fault:
        raise error("damaged", path=path, why=fault) from None
    file_schema = None
    if width is not None:
        file_schema = FileSchema(
            headerless_schema(width, config.field_names), typed=False, named=bool(config.field_names)
        )
    sequence = file_names.sequence(name)
    return Source(
        path,
        name,
        entry.bytes,
        sequence,
        content,
        ending,
        bom,
        header_end,
        width,
        file_schema=file_schema,
        quotes=quotes,
    )


def _look_at_fields(
    config: Config, storage: Storage, entry: Entry, kind: str, content: str | None, places: tuple[str, ...]
) -> Source:
    """Look at the fields of a file of a kind that has names for them."""
    literal = config.delimiter.literal
    delimited = not FILE_FORMATS[kind].typed
    title = {"csv": "CSV"}.get(kind, kind)
    if delimited and (literal is None or len(literal) != 1):
        what = f"field.delim.regex is {config.delimiter.text}, and the fields of {title} have one byte between them"
        raise error("format", path=entry.path, what=what, cure="set it to that byte")
    if kind == "escaped" and not separates(literal):
        what = f"field.delim.regex is {config.delimiter.text}, which stands in escapes too"
        raise error("format", path=entry.path, what=what, cure="set it to what is no letter, digit, & or backslash")
    if delimited and config.header_lines > 1:
        what = f"header.lines is {config.header_lines}, and {title} has one line with the names of its fields, or none"
        raise error("format", path=entry.path, what=what, cure="set it to 1 or 0")
    # A header is there where the user says so, or calls fields by names that can stand nowhere else.
    called = [one for one in (*config.id_fields, config.order_field, config.op_field) if isinstance(one, str)]
    header = config.header_lines > 0 or (bool(called) and kind == "csv")
    dialect = Dialect(literal or b",", config.csv_null, header, config.field_names)
    try:
        with storage.open(entry.path) as stream:
            if not entry.bytes and not delimited:
                raise NotReadable(f"it is empty, and no {kind} file is")
            file_schema = FILE_FORMATS[kind].probe(whole(stream, content), dialect)
        if kind == "csv" and config.field_names and not header:  # a first row of names of fields is a header
            with storage.open(entry.path) as stream:
                named = FILE_FORMATS[kind].probe(whole(stream, content), replace(dialect, header=True))
            file_schema = named if set(named.schema.names) <= set(dialect.names) else file_schema
    except (NotReadable, CorruptStream) as fault:
        raise error("damaged", path=entry.path, why=fault) from None
    if kind == "escaped" and places and not file_schema.named and len(file_schema.schema):
        file_schema = replace(file_schema, schema=_by_place(config, entry, file_schema.schema, places), named=True)
    return Source(
        entry.path,
        entry.name,
        entry.bytes,
        file_names.sequence(entry.name),
        content,
        lines.LF if delimited else "",
        file_schema.bom,
        file_schema.header_end,
        len(file_schema.schema) or None,
        dialect=dialect,
        kind=kind,
        file_schema=file_schema,
    )


def _by_place(config: Config, entry: Entry, schema: Any, places: tuple[str, ...]) -> Any:
    """Name the fields of a feed file by their places; where order comes from file names, a delete file may have those
    of the ID alone."""
    ids = [one if isinstance(one, str) else places[min(one, len(places) - 1)] for one in config.id_fields]
    short = (
        config.by_file_name and config.op_field is None and file_names.is_delete_file(entry.name, config.delete_prefix)
    )
    names = ids if short and len(schema) == len(ids) else places
    if len(schema) != len(names):
        what = f"its first row has {len(schema)} fields, and should have {len(names)}: {', '.join(places)}"
        cure = "set field.delim.regex, or field.names, or header.lines=1, as the file has it"
        if len(schema) == 1:
            cure = "set field.delim.regex to what stands between its fields"
        raise error("width", where=entry.path, what=what, cure=cure)
    return pa.schema([one.with_name(name) for one, name in zip(schema, names, strict=True)])


def whole(stream: BinaryIO, compression: str | None) -> BinaryIO:
    """Return a stream that can be read at any place; of a compressed file all of its content."""
    if compression is None:
        return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, stream)))
    return io.BytesIO(b"".join(decompress(blocks(stream), compression)))


def read_schema(path: str) -> tuple[str, FileSchema]:
    """Read an Avro schema."""
    place = absolute(path)
    with storage_for(place).open(place) as stream:
        content = b"".join(blocks(stream))
    try:
        return path, FILE_FORMATS["avro"].stored({"schema": json.loads(content)})
    except (ValueError, KeyError, TypeError) as fault:
        raise error("config", where=f"output.schema={path}", faults=f"is no Avro schema: {fault}") from None
