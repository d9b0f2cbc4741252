"""Tables in memory as inputs of a run: their rows are in scratch files, whose names and offsets mean nothing."""

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import pyarrow as pa

from mutator.errors.quick_dataclass import dataclass
from mutator.plan.inspect.source import Source
from mutator.rules.schema_evolution import normal_type, widened


@dataclass(frozen=True)
class TableInput:
    """A table whose rows are in a scratch file, or in the files of a scratch directory."""

    path: str  # full path
    # Field to the other pa.DataTypes that have every value of it exactly: integers that became floats fit int64.
    fitting: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    valueless: frozenset[str] = frozenset()  # fields that are NULL in every row, and so fit every type
    rows: int | None = None  # None: not counted


def is_below(tables: Sequence[TableInput], path: str) -> bool:
    """Return whether a path is that of a table's file."""
    return any(path == table.path or posixpath.dirname(path) == table.path for table in tables)


def with_tables(
    tables: Sequence[TableInput],
    known: Sequence[Source],
    master: Sequence[Source],
    feed: Sequence[Source],
    ids: Sequence[Any],
) -> tuple[tuple[Source, ...], list[Source]]:
    """Return the sources of the master and of the feed, those of tables marked as such.

    A column of a table gets the type that the field has elsewhere, if that has all of its values: in the master only
    where there is no other way. known: the schemas that the user wants, and that a managed master has. ids: the ID
    fields of the configuration.
    """
    schemas = [source.file_schema.schema for source in feed if source.file_schema is not None]
    names: Sequence[str] = schemas[-1].names if schemas else ()
    ids = [names[one] if isinstance(one, int) and one < len(names) else one for one in ids]
    master = tuple(_as_table(tables, source, (*known, *feed), ids, is_master=True) for source in master)
    others = (*known, *master, *feed)
    return master, [_as_table(tables, source, others, ids, is_master=False) for source in feed]


def _as_table(
    tables: Sequence[TableInput], source: Source, others: Sequence[Source], ids: Sequence[Any], *, is_master: bool
) -> Source:
    table = next((table for table in tables if is_below([table], source.path)), None)
    if table is None:
        return source
    source = replace(source, name=posixpath.basename(table.path), sequence=None, is_table=True)
    if source.file_schema is None:
        return source
    others = [other for other in others if not is_below([table], other.path)]
    fields = []
    for one in source.file_schema.schema:
        wanted, is_id = _type_elsewhere(tables, others, one.name), one.name in ids
        if one.name in table.valueless:
            fields.append(one if wanted is None else one.with_type(wanted))
            continue
        if is_id and (wanted == pa.float64() or (wanted is None and not pa.types.is_integer(one.type))):
            wanted = pa.int64()  # the ID 7 is not 7.0
        if wanted is not None and pa.types.is_floating(wanted):
            # Of two tables, the one with the floats gives way if it can, or each would take the other's type.
            own = normal_type(one.type)
            giving = [
                other for other in tables if one.name in other.valueless or own in other.fitting.get(one.name, ())
            ]
            staying = [other for other in others if not is_below(giving, other.path)]
            wanted = _type_elsewhere(tables, staying, one.name)
        if wanted in table.fitting.get(one.name, ()) and (not is_master or _gives_way(one.type, wanted, is_id)):
            one = one.with_type(wanted)
        fields.append(one)
    return replace(source, file_schema=replace(source.file_schema, schema=pa.schema(fields)))


def _gives_way(own: Any, wanted: Any, is_id: bool) -> bool:
    """Return whether a field of a master in memory takes the type of the feed: no type has both, or an ID is wider."""
    return widened(own, wanted) is None or (is_id and wanted.bit_width < own.bit_width)


def _type_elsewhere(tables: Sequence[TableInput], others: Sequence[Source], name: str) -> Any:
    """Return the pa.DataType of a field in the first source that has it, and has values in it if any source has."""
    typed = [(other, found) for other in others if (found := _type_in(other, name)) is not None]
    valueless = [table for table in tables if name in table.valueless]
    valued = [found for other, found in typed if not is_below(valueless, other.path)]
    return next(iter([*valued, *(found for _, found in typed if not pa.types.is_null(found))]), None)


def _type_in(source: Source, name: str) -> Any:
    """Return the pa.DataType of a field of a typed file, None if it has none."""
    if source.file_schema is None or not source.file_schema.typed:
        return None
    position = source.file_schema.schema.get_field_index(name)
    return None if position < 0 else normal_type(source.file_schema.schema.field(position).type)
