"""Files with fields in the names of their directories alone, as Hive and Spark write them: Parquet, ORC and Avro.

Such a field of a master has the type that ``output.schema`` or else the feed has; a feed of text has text. Those of a
feed file are not read: a file is known again by its name and bytes, which would not identify its rows.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

import pyarrow as pa

from mutator.config.settings import KeySpec
from mutator.dataset.partition_index import IN_PATH
from mutator.dataset.state import State
from mutator.errors import error
from mutator.errors.parts import setting
from mutator.formats.content import NotReadable, PathValues
from mutator.formats.files.file_format import FileSchema
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.formats.files.path_fields import path_column
from mutator.plan.inspect.source import Source
from mutator.rules.known_formats import FORMATS
from mutator.rules.partition_paths import values_of
from mutator.rules.schema_evolution import widened


def with_path_fields(
    key: KeySpec, known: State | None, master: Sequence[Source], feed: Sequence[Source], output: FileSchema | None
) -> tuple[Source, ...]:
    """Return the files of a master without a manifest, or of an adopted one, with the fields in their paths.

    known: the manifest of the adopted one. output: the schema that the user names. Only partition fields of the
    configuration or of the manifest and fields of the feed are read from paths. Raises DataError for a value that its
    type cannot have, and for a field without a type.
    """
    wanted = {field.name for field in key.partitions if field.transform == "identity"}
    wanted |= set(known.spec.get(IN_PATH, ()) if known is not None else ())
    wanted |= {name for one in feed if one.file_schema is not None for name in one.file_schema.schema.names}
    types = _types(feed) | ({} if known is None else _stored_types(known))
    types |= {} if output is None else {field.name: field.type for field in output.schema}
    found = tuple(_with_fields(source, wanted, types) for source in master)
    _check_values(found)
    texts = [one.file_schema.schema for one in feed if one.file_schema and not one.format.stores_schema]
    as_text = {name for schema in texts for name in schema.names}
    untyped = {name: one.path for one in found for name, _ in one.in_path if name not in types.keys() | as_text}
    for name, path in untyped.items() if feed else ():
        what = f"field {name} has values in the names of directories alone, and no feed file has a type for them"
        cure = (
            f"set {setting('output.schema')} to an Avro schema with the field, or merge a feed file with values of it"
        )
        raise error("format", path=path, what=what, cure=cure)
    return found


def _check_values(sources: Sequence[Source]) -> None:
    """Raise DataError for a value in a path that the type of its field cannot have."""
    values = {pair: source for source in sources for pair in source.in_path}
    for (name, text), source in values.items():
        assert source.file_schema is not None
        try:
            path_column(name, text, source.file_schema.schema.field(name).type, 0)
        except NotReadable as fault:
            cure = (
                f"correct the type in the feed, or set {setting('output.schema')} to an Avro schema with another type"
            )
            raise error("format", path=source.path, what=fault, cure=cure) from None


def as_dataset(
    known: State | None, master: Sequence[Source], feed: Sequence[Source], other: State | None
) -> list[Source]:
    """Return the files of a dataset that is compared with a master, with the fields in their paths.

    known, other: the manifests of the master and of the dataset.
    """
    types = {} if known is None else _stored_types(known)
    types |= {**_types(master), **({} if other is None else _stored_types(other))}
    found = [_with_fields(source, types.keys(), types) for source in feed]
    _check_values(found)
    return found


def only_in_paths(sources: Sequence[Source]) -> list[str]:
    """Return the fields that files with types have in the names of their directories alone."""
    typed = [one for one in sources if one.format.stores_schema and one.file_schema is not None]
    names = [
        name
        for one in typed
        for name, _ in _values(one.path)
        if one.file_schema is not None and name not in one.file_schema.schema.names and name not in dict(one.in_path)
    ]
    return list(dict.fromkeys(names))


def _types(sources: Sequence[Source]) -> dict[str, Any]:
    """Return the types that fit all values of the fields of typed files; without fields that have no values."""
    found = dict[str, Any]()
    for one in sources:
        for field in one.file_schema.schema if one.file_schema is not None and one.format.stores_schema else ():
            if not pa.types.is_null(field.type):
                found[field.name] = widened(found.get(field.name, field.type), field.type) or field.type
    return found


def _stored_types(known: State) -> dict[str, Any]:
    name = known.spec["format"]
    if not FORMATS[name].stores_schema:
        return {}
    return {field.name: field.type for field in FILE_FORMATS[name].stored(known.spec).schema}


def _with_fields(source: Source, wanted: Collection[str], types: Mapping[str, Any]) -> Source:
    own = source.file_schema
    if own is None or not source.format.stores_schema:
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
