"""Read and write delimited files as columns: CSV with quotes (RFC 4180), and text whose bytes mean themselves.

A quote begins or ends a field, or is doubled or escaped within quotes; a row with a quote elsewhere is rejected. Quoted
text may contain delimiters, line ends and quotes. The text for NULL means NULL only without quotes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, BinaryIO, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.display import counted
from mutator.formats.content import Content, EncodingFault, HeaderFault, Reject, Window
from mutator.formats.files import lines as text
from mutator.formats.files.file_format import Dialect, FileSchema, RowBatch, TableWriter
from mutator.formats.files.line_scan import NEWLINE, Lines, LineTable, scan
from mutator.formats.files.lines import CHUNK, chunks
from mutator.formats.files.quotes import QUOTE, plain, quote_marks, unquoted
from mutator.formats.values.scalar_text import as_text
from mutator.rules.byte_columns import PAD, ByteColumn, Bytes, Flags, Ints, binary, concatenated, joined
from mutator.rules.envelope import ANY_WIDTH
from mutator.rules.order_columns import flags
from mutator.rules.schema_evolution import from_text

_STRAY = "has a quote within a field, or text after a closing quote"
_OPEN = "a quote is opened in it, and never closed"
_RESCAN = 4 << 10  # bytes to scan after a stray quote
_BLOCK = 1 << 20
_SAMPLE = 64 << 20  # bytes in which a first row must end


class CsvFiles:
    """The file format "csv"."""

    nested = False
    codecs: ClassVar[Mapping[str, str]] = {"none": "none"}
    line = "row"

    def probe(self, stream: BinaryIO, dialect: Dialect) -> FileSchema:
        """Return the fields of the first row: their names, or their number."""
        data = b""
        while block := stream.read(_BLOCK):
            data += block
            row = next(self._first_row(data, dialect), None)
            if row is not None or len(data) > _SAMPLE:
                break
        else:
            row = next(self._first_row(data + b"\n", dialect), None)
        bom = data.startswith(text.UTF8_BOM)
        fields, end = row if row is not None else ([], 0)
        if dialect.header:
            names = [_name(field) for field in fields]
            if "" in names:
                raise HeaderFault(f"its header has no name for field {names.index('')} (they count from 0)")
            if len({*names}) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise HeaderFault(f"its first row is read as a header, and has the name {twice!r} twice")
            return FileSchema(pa.schema([(name, pa.string()) for name in names]), False, True, end, bom)
        return FileSchema(headerless_schema(len(fields), dialect.names), False, bool(dialect.names), 0, bom)

    def _first_row(self, data: bytes, dialect: Dialect) -> Iterator[tuple[list[bytes], int]]:
        """Yield the fields of the first whole row that is not blank, and the offset of its end."""
        start = len(text.UTF8_BOM) if data.startswith(text.UTF8_BOM) else 0
        for offset, chunk, _ in self._chunks([data], Window(text.LF), dialect):
            body = np.frombuffer(chunk[start:] + PAD, np.uint8)
            table = LineTable.of(body, dialect.delimiter[0], None, self._quoted(body, dialect.escape))
            for row in np.flatnonzero(table.ends > table.starts).tolist():
                ends = table.marks[table.first[row] : table.first[row] + table.fields[row]]
                starts = np.append(table.starts[row], ends[:-1] + 1)
                fields = [body[a:b].tobytes() for a, b in zip(starts, ends, strict=True)]
                fields[-1] = fields[-1].removesuffix(b"\r")
                if fields != [b""]:
                    yield [self._plain(field, dialect) for field in fields], offset + start + int(table.ends[row])
            return

    def _plain(self, field: bytes, dialect: Dialect) -> bytes:
        return plain(field, dialect.escape)

    def count(self, content: Content, dialect: Dialect) -> int:
        """Count the rows by reading them without any field: a row may span lines."""
        found = self.read(content, pa.schema([]), (), dialect)
        return sum(one.lines - one.ignored for one in found)

    def stored(self, spec: Mapping[str, Any]) -> FileSchema:
        """Return the schema in the manifest."""
        return FileSchema(
            from_text(spec["schema"]), header_end=1 if spec["csv"]["header"] else 0, named=spec["csv"]["header"]
        )

    def read(self, content: Content, schema: Any, names: Sequence[str], dialect: Dialect) -> Iterator[RowBatch]:
        """Yield rows whose fields are large_binary, NULL where they have the text for NULL.

        schema: may have the mark ``ANY_WIDTH``.
        """
        before, delimiter, quoted = 0, dialect.delimiter[0], partial(self._quoted, escape=dialect.escape)
        blocks, window = self._lines(content)
        for offset, chunk, why in self._chunks(blocks, window, dialect):
            if why is not None:
                found = _of_one_reject(chunk, offset, before + 1, names, why)
            else:
                lines = scan(chunk, offset, window, delimiter, len(schema), quoted)
                found = self._batch(lines, before, schema, names, dialect)
            before += found.lines
            yield found

    def _lines(self, content: Content) -> tuple[Iterable[bytes], Window]:
        """Return the content with LF at the end of lines, also within quotes, and the window for it."""
        if content.window.ending != text.CR:
            return content.blocks(), content.window
        return (block.replace(b"\r", b"\n") for block in content.blocks()), replace(content.window, ending=text.LF)

    def _chunks(
        self, blocks: Iterable[bytes], window: Window, dialect: Dialect
    ) -> Iterator[tuple[int, bytes, str | None]]:
        """Yield (offset, whole rows, None), and (offset, line, reason) for a line with a stray quote.

        A bad row ends with its line, so that the rows after it are read.
        """
        offset, rest, ended = 0, b"", False
        source = iter(blocks)
        while not ended:
            block = next(source, None)
            ended = block is None
            rest += block or b""
            if not ended and len(rest) < CHUNK and len(block or b"") >= _BLOCK:
                continue
            at, size = 0, len(rest)
            while at < len(rest):
                last = ended and at + size >= len(rest)
                piece = rest[at : at + size]
                good, bad, why = _cut(piece, dialect, last=last)
                if good:
                    yield offset + at, piece[:good], None
                if bad:
                    yield offset + at + good, piece[good : good + bad], why
                at += good + bad
                if bad:
                    size = _RESCAN  # more stray quotes may follow, and each scan costs its bytes
                elif at + size < len(rest):
                    size *= 4
                elif not good:
                    break
            offset, rest = offset + at, rest[at:]

    def _quoted(self, data: Bytes, escape: bytes) -> Any:
        """Return which bytes of padded data are within quotes, the opening one included; None without quotes."""
        body = data[: -len(PAD)]
        quote = np.zeros(len(body), np.bool_)
        quote[quote_marks(body, escape)] = True
        return np.logical_xor.accumulate(quote) if quote.any() else quote

    def _batch(self, lines: Lines, before: int, schema: Any, names: Sequence[str], dialect: Dialect) -> RowBatch:
        """Return the rows of a chunk. before: number of rows of the split before it."""
        data, table = lines.data, lines.table
        width_field = (schema.metadata or {}).get(ANY_WIDTH)
        good, reason, column = self._parsed(data, table, len(schema) if width_field is None else None, dialect)
        rows = np.flatnonzero(good)
        if width_field is None:
            columns = [column(rows, schema.get_field_index(name)) for name in names]
        else:
            widths = pa.array(np.char.mod("%d", table.fields[rows]), pa.string()).cast(pa.large_binary())
            columns = [
                widths
                if name == width_field.decode()
                else _where_it_is(table, rows, schema.get_field_index(name), column)
                for name in names
            ]
        batch = pa.RecordBatch.from_arrays(columns, schema=_binary_schema(names))
        bad = (lines.reject(row, before, reason(row)) for row in np.flatnonzero(~good).tolist())
        rejects = lines.rejects(before, bad)

        def raw() -> ByteColumn:
            return ByteColumn(data, table.starts[rows], table.ends[rows] + 1)

        numbers, ignored = before + lines.numbers[rows] + 1, lines.count - len(table) - len(lines.unreadable)
        return RowBatch(batch, lines.offsets[rows], numbers, rejects, lines.count, ignored, raw, as_text=True)

    def _parsed(self, data: Bytes, table: LineTable, width: int | None, dialect: Dialect) -> tuple[Flags, Any, Any]:
        """Return which rows are good, the reason of a bad one, and a function from rows and position to a column.

        width: the number of fields of a good row; None: any.
        """
        good, why = self._good(data, table, self._quoted(data, dialect.escape), width, dialect)
        return good, why, lambda rows, position: self._column(table.field(data, rows, position), dialect)

    def _good(
        self, data: Bytes, table: LineTable, quoted: Flags | None, width: int | None, dialect: Dialect
    ) -> tuple[Flags, Any]:
        """Return which rows are good, and a function that returns the reason of a bad one."""
        good = np.ones(len(table), np.bool_) if width is None else table.fields == width
        stray = np.zeros(len(table), np.bool_)
        if quoted is not None:
            body = data[: -len(PAD)]
            marks = quote_marks(body, dialect.escape)
            opens = quoted[marks]
            first = opens & np.isin(marks, table.starts)
            around = np.array([dialect.delimiter[0], NEWLINE, QUOTE], np.uint8)
            behind = np.where(marks > 0, body[marks - 1], NEWLINE)
            bad = np.where(opens, ~(first | np.isin(behind, around)), ~np.isin(data[marks + 1], around))
            rows = np.searchsorted(table.starts, marks[bad], side="right") - 1
            places, rows = marks[bad][rows >= 0], rows[rows >= 0]
            stray[rows[places < table.ends[rows]]] = True  # other quotes are in headers
        good &= ~stray

        def reason(row: int) -> str:
            if stray[row]:
                return _STRAY
            return f"has {counted(table.fields[row], 'field')} and should have {width}"

        return good, reason

    def _column(self, fields: ByteColumn, dialect: Dialect) -> Any:
        """Return the values of a field without their quotes; NULL for the text for NULL."""
        if not len(fields):
            return pa.array([], pa.large_binary())
        lengths = fields.ends - fields.starts
        in_quotes = (lengths > 1) & (fields.data[fields.starts] == QUOTE)
        inner = ByteColumn(fields.data, fields.starts + in_quotes, fields.ends - in_quotes)
        values = inner.take()
        if in_quotes.any():
            values = unquoted(values, in_quotes, dialect.escape)
        null = ~in_quotes & (lengths == len(dialect.null))
        if dialect.null and null.any():
            null &= flags(pc.equal(values, binary(dialect.null)))
        return pc.if_else(pa.array(null), binary(None), values) if null.any() else values

    def position(self, offset: int, line: int) -> str:
        """Return the row's number, if it is known, and first byte; a row of CSV may span several lines of the file."""
        return f"{self.line} {line}, byte {offset}" if line else f"byte {offset}"

    def storable_type(self, data_type: Any) -> Any:
        """Return the type itself unless it is nested: fields are text, and the manifest has their types."""
        return None if pa.types.is_nested(data_type) or pa.types.is_duration(data_type) else data_type

    def writer(self, stream: BinaryIO, schema: Any, dialect: Dialect) -> TableWriter:
        """Return a writer to a stream."""
        return _Writer(stream, schema, dialect)


