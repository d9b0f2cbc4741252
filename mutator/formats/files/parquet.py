"""Read and write Parquet files: row groups as record batches, pages with checksums."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from typing import Any, BinaryIO, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mutator.errors.display import counted
from mutator.formats.content import Content, NotReadable
from mutator.formats.files.arrow_files import ArrowFiles, batch_rows, faults, own_names, readable, with_run_names
from mutator.formats.files.file_format import Dialect, FileSchema, RowBatch

_GROUP_ROWS = 1 << 16  # of a written row group at most: a row is read without many others
_ROWS_AT_ONCE = 1 << 20  # that are written together, and whose row groups are read together
_BYTES_AT_ONCE = 64 << 20
_LEVELS = {"zstd": 1}
_ROWS = 1 << 17  # of a batch
_SAMPLE = 1 << 14  # rows in which repeated values are counted


class ParquetFiles(ArrowFiles):
    """The file format "parquet"."""

    codecs: ClassVar[Mapping[str, str]] = {name: name for name in ("none", "snappy", "gzip", "zstd", "lz4")}

    def probe(self, stream: BinaryIO, dialect: Dialect) -> FileSchema:
        """Return the schema in the footer."""
        with faults("Parquet"):
            return FileSchema(readable(opened(stream).schema_arrow))

    def count(self, content: Content, dialect: Dialect) -> int:
        """Return the number of rows in the footer."""
        with content.file() as stream, faults("Parquet"):
            file = opened(stream)
            _check_footer(file, stream)
            return int(file.metadata.num_rows)

    def read(self, content: Content, schema: Any, names: Sequence[str], dialect: Dialect) -> Iterator[RowBatch]:
        """Yield the row groups that begin in the window."""
        start, end = content.window.start, content.window.end
        with content.file() as stream, faults("Parquet"):
            file = opened(stream)
            _check_footer(file, stream)
            groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
            wanted = [start <= _begin(group) and (end is None or _begin(group) < end) for group in groups]
            firsts = list(accumulate((group.num_rows for group in groups), initial=0))
            own, seen = own_names(content.window, names), 0
            for numbers in _together(groups, wanted):
                for found in _batches(file, numbers, own, firsts[numbers[0]], seen):
                    yield replace(found, batch=with_run_names(content.window, found.batch))
                seen += firsts[numbers[-1] + 1] - firsts[numbers[0]]

    def position(self, offset: int, line: int) -> str:
        """Return the number of the row in the file."""
        return f"row {offset + 1}"

    def storable_type(self, data_type: Any) -> Any:
        """Return the type itself; milliseconds for seconds, which Parquet lacks, like structs without fields."""
        if pa.types.is_struct(data_type) and not data_type.num_fields:
            return None
        if pa.types.is_timestamp(data_type) and data_type.unit == "s":
            return pa.timestamp("ms", data_type.tz)
        if pa.types.is_time32(data_type):
            return pa.time32("ms")
        return None if pa.types.is_duration(data_type) and data_type.unit == "s" else data_type

    def writer(self, stream: BinaryIO, schema: Any, dialect: Dialect) -> _Writer:
        """Return a writer to a stream."""
        return _Writer(stream, schema, dialect.codec or "snappy")


@contextmanager
def table_writer(stream: BinaryIO, schema: Any, codec: str | None) -> Iterator[Callable[[Any], None]]:
    """Yield a function that writes pa.RecordBatches of a versioned table."""
    writer = _Writer(stream, schema, codec or "snappy")
    yield writer.write
    writer.close()


class _Writer:
    """Collects rows into row groups."""

    def __init__(self, stream: BinaryIO, schema: Any, codec: str) -> None:
        self._stream, self._schema, self._codec = stream, schema, codec
        self._writer: Any = None
        self._batches: list[Any] = []
        self._rows = self._bytes = 0

    def write(self, batch: Any) -> None:
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= _ROWS_AT_ONCE or self._bytes >= _BYTES_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._batches, self._schema)
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
            count = -(-table.num_rows // _GROUP_ROWS)
            self._writer.write_table(table, row_group_size=-(-table.num_rows // count))
        self._batches, self._rows, self._bytes = [], 0, 0

    def close(self) -> None:
        self._flush()
        self._writer.close()


def _repeating(table: Any) -> Any:
    """Return the columns whose values repeat; for the others, a dictionary would only be filled and then given up."""
    if any(pa.types.is_nested(data_type) or pa.types.is_null(data_type) for data_type in table.schema.types):
        return True
    sample = table.slice(0, _SAMPLE)
    return [one for one in table.column_names if pc.count_distinct(sample.column(one)).as_py() * 2 <= sample.num_rows]


def opened(stream: BinaryIO, *, is_verified: bool = False, metadata: Any = None) -> Any:
    """Return the pq.ParquetFile of a stream, whose pages are verified when they are read.

    is_verified: whether all bytes of the stream were compared with a checksum, so that the pages need not be.
    metadata: a pq.FileMetaData, so that the footer is not read again.
    """
    # INT96 timestamps are read as microseconds, Spark's unit: nanoseconds have too short a range.
    options = {"page_checksum_verification": not is_verified, "coerce_int96_timestamp_unit": "us"}
    file = pq.ParquetFile(stream, metadata=metadata, **options)
    return _WithInstants(stream, metadata=file.metadata, **options) if "INT96" in _physical_types(file) else file


def _physical_types(file: Any) -> list[str]:
    """Return the physical types of a pq.ParquetFile's leaves, in the order of its schema."""
    return [file.schema.column(number).physical_type for number in range(len(file.schema))]


