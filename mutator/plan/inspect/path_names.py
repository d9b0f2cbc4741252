"""Files with fields in the names of their directories alone, as Hive, Spark, pandas, Polars and DuckDB write them.

A field in a path is read where a run knows its name: from its settings, or from other files. It has the type of
``output.schema``, of the manifest, or of the files that have it; a feed of text has text. Otherwise its values on both
sides decide.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from mutator.config.settings import RowSpec
from mutator.dataset.partition_index import IN_PATH
from mutator.dataset.state import State
from mutator.errors import error
from mutator.errors.display import counted
from mutator.errors.parts import place, setting
from mutator.formats.content import NotReadable, PathValues
from mutator.formats.files.file_format import FileSchema
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.formats.files.path_fields import inferred_type, path_column
from mutator.plan.inspect.delete_files import is_delete_source, may_have_ids_alone
from mutator.plan.inspect.source import Source
from mutator.rules.partition_paths import values_above
from mutator.rules.schema_evolution import widened


class WithPathFields(NamedTuple):
    """The files of both sides with the fields in their paths, and notes on the types that were inferred."""

    master: tuple[Source, ...]
    feed: list[Source]
    notes: tuple[str, ...] = ()


def with_path_fields(
    rows: RowSpec,
    adopted: State | None,
    compared: State | None,
    schemas: Sequence[FileSchema],
    master: Sequence[Source],
    feed: Sequence[Source],
) -> WithPathFields:
    """Return the files with the fields in their paths; those of a managed master have them already.

    adopted, compared: the manifests of an adopted master, and of a dataset as the feed, whose own types count there.
    schemas: those that the user names and that a managed master has; the first counts. Raises DataError for a value
    that its type cannot have, and for a file that lacks a field that others of its side have in their paths.
    """
    named = [one for one in _schemas((*master, *feed)) if one.named]
    wanted = {name for one in (*named, *schemas) for name in one.schema.names} | {*rows.text.names}
    wanted |= {one.source for one in rows.key.partitions if isinstance(one.source, str)}
    wanted |= {one for one in (*rows.key.ids, *rows.order.fields, rows.ops.said_in) if isinstance(one, str)}
    wanted |= {name for state in (adopted, compared) if state is not None for name in state.spec.get(IN_PATH, ())}
    sides = {"master": [_found(one, wanted) for one in master], "feed": [_found(one, wanted) for one in feed]}
    values = dict[str, list[str | None]]()
    for name, text in dict.fromkeys(pair for side in sides.values() for _, pairs in side for pair in pairs):
        values.setdefault(name, []).append(text)
    if not values:
        return WithPathFields(tuple(master), list(feed))
    own = _stored_types(compared)
    types = own | _types([one for one in (*master, *feed) if one.part is None]) | _stored_types(adopted)
    types |= {field.name: field.type for one in reversed(schemas) if one.typed for field in one.schema}
    texts = _schemas(one for one in feed if not one.format.stores_schema)
    as_text = {name for one in texts for name in one.schema.names}
    inferred = {name: inferred_type(found) for name, found in values.items() if name not in types.keys() | as_text}
    types |= inferred
    made = {"master": [_with_fields(one, pairs, types) for one, pairs in sides["master"]]}
    order: Sequence[str] = next((one.schema.names for one in (*schemas, *_schemas(made["master"]))), [])
    made["feed"] = [_with_fields(one, pairs, types | own, order) for one, pairs in sides["feed"]]
    for side, sources in made.items():
        arrived = [one for one in sources if one.part is None]
        _check_each(rows, side, arrived)
        _check_values(arrived)
    shown = ", ".join(f"{name} {data_type}" for name, data_type in inferred.items())
    both = (*made["master"], *made["feed"])
    typed = any(one.in_path and one.file_schema is not None and one.file_schema.typed for one in both)
    note = f"types by the names of directories: {shown}; {setting('output.schema')} sets others"
    return WithPathFields(tuple(made["master"]), made["feed"], (note,) if inferred and typed else ())


def _schemas(sources: Iterable[Source]) -> list[FileSchema]:
    return [one.file_schema for one in sources if one.file_schema is not None]


def _found(source: Source, wanted: Set[str]) -> tuple[Source, PathValues]:
    """Return a file, and the values of wanted fields that it has in its path alone."""
    own = source.file_schema
    if own is None or not own.named or source.part is not None or source.is_table:
        return source, ()
    alone = wanted - {*own.schema.names}
    found = dict.fromkeys(pair for pair in values_above(source.path) if pair[0] in alone)
    if len({name for name, _ in found}) < len(found):
        what = "the names of its directories have two values of a field"
        raise error("format", path=source.path, what=what, cure="move it to a directory with one of them")
    return source, tuple(found)


def _check_each(rows: RowSpec, side: str, sources: Sequence[Source]) -> None:
    """Raise DataError for a file that has a field neither in its rows nor in its path, where others have it there."""
    having = {name: one for one in reversed(sources) for name, _ in one.in_path}
    for one in sources:
        own = one.file_schema
        if own is None or not len(own.schema) or (side == "feed" and is_delete_source(rows.ops, one)):
            continue
        for name, other in having.items():
            if name not in own.schema.names:
                what = f"lacks field {name}, which {place(other.path)} has in the name of its directory"
                cure = f"move it to a directory such as {name}=…, or have it delivered with the field"
                raise error("format", path=one.path, what=what, cure=cure)


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


def check_text_paths(rows: RowSpec, sides: Iterable[tuple[Sequence[Source], int | None, int]]) -> None:
    """Raise DataError for a file whose rows, known by position, lack fields that are in the names of its directories.

    sides: the files of each, the number of fields of its rows, None for any, and the number that the settings need.
    """
    for one, wanted, needed in ((one, wanted, needed) for sources, wanted, needed in sides for one in sources):
        names = [name for name, _ in values_above(one.path)]
        if not names or one.width is None or one.part is not None or may_have_ids_alone(rows, one):
            continue
        if one.width < needed or one.width < (wanted or 0) == one.width + len(names):
            what = f"its first row has {counted(one.width, 'field')}, and the names of its directories have others"
            cure = (
                f"if rows lack {' and '.join(names)}, as in Hive, set {setting('field.names')} to the names of all "
                f"fields, name fields in the other settings, and set {setting('output.format')} to csv or escaped; "
                "else correct the ordinals"
            )
            raise error("format", path=one.path, what=what, cure=cure)


def only_in_paths(sources: Sequence[Source]) -> list[str]:
    """Return the fields that files with names for fields have in the names of their directories alone, and not read."""

    def unread() -> Iterator[str]:
        for one in sources:
            if one.file_schema is not None and one.file_schema.named:
                yield from (name for name, _ in values_above(one.path) if name not in one.file_schema.schema.names)

    return list(dict.fromkeys(unread()))


def _types(sources: Sequence[Source]) -> dict[str, Any]:
    """Return the types that fit all values of the fields of typed files; without fields that have no values."""
    found = dict[str, Any]()
    for one in sources:
        for field in one.file_schema.schema if one.file_schema is not None and one.format.stores_schema else ():
            if not pa.types.is_null(field.type):
                found[field.name] = widened(found.get(field.name, field.type), field.type) or field.type
    return found


def _stored_types(known: State | None) -> dict[str, Any]:
    if known is None or known.spec["format"] == "text":
        return {}
    return {field.name: field.type for field in FILE_FORMATS[known.spec["format"]].stored(known.spec).schema}


def _with_fields(source: Source, values: PathValues, types: Mapping[str, Any], order: Sequence[str] = ()) -> Source:
    """Return a file with the fields in its path: each where ``order`` has it, the others at the end."""
    own = source.file_schema
    if own is None or not values:
        return source
    fields = [pa.field(name, types.get(name, pa.string()) if own.typed else pa.string()) for name, _ in values]
    names, native = own.schema.names, own.native
    for field in fields:
        before = order[: order.index(field.name)] if field.name in order else names
        names.insert(max((names.index(name) + 1 for name in before if name in names), default=0), field.name)
    if native is not None:
        from mutator.formats.files.avro_schema import avro_type

        more = [{"name": field.name, "type": avro_type(field)} for field in fields]
        records = {field["name"]: field for field in (*native["fields"], *more)}
        native = {**native, "fields": [records[name] for name in names]}
    schema = pa.schema([*own.schema, *fields])
    schema = pa.schema([schema.field(name) for name in names])
    return replace(source, in_path=values, file_schema=replace(own, schema=schema, native=native))