def _where_it_is(table: LineTable, rows: Ints, position: int, column: Any) -> Any:
    """Return the field of some rows at a position, NULL in those that end before it. column: as of ``_parsed``."""
    has = table.fields[rows] > position
    values = column(rows[has], position)
    return values if has.all() else values.take(pa.array(np.cumsum(has) - 1, mask=~has))


def _binary_schema(names: Sequence[str]) -> Any:
    return pa.schema([(name, pa.large_binary()) for name in names])


def _of_one_reject(line: bytes, offset: int, number: int, names: Sequence[str], why: str) -> RowBatch:
    """Return a batch of one reject."""
    schema = _binary_schema(names)
    batch = pa.RecordBatch.from_arrays([pa.array([], pa.large_binary()) for _ in names], schema=schema)
    reject = Reject(offset, number, why, line.rstrip(b"\r\n"))
    return RowBatch(batch, np.zeros(0, np.int64), np.zeros(0, np.int64), [reject], 1, 0, as_text=True)


def _cut(data: bytes, dialect: Dialect, *, last: bool) -> tuple[int, int, str | None]:
    """Return the number of bytes of whole rows, of the bad line after them, and the reason why it is bad.

    data: begins with a row. last: it ends the file.
    """
    body = np.frombuffer(data, np.uint8)
    marks = quote_marks(body, dialect.escape)
    lines = np.flatnonzero(body == NEWLINE)
    if not len(marks):
        return (len(data), 0, None) if last else (int(lines[-1]) + 1 if len(lines) else 0, 0, None)
    opens = np.arange(len(marks)) % 2 == 0
    inside = np.searchsorted(marks, lines) % 2 == 1
    ends = lines[~inside]
    behind = body[np.maximum(marks - 1, 0)]
    before = body[np.minimum(marks + 1, len(body) - 1)]
    begins = (marks == 0) | np.isin(marks, _after_boms(data))  # files that begin with one may be joined
    around = np.array([dialect.delimiter[0], NEWLINE, QUOTE, 13], np.uint8)
    known = marks + 1 < len(body)  # the byte after the last one is not known yet
    bad = np.where(opens, ~begins & ~np.isin(behind, around[:3]), known & ~np.isin(before, around))
    wrong = np.flatnonzero(bad)
    stray = int(marks[wrong[0]]) if len(wrong) else None
    why: str | None = _STRAY
    if stray is None and len(marks) % 2 and (last or len(data) - int(marks[-1]) > _SAMPLE):
        stray, why = int(marks[-1]), _OPEN
    if stray is None:
        whole = int(ends[-1]) + 1 if len(ends) else 0
        return (len(data), 0, None) if last else (whole, 0, None)
    row = int(ends[np.searchsorted(ends, stray) - 1]) + 1 if len(ends) and ends[0] < stray else 0
    line = data.find(b"\n", stray)
    if line < 0 and not last:
        return row, 0, None
    return row, (line + 1 if line >= 0 else len(data)) - row, why


