"""The key, order, op code and partition fields of a run over files with a schema, and checks of their types."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa

from mutator.config.settings import OpSpec, OrderSpec, OutputSpec, RowSpec
from mutator.dataset.state import State
from mutator.errors import error
from mutator.errors.display import counted
from mutator.errors.parts import option, place, setting
from mutator.formats.values.convert import converted
from mutator.plan.inspect.delete_files import is_delete_source
from mutator.plan.inspect.source import Source
from mutator.plan.inspect.survey import Survey
from mutator.plan.rows.partitioning import Partitioning, partitioning_of
from mutator.rules.conditions import Condition
from mutator.rules.field_choice import FieldChoice
from mutator.rules.file_names import base_name
from mutator.rules.file_sequences import recorded
from mutator.rules.json_paths import path_in
from mutator.rules.order_types import Part, parts_of, record_fields, tuple_type, with_position
from mutator.rules.partition_fields import PartitionField, checked_fields
from mutator.rules.schema_evolution import SchemaVersion
from mutator.rules.snapshot_times import TimeField
from mutator.rules.typed_values import column_order_type

DEFAULTS = "defaults"  # in a manifest: for fields that untouched partitions lack
SCHEMA_SEQUENCE = "schema sequence"  # in a manifest: feed files with a lower one do not change the schema


class RunFields(NamedTuple):
    """The names of the fields with a meaning for the run."""

    ids: tuple[str, ...]
    orders: tuple[tuple[str, ...], ...]  # a field, and the members within it
    op: str | None  # that of ``OpSpec.said_in``
    partitioning: Partitioning  # with names as sources
    cut: frozenset[str] = frozenset()  # fields of the feed that are not part of the result
    orders_beside: bool = False  # the result has no order values
    scope: tuple[Condition, ...] = ()  # of a full snapshot
    listing: str | None = None  # that of ``columns.to.update``
    nulls: FieldChoice | None = None  # in which NULL says nothing

    @property
    def sources(self) -> list[str]:
        """The names of the fields that the partition is derived from."""
        return list(dict.fromkeys(str(one.source) for one in self.partitioning.fields))

    def needed(self, *, deletes: bool, feed: bool = True) -> list[str]:
        """Return the names of the fields that a file must have. deletes: all its rows are deletes."""
        # Where an ID is unique in the whole table, the partition of a delete is that of its record.
        sources = () if deletes and self.partitioning.by_table else self.sources
        orders = () if self.orders_beside and not feed else (path[0] for path in self.orders)
        return [*self.ids, *orders, *sources]


def run_fields(rows: RowSpec, base: SchemaVersion, survey: Survey) -> RunFields:
    """Return the fields that the configuration gives by name or by ordinal. Raises ConfigError."""
    feed = [
        one.file_schema.schema.names for one in by_age(survey.feed) if one.file_schema is not None and has_fields(one)
    ]
    names = rows.text.names or survey.field_names or (feed[-1] if feed else base.schema.names)

    def name(one: Any, key: str) -> str:
        if isinstance(one, str):
            return one
        if one >= len(names) and str(one) in names:
            return str(one)
        if one >= len(names):
            raise error(
                "width",
                where=setting(key),
                what=f"field {one} is beyond the {counted(len(names), 'field')} of {place(base.path)}",
                cure="correct the ordinal (they count from 0), or name the field",
            )
        if not rows.text.names and str(one) in names and names[one] != str(one):
            raise error(
                "width",
                where=setting(key),
                what=f"{one} may be field {one}, whose name is '{names[one]}', or field {names.index(str(one))}, whose "
                f"name is '{one}'",
                cure="rename one of them; or, in Python or TOML, give the name in a list: "
                f"['{names[one]}'] or ['{one}']",
            )
        return str(names[one])

    def level(one: PartitionField) -> PartitionField:
        source = name(one.source, "partitioned.by")
        number = f"field_{one.source}"  # the default name of an ordinal
        plain = isinstance(one.source, int) and one.name in (number, f"{number}_{one.transform}")
        return replace(one, source=source, name=one.name.replace(number, source, 1) if plain else one.name)

    partitioning = partitioning_of(rows.key.partitions, rows.key.scope, survey.state)
    known = {*names, *base.schema.names}
    try:  # now that ordinals have names, a manifest may not be able to have the fields
        levels = checked_fields(tuple(map(level, partitioning.fields)))
    except ValueError as fault:
        raise error("config", where=setting("partitioned.by"), faults=fault) from None
    schemas = [base.schema, *(one.file_schema.schema for one in survey.feed if one.file_schema is not None)]
    order_names = [name(one, "temporal.ordering.field.ordinal") for one in rows.order.fields]
    orders = tuple(_order_path(one, known, schemas) for one in order_names)
    is_time = isinstance(rows.ops.as_of, TimeField)
    key = "snapshot.as.of" if is_time else "op.code.field.ordinal"
    op = None if rows.ops.said_in is None else name(rows.ops.said_in, key)
    beside = rows.order.keep is False
    for path in orders if beside else ():
        if len(path) > 1:
            where, faults = (
                setting("order.keep=false"),
                f"field {path[0]} has more than the order value {'.'.join(path)}",
            )
            faults += "; have it delivered as a field of its own"
            if rows.ops.dialect is None:
                faults += f"; or, if the rows of the feed are messages, set {setting('feed.dialect')}"
            raise error("config", where=where, faults=faults)
    cut = {op} if op is not None and not rows.ops.keep else set()
    if is_time:  # it may be a field of the records, too
        cut -= {*_fields_of_records(survey), *(path[0] for path in orders), *(str(one.source) for one in levels)}
        cut -= {name(one, "id.field.ordinals") for one in rows.key.ids}
    listing = None if rows.ops.listing is None else name(rows.ops.listing, "columns.to.update")
    nulls = rows.ops.ignored_nulls
    if nulls is not None:
        nulls = nulls._replace(named=tuple(name(one, "ignore.null.updates") for one in nulls.named))
    return RunFields(
        tuple(name(one, "id.field.ordinals") for one in rows.key.ids),
        orders,
        op,
        replace(partitioning, fields=levels),
        frozenset(cut | {path[0] for path in orders if beside} | ({listing} if listing is not None else set())),
        beside,
        tuple(replace(one, column=name(_ordinal_or_name(one.column), "sync.scope")) for one in rows.ops.scope),
        listing,
        nulls,
    )


def _fields_of_records(survey: Survey) -> set[str]:
    """Return the names of the fields that the master's rows have, and those that ``output.schema`` wants."""
    wanted = [] if survey.output_schema is None else [survey.output_schema[1]]
    known = [survey.dataset_schema, *(one.file_schema for one in survey.master), *wanted]
    return {name for one in known if one is not None for name in one.schema.names}


