"""The fields of a dataset of delimited text, as columns of text."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.config.settings import InputSpec, RowSpec
from mutator.dataset.file_content import FileContent
from mutator.dataset.state import State
from mutator.errors import error
from mutator.formats.files.line_scan import LineTable, padded
from mutator.formats.files.lines import chunks
from mutator.plan.inspect.headers import HEADER
from mutator.plan.inspect.source import Source
from mutator.plan.rows.text_rows import stored_text_row_plan
from mutator.rules.delimiter.field_delimiter import Delimiter


def text_schema(known: State, sources: Sequence[Source]) -> Any:
    """Return the pa.Schema of a dataset of delimited text: strings, as many as its widest row has fields."""
    width = known.spec["width"]
    if not isinstance(width, int):
        width = max((_widest(source, _delimiter(known)) for source in sources), default=0)
    header = known.spec.get(HEADER, ())
    is_header = len(header) == 1 and len(set(header[0])) == len(header[0]) == width
    names = header[0] if is_header else [f"field_{number}" for number in range(width)]
    return pa.schema([(name, pa.string()) for name in names])


def check_text_feed(known: State, rows: RowSpec, inputs: InputSpec, label: str) -> None:
    """Raise ConfigError if a merge would not read the rows of a dataset of delimited text as they were written.

    label: the name of the dataset for messages.
    """
    if rows.order.by_file_name:
        raise error("table.sequence", table=label)
    delimiter, op = _delimiter(known), known.spec["op code"]
    if (delimiter.literal, delimiter.pattern) != (rows.text.delimiter.literal, rows.text.delimiter.pattern):
        what = f"the delimiter of its rows is {delimiter.text!r}, not {rows.text.delimiter.text!r}"
        regex = delimiter.text if delimiter.literal is None or len(delimiter.text) == 1 else rf"\Q{delimiter.text}\E"
        raise error("dataset.feed", dataset=label, what=what, cure=f"set delimiter={regex!r}")
    if rows.text.header_lines:
        what = f"its files have no header lines, so header={rows.text.header_lines} would skip rows"
        raise error(
            "dataset.feed", dataset=label, what=what, cure="leave header out, and give files with headers alone"
        )
    if inputs.feed_format not in (None, "text"):
        what = f"its rows are delimited text, not {inputs.feed_format}"
        raise error("dataset.feed", dataset=label, what=what, cure="leave out input_format and feed_format")
    if rows.ops.field is not None and op != rows.ops.field:
        what = f"its rows have no op codes in field {rows.ops.field}"
        raise error("dataset.feed", dataset=label, what=what, cure="merge it alone, without op: its rows are upserts")


def _widest(source: Source, delimiter: Delimiter) -> int:
    """Return the number of fields of the widest row, without splitting rows if the delimiter is one byte."""
    literal = delimiter.literal
    if literal is None or len(literal) != 1:
        return max((len(row) for row in _rows(source, delimiter)), default=0)
    widest = 0
    for _, chunk in chunks(_content(source).blocks(), source.window()):
        data = np.frombuffer(chunk.removesuffix(b"\n"), np.uint8)
        ends = np.append(np.flatnonzero(data == ord("\n")), len(data))
        delimiters = np.searchsorted(np.flatnonzero(data == literal[0]), ends)  # up to the end of each row
        widest = max(widest, 1 + int(np.diff(delimiters, prepend=0).max()))
    return widest


def text_batches(known: State, source: Source, schema: Any) -> Iterator[Any]:
    """Yield the rows of a file as pa.RecordBatches; a row without a field has NULL there.

    Raises DataError for a field that is not UTF-8.
    """
    literal, width = _delimiter(known).literal, known.spec["width"]
    is_table = literal is not None and len(literal) == 1 and isinstance(width, int)
    found = (
        _columns(source, literal[0], width) if is_table and literal else _columns_of_rows(source, known, len(schema))
    )
    for columns in found:
        texts = [_text(column, field.name, source.path) for column, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(texts, schema=schema)


def _delimiter(known: State) -> Delimiter:
    layout = stored_text_row_plan(known).layouts["master"]
    delimiter: Delimiter = layout.delimiter
    return delimiter


def _content(source: Source) -> FileContent:
    return FileContent(source.path, source.bytes, source.window(), checksum=source.checksum)


def _columns(source: Source, delimiter: int, width: int) -> Iterator[list[Any]]:
    """Yield the columns of rows of one width, each a pa.Array of large_binary."""
    for _, chunk in chunks(_content(source).blocks(), source.window()):
        data, _ = padded(chunk, source.window())
        table = LineTable.of(data, delimiter, width)
        rows = np.arange(len(table))
        yield [table.field(data, rows, ordinal).take() for ordinal in range(width)]


def _columns_of_rows(source: Source, known: State, width: int) -> Iterator[list[Any]]:
    """Yield the columns of rows that are split one by one."""
    rows = [[*row, *[None] * (width - len(row))] for row in _rows(source, _delimiter(known))]
    yield [pa.array([row[number] for row in rows], pa.large_binary()) for number in range(width)]


def _rows(source: Source, delimiter: Delimiter) -> Iterator[Sequence[bytes | None]]:
    for _, chunk in chunks(_content(source).blocks(), source.window()):
        yield from map(delimiter.split, chunk.removesuffix(b"\n").split(b"\n"))


def _text(column: Any, name: str, path: str) -> Any:
    try:
        return column.cast(pa.large_string()).cast(pa.string())
    except pa.ArrowInvalid:
        raise error("text.encoding", path=path, field=name) from None
