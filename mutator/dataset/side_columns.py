"""Side files of data files, and tombstones: Parquet files that any tool can read and whose pages have checksums.

A side file has typed columns with a value for each row of its data file, in the order of the rows: the sequence of the
row where order comes from file names, and what the register of the run keeps beside it.
"""

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mutator.dataset.checksum import difference
from mutator.errors.parts import place
from mutator.formats.content import NotReadable
from mutator.rules.byte_columns import Ints
from mutator.rules.field_orders import widened
from mutator.rules.order_columns import SEQUENCE
from mutator.rules.order_values import NO_SEQUENCE
from mutator.rules.register import with_values
from mutator.storage import storage_for

Tombstone = tuple[tuple[bytes, ...], bytes | None, int]  # key, order value as text or None, commit time in ms

WAITING = "waiting"  # the column of rows that are kept beside tombstones

_ROWS = 1 << 17  # rows of one row group; with _BYTES, bounds the memory that reading needs
_BYTES = 64 << 20  # of tombstones of one row group
_BY_CHUNK, _COUNT = b"mutator.rows_by_chunk", b"mutator.rows"
_ROW = "_row"  # the column of row numbers, where rows without values are left out


def write_sides(stream: BinaryIO, columns: Any, rows_by_chunk: Sequence[int]) -> None:
    """Write what is kept beside each row of a data file. Rows without a value are left out if most are.

    columns: a pa.Table, one row per row of the data file; sequences, if there are any, are the first column.
    rows_by_chunk: number of rows that begin in each checksum chunk of the data file, so that a task that reads one
    chunk finds the values of its rows.
    """
    if SEQUENCE in columns.column_names:
        values = columns.column(SEQUENCE)
        values = pc.if_else(pc.equal(values, NO_SEQUENCE), pa.scalar(None, pa.int64()), values)
        columns = columns.set_column(0, SEQUENCE, values)
    counts = b",".join(b"%d" % count for count in rows_by_chunk)
    metadata = {_BY_CHUNK: counts, _COUNT: b"%d" % columns.num_rows}
    columns = columns.combine_chunks()
    rows = np.flatnonzero(with_values(columns.to_struct_array().combine_chunks()))
    if 2 * len(rows) < columns.num_rows:
        columns = columns.take(pa.array(rows)).append_column(_ROW, pa.array(rows))
    columns = columns.replace_schema_metadata(metadata)
    with _writer(stream, columns.schema) as writer:
        writer.write_table(columns, row_group_size=_ROWS)


def taken_sides(stream: BinaryIO, wanted: Sequence[Any], rows: int, positions: Ints) -> Any:
    """Return what is kept beside the rows of a data file at some positions, a pa.StructArray. Raises NotReadable.

    wanted: the fields; a column that the file lacks is NULL. rows: of the data file. positions: ascending.
    """
    file = pq.ParquetFile(stream, page_checksum_verification=True)
    if (count := _count(file)) != rows:
        raise NotReadable(f"it is of {count:,} rows and should be of {rows:,}")
    return _struct(_at(file, wanted, positions), wanted, len(positions))


def side_statistics(stream: BinaryIO, names: Sequence[str]) -> list[tuple[int, list[Any]]]:
    """Return (number of rows, the statistics of some columns) of each row group; none where most rows have no values.

    Statistics are those of ``pq.ParquetFile``; None for a column without them.
    """
    file = pq.ParquetFile(stream)
    if _ROW in file.schema_arrow.names or any(name not in file.schema_arrow.names for name in names):
        return []
    groups = map(file.metadata.row_group, range(file.num_row_groups))
    at = [file.schema_arrow.names.index(name) for name in names]
    return [(group.num_rows, [group.column(one).statistics for one in at]) for group in groups]


def _count(file: Any) -> int:
    """Return the number of rows of the data file that a side file is of."""
    stated = (file.schema_arrow.metadata or {}).get(_COUNT)
    return int(file.metadata.num_rows if stated is None else stated)


def _at(file: Any, wanted: Sequence[Any], positions: Ints) -> Any:
    """Return those of some columns that a side file has, beside the rows at some positions, a pa.Table."""
    names = [field.name for field in wanted if field.name in file.schema_arrow.names]
    parts, start = [file.schema_arrow.empty_table().select(names)], 0
    if _ROW in file.schema_arrow.names and names:
        table = file.read(columns=[*names, _ROW], use_threads=False)
        rows = table.column(_ROW).to_numpy()
        at, lack = np.zeros(len(positions), np.int64), np.ones(len(positions), np.bool_)
        if len(positions):  # most rows have no values, so these are searched for
            own = np.minimum(np.searchsorted(positions, rows), len(positions) - 1)
            found = np.flatnonzero(positions[own] == rows)
            at[own[found]], lack[own[found]] = found, False
        index = pa.array(at, mask=lack)
        columns = [
            pa.nulls(len(index), column.type) if column.null_count == len(column) else column.take(index)
            for column in table.select(names).columns
        ]
        return pa.table(columns, names)
    for group in range(file.num_row_groups if names else 0):
        end = start + file.metadata.row_group(group).num_rows
        first, last = np.searchsorted(positions, [start, end])
        if first < last:
            table, own = file.read_row_group(group, columns=names, use_threads=False), positions[first:last] - start
            whole = own[-1] - own[0] == len(own) - 1
            parts.append(table.slice(own[0], len(own)) if whole else table.take(pa.array(own)))
        start = end
    return pa.concat_tables(parts)


