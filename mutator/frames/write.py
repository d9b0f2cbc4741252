"""Write the rows of a table to a scratch file, which a merge reads like any other input."""

from typing import Any

import pyarrow.parquet as pq

from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.frames.batches import batches_of
from mutator.frames.fitting_types import FittingTypes
from mutator.frames.recognize import PANDAS
from mutator.plan.inspect.table_inputs import TableInput
from mutator.storage import storage_for


def write_table(path: str, table: Any, kind: str, label: str) -> TableInput:
    """Write a table other than Spark's to a Parquet file. path: full path. label: of the table, for messages.

    Raises DataError that names the table and the column.
    """
    found = batches_of(table, kind, label)
    fitting = FittingTypes(found.schema, floats=kind == PANDAS)
    with storage_for(path).create_new(path) as stream:
        writer, count = FILE_FORMATS["parquet"].writer(stream, found.schema, Dialect()), 0
        for batch in found.rows:
            count += batch.num_rows
            fitting.add(batch)
            writer.write(batch)
        writer.close()
    return TableInput(path, fitting.types(), fitting.valueless, rows=count)


def valueless_columns(directory: str) -> frozenset[str]:
    """Return the names of the columns without any value in the Parquet files of a directory, by their footers.

    directory: full path. Columns with parts, such as lists, count as having values.
    """
    storage, found = storage_for(directory), None
    for entry in storage.entries(directory):
        with storage.open(entry.path) as stream:
            metadata = pq.read_metadata(stream)
        if found is None:
            found = set(metadata.schema.to_arrow_schema().names)
        found &= {metadata.schema.column(number).path for number in range(metadata.num_columns)}
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            columns = map(group.column, range(group.num_columns))
            found -= {column.path_in_schema for column in columns if _has_values(column, group.num_rows)}
    return frozenset(found or ())


def _has_values(column: Any, rows: int) -> bool:
    statistics = column.statistics
    return statistics is None or not statistics.has_null_count or int(statistics.null_count) < rows
