"""Aliases of Avro fields: a field of one file is that of another under an older name, as Avro's readers resolve it.

The result has the names of the newest feed file, so older files are read with its names; a master that is not Avro
keeps its own names, and the feed is read with these.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from mutator.formats.files.avro_schema import renamed_fields
from mutator.formats.files.contract import FileSchema
from mutator.plan.inspect.source import Source


@dataclass(frozen=True)
class BothSides:
    """The files of master and feed by common names of fields."""

    master: tuple[Source, ...]
    feed: tuple[Source, ...]
    master_schema: FileSchema | None  # of a managed master
    notes: tuple[str, ...] = ()


def with_aliases(
    master: Sequence[Source],
    feed: Sequence[Source],
    master_schema: FileSchema | None,
    wanted: FileSchema | None,
    *,
    keeps_names: bool,
) -> BothSides:
    """Return the files of both sides, their fields renamed where aliases say so.

    wanted: the schema that the user wants for the result. keeps_names: the master is partitioned, or a table, and keeps
    its names, as one that is not Avro does.
    """
    schemas = [wanted, *(source.file_schema for source in (*feed, *master))]
    if not feed or not any(any(_aliases(schema)) for schema in schemas):
        return BothSides(tuple(master), tuple(feed), master_schema)
    newest = max(feed, key=lambda one: (-1 if one.sequence is None else one.sequence, one.precedence_name))
    is_avro = all(one.file_schema is None or one.file_schema.native is not None for one in master)
    notes: dict[str, None] = {}
    if keeps_names or not is_avro:
        base = master_schema or next((one.file_schema for one in master if one.file_schema is not None), None)
    else:
        base = wanted or newest.file_schema
        master = [_renamed(one, base, notes) for one in master]
        if master_schema is not None and (names := _renames(master_schema, base)):
            master_schema = _with_names(master_schema, names)
    feed = [_renamed(one, base, notes) for one in feed]
    return BothSides(tuple(master), tuple(feed), master_schema, tuple(notes))


def _aliases(schema: FileSchema | None) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the fields with aliases."""
    native = None if schema is None else schema.native
    for field in native.get("fields", ()) if isinstance(native, Mapping) else ():
        if field.get("aliases"):
            yield field["name"], field["aliases"]


def _renames(schema: FileSchema, base: FileSchema | None) -> dict[str, str]:
    """Return the fields that have another name in a base: their names in a file to those in the base."""
    if base is None or schema.native is None:
        return {}
    own, wanted = set(schema.schema.names), set(base.schema.names)
    olds, news = dict(_aliases(schema)), dict(_aliases(base))
    found: dict[str, list[str]] = {}
    for name in wanted - own:
        others = {*news.get(name, ()), *(one for one, aliases in olds.items() if name in aliases)}
        for other in (others & own) - wanted:
            found.setdefault(name, []).append(other)
    # Two fields with one alias, or one field with two candidates, name nothing.
    single = {others[0]: name for name, others in found.items() if len(others) == 1}
    return {other: name for other, name in single.items() if sum(other in one for one in found.values()) == 1}


def _renamed(source: Source, base: FileSchema | None, notes: dict[str, None]) -> Source:
    names = {} if source.file_schema is None else _renames(source.file_schema, base)
    if not names or source.file_schema is None:
        return source
    for old, new in names.items():
        notes[f"field {old} of {source.name} is read as {new}, by an alias in an Avro schema"] = None
    return replace(source, file_schema=_with_names(source.file_schema, names), renamed=tuple(sorted(names.items())))


def _with_names(schema: FileSchema, names: Mapping[str, str]) -> FileSchema:
    fields: list[Any] = [field.with_name(names.get(field.name, field.name)) for field in schema.schema]
    defaults = {names.get(name, name): value for name, value in schema.defaults.items()}
    return replace(schema, schema=pa.schema(fields), native=renamed_fields(schema.native, names), defaults=defaults)
