"""Paths to the members of nested objects, written with dots, as in ``source.lsn``.

The schema of a file says which names are paths: a name that is a member's own means that member.

>>> schema = pa.schema([("a.b", pa.int64()), ("c", pa.struct([("d.e", pa.string()), ("f", pa.string())]))])
>>> path_in(schema, "a.b"), path_in(schema, "c.d.e"), path_in(schema, "c.f.g")
(('a.b',), ('c', 'd.e'), None)
>>> field_in(schema, "c.f").type
DataType(string)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

# Marks in the metadata of a pa.Field that has objects, or of a pa.Schema whose rows are objects
OTHERS = b"other members"  # they may have members that the schema lacks
NULLS = b"null objects"  # null is an object without members


AS_TEXT = pa.large_binary()  # the type of a member whose values must keep the text that they have in a line


def read_as(column: Any, member: Any) -> Any:
    """Return the pa.Field to read a member of a file with. column: pa.Field of its values. member: None: unknown.

    A number that is no whole one keeps its text, unless its column has numbers of the same kind.

    >>> read_as(pa.field("price", pa.decimal128(9, 2)), pa.field("price", pa.float64())).type
    DataType(large_binary)
    >>> read_as(pa.field("price", pa.float64()), pa.field("price", pa.float64())).type
    DataType(double)
    """
    if member is None or pa.types.is_null(member.type):
        return pa.field(column.name, pa.string())
    exact = not pa.types.is_floating(member.type) or member.type == column.type
    return member if exact else member.with_type(AS_TEXT)


def with_text(data_type: Any, is_replaced: Callable[[Any], bool]) -> Any:
    """Return a type with text in place of some types, at all levels.

    >>> print(with_text(pa.struct([("a", pa.null()), ("b", pa.list_(pa.null()))]), pa.types.is_null))
    struct<a: string, b: list<item: string>>
    """
    if pa.types.is_struct(data_type):
        return pa.struct([(field.name, with_text(field.type, is_replaced)) for field in data_type])
    if pa.types.is_list(data_type):
        return pa.list_(with_text(data_type.value_type, is_replaced))
    return pa.string() if is_replaced(data_type) else data_type


def path_in(schema: Any, name: str) -> tuple[str, ...] | None:
    """Return the members on the way to a named one, in a pa.Schema; None without one.

    Raises ValueError if the name is a member's own and a path, too.
    """
    found = list(_paths(list(schema), name))
    if len(found) > 1:
        one, other = ([".".join(path[:-1]), path[-1]] for path in sorted(found, key=len)[:2])
        whole = f"member {one[1]!r}" + (f" of {one[0]}" if one[0] else "")
        raise ValueError(f"field {name} may be {whole}, or member {other[1]!r} of {other[0]}; have one of them renamed")
    return found[0] if found else None


def field_in(schema: Any, name: str) -> Any:
    """Return the pa.Field of a member that a name or path leads to, with that name; None without one."""
    path = path_in(schema, name)
    if path is None:
        return None
    field = schema.field(path[0])
    for member in path[1:]:
        field = field.type.field(member)
    return field.with_name(name)


def _paths(fields: list[Any], name: str) -> Iterator[tuple[str, ...]]:
    for field in fields:
        if field.name == name:
            yield (name,)
        elif name.startswith(f"{field.name}.") and pa.types.is_struct(field.type):
            for path in _paths(list(field.type), name[len(field.name) + 1 :]):
                yield (field.name, *path)
