"""Probe one input file: its compression, encoding and file format, and its schema or first row.

No file is read further than its first row or line end.
"""

import io
import posixpath
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import chain
from typing import Any, BinaryIO, cast

from mutator.config.settings import RowSpec
from mutator.errors import MutatorError, error
from mutator.errors.display import counted
from mutator.errors.parts import MASTER, quoted_value, setting
from mutator.formats.content import EncodingFault, HeaderFault, NotReadable, OtherForm
from mutator.formats.files import lines
from mutator.formats.files.csv import headerless_schema
from mutator.formats.files.escaped import separates
from mutator.formats.files.file_format import Dialect, FileSchema
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.formats.files.quotes import ends_lines
from mutator.plan.inspect.delete_files import has_ids_alone, id_names
from mutator.plan.inspect.first_rows import HEAD, BlockStream, RecordedStream, first_bytes, head_of
from mutator.plan.inspect.headers import other_number_of_names
from mutator.plan.inspect.source import Source
from mutator.rules import file_names
from mutator.rules.encodings import UTF8, contradiction, exact, transcoded
from mutator.rules.envelope import several_tables
from mutator.rules.envelopes import fields_of_tables, has_tables
from mutator.rules.header_lines import configured_names, header_names
from mutator.rules.known_formats import BY_TITLE, FORMATS, format_of_suffix
from mutator.rules.partition_paths import values_above
from mutator.storage import Entry, Storage, blocks
from mutator.storage.compression import CorruptStream, decompress, sniff

_HEAD, _MAGIC = 4096, 64  # bytes of a file that show whether it is text, and whether it is packed

_LONE_CR = re.compile(r"\r(?!\n)")
_NAME_ALL = (
    "give each field a name of its own (pandas leaves that of its index empty: write with index=False), or set "
    f"{setting('input.format=text')} and {setting('header.lines=1')}, and give fields by ordinal; if the first row is "
    f"a record, set {setting('field.names')} to the names of the fields in order, and {setting('header.lines=0')}"
)

# Suffixes of compressions that are not supported, or that no file of text has.
_OTHER = {".lz4", ".snappy", ".zip", ".7z", ".lzo", ".z", ".br", ".deflate"}


def probe_file(
    rows: RowSpec,
    storage: Storage,
    entry: Entry,
    wanted: str | None,
    *,
    named: bool,
    field_names: tuple[str, ...] = (),
    of_master: bool = False,
) -> Source:
    """Probe a file's first bytes and its schema or first row.

    wanted: the file format that the user set. named: whether fields have names in this run, so that .csv means CSV;
    otherwise such a file is delimited text. field_names: those of the master's fields where it is escaped text, so that
    delimited text is escaped, too. of_master: its rows may lack an op code. Raises DataError.
    """
    compression, container, head = _content(storage, entry, wanted)
    file_format = wanted or container or format_of_name(entry.name, named)
    if file_format is None:
        file_format = "escaped" if field_names else "text"
    sequence = rows.order.sequence_of(entry.name)
    source = Source(entry.path, entry.name, entry.bytes, sequence, compression, file_format)
    is_delimited = source.format.delimited
    if not source.format.stores_schema:
        source = replace(source, encoding=encoding_of(rows.text.encoding, source.path, head))
        if source.encoding != UTF8:
            head = b"".join(transcoded([head], source.encoding, cut=True))
    if wanted is None and is_delimited and lines.is_binary(head, rows.text.delimiter.literal):
        raise error("binary", path=source.path)
    other = lines.markup(head) if is_delimited and wanted != "text" else None
    if other == "JSON" and wanted is None:
        file_format, is_delimited = "json", False
        source = replace(source, file_format=file_format)
    elif other == "JSON":
        cure = f"deliver the feed in one format, or set {setting('feed.format=json')}"
        raise error("format", path=source.path, what=f"is JSON, not {source.format.title}", cure=cure)
    elif other is not None:
        raise error("markup", path=source.path, content=other)
    if file_format == "text":
        return _probe_text(rows, storage, source, of_master)
    is_packed = wanted is not None and compression is not None and not is_delimited
    return _probe_schema(rows, storage, source, field_names, b"" if is_packed else head, of_master)


def format_of_name(name: str, named: bool) -> str | None:
    """Return the format that the name of a file promises; None for delimited text.

    named: whether fields have names, so that .csv means CSV.
    """
    promised = format_of_suffix(posixpath.splitext(name)[0] if file_names.compression(name) else name)
    return None if promised == "csv" and not named else promised


