"""Plan which fields the rows of a feed may leave unset, where fields have names."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import pyarrow as pa

from mutator.config.settings import OpSpec, OutputSpec
from mutator.errors import error
from mutator.errors.parts import place, setting
from mutator.plan.inspect.delete_files import is_delete_source
from mutator.plan.inspect.source import Source
from mutator.plan.rows.run_fields import RunFields
from mutator.rules.file_names import first_few
from mutator.rules.schema_evolution import ResolvedSchema, SchemaVersion, check_key
from mutator.rules.unset_fields import UnsetFields

_LISTING = "columns.to.update"


def needed_fields(fields: RunFields) -> dict[str, str]:
    """Return the fields that no row leaves unset, and what they are."""
    found = {**dict.fromkeys(fields.ids, "ID"), **dict.fromkeys((path[0] for path in fields.orders), "order value")}
    return found | (dict.fromkeys(fields.sources, "partition") if fields.partitioning.by_partition else {})


def unset_fields(ops: OpSpec, fields: RunFields, names: Sequence[str], defaults: Collection[str]) -> UnsetFields | None:
    """Return which fields rows may leave unset; None if they set all.

    names: of the fields of written rows. defaults: those with a default.
    """
    if not ops.has_patches:
        return None
    needed = needed_fields(fields)
    nulls = fields.nulls
    return UnsetFields(
        fields=tuple(names),
        needed=needed,
        value=None if ops.unset is None or ops.dialect is not None else ops.unset.encode(),
        absent=ops.absent,
        defaults=frozenset(defaults),
        nulls=frozenset() if nulls is None else frozenset(nulls.among([name for name in names if name not in needed])),
    )


def of_file(
    unset: UnsetFields, ops: OpSpec, fields: RunFields, source: Source, version: SchemaVersion | None
) -> UnsetFields:
    """Return which fields the rows of one file may leave unset. Raises DataError for a file that does not say it."""
    if version is None:
        return unset
    names, listing = version.schema.names, fields.listing
    if listing is not None and listing not in names:
        if not is_delete_source(ops, source) and (ops.absent or not version.partial):
            check_key(version, [listing])
        listing = None
    if listing is not None:
        data_type = version.schema.field(listing).type
        if not (pa.types.is_string(data_type) or pa.types.is_null(data_type)):
            what = f"is of type {data_type}; the field of {_LISTING} must be text, with commas between the names"
            raise error("schema.field", path=version.path, field=listing, what=what)
    lacking = frozenset(name for name in unset.fields if name not in names)
    return replace(unset, lacking=lacking, listing=listing, listed=frozenset(names))


def warnings_on_values(ops: OpSpec, feed: Sequence[Source]) -> tuple[str, ...]:
    """Return a warning if a text should say that a field is not sent where all texts are values."""
    typed = [place(one.name) for one in feed if one.format.stores_schema]
    if ops.unset is None or ops.dialect is not None or not typed:
        return ()
    stated = setting(f"unset.value={ops.unset}")
    return (f"{stated} means nothing in {first_few(typed)}: a file with a schema has values of its types alone",)


def with_nulls(ops: OpSpec, fields: RunFields, found: ResolvedSchema, base: str, *, given: bool) -> ResolvedSchema:
    """Return a schema in which the fields that rows may leave unset may be NULL, as in records without a value for one.

    Where patches of unknown records wait, a record is there only after an upsert, which sets all fields. base: the path
    of the file that gives the fields. given: the user has. Raises ConfigError where that excludes NULL.
    """
    if not ops.has_patches or ops.unknown == "wait":
        return found
    needed, schema, notes = needed_fields(fields), found.schema, [*found.notes]
    others = [one.name for one in schema if one.name not in needed and not one.nullable]
    if ops.unset is None and not ops.absent and ops.listing is None and ops.dialect is None:
        others = [] if fields.nulls is None else fields.nulls.among(others)
    for name in others:
        why = "a patch may begin a record without it"
        if given:
            faults = f"field {name} may not be NULL in {place(base)}, and {why}; let it be NULL there"
            raise error("config", where=setting("output.schema"), faults=faults)
        position = schema.get_field_index(name)
        schema = schema.set(position, schema.field(position).with_nullable(True))
        notes.append(f"field {name} may be NULL from now on: {why}")
    return replace(found, schema=schema, notes=tuple(notes)) if others else found


def with_all_fields(
    output: OutputSpec, own: Sequence[SchemaVersion], feed: Sequence[SchemaVersion]
) -> list[SchemaVersion]:
    """Return the versions that together have all fields of records, where files may lack some; the base first.

    own: that of the master, if there is one. feed: by age.
    """
    found = sorted([*own, *reversed(feed)], key=lambda one: not one.typed)
    known = {name for one in feed for name in one.schema.names}
    removed = {name for name in output.removed_fields if name not in known}
    return [_without(one, removed) for one in found]


def _without(version: SchemaVersion, names: set[str]) -> SchemaVersion:
    kept = [one for one in version.schema if one.name not in names]
    return version if len(kept) == len(version.schema) else replace(version, schema=pa.schema(kept))
