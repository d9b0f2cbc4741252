"""The rows of a scan, or of changes, as batches or as a whole table of Arrow, pandas or Polars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from mutator.errors import error
from mutator.formats.values.python_values import python_rows
from mutator.frames.dataset import to_pandas, to_polars

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class Rows(Iterator[Any]):
    """An iterator over rows of a table, as pa.RecordBatches. It can be read only once.

    The rows are of the versions that were asked for, even if feeds are applied to the table while they are read. To
    read them again, once all were read, is a ConfigError.
    """

    def __init__(self, schema: Any, batches: Iterator[Any]) -> None:
        """Read nothing yet. schema: pa.Schema of the batches."""
        self.schema = schema
        self._batches = batches
        self._is_read = False

    def __repr__(self) -> str:
        columns = ", ".join(self.schema.names)
        return f"<Rows of {columns}{': all were read' if self._is_read else '; to_arrow() reads them'}>"

    @property
    def is_read(self) -> bool:
        """Whether all rows were read."""
        return self._is_read

    def __iter__(self) -> Self:
        if self._is_read:  # or a second loop would find no rows, as if the table had none
            raise error("table.rows.read")
        return self

    def __next__(self) -> Any:
        try:
            return next(self._batches)
        except StopIteration:
            self._is_read = True
            raise

    def to_arrow(self) -> pa.Table:
        """Return the rows that are left as a pa.Table. Raises StateError for lost and damaged files."""
        return pa.Table.from_batches(self, self.schema)

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the rows that are left as a list of mappings of column names to Python values.

        Values that Python lacks, such as the year 12000, are text.
        """
        return [row for batch in self for row in python_rows(batch)]

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows that are left as a pandas DataFrame. Raises ConfigError where pandas is not installed."""
        return to_pandas(self.to_arrow(), "to_pandas()")

    def to_polars(self) -> pl.DataFrame:
        """Return the rows that are left as a Polars DataFrame. Raises ConfigError where Polars is not installed."""
        return to_polars(self.to_arrow(), "to_polars()")

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the rows that are left to any library that reads Arrow streams."""
        return pa.RecordBatchReader.from_batches(self.schema, self).__arrow_c_stream__(requested_schema)