def _content(storage: Storage, entry: Entry, wanted: str | None) -> tuple[str | None, str | None, bytes]:
    """Return the compression, the file format if the first bytes show it, and these bytes.

    The bytes are those of the uncompressed content, unless the user set a format with a schema. Raises DataError where
    the name, the content and the setting disagree.
    """
    path, name = entry.path, entry.name
    with storage.open(path) as stream:
        head = stream.read(_HEAD)
    promised, content = file_names.compression(name), sniff(head[:_MAGIC])
    container = BY_TITLE.get(content or "")
    if container is not None:
        if wanted not in (None, container):
            what = f"is {content}, not {wanted}"
            raise error("format", path=path, what=what, cure="leave out the setting that says so")
        content = None
    if content is not None and content not in file_names.COMPRESSIONS.values():
        raise error("compression.unknown", path=path, content=content)
    suffix = posixpath.splitext(name)[1].lower()
    if suffix in _OTHER:
        raise error("compression", path=path, name=suffix[1:], content=content or "plain text")
    if promised != content:
        if not head:
            raise error("damaged", path=path, why=f"it is empty, but {promised} files never are")
        if content is None and lines.is_binary(head):
            content = f"neither {promised} nor text"
        raise error("compression", path=path, name=promised or "plain text", content=content or "plain text")
    if content is not None and (wanted is None or FORMATS[wanted].delimited):
        try:
            head = _first_block(storage, Source(path, name, entry.bytes, compression=content))[:_HEAD]
            container = None if wanted else BY_TITLE.get(sniff(head[:_MAGIC]) or "")
        except CorruptStream as fault:
            raise error("damaged", path=path, why=fault) from None
    return content, container, head


def _blocks(storage: Storage, source: Source, first: int | None = None) -> Generator[bytes, None, None]:
    with storage.open(source.path) as stream:
        stored = blocks(stream, first=first)
        content = decompress(stored, source.compression) if source.compression else stored
        yield from content if source.encoding == UTF8 else transcoded(content, source.encoding)


def _first_block(storage: Storage, source: Source) -> bytes:
    with closing(_blocks(storage, source)) as content:
        return next((block for block in content if block), b"")


def _probe_text(rows: RowSpec, storage: Storage, source: Source, of_master: bool) -> Source:
    """Probe delimited text: its encoding, line ends, headers and first row."""
    try:
        with closing(_blocks(storage, source)) as content:
            first = next((block for block in content if block), b"")
            try:
                data = first_bytes(chain([first], content))
            except CorruptStream:  # a run that reads the file raises it, after the checks by control files
                data = b""
        with closing(_blocks(storage, source)) as content:
            ending = lines.line_end(chain([first], content))  # read if the first block has no LF
        bom = first.startswith(lines.UTF8_BOM)
        with closing(_blocks(storage, source, _HEAD)) as content:
            header_end, headers, row = _first_row(lines.rows(content, ending), rows.text.header_lines, bom)
    except CorruptStream as fault:
        raise error("damaged", path=source.path, why=fault) from None
    split, names = rows.text.delimiter.split, rows.text.names
    quotes = b'"' in first and ".csv" in source.name.lower()
    header = tuple(header_names(split(line)) for line in headers if line)
    head = head_of(data, ending)
    last = next(filter(None, reversed(headers)), b"") if rows.text.header_check else b""
    source = replace(source, ending=ending, bom=bom, header_end=header_end, header=header, header_line=last)
    source = replace(source, quotes=quotes, head=head)
    null = rows.text.csv_null if rows.ops.dialect is not None else b""
    source = replace(source, dialect=Dialect(rows.text.delimiter.literal or b",", null))
    if row is None:
        return source
    fields = split(row)
    width = len(names) if has_tables(rows.ops.envelope, () if of_master else names) else len(fields)
    source = replace(source, width=width)
    names = _names_by_position(rows, source, names, of_master)
    if rows.text.header_check and not rows.text.header_lines and names:
        _check_first_row(source, fields, names)
    schema = headerless_schema(width, names)
    return replace(source, file_schema=FileSchema(schema, typed=False, named=len(names) == width))


def _check_first_row(source: Source, fields: Sequence[bytes], names: Sequence[str]) -> None:
    """Raise DataError if the first row of a file without a header has the names of all its fields, in any order."""
    if sorted(header_names(fields)) == sorted(configured_names(names)):
        what = f"its first row has the names of all fields ({setting('field.names')})"
        cure = (
            f"if it is a header, set {setting('header.lines=1')}; if it is a record, set "
            f"{setting('header.check=false')}"
        )
        raise error("format", path=source.path, what=what, cure=cure)


def _first_row(
    rows: Iterator[tuple[int, bytes]], header_lines: int, bom: bool
) -> tuple[int, list[bytes], bytes | None]:
    """Return the end of the headers, their lines, and the first row after them that is not blank, or None."""
    header_end: int = 0
    headers: list[bytes] = []
    for number, (offset, line) in enumerate(rows):
        content = line.removeprefix(lines.UTF8_BOM) if offset == 0 and bom else line
        if number < header_lines:
            header_end = offset + 1
            headers.append(content)
        elif content:
            return header_end, headers, content
    return header_end, headers, None


