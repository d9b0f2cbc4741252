"""Aliases of Avro fields: a field of one file is that of another under an older name, as Avro's readers resolve it.

The result has the names of the newest feed file, so older files are read with its names; a master that is not Avro
keeps its own names, and the feed is read with these.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from mutator.config import Config
from mutator.dataset.manifest import Manifest
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
    names: Mapping[str, str] = field(default_factory=dict)  # other names of the common fields -> these


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
    if not any(any(_aliases(schema)) for schema in (*schemas, master_schema)):
        return BothSides(tuple(master), tuple(feed), master_schema)
    if not feed:
        return BothSides(tuple(master), (), master_schema, names=_older_names(master_schema))
    newest = max(feed, key=lambda one: (-1 if one.sequence is None else one.sequence, one.precedence_name))
    is_avro = all(one.file_schema is None or one.file_schema.native is not None for one in master)
    notes: dict[str, None] = {}
    known: dict[str, str] = {}
    if keeps_names or not is_avro:
        base = master_schema or next((one.file_schema for one in master if one.file_schema is not None), None)
        base = base or newest.file_schema
    else:
        base = wanted or newest.file_schema
        master = [_renamed(one, base, base, notes, known) for one in master]
        if master_schema is not None and (renames := _renames(master_schema, base)):
            master_schema = _with_names(master_schema, renames)
            known |= renames
    latest = newest.file_schema
    feed = [_renamed(one, base, latest, notes, known) for one in feed]
    names = _beside(_older_names(latest), base) | _older_names(base) | known
    return BothSides(tuple(master), tuple(feed), master_schema, tuple(notes), names)


def _older_names(schema: FileSchema | None) -> dict[str, str]:
    """Return the older names that settings may still have, although no file has them, and the names since then."""
    found = [(alias, name) for name, aliases in _aliases(schema) for alias in aliases]
    counts = Counter(alias for alias, _ in found)
    names = set() if schema is None else {*schema.schema.names}
    return {alias: name for alias, name in found if alias not in names and counts[alias] == 1}


def _beside(names: Mapping[str, str], base: FileSchema | None) -> dict[str, str]:
    """Return the renames of fields that a base lacks, such as an op code that no record keeps."""
    own = set() if base is None else {*base.schema.names}
    return {old: new for old, new in names.items() if not own & {old, new}}


def config_with_names(config: Config, names: Mapping[str, str]) -> Config:
    """Return a configuration that has the common names of fields. names: as in ``BothSides``."""

    def common(one: Any) -> Any:
        return names.get(one, one) if isinstance(one, str) else one

    return replace(
        config,
        id_fields=tuple(map(common, config.id_fields)),
        order_field=common(config.order_field),
        op_field=common(config.op_field),
        partitioned_by=tuple(
            replace(one, source=common(one.source), name=common(one.name) if one.name == one.source else one.name)
            for one in config.partitioned_by
        ),
    )


def manifest_with_names(known: Manifest, names: Mapping[str, str]) -> Manifest:
    """Return the manifest of a master as if its key, order and op code had the common names of fields."""
    key, order, op = (known.spec[one] for one in ("key", "order", "op code"))
    if "fields" in key:
        key = {**key, "fields": [names.get(one, one) for one in key["fields"]]}
    if "field" in order:
        order = {**order, "field": names.get(order["field"], order["field"])}
    return replace(known, spec={**known.spec, "key": key, "order": order, "op code": names.get(op, op)})


def _aliases(schema: FileSchema | None) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the fields with aliases."""
    native = None if schema is None else schema.native
    for one in native.get("fields", ()) if isinstance(native, Mapping) else ():
        if one.get("aliases"):
            yield one["name"], one["aliases"]


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


def _renamed(
    source: Source,
    base: FileSchema | None,
    latest: FileSchema | None,
    notes: dict[str, None],
    known: dict[str, str],
) -> Source:
    """Return a file with the names of a base; fields that this lacks have the names of the newest feed file."""
    if source.file_schema is None:
        return source
    names = _beside(_renames(source.file_schema, latest), base) | _renames(source.file_schema, base)
    if not names:
        return source
    known |= names
    for old, new in names.items():
        notes[f"field {old} of {source.name} is read as {new}, by an alias in an Avro schema"] = None
    return replace(source, file_schema=_with_names(source.file_schema, names), renamed=tuple(sorted(names.items())))


def _with_names(schema: FileSchema, names: Mapping[str, str]) -> FileSchema:
    fields: list[Any] = [field.with_name(names.get(field.name, field.name)) for field in schema.schema]
    defaults = {names.get(name, name): value for name, value in schema.defaults.items()}
    return replace(schema, schema=pa.schema(fields), native=renamed_fields(schema.native, names), defaults=defaults)