def _after_boms(data: bytes) -> list[int]:
    """Return the offsets after the byte order marks at the beginning of lines."""
    found, at = list[int](), data.find(text.UTF8_BOM)
    while at >= 0:
        if at == 0 or data[at - 1] == NEWLINE:
            found.append(at + len(text.UTF8_BOM))
        at = data.find(text.UTF8_BOM, at + 1)
    return found


def headerless_schema(count: int, names: Sequence[str]) -> Any:
    """Return the pa.Schema of files without a header: the user's names if there are ``count`` of them, else numbers."""
    names = names if len(names) == count else [str(number) for number in range(count)]
    return pa.schema([(name, pa.string()) for name in names])


class TextFiles(CsvFiles):
    """The file format "text": without quotes, and without NULL, unless rows of a dialect have a text for it."""

    line = "line"

    def _lines(self, content: Content) -> tuple[Iterable[bytes], Window]:
        return content.blocks(), content.window

    def _chunks(
        self, blocks: Iterable[bytes], window: Window, dialect: Dialect
    ) -> Iterator[tuple[int, bytes, str | None]]:
        return ((offset, chunk, None) for offset, chunk in chunks(blocks, window))

    def _quoted(self, data: Bytes, escape: bytes) -> Any:
        return None

    def _plain(self, field: bytes, dialect: Dialect) -> bytes:
        return field

    def _column(self, fields: ByteColumn, dialect: Dialect) -> Any:
        values = fields.take()
        if not dialect.null and not dialect.empty_is_null:
            return values
        return pc.if_else(pc.equal(values, binary(dialect.null)), binary(None), values)

    def storable_type(self, data_type: Any) -> Any:
        """Return None: a value may contain the delimiter, and could not be written."""
        return None


