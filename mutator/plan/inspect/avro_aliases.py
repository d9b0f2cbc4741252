"""Aliases of Avro fields: a field of one file is that of another under an older name, as Avro's readers resolve it.

The result has the names of ``output.schema``, else those of the newest feed file, so older files are read with these. A
master that is a table, has partitions or is not Avro keeps its own names, and the feed is read with them. Aliases of
all schemas of a run count together: a field that was renamed twice may have its first name in one file, and its last
in another.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from mutator.config.settings import RowSpec
from mutator.dataset.state import State
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.content import Renames
from mutator.formats.files.avro_schema import collapsed, expanded, renamed_fields
from mutator.formats.files.file_format import FileSchema
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.plan.inspect.source import Source
from mutator.rules.order_types import record_fields, recorded_fields
from mutator.rules.partition_fields import PartitionField
from mutator.rules.snapshot_times import TimeField


@dataclass(frozen=True)
class BothSides:
    """The files of master and feed by common names of fields."""

    master: tuple[Source, ...]
    feed: tuple[Source, ...]
    master_schema: FileSchema | None  # of a managed master
    notes: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)  # other names of the common fields -> these


class _Field(NamedTuple):
    """A field of a record, and the fields of the records in it."""

    name: str
    aliases: tuple[str, ...] = ()
    members: tuple["_Field", ...] = ()


_Fields = tuple[_Field, ...]


def with_aliases(
    master: Sequence[Source],
    feed: Sequence[Source],
    master_schema: FileSchema | None,
    wanted: FileSchema | None,
    *,
    keeps_names: bool,
) -> BothSides:
    """Return the files of both sides, their fields renamed where aliases say so.

    wanted: the schema that the user wants for the result. keeps_names: the master is partitioned, or a table.
    """
    schemas = [wanted, master_schema, *(source.file_schema for source in (*feed, *master))]
    pool = _Pool([schema for schema in schemas if schema is not None])
    if not pool.has_aliases:
        return BothSides(tuple(master), tuple(feed), master_schema)
    if not feed:
        return BothSides(tuple(master), (), master_schema, names=pool.older_names(master_schema))
    latest = max(feed, key=lambda one: (-1 if one.sequence is None else one.sequence, one.precedence_name)).file_schema
    is_avro = all(one.file_schema is None or one.file_schema.native is not None for one in master)
    notes: dict[str, None] = {}
    known: dict[str, str] = {}
    if keeps_names or not (wanted or is_avro):
        base = master_schema or next((one.file_schema for one in master if one.file_schema is not None), None)
        base = base or latest
    else:
        base = wanted or latest
        master = [_renamed(one, pool, pool.renames(one.file_schema, base), notes, known) for one in master]
        if renames := pool.renames(master_schema, base):
            assert master_schema is not None
            master_schema = pool.with_names(master_schema, renames)
            known |= _outer(renames)
    found = []
    for one in feed:  # a field that the base lacks, such as an op code, has its name in the newest file
        beside = {(old,): new for old, new in _beside(_outer(pool.renames(one.file_schema, latest)), base).items()}
        found.append(_renamed(one, pool, beside | pool.renames(one.file_schema, base), notes, known))
    names = _beside(pool.older_names(latest), base) | pool.older_names(base) | known
    return BothSides(tuple(master), tuple(found), master_schema, tuple(notes), names)


def rows_with_names(rows: RowSpec, names: Mapping[str, str]) -> RowSpec:
    """Return how rows are read by the common names of fields. names: as in ``BothSides``."""

    def common(one: Any) -> Any:
        return names.get(one, one) if isinstance(one, str) else one

    def level(one: PartitionField) -> PartitionField:
        return replace(one, source=common(one.source), name=common(one.name) if one.name == one.source else one.name)

    key, order, ops = rows.key, rows.order, rows.ops
    nulls = ops.ignored_nulls
    return replace(
        rows,
        key=replace(key, ids=tuple(map(common, key.ids)), partitions=tuple(map(level, key.partitions))),
        order=replace(order, fields=tuple(map(common, order.fields))),
        ops=replace(
            ops,
            field=common(ops.field),
            as_of=TimeField(common(ops.said_in)) if isinstance(ops.as_of, TimeField) else ops.as_of,
            scope=tuple(replace(one, column=common(one.column)) for one in ops.scope),
            listing=common(ops.listing),
            ignored_nulls=None if nulls is None else nulls._replace(named=tuple(map(common, nulls.named))),
        ),
    )


def state_with_names(known: State, names: Mapping[str, str]) -> State:
    """Return the state of a master as if its key, order and op code had the common names of fields."""
    key, order, op = (known.spec[one] for one in ("key", "order", "op code"))
    if "fields" in key:
        key = {**key, "fields": [names.get(one, one) for one in key["fields"]]}
    if recorded_fields(order):
        order = {**order, **record_fields("field", [names.get(one, one) for one in recorded_fields(order)])}
    return replace(known, spec={**known.spec, "key": key, "order": order, "op code": names.get(op, op)})


class _Pool:
    """The names of fields in all schemas of a run, and which of them are names of one field.

    Many files have the same few schemas, so what follows from a schema is found once.
    """

    def __init__(self, schemas: Sequence[FileSchema]) -> None:
        self._distinct: list[FileSchema] = []
        self._first = {id(schema): self._equal(schema) for schema in schemas}  # the callers keep all of them
        self._renames: dict[tuple[int, int], dict[tuple[str, ...], str]] = {}
        self._renamed: dict[tuple[int, Renames], FileSchema] = {}

    def _equal(self, schema: FileSchema) -> FileSchema:
        """Return the first schema with equal fields."""
        for one in reversed(self._distinct):
            if one.schema.equals(schema.schema) if one.native is schema.native is None else one.native == schema.native:
                return one
        self._distinct.append(schema)
        return schema

    @property
    def has_aliases(self) -> bool:
        """Whether any schema has an alias."""
        return any(_has_aliases(schema.native) for schema in self._distinct)

    @cached_property
    def _fields(self) -> list[_Fields]:
        return [*map(_fields_of, self._distinct)]

    def older_names(self, schema: FileSchema | None) -> dict[str, str]:
        """Return the other names of a schema's fields, which settings may have, and the names there."""
        own = {one.name for one in _fields_of(schema)}
        named = ((group & own, group - own) for group in _groups(self._fields))
        return {other: min(names) for names, others in named if len(names) == 1 for other in others}

    def renames(self, schema: FileSchema | None, base: FileSchema | None) -> dict[tuple[str, ...], str]:
        """Return the fields of a file that have another name in a base, as ``Renames`` has them."""
        if schema is None or base is None:
            return {}
        schema, base = self._first[id(schema)], self._first[id(base)]
        key = id(schema), id(base)
        if key not in self._renames:
            self._renames[key] = self._found_renames(schema, base)
        return self._renames[key]

    def with_names(self, schema: FileSchema, names: Mapping[tuple[str, ...], str]) -> FileSchema:
        """Return a schema whose fields have other names."""
        if schema.native is None:
            return _with_names(schema, names)
        key = id(self._first[id(schema)]), tuple(sorted(names.items()))
        if key not in self._renamed:
            self._renamed[key] = _with_names(schema, names)
        return self._renamed[key]

    def _found_renames(self, schema: FileSchema, base: FileSchema) -> dict[tuple[str, ...], str]:
        found = dict(_renames(_fields_of(schema), _fields_of(base), self._fields, ()))
        if schema.native is not None:
            made = renamed_fields(expanded(schema.native), found)
            if expanded(collapsed(made)) == made:
                return found
        # Members have other names in Avro alone, and those of a type that a file uses twice must agree.
        return {path: name for path, name in found.items() if len(path) == 1}