class _WithInstants(pq.ParquetFile):  # type: ignore[misc]  # pyarrow has no types
    """A file with INT96 timestamps, as Hive and Spark write them: instants in UTC. Arrow reads them without a zone."""

    @cached_property
    def schema_arrow(self) -> Any:
        """The schema, with these instants."""
        leaves = iter(_physical_types(self))
        return pa.schema([field.with_type(_with_zones(field.type, leaves)) for field in super().schema_arrow])

    def read(self, *arguments: Any, **options: Any) -> Any:
        """Return all rows, a pa.Table."""
        return self._with_zones(super().read(*arguments, **options))

    def read_row_group(self, *arguments: Any, **options: Any) -> Any:
        """Return the rows of a row group, a pa.Table."""
        return self._with_zones(super().read_row_group(*arguments, **options))

    def read_row_groups(self, *arguments: Any, **options: Any) -> Any:
        """Return the rows of row groups, a pa.Table."""
        return self._with_zones(super().read_row_groups(*arguments, **options))

    def iter_batches(self, *arguments: Any, **options: Any) -> Iterator[Any]:
        """Yield rows, as pa.RecordBatches."""
        yield from map(self._with_zones, super().iter_batches(*arguments, **options))

    def _with_zones(self, rows: Any) -> Any:
        return rows.cast(pa.schema([self.schema_arrow.field(name) for name in rows.schema.names]))


def _with_zones(data_type: Any, physical_types: Iterator[str]) -> Any:
    """Return a type with UTC as the zone of its INT96 leaves. physical_types: of its leaves, and of those that follow.

    >>> _with_zones(pa.list_(pa.timestamp("us")), iter(["INT96"]))
    ListType(list<item: timestamp[us, tz=UTC]>)
    """
    if isinstance(data_type, pa.BaseExtensionType):
        return _with_zones(data_type.storage_type, physical_types)
    if not data_type.num_fields:
        return pa.timestamp("us", "UTC") if next(physical_types) == "INT96" else data_type
    parts = [data_type.field(number) for number in range(data_type.num_fields)]
    parts = [part.with_type(_with_zones(part.type, physical_types)) for part in parts]
    if pa.types.is_struct(data_type):
        return pa.struct(parts)
    return pa.map_(*parts[0].type) if pa.types.is_map(data_type) else pa.list_(parts[0])


def _check_footer(file: Any, stream: BinaryIO) -> None:
    """Compare the row count of the footer with those of the row groups; the footer has no checksum."""
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    size = stream.seek(0, 2)
    if sum(group.num_rows for group in groups) != file.metadata.num_rows or any(_begin(one) >= size for one in groups):
        raise NotReadable("it cannot be read as Parquet: its footer contradicts itself")


def _begin(group: Any) -> int:
    """Return the byte offset of a row group."""
    if not group.num_columns:
        return 0
    column = group.column(0)
    offsets = [column.data_page_offset, column.dictionary_page_offset]
    return int(min(offset for offset in offsets if offset is not None and offset > 0))


def _together(groups: Sequence[Any], wanted: Sequence[bool]) -> Iterator[list[int]]:
    """Yield the numbers of wanted row groups that are read together: successive ones, as many as fit in memory."""
    numbers: list[int] = []
    rows = size = 0
    for number, group in enumerate(groups):
        rows, size = rows + group.num_rows, size + group.total_byte_size
        if numbers and (not wanted[number] or rows > _ROWS_AT_ONCE or size > _BYTES_AT_ONCE):
            yield numbers
            numbers = []
        if not numbers:
            rows, size = group.num_rows, group.total_byte_size
        if wanted[number]:
            numbers.append(number)
    if numbers:
        yield numbers


def _batches(file: Any, numbers: Sequence[int], names: Sequence[str], before: int, seen: int) -> Iterator[RowBatch]:
    groups = [file.metadata.row_group(number) for number in numbers]
    rows, size = sum(group.num_rows for group in groups), sum(group.total_byte_size for group in groups)
    if size <= _BYTES_AT_ONCE:  # read at once: this is fastest
        table = file.read_row_groups(numbers, columns=list(names), use_threads=False).select(list(names))
        if table.num_rows != rows:
            which = f"row group {numbers[0] + 1} has"
            if len(numbers) > 1:
                which = f"row groups {numbers[0] + 1} to {numbers[-1] + 1} have"
            raise NotReadable(f"{which} {counted(table.num_rows, 'row')}, and the footer says {rows}")
        found = table.to_batches(_ROWS)
    else:
        found = file.iter_batches(batch_rows(rows, size), row_groups=numbers, columns=list(names), use_threads=False)
    for batch in found:
        numbered = np.arange(batch.num_rows)
        yield RowBatch(batch, before + numbered, seen + numbered + 1, lines=batch.num_rows)
        before, seen = before + batch.num_rows, seen + batch.num_rows
