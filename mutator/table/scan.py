"""The rows of a version of a table, as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.versions.snapshot import Snapshot, damaged
from mutator.dataset.versions.version import DATA, TableFile
from mutator.engine.versions.live_rows import opened_file
from mutator.formats.content import NotReadable
from mutator.formats.files.arrow_files import faults
from mutator.formats.files.parquet import opened
from mutator.formats.values.convert import converted
from mutator.plan.inspect.managed import stored_schema
from mutator.rules.byte_columns import Ints


def schema_of(snapshot: Snapshot) -> Any:
    """Return the pa.Schema of the rows of a version; without fields before the first rows."""
    spec = snapshot.state.spec
    return pa.schema([]) if spec is None else stored_schema(spec, snapshot.table).schema


def scan_batches(snapshot: Snapshot, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """Yield the live rows of a version as pa.RecordBatches. columns: the wanted ones, by default all."""
    schema = schema_of(snapshot)
    wanted = schema if columns is None else pa.schema([schema.field(name) for name in columns])
    for file in snapshot.of_role(DATA):
        yield from _live(snapshot, file, wanted)


def _live(snapshot: Snapshot, file: TableFile, wanted: Any) -> Iterator[Any]:
    """Yield the rows of a file that are not hidden."""
    hidden = snapshot.masks.hidden(file.path)
    if len(hidden) == file.rows:
        return
    own = stored_schema(snapshot.state.schemas[file.schema], snapshot.table).schema
    names = [name for name in wanted.names if own.get_field_index(name) >= 0]
    try:
        with faults("Parquet"), opened_file(snapshot.table, file.data) as stream:
            found = opened(stream)
            if found.metadata.num_rows != file.rows:
                raise NotReadable(f"it has {found.metadata.num_rows:,} rows and should have {file.rows:,}")
            start = 0
            for number in range(found.metadata.num_row_groups):
                end = start + found.metadata.row_group(number).num_rows
                first, last = np.searchsorted(hidden, [start, end])
                if last - first < end - start:
                    group = found.read_row_group(number, columns=names, use_threads=False).select(names)
                    group = _without(group, hidden[first:last] - start)
                    yield from typed(group, wanted).to_batches()
                start = end
    except NotReadable as fault:
        raise damaged(snapshot.table, file.data, fault) from None


def _without(table: Any, hidden: Ints) -> Any:
    """Return the rows of a table whose numbers are not hidden."""
    if not len(hidden):
        return table
    keep = np.ones(table.num_rows, np.bool_)
    keep[hidden] = False
    return table.filter(pa.array(keep))


def typed(table: Any, wanted: Any) -> Any:
    """Return the columns of a table with the names and types of a schema; NULL where it lacks one."""
    if table.schema.equals(wanted):
        return table
    columns = []
    for field in wanted:
        if table.schema.get_field_index(field.name) < 0:
            columns.append(pa.nulls(table.num_rows, field.type))
            continue
        column, _, _ = converted(table.column(field.name).combine_chunks(), field.type, True)
        columns.append(column)
    return pa.table(columns, schema=wanted)