def _order_path(name: str, known: Collection[str], schemas: Sequence[Any]) -> tuple[str, ...]:
    """Return the path of an order field, in the first schema that has it. Raises ConfigError for a name of two.

    known: the names of fields; a member that the first of them lacks is reported with its type.
    """
    try:
        found = next(filter(None, (path_in(schema, name) for schema in schemas)), None)
    except ValueError as fault:
        raise error("config", where=setting("temporal.ordering.field.ordinal"), faults=fault) from None
    top, *members = name.split(".")
    return found or ((top, *members) if top in known and name not in known else (name,))


def _ordinal_or_name(text: str) -> int | str:
    return int(text) if re.fullmatch(r"[0-9]{1,6}", text) else text


def check_ordinals(rows: RowSpec, fields: RunFields, versions: Sequence[SchemaVersion]) -> None:
    """Raise ConfigError for an ordinal that means different fields in files that have the same fields.

    versions: those of the master and the feed. A file may lack the op code, which has a position of its own.
    """
    orders = [path[0] for path in fields.orders]
    given = dict(zip([*rows.key.ids, *rows.order.fields], [*fields.ids, *orders], strict=True))
    meant = [(one, name) for one, name in given.items() if isinstance(one, int)]
    cut = {fields.op, *fields.cut}
    meant = [(one, name) for one, name in meant if name not in cut]
    for _, same in groupby(sorted(versions, key=_names_as_set(cut)), key=_names_as_set(cut)):
        first, *others = same
        before = _without(first.schema.names, cut)
        for version in others:
            names = _without(version.schema.names, cut)
            for ordinal, name in meant:
                if name in names and names.index(name) != before.index(name):
                    raise error(
                        "width",
                        where=version.path,
                        what=f"{name} is field {names.index(name)} here, and field {before.index(name)} in "
                        f"{place(first.path)}, so ordinal {ordinal} means different fields",
                        cure="give the ID and order fields by name, not by ordinal",
                    )


def _names_as_set(cut: Collection[str | None]) -> Callable[[SchemaVersion], tuple[str, ...]]:
    return lambda version: tuple(sorted(_without(version.schema.names, cut)))


