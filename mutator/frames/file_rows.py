"""Read the rows of a typed or delimited file, or of a byte range of it, as batches of one schema."""

from collections.abc import Iterator
from dataclasses import field
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.file_content import FileContent
from mutator.errors import error
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.content import NotReadable, Window, unreadable
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.formats.files.path_fields import path_column, without
from mutator.formats.values.convert import converted
from mutator.formats.values.nested import nulls
from mutator.rules.byte_columns import Flags

_INVALID = "has a value that is invalid for its type, such as text that is not UTF-8"


@dataclass(frozen=True)
class FileRange:
    """A file, or a byte range of it, that a task reads."""

    path: str
    bytes: int
    format: str  # a key of FILE_FORMATS
    schema: Any  # of the file: pa.Schema; fields of ``partition`` are ignored
    dialect: Dialect = field(default_factory=Dialect)
    window: Window = field(default_factory=Window)
    checksum: str | None = None
    partition: tuple[tuple[str, str | None], ...] = ()  # (field, value) of all its rows, as its directory has them


def read_range(file_range: FileRange, schema: Any) -> Iterator[Any]:
    """Read rows as batches of a schema: a field that the file lacks is NULL, a narrower type is widened.

    Raises DataError that names the first row with a value that does not fit.
    """
    file_format, values = FILE_FORMATS[file_range.format], dict(file_range.partition)
    content = FileContent(file_range.path, file_range.bytes, file_range.window, checksum=file_range.checksum)
    names = [one.name for one in schema if one.name not in values and file_range.schema.get_field_index(one.name) >= 0]
    try:
        for found in file_format.read(content, without(file_range.schema, values), names, file_range.dialect):
            if found.rejects:
                reject = found.rejects[0]
                raise NotReadable(f"{file_format.position(reject.offset, reject.line)}: {reject.reason}")
            count = found.batch.num_rows
            columns = []
            for one in schema:
                if one.name in values:
                    columns.append(path_column(one.name, values[one.name], one.type, count))
                elif one.name in names:
                    column = found.batch.column(one.name)
                    made, bad, why = _as_type(column, one.type, not found.as_text)
                    if bad.any():
                        row = int(np.argmax(bad))
                        position = file_format.position(int(found.offsets[row]), int(found.numbers[row]))
                        what = f"{why} ({position}: {_shown(column[row])})"
                        raise error("schema.field", path=file_range.path, field=one.name, what=what)
                    columns.append(made)
                else:
                    columns.append(nulls(count, one.type))
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
    except NotReadable as fault:
        raise unreadable(file_range.path, fault) from None


def _as_type(column: Any, data_type: Any, typed: bool) -> tuple[Any, Flags, str]:
    if typed:
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            return column, np.array([not _is_valid(column[row : row + 1]) for row in range(len(column))]), _INVALID
    return converted(column, data_type, typed)


def _is_valid(column: Any) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _shown(value: Any) -> str:
    if pa.types.is_string(value.type) or pa.types.is_large_string(value.type):
        return repr(value.as_buffer().to_pybytes())[1:61]  # it may not be UTF-8
    found = value.as_py() if not pa.types.is_temporal(value.type) else value.cast(pa.string()).as_py()
    return repr(found)[:60]
