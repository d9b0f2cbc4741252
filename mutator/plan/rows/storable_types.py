"""Types that files of a format can store, and the types that are read back."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from mutator.errors import error
from mutator.errors.parts import setting
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.rules.typed_values import convert_leaf_types


def storable_schema(schema: Any, name: str, where: str | None = None, *, in_micros: bool = False) -> Any:
    """Return a pa.Schema as files of a format store it; raises DataError for a field that they cannot store.

    where: the table with the schema, for the message; by default it is that of the output. in_micros: timestamps become
    microseconds first.
    """
    fields = []
    for field in schema:
        stored = _storable_type(field.type, name, in_micros)
        if stored is None:
            what = f"is of type {field.type}, which {name} cannot store"
            raise error("schema.field", path=where or setting(f"output.format={name}"), field=field.name, what=what)
        fields.append(field.with_type(stored))
    return pa.schema(fields)


def stored_as(data_type: Any, name: str, in_micros: bool) -> Any:
    """Return the pa.DataType that a type has in files of a format; a part of it that they cannot store stays.

    >>> stored_as(pa.list_(pa.timestamp("ns")), "parquet", in_micros=True)
    ListType(list<item: timestamp[us]>)
    """
    return map_leaf_types(data_type, lambda leaf: _stored_leaf(leaf, name, in_micros) or leaf)


def _stored_leaf(leaf: Any, name: str, in_micros: bool) -> Any:
    if in_micros and pa.types.is_timestamp(leaf):
        leaf = pa.timestamp("us", leaf.tz)
    return FILE_FORMATS[name].storable_type(leaf)


def _storable_type(data_type: Any, name: str, in_micros: bool) -> Any:
    """Return the pa.DataType that is read back, None where a part of the type cannot be stored."""
    file_format, lost = FILE_FORMATS[name], []
    if pa.types.is_nested(data_type) and (not file_format.nested or file_format.storable_type(data_type) is None):
        return None

    def stored(leaf: Any) -> Any:
        found = _stored_leaf(leaf, name, in_micros)
        lost.extend([leaf] if found is None else [])
        return leaf if found is None else found

    made = map_leaf_types(data_type, stored)
    return None if lost else made


def map_leaf_types(data_type: Any, convert: Callable[[Any], Any]) -> Any:
    """Return a pa.DataType with a function applied to the types of its values; maps stay maps.

    A struct without fields is a value, too.

    >>> map_leaf_types(pa.list_(pa.int32()), lambda leaf: pa.int64())
    ListType(list<item: int64>)
    """
    types = pa.types
    if types.is_map(data_type):
        key, item = (map_leaf_types(part, convert) for part in (data_type.key_type, data_type.item_type))
        return pa.map_(data_type.key_field.with_type(key), data_type.item_field.with_type(item))
    if types.is_list(data_type):
        return pa.list_(data_type.value_field.with_type(map_leaf_types(data_type.value_type, convert)))
    if types.is_struct(data_type) and data_type.num_fields:
        return pa.struct([field.with_type(map_leaf_types(field.type, convert)) for field in data_type])
    return convert(data_type) if types.is_struct(data_type) else convert_leaf_types(data_type, convert)
