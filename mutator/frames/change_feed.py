"""The changed rows of datasets, as tables."""

import posixpath
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.file_entry import FileEntry
from mutator.dataset.manifest import CHANGES as ROLE
from mutator.dataset.state import State
from mutator.errors import MutatorError
from mutator.errors.display import counted
from mutator.formats.blocks.changed_rows import FIELDS
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.frames.file_rows import FileRange, read_range
from mutator.rules.changes import CHANGE, changed_counts
from mutator.storage import storage_for


def change_files(known: State) -> list[FileEntry]:
    """Return the files of changed rows of a dataset, in the order of their tasks."""
    return sorted((part for part in known.beside if part.role == ROLE), key=lambda part: part.path)


def readable_name(part: FileEntry) -> str:
    """Return the name of a file in a directory of changed rows, where other programs read it: it has their ending."""
    return f"{posixpath.splitext(posixpath.basename(part.path))[0]}.{_format_of(part)}"


def schema_of_changes(path: str, part: FileEntry) -> Any:
    """Return the pa.Schema of a file of changed rows. path: of its dataset. Raises StorageError."""
    full = posixpath.join(path, part.path)
    with storage_for(full).open(full) as stream:
        return FILE_FORMATS[_format_of(part)].probe(stream, Dialect()).schema


def change_batches(path: str, parts: Sequence[FileEntry], schema: Any) -> Iterator[Any]:
    """Yield the rows of files of changed rows as pa.RecordBatches of a schema. path: of their dataset.

    Raises DataError for a file that cannot be read.
    """
    for part in parts:
        full = posixpath.join(path, part.path)
        own = schema_of_changes(path, part)
        yield from read_range(FileRange(full, part.bytes, _format_of(part), own, checksum=part.checksum), schema)


def changes_of(places: Sequence[tuple[str, Sequence[FileEntry]]]) -> Any:
    """Return a pa.RecordBatchReader of changed rows, in the order of their places: directories and files in them.

    The rows have the schema of the last place; a field that earlier rows lack is NULL.
    """
    files = [(path, part) for path, parts in places for part in parts]
    schema = schema_of_changes(*files[-1]) if files else pa.schema(FIELDS)
    batches = (batch for path, part in files for batch in change_batches(path, [part], schema))
    return pa.RecordBatchReader.from_batches(schema, batches)


def difference_of_changes(path: str, known: State) -> str | None:
    """Return how the number of changed rows of each kind differs from the counts of the run; None if it does not."""
    parts = change_files(known)
    if not known.changes:
        return None
    found: Counter[str] = Counter()
    try:
        for part in parts:
            for batch in change_batches(path, [part], pa.schema([(CHANGE, pa.string())])):
                found.update({one["values"]: one["counts"] for one in pc.value_counts(batch.column(0)).to_pylist()})
    except MutatorError as fault:
        return str(fault)
    problems = [
        f"{counted(found[change], 'changed row')} of the kind {change} and should have {count:,}"
        for change, count in changed_counts(known.commit.counts).items()
        if found[change] != count
    ]
    return f"has {', '.join(problems)}" if problems else None


def _format_of(part: FileEntry) -> str:
    return "avro" if part.path.endswith((".records", ".avro")) else "parquet"
