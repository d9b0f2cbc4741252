"""Write Arrow batches as CSV, JSON or Parquet, for people and other programs."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa

from mutator.errors import error
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.formats.files.parquet import table_writer
from mutator.formats.values.json_text import to_json
from mutator.storage import located_to_write
from mutator.storage.local import remove_leftovers


def row_text(reader: Any, output_format: str) -> Iterator[bytes]:
    """Yield rows as lines, several at a time, without the last line feed.

    reader: ``Rows`` or a pa.RecordBatchReader. output_format: csv, with a header, or json, with an object on each line.
    """
    if output_format == "json":
        yield from (b"\n".join(to_json(_rows(batch)).to_pylist()) for batch in reader if batch.num_rows)
        return
    stream = io.BytesIO()
    writer = FILE_FORMATS["csv"].writer(stream, reader.schema, Dialect(header=True))
    yield _cut(stream)
    for batch in reader:
        if batch.num_rows:
            columns = [to_json(column) if pa.types.is_nested(column.type) else column for column in batch.columns]
            writer.write(pa.RecordBatch.from_arrays(columns, reader.schema.names))
            yield _cut(stream)


def write_file(reader: Any, output_format: str, path: str) -> int:
    """Write the rows of a reader to a new file; return their number. It appears when it is whole."""
    storage, path = located_to_write(path)
    if storage.stat(path) is not None:
        raise error("table.output", path=path)
    if storage.holds:  # a local file system
        remove_leftovers(path)
    counted = _Counted(reader)
    with storage.create_new(path) as stream:
        if output_format == "parquet":
            _write_parquet(stream, counted, reader.schema)
        else:
            for text in row_text(counted, output_format):
                stream.write(text + b"\n")
    return counted.rows


class _Counted:
    """A reader whose rows are counted."""

    def __init__(self, reader: Any) -> None:
        self._reader, self.schema, self.rows = reader, reader.schema, 0

    def __iter__(self) -> Iterator[Any]:
        for batch in self._reader:
            self.rows += batch.num_rows
            yield batch


def _write_parquet(stream: BinaryIO, batches: Any, schema: Any) -> None:
    with table_writer(stream, schema, "zstd") as write:
        for batch in batches:
            write(batch)


def _rows(batch: Any) -> Any:
    return pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))


def _cut(stream: io.BytesIO) -> bytes:
    """Empty a stream; return its bytes without the last line feed."""
    content = stream.getvalue()
    stream.seek(0)
    stream.truncate()
    return content[:-1]
