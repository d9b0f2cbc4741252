"""The part of a master that a full snapshot has, with the types of the fields that its conditions name."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from mutator.errors import MutatorError, error
from mutator.errors.parts import setting
from mutator.formats.values.row_filter import Filter, Scope
from mutator.rules.conditions import Condition
from mutator.rules.schema_evolution import nearest


def scope_of(conditions: Sequence[Condition], schema: Any) -> Scope | None:
    """Return the scope of conditions on the fields of a pa.Schema; None without any.

    Raises ConfigError for a field that there is not, and for a literal that is not of the type of its field.
    """
    if not conditions:
        return None
    names = list(dict.fromkeys(one.column for one in conditions))
    for name in names:
        if schema.get_field_index(name) < 0:
            near = nearest(name, schema.names)
            meant = f"; did you mean {near}?" if near else ""
            raise _fault(f"there is no field {name!r}{meant}; the fields are {', '.join(schema.names)}")
    scope = Scope(tuple(conditions), pa.schema([pa.field(name, schema.field(name).type) for name in names]))
    try:
        Filter(conditions, schema, "")
    except MutatorError as fault:
        raise _fault(fault.message) from None
    return scope


def scope_of_ordinals(conditions: Sequence[Condition]) -> Scope | None:
    """Return the scope of conditions on fields of delimited text, whose columns are ordinals; as ``scope_of``."""
    names = dict.fromkeys(one.column for one in conditions)
    return scope_of(conditions, pa.schema([pa.field(name, pa.large_binary()) for name in names]))


def _fault(faults: str) -> MutatorError:
    return error("config", where=setting("sync.scope"), faults=faults)