def _struct(table: Any, wanted: Sequence[Any], count: int) -> Any:
    """Return some columns of a number of rows; one that the pa.Table lacks is NULL."""
    columns = [
        widened(table.column(one.name).combine_chunks(), one)
        if one.name in table.column_names
        else pa.nulls(count, one.type)
        for one in wanted
    ]
    return pa.StructArray.from_arrays(columns, fields=list(wanted))


def read_sides(stream: BinaryIO, wanted: Sequence[Any], chunk: int | None = None) -> Any:
    """Return what is kept beside the rows that begin in one chunk of the data file, or in all of it: a pa.StructArray.

    wanted: the fields, SEQUENCES first; a column that the file lacks is NULL. A row without a sequence has NO_SEQUENCE.
    """
    file = pq.ParquetFile(stream, page_checksum_verification=True)
    counts = [int(count) for count in (file.schema_arrow.metadata or {}).get(_BY_CHUNK, b"").split(b",") if count]
    first = 0 if chunk is None else sum(counts[:chunk])
    last = _count(file) if chunk is None else first + sum(counts[chunk : chunk + 1])
    positions = np.arange(first, min(last, _count(file)))
    columns = _struct(_at(file, wanted, positions), wanted, len(positions)).flatten()
    columns[0] = columns[0].fill_null(NO_SEQUENCE)
    return pa.StructArray.from_arrays(columns, fields=list(wanted))


def verified_sides(path: str, checksum: str, wanted: Sequence[Any], chunk: int | None = None) -> Any:
    """Read a side file as ``read_sides`` does, with the first chunk or all chunks once its checksum is verified.

    Parquet's own checksums cover only its pages. Raises NotReadable, StorageError.
    """
    why = difference(path, checksum) if not chunk else None
    if why is None:
        try:
            with storage_for(path).open(path) as stream:
                return read_sides(stream, wanted, chunk)
        except (pa.ArrowException, OSError, ValueError, LookupError) as fault:
            why = f"it cannot be read: {fault}"
    raise NotReadable(f"{place(path)}, with the sequences of its rows: {why}")


def tombstone_schema(width: int, beside: Sequence[Any] = ()) -> Any:
    """Return the pa.Schema of tombstones: ``width`` ID values, the order value as text, and the commit time.

    beside: the pa.Fields of the values beside them: a row that waits, and its side columns.
    """
    return pa.schema(
        [
            *(pa.field(f"key_{number}", pa.binary(), nullable=False) for number in range(width)),
            pa.field("order", pa.binary()),
            pa.field("committed", pa.timestamp("ms", "UTC"), nullable=False),
            *beside,
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

    def __init__(self, stream: BinaryIO, width: int, beside: Sequence[Any] = ()) -> None:
        self._schema = tombstone_schema(width, beside)
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
        yield from tombstones_of(table)


def tombstones_of(table: Any) -> Iterator[Tombstone]:
    """Yield the tombstones of a pa.Table."""
    keys = [table.column(name).to_pylist() for name in table.column_names if name.startswith("key_")]
    times = table.column("committed").cast(pa.int64()).to_pylist()
    return zip(zip(*keys, strict=True), table.column("order").to_pylist(), times, strict=True)


def count_tombstones(stream: BinaryIO) -> int:
    """Return the number of tombstones in a file, from its footer alone."""
    return int(pq.ParquetFile(stream).metadata.num_rows)


def count_waiting(stream: BinaryIO) -> int:
    """Return the number of tombstones in a file with a row that waits beside them, from its footer alone."""
    metadata = pq.ParquetFile(stream).metadata
    column = metadata.schema.to_arrow_schema().get_field_index(WAITING)
    groups = map(metadata.row_group, range(metadata.num_row_groups) if column >= 0 else ())
    return sum(group.num_rows - group.column(column).statistics.null_count for group in groups)


def oldest_tombstone(stream: BinaryIO) -> int:
    """Return the lowest commit time in a file of tombstones, in milliseconds, from its footer alone."""
    metadata = pq.ParquetFile(stream).metadata
    column = metadata.schema.to_arrow_schema().get_field_index("committed")
    lowest = (metadata.row_group(group).column(column).statistics.min for group in range(metadata.num_row_groups))
    return min(int(when.timestamp() * 1000) for when in lowest)


def _writer(stream: BinaryIO, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(stream, schema, compression="zstd", write_page_checksum=True)
