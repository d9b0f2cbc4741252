"""Small columns beside the data, as Parquet: any tool can look at them, and their pages carry checksums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["TombstoneWriter", "read_sequences", "read_tombstones", "write_sequences"]

_ROWS = 1 << 17  # rows of one row group: bounds what is held in memory
_BY_CHUNK = b"mutator.rows_by_chunk"


def write_sequences(stream: BinaryIO, sequences: Sequence[int], rows_by_chunk: Sequence[int]) -> None:
    """Write the sequence of each row of a data file, in the order of its rows.

    sequences: one a row, NO_SEQUENCE for none. rows_by_chunk: how many rows begin in each checksum chunk of the file,
    so that a task that reads one chunk knows which of them are its own.
    """
    schema = pa.schema(
        [pa.field("sequence", pa.int64())], metadata={_BY_CHUNK: b",".join(b"%d" % count for count in rows_by_chunk)}
    )
    with _writer(stream, schema) as writer:
        for start in range(0, len(sequences), _ROWS):
            part = [None if value < 0 else value for value in sequences[start : start + _ROWS]]
            writer.write_table(pa.table([pa.array(part, pa.int64())], schema=schema))


def read_sequences(stream: BinaryIO, chunk: int, no_sequence: int) -> list[int]:
    """Read the sequences of the rows that begin in one chunk of the data file."""
    file = pq.ParquetFile(stream, page_checksum_verification=True)
    counts = [int(count) for count in (file.schema_arrow.metadata or {}).get(_BY_CHUNK, b"").split(b",") if count]
    first = sum(counts[:chunk])
    last = first + (counts[chunk] if chunk < len(counts) else 0)
    found: list[int] = []
    start = 0
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if start < last and start + rows > first:
            column = file.read_row_group(group, columns=["sequence"]).column(0)
            wanted = column.slice(max(first - start, 0), min(last, start + rows) - max(first, start))
            found.extend(no_sequence if value is None else value for value in wanted.to_pylist())
        start += rows
    return found


class TombstoneWriter:
    """Write remembered deletes one by one: ``(key, order value as text or None, commit time in ms)``."""

    def __init__(self, stream: BinaryIO, width: int) -> None:
        self._schema = pa.schema(
            [
                *(pa.field(f"key_{number}", pa.binary(), nullable=False) for number in range(width)),
                pa.field("order", pa.binary()),
                pa.field("committed", pa.timestamp("ms", "UTC"), nullable=False),
            ]
        )
        self._writer = _writer(stream, self._schema)
        self._batch: list[tuple[tuple[bytes, ...], bytes | None, int]] = []

    def append(self, key: tuple[bytes, ...], order: bytes | None, committed: int) -> None:
        """Take one tombstone; they come sorted by key."""
        self._batch.append((key, order, committed))
        if len(self._batch) == _ROWS:
            self._flush()

    def close(self) -> None:
        """Write what is left, and the footer."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        batch, self._batch = self._batch, []
        if batch:
            keys = [pa.array(column, pa.binary()) for column in zip(*(key for key, _, _ in batch), strict=True)]
            orders = pa.array([order for _, order, _ in batch], pa.binary())
            times = pa.array([committed for _, _, committed in batch], pa.int64()).cast(pa.timestamp("ms", "UTC"))
            self._writer.write_table(pa.table([*keys, orders, times], schema=self._schema))


def read_tombstones(stream: BinaryIO) -> Iterator[tuple[tuple[bytes, ...], bytes | None, int]]:
    """Yield what ``TombstoneWriter`` wrote, in the same order."""
    file = pq.ParquetFile(stream, page_checksum_verification=True)
    for group in range(file.num_row_groups):
        table = file.read_row_group(group)
        keys = [table.column(name).to_pylist() for name in table.column_names if name.startswith("key_")]
        times = table.column("committed").cast(pa.int64()).to_pylist()
        yield from zip(zip(*keys, strict=True), table.column("order").to_pylist(), times, strict=True)


def _writer(stream: BinaryIO, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(stream, schema, compression="zstd", write_page_checksum=True)
