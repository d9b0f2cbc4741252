"""What a task of the bridge does with rows: plain functions over files, no Spark.

A fault travels as data, because an exception that is raised in an executor loses its class on the way.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.commit.staged_file import StagedFile
from mutator.dataset.file_content import WHOLE, FileContent
from mutator.dataset.manifest import DataFile
from mutator.errors import error
from mutator.errors.failpoints import failpoint
from mutator.formats.content import NotReadable, Window
from mutator.formats.files.contract import Dialect
from mutator.formats.files.registry import FILE_FORMATS
from mutator.formats.values.convert import converted
from mutator.rules.byte_columns import Flags
from mutator.storage import storage_for

__all__ = ["Piece", "read_piece", "write_file"]

_ODD = "holds what its type has not, such as text that is not UTF-8"


@dataclass(frozen=True)
class Piece:
    """A file that is read, or a part of one, and what all of its rows have."""

    path: str
    bytes: int
    kind: str  # a key of ``formats.kinds.FILE_FORMATS``
    schema: Any  # of the file: pa.Schema
    dialect: Dialect = field(default_factory=Dialect)
    window: Window = field(default_factory=Window)
    checksum: str | None = None
    partition: tuple[tuple[str, str | None], ...] = ()  # field and value, as the directory has it


def read_piece(piece: Piece, schema: Any) -> Iterator[Any]:
    """Read a piece as batches of a schema: what a file lacks is NULL, a narrower type is widened.

    Raises DataError with the first row whose values do not fit.
    """
    kind, values = FILE_FORMATS[piece.kind], dict(piece.partition)
    content = FileContent(piece.path, piece.bytes, piece.window, checksum=piece.checksum)
    names = [one.name for one in schema if one.name not in values and piece.schema.get_field_index(one.name) >= 0]
    try:
        for found in kind.read(content, piece.schema, names, piece.dialect):
            if found.rejects:
                reject = found.rejects[0]
                raise NotReadable(f"{kind.position(reject.offset, reject.line)}: {reject.reason}")
            count = found.batch.num_rows
            columns = []
            for one in schema:
                if one.name in values:
                    columns.append(_repeated(values[one.name], one.type, count))
                elif one.name in names:
                    column = found.batch.column(one.name)
                    made, bad, why = _as_type(column, one.type, kind.typed)
                    if bad.any():
                        row = int(np.argmax(bad))
                        place = kind.position(int(found.offsets[row]), int(found.numbers[row]))
                        what = f"{why} ({place}: {_shown(column[row])})"
                        raise error("schema.field", path=piece.path, field=one.name, what=what)
                    columns.append(made)
                else:
                    columns.append(pa.nulls(count, one.type))
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
    except NotReadable as fault:
        raise error("damaged", path=piece.path, why=fault) from None


def _as_type(column: Any, kind: Any, typed: bool) -> tuple[Any, Flags, str]:
    if typed:
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            return column, np.array([not _is_valid(column[row : row + 1]) for row in range(len(column))]), _ODD
    return converted(column, kind, typed)


def _is_valid(column: Any) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _repeated(value: str | None, kind: Any, count: int) -> Any:
    text = None if value is None else value.encode("utf-8", "surrogateescape")
    found, bad, why = converted(pa.array([text], pa.large_binary()), kind, False)
    if bad.any():
        raise NotReadable(f"its directory says {value!r}, which {why}")
    return pa.repeat(found[0], count) if count else pa.array([], kind)


def _shown(value: Any) -> str:
    if pa.types.is_string(value.type) or pa.types.is_large_string(value.type):
        return repr(value.as_buffer().to_pybytes())[1:61]  # it may be no text
    found = value.as_py() if not pa.types.is_temporal(value.type) else value.cast(pa.string()).as_py()
    return repr(found)[:60]


def write_file(
    directory: str, name: str, kind: str, schema: Any, dialect: Dialect, batches: Iterable[Any], *, empty: bool = False
) -> DataFile | None:
    """Write batches to a file, visible once it is whole; without rows there is none, unless an empty one is wanted."""
    source = iter(batches)
    first = next((batch for batch in source if batch.num_rows), None)
    if first is None and not empty:
        return None
    path = posixpath.join(directory, name)
    with storage_for(path).create_new(path) as stream:
        staged = StagedFile(stream, name, WHOLE)
        writer = FILE_FORMATS[kind].writer(staged, schema, dialect)  # type: ignore[arg-type]  # as much of a stream as it asks
        rows = 0
        for batch in [] if first is None else _both(first, source):
            writer.write(batch)
            rows += batch.num_rows
        writer.close()
    failpoint("bridge.file.written")
    return staged.data_file(rows)


def _both(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest
