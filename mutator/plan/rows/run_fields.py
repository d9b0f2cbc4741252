"""The fields of a run that mean something, where fields have names: the ID, the order value, the op code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from mutator.config import Config
from mutator.dataset.manifest import Manifest
from mutator.errors import error
from mutator.formats.values.convert import converted
from mutator.plan.inspect.survey import Source, Survey
from mutator.plan.rows.partitioning import Partitioning, check_names, partitioning_of
from mutator.plan.rows.text_rows import is_delete_source
from mutator.rules.file_names import base_name
from mutator.rules.partition_transforms import PartitionField
from mutator.rules.schema_evolution import Version, check_key
from mutator.rules.typed_values import order_kind

__all__ = [
    "SCHEMA_SEQUENCE",
    "RunFields",
    "by_age",
    "check_key_types",
    "check_op_type",
    "defaults_spec",
    "has_fields",
    "key_type_names",
    "layout_name",
    "named_partitioning",
    "notes_on_defaults",
    "order_spec",
    "order_type_of",
    "parse_default",
    "rewrite_notes",
    "run_fields",
    "schema_sequence_spec",
    "with_feed_names",
    "with_stored_defaults",
]

DEFAULTS = "defaults"  # in a manifest: of fields that untouched partitions lack
SCHEMA_SEQUENCE = "schema sequence"  # in a manifest: an older feed file does not take the schema back


@dataclass(frozen=True)
class RunFields:
    """The fields that mean something, by name."""

    ids: tuple[str, ...]
    order: str | None
    op: str | None
    partition: tuple[PartitionField, ...] = ()  # their sources are names
    scope: str = "table"  # or partition: where a record ID is unique

    @property
    def sources(self) -> list[str]:
        """The fields that the partition is derived from."""
        return list(dict.fromkeys(str(one.source) for one in self.partition))

    def needed(self, *, deletes: bool) -> list[str]:
        """Return what a file must have. deletes: all its rows are, and their records can be looked for."""
        sources = () if deletes and self.scope == "table" else self.sources
        return [*self.ids, *([self.order] if self.order is not None else []), *sources]


def run_fields(config: Config, base: Version, survey: Survey) -> RunFields:
    """Return the names of the fields that the configuration names, or gives the places of."""
    feed = [
        one.file_schema.schema.names for one in by_age(survey.feed) if one.file_schema is not None and has_fields(one)
    ]
    names = config.field_names or survey.places or (feed[-1] if feed else base.schema.names)

    def name(one: Any, key: str) -> str:
        if isinstance(one, str):
            return one
        if one >= len(names):
            raise error(
                "width",
                where=key,
                what=f"field {one} is beyond the {len(names)} fields of {base.path}",
                cure="correct the ordinal (they count from 0), or name the field",
            )
        return str(names[one])

    def level(one: PartitionField) -> PartitionField:
        source = name(one.source, "partitioned.by")
        number = f"field_{one.source}"  # what an ordinal is called where nothing else is said
        plain = isinstance(one.source, int) and one.name in (number, f"{number}_{one.transform}")
        return replace(one, source=source, name=one.name.replace(number, source, 1) if plain else one.name)

    partitioning = partitioning_of(config, survey.manifest)
    levels = () if partitioning is None else tuple(map(level, partitioning.fields))
    if levels:
        check_names(levels)
    return RunFields(
        tuple(name(one, "id.field.ordinals") for one in config.id_fields),
        None if config.order_field is None else name(config.order_field, "temporal.ordering.field.ordinal"),
        None if config.op_field is None else name(config.op_field, "op.code.field.ordinal"),
        levels,
        "table" if partitioning is None else partitioning.scope,
    )


def with_feed_names(version: Version, base: Version, fields: RunFields) -> Version:
    """Name the fields of a master whose files have no names: they are the feed's, maybe without the op code."""
    places = [str(number) for number in range(len(version.schema))]
    if version.typed or version.schema.names != places or fields.op is None:
        return version
    if len(base.schema) != len(places) + 1:
        return version
    names = [name for name in base.schema.names if name != fields.op]
    return replace(version, schema=pa.schema([one.with_name(n) for one, n in zip(version.schema, names, strict=True)]))


def by_age(feed: Sequence[Source]) -> list[Source]:
    """Return feed files, the newest last."""

    def age(source: Source) -> Any:
        return (-1 if source.sequence is None else source.sequence, source.name.encode("utf-8", "surrogateescape"))

    return sorted(feed, key=age)


def has_fields(source: Source) -> bool:
    """Tell whether a file says of any fields."""
    return source.file_schema is not None and len(source.file_schema.schema) > 0


def check_key_types(schema: Any, fields: Any, path: str) -> None:
    """Raise DataError where a field of the ID is no scalar, or a float, which has no exact value."""
    for name in fields.ids:
        kind = schema.field(name).type
        if not _has_exact_text(kind):
            what = f"is of type {kind}; a field of the ID must be text, bytes, a whole number, a decimal, a boolean, "
            what += "a date or a time"
            raise error("schema.field", path=path, field=name, what=what)


def _has_exact_text(kind: Any) -> bool:
    """Tell whether values of a type have one text each, which no float has."""
    types = pa.types
    return not any(is_such(kind) for is_such in (types.is_floating, types.is_nested, types.is_null, types.is_duration))


