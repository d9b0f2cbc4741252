"""Convert lists, maps and structs part by part: members go by their names, and rows without one get its default."""

import json
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.order_columns import flags
from mutator.rules.schema_evolution import DEFAULT_OF_MEMBER

_EXACT = Context(prec=38)
Convert = Callable[[Any, Any], tuple[Any, Flags, str]]


def member(column: Any, path: Sequence[str]) -> Any:
    """Return the pa.Array of a member of structs, NULL where the struct is. path: the names of members; none: itself.

    >>> member(pa.array([{"a": {"b": 7}}, None]), ["a", "b"]).to_pylist()
    [7, None]
    """
    return pc.struct_field(column, list(path)) if path else column


def converted_nested(column: Any, data_type: Any, convert: Convert) -> tuple[Any, Flags, str]:
    """Return a nested pa.Array of another nested type, which rows could not be converted, and why.

    convert: does the same for the parts.

    >>> wanted = pa.struct([pa.field("b", pa.int64()), pa.field("a", pa.int64())])
    >>> convert = lambda part, data_type: (part.cast(data_type), np.zeros(len(part), np.bool_), "")
    >>> converted_nested(pa.array([{"a": 7}, None]), wanted, convert)[0].to_pylist()
    [{'b': None, 'a': 7}, None]
    """
    null = flags(column.is_null())
    if pa.types.is_struct(data_type):
        return _struct(column, data_type, null, convert)
    if pa.types.is_map(data_type):
        column = column.take(pa.array(np.arange(len(column))))  # of a slice, keys and items would be those of the whole
        lengths = np.diff(column.offsets.to_numpy())
        made, bad, why = convert(column.items, data_type.item_type)
        found = pa.MapArray.from_arrays(_offsets(lengths, null), column.keys, made, type=data_type)
    else:
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        made, bad, why = convert(column.flatten(), data_type.value_type)
        found = pa.ListArray.from_arrays(_offsets(lengths, null), made, type=data_type)
    rows = np.zeros(len(column), np.bool_)
    rows[np.repeat(np.arange(len(column)), lengths)[bad]] = True
    return found, rows, why


def _struct(column: Any, data_type: Any, null: Flags, convert: Convert) -> tuple[Any, Flags, str]:
    own = {field.name: part for field, part in zip(column.type, column.flatten(), strict=True)}
    bad, why, parts = np.zeros(len(column), np.bool_), "", []
    for field in data_type:
        if field.name not in own:
            parts.append(missing_member(field, len(column)))
            continue
        made, wrong, reason = convert(own[field.name], field.type)
        parts.append(made)
        bad |= wrong
        why = reason or why
    absent = null | bad
    parts = [made if field.nullable else _filled(made, absent) for made, field in zip(parts, data_type, strict=True)]
    valid = pa.array(~absent).buffers()[1]  # from_arrays() would look at members of structs that are NULL, too
    return pa.Array.from_buffers(data_type, len(column), [valid], children=parts), bad, why


def _filled(member: Any, absent: Flags) -> Any:
    """Return a member that may not be NULL, with a value where its struct is: writers of files refuse NULL there, too.

    absent: which structs are NULL.
    """
    nulls = absent & flags(member.is_null())
    if not nulls.any():
        return member
    index = np.where(nulls, len(member), np.arange(len(member)))
    return pa.concat_arrays([member, pa.array([_any_value(member.type)], member.type)]).take(pa.array(index))


def nulls(count: int, data_type: Any) -> Any:
    """Return NULL values. Members of structs that may not be NULL have some value, as those that ``_filled`` makes.

    >>> nulls(2, pa.struct([pa.field("a", pa.int64(), nullable=False)])).field("a").null_count
    0
    """
    if not pa.types.is_struct(data_type):
        return pa.nulls(count, data_type)
    members = [
        nulls(count, field.type) if field.nullable else pa.repeat(pa.scalar(_any_value(field.type), field.type), count)
        for field in data_type
    ]
    return pa.Array.from_buffers(data_type, count, [pa.array(np.zeros(count, np.bool_)).buffers()[1]], children=members)


def _any_value(data_type: Any) -> Any:
    types = pa.types
    if types.is_struct(data_type):
        return {field.name: _any_value(field.type) for field in data_type}
    if types.is_list(data_type) or types.is_map(data_type):
        return []
    if types.is_fixed_size_binary(data_type):
        return bytes(data_type.byte_width)
    if types.is_boolean(data_type):
        return False
    text = types.is_string(data_type) or types.is_large_string(data_type) or types.is_string_view(data_type)
    return "" if text or types.is_binary(data_type) or types.is_large_binary(data_type) else 0


def _offsets(lengths: Ints, null: Flags) -> Any:
    """Return the offsets of lists, NULL where a list is."""
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.array(offsets, mask=np.append(null, False))


def missing_member(field: Any, count: int) -> Any:
    """Return the values of a member that structs lack: its default, or NULL."""
    default = (field.metadata or {}).get(DEFAULT_OF_MEMBER)
    if default is None:
        return nulls(count, field.type)
    return pa.repeat(pa.array([_of_json(json.loads(default), field.type)], field.type)[0], count)


def _of_json(value: Any, data_type: Any) -> Any:
    """Return a Python value for a type from a default, which Avro writes as JSON."""
    types = pa.types
    if value is None:
        return None
    if types.is_struct(data_type):
        return {field.name: _of_json(value.get(field.name), field.type) for field in data_type}
    if types.is_map(data_type):
        return [(name, _of_json(one, data_type.item_type)) for name, one in value.items()]
    if types.is_list(data_type):
        return [_of_json(one, data_type.value_type) for one in value]
    if types.is_decimal(data_type) and isinstance(value, str):
        number = int.from_bytes(value.encode("latin-1"), "big", signed=True)
        return Decimal(number).scaleb(-data_type.scale, _EXACT)
    if types.is_binary(data_type) or types.is_fixed_size_binary(data_type):
        return value.encode("latin-1")
    return value