def _csv_line_end(storage: Storage, source: Source, dialect: Dialect) -> str:
    """Return how the lines of a CSV file end: at CR if it has no LF, and a CR outside of quotes in its first block."""
    try:
        with closing(_blocks(storage, source)) as content:
            ending = lines.line_end(content)
        if ending != lines.CR or ends_lines(_first_block(storage, source), dialect.escape):
            return ending
        return lines.LF
    except CorruptStream:  # the reader says so
        return lines.LF


def _probe_schema(
    rows: RowSpec, storage: Storage, source: Source, field_names: tuple[str, ...], first: bytes, of_master: bool
) -> Source:
    """Probe a file whose fields have names. first: bytes at the beginning of its uncompressed content, if known."""
    file_format, delimited = source.file_format, source.format.delimited
    dialect, header = Dialect(), False
    if delimited:
        _check_delimited(rows, source)
        # Where settings name fields of CSV, only a header has these names, or ``field.names`` for a dialect.
        called = bool(rows.called) and not (rows.ops.dialect and rows.text.names)
        header = rows.text.header_lines > 0 or (called and file_format == "csv")
        dialect = Dialect(rows.text.delimiter.literal or b",", rows.text.csv_null, header, rows.text.names)
    if file_format == "csv" and not file_names.is_data_file(source.name):  # runs write doubled quotes
        dialect = replace(dialect, escape=rows.text.csv_escape)

    ending = "" if source.format.stores_schema else lines.LF
    if file_format == "csv" and b"\n" not in first:
        ending = _csv_line_end(storage, source, dialect)

    def read(dialect: Dialect) -> tuple[FileSchema, bytes]:
        with storage.open(source.path) as stream:
            if not source.bytes and source.format.stores_schema:
                raise NotReadable(f"it is empty, but {file_format} files never are")
            content = whole(stream, source.compression)
            if source.encoding != UTF8:
                content = cast(BinaryIO, BlockStream(transcoded(blocks(content), source.encoding)))
            if not delimited:
                return FILE_FORMATS[file_format].probe(content, dialect), b""
            recorded = RecordedStream(content, ending)
            return FILE_FORMATS[file_format].probe(cast(BinaryIO, recorded), dialect), recorded.head()

    try:
        file_schema, head = read(dialect)
        if file_format == "csv" and rows.text.names and rows.text.header_check and not header:
            # A first row of names of fields is a header.
            with suppress(HeaderFault):  # a record with an empty value
                with_header, _ = read(replace(dialect, header=True))
                header = set(with_header.schema.names) <= set(dialect.names)
                file_schema = with_header if header else file_schema
    except HeaderFault as fault:
        raise error("format", path=source.path, what=fault, cure=_NAME_ALL) from None
    except OtherForm as fault:
        raise error("format", path=source.path, what=fault, cure=fault.cure) from None
    except EncodingFault:
        raise unreadable_header(source.path, source.encoding) from None
    except (NotReadable, CorruptStream) as fault:
        raise error("damaged", path=source.path, why=fault) from None
    _check_names(source, file_schema)
    names = rows.text.names or (field_names if file_format == "escaped" else ())
    if delimited and names and not header and len(file_schema.schema):
        file_schema = replace(
            file_schema, schema=_named(rows, source, file_schema.schema, names, of_master), named=True
        )
    header_line = head[: file_schema.header_end].removeprefix(lines.UTF8_BOM).strip(b"\r\n")
    has_others = rows.text.header_check and not file_names.is_data_file(source.name)  # a run writes one header a file
    return replace(
        source,
        file_schema=file_schema,
        header_line=header_line if has_others and file_schema.header_end <= len(head) else b"",
        dialect=dialect,
        ending=ending,
        bom=file_schema.bom,
        header_end=file_schema.header_end,
        width=len(file_schema.schema) or None,
        head=head,
        is_header_alone=delimited and header and len(head) <= HEAD and not head[file_schema.header_end :].strip(),
    )


def _check_names(source: Source, file_schema: FileSchema) -> None:
    """Raise DataError where a CR that ends a line, in a file with other line ends, is in the name of a field."""
    name = next((name for name in file_schema.schema.names if _LONE_CR.search(name)), None)
    if source.file_format == "csv" and file_schema.header_end and name is not None:
        what = (
            f"its header has a carriage return in the name {quoted_value(name.encode())}, and other lines end with LF"
        )
        raise error("format", path=source.path, what=what, cure="have all lines end with LF, or with CR and LF")


