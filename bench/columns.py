"""Convert the text to Parquet, ORC and Avro, and their rows back to lines of text for the digest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from pyarrow import orc

from bench.data import lines_of
from bench.layout import CHANGED_FIELDS, MASTER_FIELDS, PARTITIONED_MASTER_FIELDS

__all__ = ["convert", "lines_in", "write_parquet"]

FILES = {"parquet": 4, "orc": 4, "avro": 8}  # minimum number of files, so that several cores have work
BATCH = 1 << 16

SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "store": pa.int32(),
        "name": pa.string(),
        "stock": pa.int64(),
        "price": pa.decimal128(9, 2),
        "time": pa.int64(),
        "op": pa.string(),
        "changed": pa.timestamp("us"),
    }
)
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
AVRO_TYPES = {"id": "string", "name": "string", "stock": "long", "price": DECIMAL, "time": "long", "op": "string"}


def convert(text: Path, to: Path, fields: tuple[str, ...], form: str) -> None:
    """Convert the text files of a directory to files of another format; each has rows of a single text file.

    A file of a partition is written to the directory of that partition.
    """
    to.mkdir(parents=True)
    sources = sorted(path for path in text.rglob("*") if path.is_file())
    parts = math.ceil(FILES[form] / max(len(sources), 1))
    options = pyarrow.csv.ConvertOptions(column_types={name: SCHEMA.field(name).type for name in fields})
    for number, source in enumerate(sources):
        rows = pyarrow.csv.read_csv(source, pyarrow.csv.ReadOptions(column_names=fields), convert_options=options)
        step = math.ceil(len(rows) / parts)
        target = to / source.parent.relative_to(text)
        target.mkdir(parents=True, exist_ok=True)
        for part in range(parts):
            _WRITERS[form](rows.slice(part * step, step), target / f"part-{number * parts + part:05}.{form}")


def lines_in(path: Path, partition: Mapping[str, str] | None = None) -> Iterator[memoryview] | None:
    """Return the rows of a Parquet, ORC or Avro file as blocks of lines of text; None for other files.

    partition: the values in the name of the file's directory, which apply to each row; a column of that name must have
    the same values. Columns that the master lacks come last, so that they change the digest. Raises ValueError,
    LookupError or OSError if the file cannot be read as rows of the master.
    """
    with path.open("rb") as file:
        magic = file.read(4)
    read = next((reader for known, reader in _READERS.items() if magic.startswith(known)), None)
    return (_lines(_completed(rows, partition or {})) for rows in read(path)) if read else None


def write_parquet(rows: pa.Table, path: Path) -> None:
    """Write as Spark does: snappy, one row group per file, decimals as integers, no Arrow schema."""
    pq.write_table(
        rows, path, compression="snappy", row_group_size=len(rows), store_decimal_as_integer=True, store_schema=False
    )


def _write_orc(rows: pa.Table, path: Path) -> None:
    """Write with zstd, as Spark does."""
    orc.write_table(rows, path, compression="zstd")


def _write_avro(rows: pa.Table, path: Path) -> None:
    fields = [{"name": name, "type": AVRO_TYPES[name]} for name in rows.column_names]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, rows.to_pylist(), codec="snappy")


def _read_parquet(path: Path) -> Iterator[pa.RecordBatch]:
    yield from pq.ParquetFile(path).iter_batches(BATCH)


def _read_orc(path: Path) -> Iterator[pa.RecordBatch]:
    file = orc.ORCFile(path)
    for number in range(file.nstripes):
        stripe = file.read_stripe(number)
        for start in range(0, len(stripe), BATCH):
            yield stripe.slice(start, BATCH)


def _read_avro(path: Path) -> Iterator[pa.RecordBatch]:
    with path.open("rb") as file:
        for block in fastavro.block_reader(file):
            yield pa.RecordBatch.from_pylist(list(block))


def _completed(rows: pa.RecordBatch, partition: Mapping[str, str]) -> pa.RecordBatch:
    """Add the columns whose values are only in the name of the directory."""
    for name, value in partition.items():
        if name not in rows.schema.names:
            rows = rows.append_column(name, pa.array([value] * len(rows)))
        elif not all(str(found) == value for found in pc.unique(rows.column(name)).to_pylist()):
            raise ValueError(f"{name}={value} contains a row of another {name}")
    return rows


def _lines(rows: pa.RecordBatch) -> memoryview:
    """Return lines; a number is written by its value, so its type does not change the line."""
    marked = {"store": PARTITIONED_MASTER_FIELDS, "changed": CHANGED_FIELDS}
    fields = next((fields for name, fields in marked.items() if name in rows.schema.names), MASTER_FIELDS)
    columns = [pc.cast(rows.column(name), SCHEMA.field(name).type) for name in fields]
    columns += [rows.column(name) for name in sorted(set(rows.schema.names) - set(fields))]
    return lines_of([pc.cast(column, pa.string()) for column in columns])


_WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "parquet": write_parquet,
    "orc": _write_orc,
    "avro": _write_avro,
}
_READERS: dict[bytes, Callable[[Path], Iterator[pa.RecordBatch]]] = {
    b"PAR1": _read_parquet,
    b"ORC": _read_orc,
    b"Obj\x01": _read_avro,
}
