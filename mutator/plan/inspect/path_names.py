"""Files with fields in the names of their directories alone, as Hive and Spark write them: Parquet, ORC and Avro.

Such a field of a master is read as the feed has it. Its values are text, so it is text if no file has its type. Those
of a feed file are not read: a file is known again by its name and bytes, which would not identify its rows.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

import pyarrow as pa

from mutator.config import Config
from mutator.dataset.partition_index import IN_PATH
from mutator.dataset.state import State
from mutator.formats.content import PathValues
from mutator.formats.files.file_format import FileSchema
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.plan.inspect.source import Source
from mutator.rules.partition_paths import values_of


def with_path_fields(
    config: Config, known: State | None, master: Sequence[Source], feed: Sequence[Source], *, managed: bool
) -> tuple[Source, ...]:
    """Return the files of a master, with the fields in their paths.

    known: the manifest of the master. managed: it is in force; an adopted master has files with its fields. Of a master
    without a manifest, only partition fields of the configuration and fields of the feed are read from paths.
    """
    types = {} if known is None else _stored_types(known)
    if not managed:
        wanted = {field.name for field in config.rows.key.partitions if field.transform == "identity"}
        wanted |= set(known.spec.get(IN_PATH, ()) if known is not None else ())
        wanted |= {name for one in feed if one.file_schema is not None for name in one.file_schema.schema.names}
        master = [_with_fields(source, wanted, {**_types(feed), **types}) for source in master]
    return tuple(master)


def as_dataset(
    known: State | None, master: Sequence[Source], feed: Sequence[Source], other: State | None
) -> list[Source]:
    """Return the files of a dataset that is compared with a master, with the fields in their paths.

    known, other: the manifests of the master and of the dataset.
    """
    types = {} if known is None else _stored_types(known)
    types |= {**_types(master), **({} if other is None else _stored_types(other))}
    return [_with_fields(source, types.keys(), types) for source in feed]


def only_in_paths(sources: Sequence[Source]) -> list[str]:
    """Return the fields that typed files have in the names of their directories alone."""
    typed = [one for one in sources if FILE_FORMATS[one.file_format].typed and one.file_schema is not None]
    names = [
        name
        for one in typed
        for name, _ in _values(one.path)
        if one.file_schema is not None and name not in one.file_schema.schema.names and name not in dict(one.in_path)
    ]
    return list(dict.fromkeys(names))


def _types(sources: Sequence[Source]) -> dict[str, Any]:
    """Return the types of the fields of typed files."""
    typed = [one.file_schema for one in sources if FILE_FORMATS[one.file_format].typed and one.file_schema is not None]
    return {field.name: field.type for one in typed for field in one.schema}


def _stored_types(known: State) -> dict[str, Any]:
    file_format = FILE_FORMATS[known.spec["format"]]
    return {field.name: field.type for field in file_format.stored(known.spec).schema} if file_format.typed else {}


def _with_fields(source: Source, wanted: Collection[str], types: Mapping[str, Any]) -> Source:
    own = source.file_schema
    if own is None or not FILE_FORMATS[source.file_format].typed:
        return source
    values = tuple(
        (name, text) for name, text in _values(source.path) if name in wanted and name not in own.schema.names
    )
    if not values:
        return source
    fields = [pa.field(name, types.get(name, pa.string())) for name, _ in values]
    return replace(source, in_path=values, file_schema=_extended(own, fields))


def _values(path: str) -> PathValues:
    """Return the values of the partition directories right above a file."""
    above = [*takewhile(lambda part: "=" in part[1:], reversed(path.split("/")[:-1]))]
    return values_of("/".join(reversed(above))) if above else ()


def _extended(own: FileSchema, fields: Sequence[Any]) -> FileSchema:
    """Return a schema with more fields, at its end."""
    native = own.native
    if native is not None:
        from mutator.formats.files.avro_schema import avro_type

        more = [{"name": field.name, "type": avro_type(field)} for field in fields]
        native = {**native, "fields": [*native["fields"], *more]}
    return replace(own, schema=pa.schema([*own.schema, *fields]), native=native)