def _check_delimited(rows: RowSpec, source: Source) -> None:
    """Raise DataError where the delimiter or the number of headers does not suit CSV or escaped text."""
    text, file_format = rows.text, source.file_format
    literal = text.delimiter.literal
    title = source.format.title
    if literal is None or len(literal) != 1:
        what = (
            f"{setting('field.delim.regex')} is {text.delimiter.text}, and the fields of {title} have one byte "
            "between them"
        )
        raise error("format", path=source.path, what=what, cure="set it to that byte")
    if file_format == "escaped" and not separates(literal):
        what = f"{setting('field.delim.regex')} is {text.delimiter.text}, which occurs in escapes too"
        raise error("format", path=source.path, what=what, cure="set it to a byte other than a letter, digit, & or \\")
    if text.header_lines > 1:
        what = (
            f"{setting('header.lines')} is {text.header_lines}, and {title} has one line with the names of its "
            "fields, or none"
        )
        raise error("format", path=source.path, what=what, cure="set it to 1 or 0")


def _named(rows: RowSpec, source: Source, schema: Any, field_names: tuple[str, ...], of_master: bool) -> Any:
    """Return the schema (a pa.Schema) of a file without a header, its fields named by position.

    Raises DataError for another width.
    """
    names = _names_by_position(rows, replace(source, width=len(schema)), field_names, of_master)
    if len(schema) != len(names) and not has_tables(rows.ops.envelope, () if of_master else names):
        what = f"its first row has {counted(len(schema), 'field')}"
        if rows.text.names:
            of_tables = () if of_master else fields_of_tables(rows.ops.envelope)
            more = several_tables(of_tables) if of_tables else ""
            raise other_number_of_names(source.path, what, names, single=len(schema) == 1, more=more)
        what += f", and {MASTER} has {len(names)}: {', '.join(names)}"
        others = f", or {setting('field.names')}, or {setting('header.lines=1')}, as the file has it"
        cure = f"set {setting('field.delim.regex')}{others if len(schema) > 1 else ' to the delimiter of its fields'}"
        raise error("width", where=source.path, what=what, cure=cure)
    return headerless_schema(len(names), names)


def _names_by_position(rows: RowSpec, source: Source, field_names: tuple[str, ...], of_master: bool) -> tuple[str, ...]:
    """Return the names of the fields of a file without a header.

    A delete file may have the ID fields alone, a row of the master may lack the op code and the list of fields that are
    sent, and one in a partition directory the fields that are in its name.
    """
    if has_ids_alone(rows, source, len(field_names)):
        return id_names(rows.key, field_names)
    if has_tables(rows.ops.envelope, () if of_master else field_names):  # the first row may be of another table
        return field_names
    above = {name for name, _ in values_above(source.path)}
    in_path = {name for name in field_names if name in above}

    def named(field: Any) -> set[str]:
        return {one for at, one in enumerate(field_names) if str(field).lower() in (str(at), one.lower())}

    op, listing = named(rows.ops.field), named(rows.ops.listing)
    ways = dict.fromkeys(map(frozenset, (op, op | listing, listing)))
    fewer = (*ways, in_path, *(one | in_path for one in ways)) if of_master else (in_path, op)
    found = (tuple(name for name in field_names if name not in lacking) for lacking in fewer)
    return next((names for names in found if len(names) == source.width), field_names)


def whole(stream: BinaryIO, compression: str | None) -> BinaryIO:
    """Return a seekable stream of the uncompressed content."""
    if compression is None:
        return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, stream)))
    return io.BytesIO(b"".join(decompress(blocks(stream), compression)))


def encoding_of(wanted: str, path: str, head: bytes) -> str:
    """Return the encoding of a delimited file. Raises DataError where its first bytes show another one.

    wanted: as the user set it. head: the first bytes, uncompressed.
    """
    wide = lines.wide_encoding(head)
    if wide is not None and not wanted.startswith(wide.lower()):
        cure = f", or convert it to UTF-8 (iconv -f {wide} -t UTF-8)"
        raise error("encoding", path=path, what=f"{wide} text", name=wide.lower(), cure=cure)
    if found := contradiction(wanted, head):
        what = f"{found} text" if found.startswith("not") else f"{found} text, not {wanted}"
        raise error("encoding", path=path, what=what, name=UTF8, cure="")
    return exact(wanted, head)


def unreadable_header(path: str, encoding: str) -> MutatorError:
    """Return the error of a file whose header is not in its encoding."""
    wanted = encoding if encoding != UTF8 else "UTF-8"
    cure = ", if it is of a Windows program" if encoding == UTF8 else ""
    what = f"not {wanted} text: its header has other bytes"
    return error("encoding", path=path, what=what, name="cp1252" if encoding == UTF8 else UTF8, cure=cure)
