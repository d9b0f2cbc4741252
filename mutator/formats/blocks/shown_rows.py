"""Rows of typed columns as JSON, for people."""

import json
from collections.abc import Mapping
from typing import Any, cast

import pyarrow as pa

from mutator.rules.typed_values import convert_leaves


def shown_rows(batch: Any) -> list[bytes]:
    """Return the rows of a pa.RecordBatch as JSON, for people who read rejects.

    >>> shown_rows(pa.RecordBatch.from_pylist([{"names": ["a"], "raw": b"b"}]))
    [b'{"names": ["a"], "raw": "b"}']
    """
    return [_shown(row) for row in _readable(batch)]


def _readable(batch: Any) -> list[dict[str, Any]]:
    """Return rows of Python values: without nanoseconds, the year 10000, and text that is not UTF-8."""
    try:
        columns = [convert_leaves(column, _readable_type, _to_readable) for column in batch.columns]
        return cast(list[dict[str, Any]], pa.RecordBatch.from_arrays(columns, batch.schema.names).to_pylist())
    except (pa.ArrowException, ValueError, OverflowError, TypeError):
        return [{"row": "cannot be shown"} for _ in range(batch.num_rows)]


def _readable_type(data_type: Any) -> Any:
    return pa.binary() if pa.types.is_temporal(data_type) or pa.types.is_string(data_type) else data_type


def _to_readable(column: Any) -> Any:
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
    return column.cast(pa.string()).cast(pa.binary())


def _shown(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, default=_text, ensure_ascii=False).encode()


def _text(value: Any) -> str:
    """Return the text of a value that JSON lacks, within lists and structs, too."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
