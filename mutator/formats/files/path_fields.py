"""Fields that the files of a partition have in the names of their directories alone, as Hive writes them.

``read_rows`` adds them to the rows of a file; ``without`` and ``checked`` leave them out of the files to write. Values
are those of ``scalar_text.exact_text``, so each comes back exactly. NULL and the empty text have one name in a path.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors import error
from mutator.formats.content import Content, KeyFile, NotReadable, OtherForm, Wrapped
from mutator.formats.files.file_format import Dialect, RowBatch
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.formats.values.convert import converted
from mutator.formats.values.scalar_text import exact_text
from mutator.rules.byte_columns import ByteColumn, Flags, Ints
from mutator.rules.envelope import Unclear
from mutator.rules.order_columns import flags
from mutator.rules.partition_paths import DEFAULT


def read_rows(
    file_format: str, content: Content, schema: Any, names: Sequence[str], dialect: Dialect
) -> Iterator[RowBatch]:
    """Yield the rows of the content's window as ``FileFormat.read`` does, with the fields that are in its path.

    Merges, guards and explain read here, and here the envelope of a file turns its rows into those of records. schema:
    the pa.Schema of these, with the fields in the path. Raises NotReadable.
    """
    values, read = dict(content.window.in_path), FILE_FORMATS[file_format].read
    if content.window.wrapped is not None:
        read = partial(_unwrapped, file_format, content.window.wrapped)
    own = [name for name in names if name not in values]
    if len(own) == len(names):
        yield from read(content, without(schema, values), names, dialect)
        return
    stored = own or [name for name in schema.names if name not in values][:1]
    for found in read(content, without(schema, values), stored, dialect):
        count, batch = found.batch.num_rows, found.batch
        of_path = {name: pa.field(name, pa.large_binary()) if found.as_text else schema.field(name) for name in values}
        fields = [of_path[name] if name in values else batch.schema.field(name) for name in names]
        columns = [
            path_column(one.name, values[one.name], one.type, count) if one.name in values else batch.column(one.name)
            for one in fields
        ]
        yield replace(found, batch=pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)))


def _unwrapped(
    file_format: str,
    wrapped: Wrapped,
    content: Content,
    schema: Any,
    names: Sequence[str],
    dialect: Dialect,
) -> Iterator[RowBatch]:
    """Yield the rows of records in those of a file. Most arguments are as for ``FileFormat.read``."""
    envelope, of_file = wrapped.envelope, FILE_FORMATS[file_format]
    fields = envelope.file_fields(names)
    keys = None if wrapped.keys is None else _keys(wrapped.keys, file_format)
    for found in of_file.read(content, envelope.file_schema(wrapped.schema, schema), fields, dialect):
        unwrap = envelope.unwrap
        if keys is not None:
            unwrap = partial(envelope.unwrap_with_keys, keys=partial(keys.keys_of, found.offsets))
        try:
            batch, rows, as_text, unset = unwrap(found.batch, schema)
        except Unclear as fault:
            raise OtherForm(str(fault), fault.cure) from None
        raw = found.raw if found.as_text else None  # else no text that a person reads
        found = replace(found, batch=batch.select(list(names)), as_text=found.as_text or as_text, raw=raw, unset=unset)
        found = replace(found, carried=wrapped.carried)
        if rows is not None:
            lines = None if raw is None else partial(_lines, raw, rows)
            offsets, numbers = found.offsets[rows], found.numbers[rows]
            ignored = found.ignored + len(found.offsets) - len(np.unique(rows))
            found = replace(found, offsets=offsets, numbers=numbers, raw=lines, ignored=ignored, joined=True)
        yield found


def _keys(keys: KeyFile, file_format: str) -> Any:
    from mutator.formats.files.key_files import KeyReader  # with Avro, which other runs need not load

    return KeyReader(keys, file_format)


def _lines(raw: Callable[[], ByteColumn], rows: Ints) -> ByteColumn:
    return raw().only(rows)


def path_column(name: str, value: str | None, data_type: Any, count: int) -> Any:
    """Return a pa.Array of a field that has one value in all rows. Raises NotReadable."""
    text = None if value is None else value.encode("utf-8", "surrogateescape")
    found, bad, why = converted(pa.array([text], pa.large_binary()), data_type, typed=False)
    if bad.any():
        raise NotReadable(f"its directory has the value {value!r} of field {name}, which {why}")
    return pa.repeat(found[0], count) if count else pa.array([], data_type)


# As Spark infers types, where the text of each value is that in the path. Hive's are in its metastore.
_INFERRED = (pa.int32(), pa.int64(), pa.decimal128(38, 0), pa.float64(), pa.date32(), pa.timestamp("us"))
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}")


def inferred_type(values: Sequence[str | None]) -> Any:
    """Return the pa.DataType of a field by its values in paths: a number, a date, a time or text.

    Text that would be written otherwise stays text, so that partitions keep their names: 007 is no number.

    >>> [str(inferred_type(values)) for values in (["7", None], ["07", "8"], ["2026-01-31"], ["1.5"], ["EU"])]
    ['int32', 'string', 'date32[day]', 'double', 'string']
    """
    texts = [text for text in values if text is not None]
    if not texts or not all(text[-1:].isdigit() for text in texts):  # NaN is a name, too
        return pa.string()
    column = pa.array([text.encode("utf-8", "surrogateescape") for text in texts], pa.large_binary())
    for data_type in _INFERRED:
        found, bad, _ = converted(column, data_type, typed=False)
        is_time = pa.types.is_timestamp(data_type) and all(map(_TIME.match, texts))
        if not bad.any() and (is_time or exact_text(found).equals(column)):
            return data_type
    return pa.string()


def without(schema: Any, in_path: Collection[str]) -> Any:
    """Return a pa.Schema without the fields that are in the path."""
    return pa.schema([field for field in schema if field.name not in in_path], schema.metadata)


def has_no_name(texts: Any) -> Flags:
    """Return which values a path cannot tell from NULL. texts: a pa.Array of large_binary, as of ``exact_text``."""
    return flags(pc.is_in(texts, value_set=pa.array([b"", DEFAULT.encode()], pa.large_binary())))


def checked(batch: Any, in_path: Sequence[str]) -> Any:
    """Return a pa.RecordBatch without the fields that are in the path. Raises DataError for a value without a name."""
    for name in in_path:
        if has_no_name(exact_text(batch.column(name))).any():
            raise error("partition.empty", field=name)
    return batch.select([name for name in batch.schema.names if name not in in_path]) if in_path else batch
