"""The rows of a dataset that mutator has written, as tables of Arrow, pandas, Polars and Spark."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mutator.config.settings import InputSpec, RowSpec
from mutator.dataset.directory import check_files, read_manifest
from mutator.dataset.state import State
from mutator.errors import error
from mutator.errors.display import without_secrets
from mutator.formats.values.python_values import python_rows
from mutator.frames.change_feed import change_files, changes_of
from mutator.frames.file_rows import FileRange, read_range
from mutator.frames.text_fields import check_text_feed, text_batches, text_schema
from mutator.plan.inspect.managed import dataset_schema, dataset_sources
from mutator.plan.inspect.source import Source
from mutator.storage import located_to_write, walk

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession

    from mutator.frames.scratch import Scratch


class Dataset:
    """The rows of a dataset that mutator has written: those of the files that its manifest lists, and no others.

    Columns have the types of the dataset. Delimited text has none: its columns are text, named by its header, or
    ``field_0``, ``field_1`` and so on. A dataset can be the master of another merge; it then keeps its tombstones.

    >>> Dataset("out").to_arrow()                                                     # doctest: +SKIP
    pyarrow.Table
    """

    def __init__(self, path: str | Path, scratch: Scratch | None = None) -> None:
        """Open the dataset at a path. scratch: the directory that has to live as long. Raises ConfigError."""
        self._storage, self.path = located_to_write(str(path))
        self._scratch = scratch

    @cached_property
    def _known(self) -> State:
        known = read_manifest(self._storage, self.path)
        if known is None:
            raise error("dataset.missing", path=self.path)
        check_files(self._storage, self.path, known.parts(), walk(self.path))
        return known

    @property
    def label(self) -> str:
        """The dataset in a word, for messages and reports."""
        return "mutator.Dataset in memory" if self._scratch is not None else "mutator.Dataset"

    @property
    def has_types(self) -> bool:
        """Whether its columns have types or names of their own, unlike those of delimited text."""
        return dataset_schema(self._known, self.path) is not None

    def check_as_feed(self, rows: RowSpec, inputs: InputSpec, label: str) -> None:
        """Raise ConfigError if the data files cannot be read as feed files with these settings.

        label: the name of the dataset for messages.
        """
        if not self.has_types:
            check_text_feed(self._known, rows, inputs, label)

    @property
    def files(self) -> list[str]:
        """The paths of the data files."""
        return [source.path for source in self._sources]

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self._known.commit.records

    def __len__(self) -> int:
        return self.num_rows

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns and their types, a pa.Schema."""
        file_schema = dataset_schema(self._known, self.path)
        if file_schema is None:
            return text_schema(self._known, self._sources)
        if file_schema.named:
            return file_schema.schema
        return pa.schema([field.with_name(f"field_{number}") for number, field in enumerate(file_schema.schema)])

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, file by file, as pa.RecordBatches of ``schema``.

        Raises StateError for a file that differs from the manifest.
        """
        file_schema = dataset_schema(self._known, self.path)
        for source in self._sources:
            if file_schema is None:
                yield from text_batches(self._known, source, self.schema)
                continue
            for batch in read_range(_range_of(source), file_schema.schema):
                yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)

    def to_arrow(self) -> pa.Table:
        """Return the rows as a pa.Table."""
        return pa.Table.from_batches(self.to_batches(), self.schema)

    def changes(self) -> pa.Table:
        """Return the rows that the run changed, before and after, as a pa.Table; see docs/changes.md.

        Raises ConfigError if it did not write them (``changes=True``).
        """
        if not self._known.changes:
            raise error("changes.none", path=self.label if self._scratch is not None else self.path)
        found: pa.Table = changes_of([(self.path, change_files(self._known))]).read_all()
        return found

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the rows as a list of mappings of column names to Python values.

        Values that Python lacks, such as the year 12000, are text.
        """
        return [row for batch in self.to_batches() for row in python_rows(batch)]

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame, with the types that pandas gives to Arrow columns.

        Raises ConfigError where pandas is not installed.
        """
        return to_pandas(self.to_arrow(), "to_pandas()")

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a Polars DataFrame. Raises ConfigError where Polars is not installed."""
        return to_polars(self.to_arrow(), "to_polars()")

    def to_spark(self, session: SparkSession) -> DataFrame:
        """Return the rows as a Spark DataFrame.

        Spark itself reads Parquet and ORC files that it can reach; all other rows go through this process. Times have
        microseconds there. Raises ConfigError for a type that Spark has not.
        """
        from mutator.engine.spark.frames import frame_of_files, frame_of_table, with_types_of_spark

        formats = {source.file_format for source in self._sources}
        is_readable = formats in ({"parquet"}, {"orc"}) and with_types_of_spark(self.schema) == self.schema
        in_path = {name for source in self._sources for name, _ in source.in_path}
        if self._scratch is None and is_readable and all(_is_plain(self.schema.field(name).type) for name in in_path):
            place = (self.path, self.schema) if in_path else ()
            return frame_of_files(session, self.files, self._known.spec["format"], self.to_arrow, *place)
        return frame_of_table(session, self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the rows to any library that reads Arrow streams."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self.to_batches())
        return reader.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        where = "in memory" if self._scratch is not None else without_secrets(self.path)
        return f"<mutator.Dataset {where}: {self.num_rows:,} rows of {', '.join(self.schema.names)}>"

    @cached_property
    def _sources(self) -> tuple[Source, ...]:
        return dataset_sources(self.path, self._known)[0]


def _is_plain(data_type: pa.DataType) -> bool:
    """Return whether Spark reads the text of a value in a path as the same value, whatever its settings are."""
    types = pa.types
    plain = (types.is_string, types.is_integer, types.is_boolean, types.is_date, types.is_decimal)
    return any(is_one(data_type) for is_one in plain)


def _range_of(source: Source) -> FileRange:
    """Return a data file with all that its reader has to know."""
    assert source.file_schema is not None
    return FileRange(
        path=source.path,
        bytes=source.bytes,
        format=source.file_format,
        schema=source.file_schema.schema,
        dialect=source.dialect,
        window=source.window(),
        checksum=source.checksum,
        partition=source.in_path,
    )


def to_pandas(table: pa.Table, what: str) -> pd.DataFrame:
    """Return a pa.Table as a pandas DataFrame. what: the function that was called, for the message."""
    try:
        import pandas  # noqa: F401  # pyarrow's own error does not name the cure
    except ImportError:
        raise error("package", what=what, package="pandas") from None
    return table.to_pandas()


def to_polars(table: pa.Table, what: str) -> pl.DataFrame:
    """Return a pa.Table as a Polars DataFrame. what: the function that was called, for the message."""
    try:
        import polars
    except ImportError:
        raise error("package", what=what, package="polars") from None
    found = polars.from_arrow(table)
    assert isinstance(found, polars.DataFrame)
    return found
