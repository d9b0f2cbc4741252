"""Read and write ORC files: stripes as record batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, ClassVar

import numpy as np
import pyarrow as pa
from pyarrow import orc

from mutator.errors.display import counted
from mutator.formats.content import Content, NotReadable, Unfit
from mutator.formats.files.arrow_files import ArrowFiles, batch_rows, faults, own_names, readable, with_run_names
from mutator.formats.files.file_format import Dialect, FileSchema, RowBatch

_STRIPE = 64 << 20
_ROW_BITS = 32  # for the number of a row in its stripe


class OrcFiles(ArrowFiles):
    """The file format "orc"."""

    codecs: ClassVar[Mapping[str, str]] = {
        "none": "uncompressed",
        "snappy": "snappy",
        "gzip": "zlib",
        "zstd": "zstd",
        "lz4": "lz4",
    }

    def probe(self, stream: BinaryIO, dialect: Dialect) -> FileSchema:
        """Return the schema in the footer."""
        with _faults():
            return FileSchema(readable(orc.ORCFile(stream).schema))

    def count(self, content: Content, dialect: Dialect) -> int:
        """Return the number of rows in the footer."""
        with content.file() as stream, _faults():
            return int(orc.ORCFile(stream).nrows)

    def read(self, content: Content, schema: Any, names: Sequence[str], dialect: Dialect) -> Iterator[RowBatch]:
        """Yield the stripes of the window. Arrow does not tell where they begin, so they share the file evenly."""
        start, end = content.window.start, content.window.end
        with content.file() as stream, _faults():
            file, seen = orc.ORCFile(stream), 0
            for number in range(file.nstripes):
                begin = number * file.file_length // file.nstripes
                if start <= begin and (end is None or begin < end):
                    stripe = file.read_stripe(number, columns=own_names(content.window, names))
                    rows = stripe.num_rows
                    size = batch_rows(rows, stripe.nbytes)
                    for first in range(0, rows, size):
                        batch = with_run_names(content.window, stripe.slice(first, size))
                        positions = np.arange(first, first + batch.num_rows)
                        offsets = (number << _ROW_BITS) + positions
                        yield RowBatch(batch.select(list(names)), offsets, seen + positions + 1, lines=batch.num_rows)
                    seen += rows
            if start == 0 and end in (None, file.file_length) and seen != file.nrows:
                why = f"its stripes have {counted(seen, 'row')}, and its footer says {file.nrows}"
                raise NotReadable(f"it cannot be read as ORC: {why}")

    def position(self, offset: int, line: int) -> str:
        """Return the row's stripe and its number in the stripe."""
        return f"stripe {(offset >> _ROW_BITS) + 1}, row {(offset & ((1 << _ROW_BITS) - 1)) + 1}"

    def storable_type(self, data_type: Any) -> Any:
        """Return signed integers, timestamps of nanoseconds, and UTC as the only zone."""
        types = pa.types
        if types.is_timestamp(data_type):
            return pa.timestamp("ns", None if data_type.tz is None else "UTC")
        if types.is_unsigned_integer(data_type) or types.is_time(data_type) or types.is_duration(data_type):
            return None
        if types.is_float16(data_type) or types.is_null(data_type):
            return None
        return pa.binary() if types.is_fixed_size_binary(data_type) else data_type

    def writer(self, stream: BinaryIO, schema: Any, dialect: Dialect) -> _Writer:
        """Return a writer to a stream."""
        return _Writer(stream, schema, dialect.codec or "zstd")


class _Writer:
    def __init__(self, stream: BinaryIO, schema: Any, codec: str) -> None:
        self._writer = orc.ORCWriter(stream, compression=codec, stripe_size=_STRIPE)
        self._schema = schema
        self._empty = True

    def write(self, batch: Any) -> None:
        columns = [_copied(column) if pa.types.is_nested(column.type) else column for column in batch.columns]
        self._writer.write(pa.Table.from_arrays(columns, schema=batch.schema))
        self._empty = False

    def close(self) -> None:
        if self._empty:
            self._writer.write(self._schema.empty_table())
        self._writer.close()


def _copied(column: Any) -> Any:
    """Return a column that is not a slice: Arrow's ORC writer misplaces the NULLs of structs in slices."""
    return column.take(pa.array(np.arange(len(column))))


@contextmanager
def _faults() -> Iterator[None]:
    try:
        with faults("ORC"):
            yield
    except NotReadable as fault:
        if "out of range for nanosecond" in str(fault):  # only the years from 1677 to 2262 fit
            raise Unfit(str(fault)) from None
        raise
