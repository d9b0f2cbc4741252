"""The form of changed rows in files: what became of a row, in which version and when, then the fields of the row.

A row that was updated is there twice, before and after. The names are those of Spark's and Delta's change feeds.
Files are Parquet, but for Avro records, which stay as they are encoded (``avro_rows``).
"""

from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, Protocol

import pyarrow as pa

from mutator.errors.quick_dataclass import dataclass
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.rules.changes import CHANGE, CHANGES, TIME, VERSION, Changes

ROW = "_row"  # of delimited text: the row, byte for byte, where its columns do not suffice
FIELDS = (
    pa.field(CHANGE, pa.string(), nullable=False),
    pa.field(VERSION, pa.int64()),
    pa.field(TIME, pa.timestamp("us", "UTC"), nullable=False),
)


@dataclass(frozen=True)
class ChangeForm:
    """What all changed rows of a run have in common."""

    committed: int  # milliseconds since 1970, UTC
    version: int | None = None  # of a workflow; None: a run of its own
    alone: bool = False  # nothing else is written: no rows of the result, no tombstones, no rejected rows
    names: tuple[str, ...] = ()  # of the fields of delimited text; none if its rows cannot be split into columns


class ChangeWriter(Protocol):
    """Writes the changed rows of one file."""

    rows: int  # that were written

    def write(self, changes: Changes, rows: Any) -> None:
        """Write the next rows. rows: a pa.Array of written rows of the block type, one element per row."""

    def close(self) -> None:
        """Write the rows and footers that are still in memory. The stream stays open."""


class ParquetChanges:
    """Write changed rows as Parquet."""

    def __init__(
        self, stream: BinaryIO, form: ChangeForm, fields: Sequence[Any], columns: Callable[[Any], Sequence[Any]]
    ) -> None:
        """Write nothing yet. fields: pa.Fields of the rows. columns: returns the columns of rows, a pa.Array each."""
        self._schema = pa.schema([*FIELDS, *fields])
        self._writer = FILE_FORMATS["parquet"].writer(stream, self._schema, Dialect())
        self._form, self._columns = form, columns
        self.rows = 0

    def write(self, changes: Changes, rows: Any) -> None:
        """Write the next rows."""
        count = len(rows)
        names = pa.DictionaryArray.from_arrays(pa.array(changes), pa.array(CHANGES)).cast(pa.string())
        version = pa.repeat(pa.scalar(self._form.version, pa.int64()), count)
        time = pa.repeat(pa.scalar(self._form.committed * 1000, pa.int64()), count).cast(FIELDS[2].type)
        columns = [names, version, time, *self._columns(rows)]
        self._writer.write(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self.rows += count

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()
