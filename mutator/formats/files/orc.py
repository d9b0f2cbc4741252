"""ORC files: stripes as record batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, ClassVar

import numpy as np
import pyarrow as pa
from pyarrow import orc

from mutator.formats.content import Content, NotReadable, Unfit
from mutator.formats.files.contract import Dialect, FileSchema, RowBatch, readable, rows_at_once
from mutator.rules.schema_evolution import from_text

__all__ = ["OrcFiles"]

_STRIPE = 64 << 20
_PLACE = 32  # bits of a row's number in its stripe


class OrcFiles:
    """The kind "orc"."""

    suffix = ".orc"
    in_ranges = True
    nested = True
    typed = True
    codecs: ClassVar[Mapping[str, str]] = {
        "none": "uncompressed",
        "snappy": "snappy",
        "gzip": "zlib",
        "zstd": "zstd",
        "lz4": "lz4",
    }

    def probe(self, stream: BinaryIO, dialect: Dialect) -> FileSchema:
        """Read the footer."""
        with _faults():
            return FileSchema(readable(orc.ORCFile(stream).schema))

    def count(self, content: Content, dialect: Dialect) -> int:
        """Return what the footer says."""
        with content.file() as stream, _faults():
            return int(orc.ORCFile(stream).nrows)

    def stored(self, spec: Mapping[str, Any]) -> FileSchema:
        """Return the schema that the manifest has."""
        return FileSchema(from_text(spec["schema"]))

    def read(self, content: Content, schema: Any, names: Sequence[str], dialect: Dialect) -> Iterator[RowBatch]:
        """Read the stripes of the window; Arrow does not say where they begin, so they share the file evenly."""
        start, end = content.window.start, content.window.end
        with content.file() as stream, _faults():
            file, seen = orc.ORCFile(stream), 0
            for number in range(file.nstripes):
                begin = number * file.file_length // file.nstripes
                if start <= begin and (end is None or begin < end):
                    stripe = file.read_stripe(number, columns=list(names))
                    rows = stripe.num_rows
                    size = rows_at_once(rows, stripe.nbytes)
                    for first in range(0, rows, size):
                        batch = stripe.slice(first, size)
                        places = np.arange(first, first + batch.num_rows)
                        found = batch.select(list(names))
                        yield RowBatch(found, (number << _PLACE) + places, seen + places + 1, lines=batch.num_rows)
                    seen += rows
            if start == 0 and end in (None, file.file_length) and seen != file.nrows:
                raise NotReadable(f"its stripes have {seen} rows, and its footer says {file.nrows}")

    def position(self, offset: int, line: int) -> str:
        """Return its stripe, and its number there."""
        return f"stripe {(offset >> _PLACE) + 1}, row {(offset & ((1 << _PLACE) - 1)) + 1}"

    def storable_type(self, kind: Any) -> Any:
        """Return what is read back: ORC has signed integers, and timestamps of nanoseconds, with UTC as their zone."""
        types = pa.types
        if types.is_timestamp(kind):
            return pa.timestamp("ns", None if kind.tz is None else "UTC")
        if types.is_unsigned_integer(kind) or types.is_time(kind) or types.is_duration(kind):
            return None
        if types.is_float16(kind) or types.is_null(kind):
            return None
        return pa.binary() if types.is_fixed_size_binary(kind) else kind

    def writer(self, stream: BinaryIO, schema: Any, dialect: Dialect) -> _Writer:
        """Write to a stream."""
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
    """Return a column that is no part of a longer one: Arrow's writer takes the wrong NULLs of structs in a slice."""
    return column.take(pa.array(np.arange(len(column))))


@contextmanager
def _faults() -> Iterator[None]:
    """Turn what Arrow raises for a file that is damaged into NotReadable."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, LookupError, NotImplementedError, RuntimeError) as fault:
        kind = Unfit if "out of range for nanosecond" in str(fault) else NotReadable  # from 1677 to 2262, no more
        raise kind(f"it cannot be read as ORC: {fault}") from None
