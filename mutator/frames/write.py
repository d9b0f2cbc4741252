"""Write the rows of a table to a scratch file, which a merge reads like any other input."""

from typing import Any

from mutator.formats.files.contract import Dialect
from mutator.formats.files.registry import FILE_FORMATS
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
