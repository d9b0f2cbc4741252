"""The parts that formats share whose files Arrow reads: faults, schemas and batch sizes."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from mutator.formats.content import NotReadable, Window
from mutator.formats.files.file_format import FileSchema
from mutator.rules.schema_evolution import from_text

_ROWS = 1 << 16  # of a batch of narrow rows
_BYTES = 16 << 20  # of a batch


class ArrowFiles:
    """The members of ``FileFormat`` that Parquet and ORC share."""

    nested = True

    def stored(self, spec: Mapping[str, Any]) -> FileSchema:
        """Return the schema in the manifest."""
        return FileSchema(from_text(spec["schema"]))


@contextmanager
def faults(name: str) -> Iterator[None]:
    """Raise NotReadable for every exception that Arrow raises for a damaged file. name: of the format."""
    try:
        yield
    except NotReadable:
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError, NotImplementedError, RuntimeError) as fault:
        raise NotReadable(f"it cannot be read as {name}: {fault}") from None


def readable(schema: Any) -> Any:
    """Return a pa.Schema as it is; raises UnicodeDecodeError if a name in it, at any depth, is not UTF-8.

    A damaged footer may have such names, and Arrow decodes them only when they are read.
    """
    for field in schema:
        _decode_names(field)
    return schema


def _decode_names(field: Any) -> None:
    _ = field.name, getattr(field.type, "tz", None)
    for number in range(field.type.num_fields):
        _decode_names(field.type.field(number))


def own_names(window: Window, names: Sequence[str]) -> list[str]:
    """Return the names that fields of this run have in a file."""
    own = {new: path[0] for path, new in window.renamed}
    return [own.get(name, name) for name in names]


def with_run_names(window: Window, batch: Any) -> Any:
    """Return a pa.RecordBatch of a file, with the names that its fields have in this run."""
    new = {path[0]: name for path, name in window.renamed}
    return batch.rename_columns([new.get(name, name) for name in batch.schema.names]) if new else batch


def batch_rows(rows: int, size: int) -> int:
    """Return the number of rows to read at once, given the number of all rows and their size in bytes.

    >>> batch_rows(1 << 20, 1 << 20), batch_rows(1 << 20, 1 << 34)
    (65536, 1024)
    """
    return max(min(_ROWS, _BYTES * max(rows, 1) // max(size, 1)), 1)
