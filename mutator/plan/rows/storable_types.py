"""Which types a kind of files can hold, and what they are when they are read back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from mutator.errors import error
from mutator.formats.files.registry import FILE_FORMATS
from mutator.rules.typed_values import mapped_type

__all__ = ["storable_schema", "storable_type"]


def storable_schema(schema: Any, kind: str) -> Any:
    """Return the schema as files of a kind hold it; raises DataError for a field that they cannot hold."""
    fields = []
    for one in schema:
        leaves: list[Any] = []

        def held(leaf: Any, leaves: list[Any] = leaves) -> Any:
            found = FILE_FORMATS[kind].storable_type(leaf)
            leaves.append(found)
            return leaf if found is None else found

        if pa.types.is_nested(one.type) and (
            not FILE_FORMATS[kind].nested or FILE_FORMATS[kind].storable_type(one.type) is None
        ):
            leaves.append(None)
        else:
            made = storable_type(one.type, held)
        if None in leaves:
            raise error(
                "schema.field",
                path=f"output.format={kind}",
                field=one.name,
                what=f"is of type {one.type}, which {kind} cannot hold",
            )
        fields.append(one.with_type(made))
    return pa.schema(fields)


def storable_type(kind: Any, held: Any) -> Any:
    """Apply a function to the types of values in a type; maps stay maps."""
    if pa.types.is_map(kind):
        key, item = storable_type(kind.key_type, held), storable_type(kind.item_type, held)
        return pa.map_(kind.key_field.with_type(key), kind.item_field.with_type(item))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(storable_type(kind.value_type, held)))
    if pa.types.is_struct(kind):
        return pa.struct([one.with_type(storable_type(one.type, held)) for one in kind])
    return mapped_type(kind, held)
