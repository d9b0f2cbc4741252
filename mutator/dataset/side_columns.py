"""Row sequences and tombstones, as Parquet files that any tool can read and whose pages have checksums."""

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mutator.rules.byte_columns import Ints
from mutator.rules.order_values import NO_SEQUENCE

Tombstone = tuple[tuple[bytes, ...], bytes | None, int]  # key, order value as text or None, commit time in ms

_ROWS = 1 << 17  # rows of one row group; with _BYTES, bounds the memory that reading needs
_BYTES = 64 << 20  # of tombstones of one row group
_BY_CHUNK = b"mutator.rows_by_chunk"


def write_sequences(stream: BinaryIO, sequences: Ints | Sequence[int], rows_by_chunk: Sequence[int]) -> None:
    """Write the sequence of each row of a data file, in the order of its rows.

    sequences: int64, one per row; NO_SEQUENCE if a row has none. rows_by_chunk: number of rows that begin in each
    checksum chunk of the data file, so that a task that reads one chunk finds the sequences of its rows.
    """
    schema = pa.schema(
        [pa.field("sequence", pa.int64())], metadata={_BY_CHUNK: b",".join(b"%d" % count for count in rows_by_chunk)}
    )
    values = np.asarray(sequences, np.int64)
    with _writer(stream, schema) as writer:
        for start in range(0, len(values), _ROWS):
            part = values[start : start + _ROWS]
            writer.write_table(pa.table([pa.array(part, mask=part == NO_SEQUENCE)], schema=schema))


def read_sequences(stream: BinaryIO, chunk: int) -> Ints:
    """Return the sequences of the rows that begin in one chunk of the data file; NO_SEQUENCE if a row has none."""
    file = pq.ParquetFile(stream, page_checksum_verification=True)
    counts = [int(count) for count in (file.schema_arrow.metadata or {}).get(_BY_CHUNK, b"").split(b",") if count]
    first = sum(counts[:chunk])
    last = first + (counts[chunk] if chunk < len(counts) else 0)
    found: list[Ints] = [np.zeros(0, np.int64)]
    start = 0
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if start < last and start + rows > first:
            column = file.read_row_group(group, columns=["sequence"]).column(0)
            wanted = column.slice(max(first - start, 0), min(last, start + rows) - max(first, start))
            found.append(pc.fill_null(wanted, NO_SEQUENCE).to_numpy())
        start += rows
    return np.concatenate(found)


def tombstone_schema(width: int) -> Any:
    """Return the pa.Schema of tombstones: ``width`` ID values, the order value as text, and the commit time."""
    return pa.schema(
        [
            *(pa.field(f"key_{number}", pa.binary(), nullable=False) for number in range(width)),
            pa.field("order", pa.binary()),
            pa.field("committed", pa.timestamp("ms", "UTC"), nullable=False),
        ]
    )


def tombstone_table(width: int, tombstones: Sequence[Tombstone]) -> Any:
    """Return tombstones as a pa.Table. width: number of ID values in a key."""
    keys = [pa.array(column, pa.binary()) for column in zip(*(key for key, _, _ in tombstones), strict=True)]
    orders = pa.array([order for _, order, _ in tombstones], pa.binary())
    times = pa.array([committed for _, _, committed in tombstones], pa.int64()).cast(pa.timestamp("ms", "UTC"))
    return pa.table([*keys, orders, times], schema=tombstone_schema(width))


class TombstoneWriter:
    """Writes tombstones to a stream."""

    def __init__(self, stream: BinaryIO, width: int) -> None:
        self._schema = tombstone_schema(width)
        self._writer = _writer(stream, self._schema)

    def write(self, table: Any) -> None:
        """Write a pa.Table, sorted by key, with the columns of ``tombstone_schema``; other columns are left out."""
        table = table.select(self._schema.names)
        rows = max(min(_ROWS, _BYTES * table.num_rows // max(table.nbytes, 1)), 1)
        for start in range(0, table.num_rows, rows):
            # The 32-bit offsets of the schema can address a copy of these rows, but not the array that they are in.
            group = table.take(pa.array(np.arange(start, min(start + rows, table.num_rows))))
            self._writer.write_table(group.cast(self._schema))

    def close(self) -> None:
        """Write the footer."""
        self._writer.close()


def tombstone_tables(stream: BinaryIO) -> Iterator[Any]:
    """Yield a file of tombstones as pa.Tables, one for each row group."""
    file = pq.ParquetFile(stream, page_checksum_verification=True)
    for group in range(file.num_row_groups):
        yield file.read_row_group(group)


def read_tombstones(stream: BinaryIO) -> Iterator[Tombstone]:
    """Yield the tombstones of a file, in the order in which they were written."""
    for table in tombstone_tables(stream):
        keys = [table.column(name).to_pylist() for name in table.column_names if name.startswith("key_")]
        times = table.column("committed").cast(pa.int64()).to_pylist()
        yield from zip(zip(*keys, strict=True), table.column("order").to_pylist(), times, strict=True)


def count_tombstones(stream: BinaryIO) -> int:
    """Return the number of tombstones in a file, from its footer alone."""
    return int(pq.ParquetFile(stream).metadata.num_rows)


def oldest_tombstone(stream: BinaryIO) -> int:
    """Return the lowest commit time in a file of tombstones, in milliseconds, from its footer alone."""
    metadata = pq.ParquetFile(stream).metadata
    column = metadata.schema.to_arrow_schema().get_field_index("committed")
    lowest = (metadata.row_group(group).column(column).statistics.min for group in range(metadata.num_row_groups))
    return min(int(when.timestamp() * 1000) for when in lowest)


def _writer(stream: BinaryIO, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(stream, schema, compression="zstd", write_page_checksum=True)
