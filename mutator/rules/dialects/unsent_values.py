"""The values that Debezium writes where the database did not send one: a text, its bytes, or lists of these."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.rules.byte_columns import Flags, offsets_of
from mutator.rules.dialects.messages import is_text
from mutator.rules.order_columns import flags

_PLACEHOLDER = "__debezium_unavailable_value"
_IN_BASE64 = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
_IN_UUIDS = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"  # in a list of UUIDs
_PLACEHOLDERS = [
    _PLACEHOLDER,
    _IN_BASE64,
    _IN_UUIDS,
    *(
        json.dumps(one, separators=separators)
        for one in (
            [_PLACEHOLDER],
            [_IN_BASE64],
            [*_PLACEHOLDER.encode()],
            [_IN_UUIDS],
            {_PLACEHOLDER: _PLACEHOLDER},
        )
        for separators in ((",", ":"), (", ", ": "))
    ),
]
_SHORTEST = min(map(len, _PLACEHOLDERS))

# A line of JSON with a placeholder has one of these; without lists, one of the first two.
IN_VALUES = (_PLACEHOLDER.encode(), _IN_BASE64.encode())
_BYTES = [*_PLACEHOLDER.encode()]
IN_JSON = (
    *IN_VALUES,
    _IN_UUIDS.encode(),
    json.dumps(_BYTES, separators=(",", ":")).encode(),
    json.dumps(_BYTES).encode(),
)


def unsent(columns: Mapping[str, Any]) -> dict[str, Flags]:
    """Return which rows leave a field unset, because the database did not send its value, by field; those with any.

    columns: pa.Array by name; those of large_binary have the text of values.
    """
    found = {name: _is_placeholder(column) for name, column in columns.items()}
    return {name: rows for name, rows in found.items() if rows.any()}


def no_values(column: Any) -> Flags:
    """Return where an image before a change has no value: NULL, a placeholder, or the empty value of a needed column.

    PostgreSQL logs the columns of the replica identity alone, and Debezium writes an empty value in other columns that
    are never NULL. Lists and maps are not looked into.
    """
    if not is_text(column.type):
        return np.ones(len(column), np.bool_)
    empty = pa.array([b"", b"[]", b"{}"], pa.large_binary()).cast(column.type)
    return flags(column.is_null()) | flags(pc.is_in(column, value_set=empty)) | _is_placeholder(column)


def _is_placeholder(column: Any) -> Flags:
    """Return which values are placeholders, or lists or maps of one, or lists of its bytes."""
    types = pa.types
    if types.is_map(column.type):
        return np.array([_PLACEHOLDER in dict(value or ()) for value in column.to_pylist()], np.bool_)
    if types.is_list(column.type):
        within = _is_placeholder(column.flatten())
        found = np.zeros(len(column), np.bool_)
        found[pc.list_parent_indices(column).to_numpy()[within]] = True
        if types.is_integer(column.type.value_type):
            lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
            for row in np.flatnonzero(lengths == len(_PLACEHOLDER)).tolist():
                found[row] = column[row].as_py() == [*_PLACEHOLDER.encode()]
        return found
    if types.is_large_binary(column.type) and not np.any(np.diff(offsets_of(column)[0]) >= _SHORTEST):
        return np.zeros(len(column), np.bool_)  # nearly always, and soon seen
    if is_text(column.type):
        return flags(pc.is_in(column, value_set=pa.array([one.encode() for one in _PLACEHOLDERS]).cast(column.type)))
    return np.zeros(len(column), np.bool_)