def _renames(
    own: _Fields, base: _Fields, pool: Sequence[_Fields], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the renamed fields of a record of a file. pool: the fields of this record in each schema of the run."""
    names, wanted = {one.name for one in own}, {one.name for one in base}
    free, missing = names - wanted, wanted - names
    pairs = _pairs(free, {one.name: {*one.aliases} for one in base if one.name in missing})
    groups = _groups(pool)
    others = {name: {*(one for group in groups if name in group for one in group)} for name in missing - {*pairs}}
    pairs |= _pairs(free - {*pairs.values()}, others)
    yield from (((*path, old), new) for new, old in pairs.items())
    members = {one.name: one.members for one in own}
    for one in base:
        name = pairs.get(one.name, one.name)
        if one.members and members.get(name):
            same = {one.name, name, *(other for group in groups if one.name in group for other in group)}
            inner = [other.members for fields in pool for other in fields if other.name in same]
            yield from _renames(members[name], one.members, inner, (*path, name))


def _pairs(free: Collection[str], others: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Return the names of a base with the one free name of a file that each may have.

    Two names with one candidate, or one with two, have none.
    """
    found = {name: [one for one in free if one in names] for name, names in others.items()}
    single = {name: names[0] for name, names in found.items() if len(names) == 1}
    return {name: one for name, one in single.items() if sum(one in names for names in found.values()) == 1}


def _groups(pool: Iterable[_Fields]) -> list[set[str]]:
    """Return the sets of names that are one field's by the aliases of any schema."""
    groups: list[set[str]] = []
    for one in (one for fields in pool for one in fields if one.aliases):
        joined = {one.name, *one.aliases}
        apart = [group for group in groups if not group & joined]
        groups = [*apart, joined.union(*(group for group in groups if group & joined))]
    return groups


def _beside(names: Mapping[str, str], base: FileSchema | None) -> dict[str, str]:
    """Return the renames of fields that a base lacks, such as an op code that no record keeps."""
    own = set() if base is None else {*base.schema.names}
    return {old: new for old, new in names.items() if not own & {old, new}}


def _outer(renames: Mapping[tuple[str, ...], str]) -> dict[str, str]:
    return {path[0]: name for path, name in renames.items() if len(path) == 1}


def _has_aliases(native: Any) -> bool:
    if isinstance(native, Mapping):
        return bool(native.get("aliases")) or any(map(_has_aliases, native.values()))
    return isinstance(native, list) and any(map(_has_aliases, native))


def _fields_of(schema: FileSchema | None) -> _Fields:
    """Return the fields of a file, by its own schema if that is Avro's."""
    if schema is None:
        return ()
    if schema.native is not None:
        return _members(expanded(schema.native))
    return tuple(_Field(one.name, (), _arrow_members(one.type)) for one in schema.schema)


def _members(avro: Any) -> _Fields:
    """Return the fields of the record that a type is or has as its elements or values."""
    if isinstance(avro, list):
        return next(filter(None, map(_members, avro)), ())
    if isinstance(avro, str):
        return ()
    if "fields" in avro:
        return tuple(
            _Field(one["name"], tuple(one.get("aliases") or ()), _members(one["type"])) for one in avro["fields"]
        )
    return _members(avro.get("items") or avro.get("values") or "null")


def _arrow_members(data_type: Any) -> _Fields:
    if pa.types.is_struct(data_type):
        return tuple(_Field(one.name, (), _arrow_members(one.type)) for one in data_type)
    if pa.types.is_map(data_type):
        return _arrow_members(data_type.item_type)
    return _arrow_members(data_type.value_type) if pa.types.is_list(data_type) else ()


def _renamed(
    source: Source,
    pool: _Pool,
    names: Mapping[tuple[str, ...], str],
    notes: dict[str, None],
    known: dict[str, str],
) -> Source:
    """Return a file with other names of fields; adds to the notes and to the known names."""
    if source.file_schema is None or not names:
        return source
    known |= _outer(names)
    for path, new in names.items():
        old, now = ".".join(path), ".".join((*path[:-1], new))
        notes[f"field {old} of {source.name} is read as {now}, by an alias in an Avro schema"] = None
    renamed: Renames = tuple(sorted(names.items()))
    return replace(source, file_schema=pool.with_names(source.file_schema, names), renamed=renamed)


def _with_names(schema: FileSchema, names: Mapping[tuple[str, ...], str]) -> FileSchema:
    if schema.native is not None:
        native = collapsed(renamed_fields(expanded(schema.native), names))
        return FILE_FORMATS["avro"].stored({"schema": native})
    outer = _outer(names)
    fields: list[Any] = [one.with_name(outer.get(one.name, one.name)) for one in schema.schema]
    defaults = {outer.get(name, name): value for name, value in schema.defaults.items()}
    return replace(schema, schema=pa.schema(fields), defaults=defaults)