def _without(names: Sequence[str], cut: Collection[str | None]) -> list[str]:
    return [name for name in names if name not in cut]


def with_feed_names(version: SchemaVersion, base: SchemaVersion, fields: RunFields) -> SchemaVersion:
    """Return a master's version with the feed's field names, if it has none and lacks only op code and order."""
    numbers = [str(number) for number in range(len(version.schema))]
    if version.typed or version.schema.names != numbers:
        return version
    names = _without(base.schema.names, {fields.op, *fields.cut})
    if not len(names) == len(numbers) < len(base.schema):
        return version
    return replace(
        version, schema=pa.schema([one.with_name(name) for one, name in zip(version.schema, names, strict=True)])
    )


def by_age(sources: Sequence[Source]) -> list[Source]:
    """Return files by sequence, then by name; tables in memory in the order in which they were given."""

    def age(source: Source) -> Any:
        return (-1 if source.sequence is None else source.sequence, source.precedence_name)

    return sorted(sources, key=age)


def has_fields(source: Source) -> bool:
    """Return whether a file has a schema with fields."""
    return source.file_schema is not None and len(source.file_schema.schema) > 0


def check_key_types(schema: Any, fields: RunFields, path: str) -> None:
    """Raise DataError for an ID field that is nested, or a float, which has no exact text."""
    allowed = "text, bytes, a whole number, a decimal, a boolean, a date or a time"
    _check_exact(schema, fields.ids, path, f"; a field of the ID must be {allowed}")


def _check_exact(schema: Any, names: Sequence[str], path: str, why: str) -> None:
    """Raise DataError unless each value of a field has exactly one text, unlike floats."""
    types = pa.types
    for name in names:
        data_type = schema.field(name).type
        if any(of(data_type) for of in (types.is_floating, types.is_nested, types.is_null, types.is_duration)):
            raise error("schema.field", path=path, field=name, what=f"is of type {data_type}{why}")


def named_partitioning(schema: Any, fields: RunFields, path: str) -> Partitioning:
    """Return the partitioning of rows of a pa.Schema. Raises DataError for a field without text."""
    _check_exact(schema, fields.sources, path, ", and a partition cannot be made of it")
    words = dict(zip(fields.sources, key_type_names(schema, fields.sources), strict=True))
    types = []
    for one in fields.partitioning.fields:
        data_type = schema.field(str(one.source)).type
        # The text of a time depends on its unit; its day, month and year do not.
        by_unit = pa.types.is_temporal(data_type) and one.transform in ("identity", "prefix", "bucket")
        types.append(str(data_type) if by_unit else words[str(one.source)])
    return replace(fields.partitioning, types=tuple(types))


def check_op_type(ops: OpSpec, data_type: Any, name: str, path: str) -> None:
    """Raise DataError if the op code, or the time of a snapshot, is nested."""
    if pa.types.is_nested(data_type):
        must = "the op code must be text or a whole number"
        if ops.field is None:
            must = "the time of a snapshot must be text, a number, a date or a timestamp"
        what = f"is of type {data_type}; {must}"
        raise error("schema.field", path=path, field=name, what=what)


def order_type_of(order: OrderSpec, schema: Any, fields: RunFields, path: str) -> str:
    """Return the order type: of each field its own, or for text the wanted one. Raises ConfigError, DataError.

    schema: pa.Schema of the result. path: of the file that gave the result its fields.
    """
    if not fields.orders:
        return order.type
    parts, wrong = list[Part](), ""
    wanted_types = [one for one in parts_of(order.type) if one.type != "position"]
    for number, (names, wanted) in enumerate(zip(fields.orders, wanted_types, strict=True)):
        data_type = _type_of(schema, names, path)
        found = column_order_type(data_type, wanted.type)
        if found is None:
            what = f"is of type {data_type}, which has no order; it must be a number, a date, a timestamp or text"
            raise error("schema.field", path=path, field=".".join(names), what=what)
        if number in order.stated and found != wanted.type:
            wrong = wrong or f"{wanted.type}, and field {'.'.join(names)} is {data_type}"
        parts.append(wanted._replace(type=found))
    if wrong:
        key = "temporal.ordering.field.type"
        cure = f"use {option(key, tuple_type(parts))}" if len(parts) > 1 else "leave it out"
        raise error("config", where=setting(key), faults=f"{wrong}; {cure}")
    return with_position(tuple_type(parts)) if order.position else tuple_type(parts)