def joined_lines(columns: Sequence[Any], delimiter: bytes) -> Any:
    """Return the bytes of lines of fields, from pa.Arrays of large_binary without NULL."""
    return joined(concatenated(pc.binary_join_element_wise(*columns, binary(delimiter)), b"\n"))


class _Writer:
    """Quotes the fields that need it, and no others."""

    def __init__(self, stream: BinaryIO, schema: Any, dialect: Dialect) -> None:
        self._stream, self._dialect = stream, dialect
        special = "".join(f"\\x{byte:02x}" for byte in {*dialect.delimiter, *b'"\r\n'})
        self._special = f"[{special}]"
        if dialect.header:
            names = pa.array([name.encode() for name in schema.names], pa.large_binary())
            stream.write(dialect.delimiter.join(self._quoted(names).to_pylist()) + b"\n")

    def write(self, batch: Any) -> None:
        columns = [self._quoted(as_text(column)) for column in batch.columns]
        self._stream.write(joined_lines(columns, self._dialect.delimiter))

    def _quoted(self, values: Any) -> Any:
        null = binary(self._dialect.null)
        must = pc.match_substring_regex(values, self._special)
        # The text for NULL needs quotes where it is a value, and so does an empty value, whose line could be blank.
        must = pc.or_(must, pc.equal(values, null))
        must = pc.fill_null(pc.or_(must, pc.equal(pc.binary_length(values), 0)), False)
        if flags(must).any():
            inner = pc.replace_substring(values.filter(must), '"', '""')
            values = pc.replace_with_mask(values, must, concatenated(b'"', inner, b'"'))
        return pc.fill_null(values, null)

    def close(self) -> None:
        pass


def _name(field: bytes) -> str:
    try:
        return field.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise EncodingFault from None
