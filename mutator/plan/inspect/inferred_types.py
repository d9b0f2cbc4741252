"""The fields of files that do not store types: those of JSON Lines, whose values have only kinds.

A master says more than the first values of a feed file: a field has the type that it has there, and a field that the
file lacks is NULL in its rows. What remains is inferred from all files of the feed alike; a field without any value in
their first rows is text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from mutator.formats.files.file_format import FileSchema
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.plan.inspect.source import Source
from mutator.rules.json_paths import with_text
from mutator.rules.schema_evolution import widened


def with_known_types(
    known: Iterable[FileSchema | None], feed: Sequence[Source], written: str | None
) -> tuple[list[Source], list[str]]:
    """Return the files of a feed, and notes. Those whose types are inferred get the fields of all of them.

    known: the schemas of the output, the master and its files, whose fields come first, and whose types win. Where they
    have only text, so has the feed. written: the format of the output, None if it is not known yet. Where
    it has no nested types, their values are text.
    """
    inferred = [one.file_schema.schema for one in feed if one.file_schema is not None and _is_inferred(one)]
    if not inferred:
        return list(feed), []
    schemas = [one for one in known if one is not None and one.named]
    typed = not schemas or any(one.typed for one in schemas)
    types = {field.name: field.type for one in reversed(schemas) for field in one.schema if one.typed or not typed}
    nested = written is None or FILE_FORMATS[written].nested
    more = dict[str, Any]()
    for field in (field for schema in inferred for field in schema if field.name not in types):
        fitting = _common(more.get(field.name, field.type), field.type)
        more[field.name] = fitting if typed and (nested or not pa.types.is_nested(fitting)) else pa.string()
    more = {name: with_text(data_type, pa.types.is_null) for name, data_type in more.items()}
    schema = pa.schema([*types.items(), *more.items()])
    found = [
        replace(one, file_schema=FileSchema(schema, typed, bom=one.bom), width=len(schema))
        if _is_inferred(one)
        else one
        for one in feed
    ]
    envelopes = [one.wrapped.envelope for one in feed if one.wrapped is not None]
    hidden = {name for one in envelopes for name in (*one.fields, *one.beside)}
    shown = ", ".join(f"{name} {data_type}" for name, data_type in more.items() if name not in hidden)
    return found, [
        f"types are those of the first values: {shown}; output.schema sets others"
    ] if typed and shown else []


def _is_inferred(source: Source) -> bool:
    """Return whether a file has fields of inferred types; a file without rows has no fields."""
    return source.format.infers_types and bool(source.file_schema and len(source.file_schema.schema))


def _common(one: Any, other: Any) -> Any:
    """Return the type of values of two types; text if none fits both."""
    return widened(one, other, promoted=True) or pa.string()