def _type_of(schema: Any, names: Sequence[str], path: str) -> Any:
    """Return the pa.DataType of a field, or of a member within it. Raises DataError."""
    found = schema.field(names[0]).type
    for number, name in enumerate(names[1:], 1):
        if not pa.types.is_struct(found) or found.get_field_index(name) < 0:
            what = f"is of type {found}, which has no member {name}"
            raise error("schema.field", path=path, field=".".join(names[:number]), what=what)
        found = found.field(name).type
    return found


def order_by_name(order: OrderSpec) -> dict[str, Any]:
    """Return the specification of order by file names, for the manifest."""
    return {"by": "file name", "pattern": recorded(order.pattern)}


def order_spec(order: OrderSpec, fields: RunFields, order_type: str) -> dict[str, Any]:
    """Return the specification of the order values, for the manifest."""
    if order.by_file_name:
        return order_by_name(order)
    found = {**record_fields("field", [".".join(path) for path in fields.orders]), "type": order_type}
    found |= {"beside": True} if fields.orders_beside else {}
    return found | ({"null": "lowest"} if order.null == "lowest" else {})


def layout_name(layouts: dict[str, Any], side: str, layout: Any) -> str:
    """Return the name of a layout; adds it to ``layouts`` if the side has no equal one."""
    for name, known in layouts.items():
        if known == layout and name.partition(" ")[0] == side:
            return name
    name = f"{side} {len(layouts)}"
    layouts[name] = layout
    return name


def parse_default(name: str, text: str, data_type: Any) -> Any:
    """Parse the default of a field to a pa.Scalar. Raises ConfigError."""
    if pa.types.is_nested(data_type):
        raise error(
            "config", where=setting(f"default.{name}"), faults=f"'{text}' cannot be a value of type {data_type}"
        )
    found, bad, why = converted(pa.array([text.encode()], pa.large_binary()), data_type, typed=False)
    if bad[0]:
        raise error("config", where=setting(f"default.{name}"), faults=f"'{text}' {why}")
    return found[0]


def rewrite_notes(needed: bool) -> tuple[str, ...]:
    """Return the note that no file of the master can stay, if rewriting is needed."""
    return ("the master's files have another schema or format than the output, so all are rewritten",) * needed


def notes_on_defaults(defaults: Mapping[str, str], versions: Sequence[SchemaVersion]) -> tuple[str, ...]:
    """Return a note for each default whose field the result lacks.

    versions: first the one that gives the result its fields.
    """
    unused = [name for name in defaults if name not in versions[0].schema.names]
    return tuple(
        f"{setting(f'default.{name}')} has no use: {base_name(versions[0].path)} has no such field" for name in unused
    )


def defaults_spec(defaults: Mapping[str, str], schema: Any) -> dict[str, Any]:
    """Return, for the manifest, the defaults that rows of untouched partitions get when they are rewritten later."""
    found = {name: text for name, text in defaults.items() if name in schema.names}
    return {DEFAULTS: found} if found else {}


def with_stored_defaults(output: OutputSpec, known: State | None) -> OutputSpec:
    """Return an output with the defaults in a partitioned master's manifest; its own defaults come first."""
    stored = known.spec.get(DEFAULTS) if known is not None else None
    return replace(output, defaults={**stored, **output.defaults}) if stored else output


def schema_sequence_spec(ops: OpSpec, survey: Survey, versions: Sequence[SchemaVersion]) -> dict[str, Any]:
    """Return, for the manifest, the sequence of the newest feed file that gave the result its fields.

    versions: those of the run's files, which mark files of deletes as partial.
    """
    known = survey.state
    partial = {version.path for version in versions if version.partial}
    before = known.spec.get(SCHEMA_SEQUENCE) if known is not None else None
    whole = [one for one in survey.feed if one.path not in partial and not is_delete_source(ops, one)]
    found = [one.sequence for one in whole if one.sequence is not None]
    newest = max([*found, *([before] if before is not None else [])], default=None)
    return {} if newest is None else {SCHEMA_SEQUENCE: newest}


def key_type_names(schema: Any, names: Sequence[str]) -> list[str]:
    """Return, for the manifest, the key types of fields: words that are the same for all widths of a type."""
    return [_key_type(schema.field(name).type) for name in names]


def _key_type(data_type: Any) -> str:
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
    return next((word for word, is_type in words.items() if is_type(data_type)), "bytes")