def named_partitioning(schema: Any, fields: RunFields, path: str) -> Partitioning | None:
    """Return how rows of a schema are partitioned. Raises DataError where a field has no text to name a directory."""
    if not fields.partition:
        return None
    for name in fields.sources:
        kind = schema.field(name).type
        if not _has_exact_text(kind):
            what = f"is of type {kind}, and a partition cannot be made of it"
            raise error("schema.field", path=path, field=name, what=what)
    words = dict(zip(fields.sources, key_type_names(schema, fields.sources), strict=True))
    types = []
    for one in fields.partition:
        kind = schema.field(str(one.source)).type
        # A time is written with as many digits as its unit has; its day, month and year are the same in each.
        by_unit = pa.types.is_temporal(kind) and one.transform in ("identity", "prefix", "bucket")
        types.append(str(kind) if by_unit else words[str(one.source)])
    return Partitioning(fields.partition, fields.scope, tuple(types))


def check_op_type(kind: Any, name: str, path: str) -> None:
    """Raise DataError where the op code is no scalar."""
    if pa.types.is_nested(kind):
        what = f"is of type {kind}; the op code must be text or a whole number"
        raise error("schema.field", path=path, field=name, what=what)


def order_type_of(config: Config, schema: Any, fields: Any, path: str) -> str:
    """Return the type of order values: that of the field, or what the configuration says of text."""
    if fields.order is None:
        return "sequence"
    kind = schema.field(fields.order).type
    found = order_kind(kind, config.order_type)
    if found is None:
        what = f"is of type {kind}, which has no order; it must be a number, a date, a timestamp or text"
        raise error("schema.field", path=path, field=fields.order, what=what)
    if config.order_stated and found != config.order_type:
        raise error(
            "config",
            where="temporal.ordering.field.type",
            faults=f"{config.order_type}, and field {fields.order} is {kind}; leave it out",
        )
    return found


def order_spec(config: Config, fields: Any, order_type: str) -> dict[str, Any]:
    """Describe the order values, for the manifest."""
    if fields.order is None:
        return {"by": "file name"}
    found = {"by": "field", "field": fields.order, "type": order_type}
    return found | ({"null": "lowest"} if config.null_order == "lowest" else {})


def layout_name(layouts: dict[str, Any], side: str, layout: Any) -> str:
    """Return the name of a layout; a new one where there is none like it."""
    for name, known in layouts.items():
        if known == layout and name.partition(" ")[0] == side:
            return name
    name = f"{side} {len(layouts)}"
    layouts[name] = layout
    return name


def parse_default(name: str, text: str, kind: Any) -> Any:
    """Read the default of a field."""
    if pa.types.is_nested(kind):
        raise error("config", where=f"default.{name}", faults=f"'{text}' cannot be a value of type {kind}")
    found, bad, why = converted(pa.array([text.encode()], pa.large_binary()), kind, typed=False)
    if bad[0]:
        raise error("config", where=f"default.{name}", faults=f"'{text}' {why}")
    return found[0]


def rewrite_notes(needed: bool) -> tuple[str, ...]:
    """Say that no file of the master can be carried over, where that is so."""
    return (
        "the master's files are of another schema or format than what is written, so all are written anew",
    ) * needed


def notes_on_defaults(config: Config, versions: Sequence[Version]) -> tuple[str, ...]:
    """Say which defaults have no use, because the result has no such field.

    versions: the one that gives the result its fields first. Raises DataError where nothing in the run has the field.
    """
    unused = [name for name in config.defaults if name not in versions[0].schema.names]
    for name in unused:
        if not any(name in version.schema.names for version in versions):
            check_key(replace(versions[0], path=f"default.{name}"), [name])
    return tuple(f"default.{name} has no use: {base_name(versions[0].path)} has no such field" for name in unused)


def defaults_spec(config: Config, schema: Any) -> dict[str, Any]:
    """Return, for the manifest, the defaults that rows of partitions still get which are written anew later."""
    found = {name: text for name, text in config.defaults.items() if name in schema.names}
    return {DEFAULTS: found} if found else {}


def with_stored_defaults(config: Config, known: Manifest | None) -> Config:
    """Return a configuration with the defaults that a partitioned master remembers; those that are set now win."""
    stored = known.spec.get(DEFAULTS) if known is not None else None
    return replace(config, defaults={**stored, **config.defaults}) if stored else config


def schema_sequence_spec(config: Config, survey: Survey) -> dict[str, Any]:
    """Return, for the manifest, the sequence of the newest feed file that gave the result its fields."""
    known = survey.manifest
    before = known.spec.get(SCHEMA_SEQUENCE) if known is not None else None
    found = [one.sequence for one in survey.feed if one.sequence is not None and not is_delete_source(config, one)]
    newest = max([*found, *([before] if before is not None else [])], default=None)
    return {} if newest is None else {SCHEMA_SEQUENCE: newest}


def key_type_names(schema: Any, names: Sequence[str]) -> list[str]:
    """Return, for the manifest, what the values of an ID are: the formats hold them in types of different widths."""
    return [_key_type(schema.field(name).type) for name in names]


def _key_type(kind: Any) -> str:
    types = pa.types
    words = {
        "text": types.is_string,
        "integer": types.is_integer,
        "decimal": types.is_decimal,
        "boolean": types.is_boolean,
        "date": types.is_date,
        "timestamp": types.is_timestamp,
        "time": types.is_time,
    }
    return next((word for word, is_such in words.items() if is_such(kind)), "bytes")
