"""Parquet files: row groups as record batches, pages with checksums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mutator.formats.content import Content, NotReadable
from mutator.formats.files.contract import Dialect, FileSchema, RowBatch, readable, rows_at_once
from mutator.rules.schema_evolution import from_text

__all__ = ["ParquetFiles"]

_GROUP_ROWS = 1 << 20  # of a row group that is written
_GROUP_BYTES = 64 << 20
_LEVELS = {"zstd": 1}
_ROWS = 1 << 17  # of a batch
_SAMPLE = 1 << 14  # rows that tell whether values repeat


class ParquetFiles:
    """The kind "parquet"."""

    suffix = ".parquet"
    in_ranges = True
    nested = True
    typed = True
    codecs: ClassVar[Mapping[str, str]] = {name: name for name in ("none", "snappy", "gzip", "zstd", "lz4")}

    def probe(self, stream: BinaryIO, dialect: Dialect) -> FileSchema:
        """Read the footer."""
        with _faults():
            return FileSchema(readable(_opened(stream).schema_arrow))

    def count(self, content: Content, dialect: Dialect) -> int:
        """Return what the footer says."""
        with content.file() as stream, _faults():
            file = _opened(stream)
            _check_footer(file, stream)
            return int(file.metadata.num_rows)

    def stored(self, spec: Mapping[str, Any]) -> FileSchema:
        """Return the schema that the manifest has."""
        return FileSchema(from_text(spec["schema"]))

    def read(self, content: Content, schema: Any, names: Sequence[str], dialect: Dialect) -> Iterator[RowBatch]:
        """Read the row groups that begin in the window."""
        start, end = content.window.start, content.window.end
        with content.file() as stream, _faults():
            file = _opened(stream)
            _check_footer(file, stream)
            before = seen = 0
            for number in range(file.metadata.num_row_groups):
                group = file.metadata.row_group(number)
                if start <= _begin(group) and (end is None or _begin(group) < end):
                    yield from _batches(file, number, names, before, seen)
                    seen += group.num_rows
                before += group.num_rows

    def position(self, offset: int, line: int) -> str:
        """Return its number."""
        return f"row {offset + 1}"

    def storable_type(self, kind: Any) -> Any:
        """Return the type itself, except for seconds, which Parquet has not."""
        if pa.types.is_timestamp(kind) and kind.unit == "s":
            return pa.timestamp("ms", kind.tz)
        if pa.types.is_time32(kind):
            return pa.time32("ms")
        return None if pa.types.is_duration(kind) and kind.unit == "s" else kind

    def writer(self, stream: BinaryIO, schema: Any, dialect: Dialect) -> _Writer:
        """Write to a stream."""
        return _Writer(stream, schema, dialect.codec or "snappy")


class _Writer:
    """Collects rows to row groups."""

    def __init__(self, stream: BinaryIO, schema: Any, codec: str) -> None:
        self._stream, self._schema, self._codec = stream, schema, codec
        self._writer: Any = None
        self._held: list[Any] = []
        self._rows = self._bytes = 0

    def write(self, batch: Any) -> None:
        self._held.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._held, self._schema)
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._stream,
                self._schema,
                compression=self._codec,
                compression_level=_LEVELS.get(self._codec),
                use_dictionary=_repeating(table),
                write_page_checksum=True,
            )
        if table.num_rows:
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._held, self._rows, self._bytes = [], 0, 0

    def close(self) -> None:
        self._flush()
        self._writer.close()


def _repeating(table: Any) -> Any:
    """Return the columns whose values repeat: a dictionary of the others is given up when it is full, which costs."""
    if any(pa.types.is_nested(kind) or pa.types.is_null(kind) for kind in table.schema.types):  # cannot be counted
        return True
    sample = table.slice(0, _SAMPLE)
    return [one for one in table.column_names if pc.count_distinct(sample.column(one)).as_py() * 2 <= sample.num_rows]


def _opened(stream: BinaryIO) -> Any:
    # INT96, in which Spark writes timestamps, is read in Spark's own unit: nanoseconds would not reach far enough.
    return pq.ParquetFile(stream, page_checksum_verification=True, coerce_int96_timestamp_unit="us")


def _check_footer(file: Any, stream: BinaryIO) -> None:
    """Hold what the footer says of all rows against what it says of the groups; it has no checksum."""
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    size = stream.seek(0, 2)
    if sum(group.num_rows for group in groups) != file.metadata.num_rows or any(_begin(one) >= size for one in groups):
        raise NotReadable("it cannot be read as Parquet: its footer contradicts itself")


def _begin(group: Any) -> int:
    """Return the place of a row group's first byte."""
    if not group.num_columns:
        return 0
    column = group.column(0)
    places = [column.data_page_offset, column.dictionary_page_offset]
    return int(min(place for place in places if place is not None and place > 0))


def _batches(file: Any, number: int, names: Sequence[str], before: int, seen: int) -> Iterator[RowBatch]:
    group = file.metadata.row_group(number)
    if group.total_byte_size <= _GROUP_BYTES:  # at once, which costs least
        table = file.read_row_group(number, columns=list(names), use_threads=False).select(list(names))
        if table.num_rows != group.num_rows:
            raise NotReadable(f"row group {number + 1} has {table.num_rows} rows, and the footer says {group.num_rows}")
        found = table.to_batches(_ROWS)
    else:
        size = rows_at_once(group.num_rows, group.total_byte_size)
        found = file.iter_batches(size, row_groups=[number], columns=list(names), use_threads=False)
    for batch in found:
        rows = np.arange(batch.num_rows)
        yield RowBatch(batch, before + rows, seen + rows + 1, lines=batch.num_rows)
        before, seen = before + batch.num_rows, seen + batch.num_rows


@contextmanager
def _faults() -> Iterator[None]:
    """Turn what Arrow raises for a file that is damaged into NotReadable."""
    try:
        yield
    except NotReadable:
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError, NotImplementedError, RuntimeError) as fault:
        raise NotReadable(f"it cannot be read as Parquet: {fault}") from None
