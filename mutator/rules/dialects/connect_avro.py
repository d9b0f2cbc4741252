"""Types of Kafka Connect in Avro schemas, as its ``AvroData`` writes them, and how their values are read.

A record says what ``connect_types`` knows from the schema of a message: ``connect.name`` is the name of a type, and
``connect.parameters`` are its parameters. ``connect.type`` is the width of a small integer. Decimals, dates and the
times of Connect itself have a ``logicalType`` as well. Parquet files that ``parquet-avro`` wrote have this schema in
their footer.

Values are those of the file: numbers, texts and bytes of Avro, or the dates, times and decimals that Parquet makes of
the logical types.

>>> date = {"type": "int", "connect.name": "io.debezium.time.Date"}
>>> types = columns_of({"fields": [{"name": "born", "type": ["null", date]}]})
>>> types["born"].read(pa.array([-719162, 2**31 - 1], pa.int32()))[0].to_pylist()
[datetime.date(1, 1, 1), None]
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.rules.byte_columns import Flags
from mutator.rules.dialects.connect_types import TIMES, ConnectType, bits, digits, each, times_of, type_of

_CONNECT = {
    "int": "int32",
    "long": "int64",
    "record": "struct",
    "error": "struct",
    "fixed": "bytes",
    "enum": "string",
}
_LOGICAL = {  # where the schema has no names of Connect: connect.meta.data=false
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "decimal": "org.apache.kafka.connect.data.Decimal",
}
_DECIMALS = (_LOGICAL["decimal"], "io.debezium.data.VariableScaleDecimal")


def columns_of(record: Mapping[str, Any]) -> dict[str, ConnectType]:
    """Return the types of the fields of a record, by name. record: an Avro schema with named types written out.

    Raises ValueError for a union of several types.
    """
    return {one["name"]: _typed(_connect(one["type"], one["name"])) for one in record["fields"]}


def record_in(record: Mapping[str, Any] | None, name: str) -> Mapping[str, Any] | None:
    """Return the record in a field of a record; None without one.

    >>> record_in({"fields": [{"name": "a", "type": ["null", {"type": "record", "fields": []}]}]}, "a")
    {'type': 'record', 'fields': []}
    """
    types = [one["type"] for one in (record or {"fields": ()})["fields"] if one["name"] == name]
    branches = [branch for one in types for branch in (one if isinstance(one, list) else [one])]
    return next((one for one in branches if isinstance(one, Mapping) and one["type"] == "record"), None)


def _connect(avro: Any, where: str) -> dict[str, Any]:
    """Return a type as the schema of a message in JSON has it."""
    branches = [one for one in (avro if isinstance(avro, list) else [avro]) if one != "null"]
    if len(branches) != 1:
        raise ValueError(f"has field {where} with values of {len(branches)} types, which no column of a table has")
    one = {"type": branches[0]} if isinstance(branches[0], str) else branches[0]
    name, parameters = one.get("connect.name"), one.get("connect.parameters") or {}
    if name is None and one.get("logicalType") in _LOGICAL:
        name = _LOGICAL[one["logicalType"]]
        parameters = {"scale": one.get("scale", 0), "connect.decimal.precision": one.get("precision", 0)}
    kind = one.get("connect.type") or _CONNECT.get(one["type"], one["type"])
    items = {"items": _connect(one["items"], where)} if "items" in one else {}
    return {"type": kind, "name": name, "parameters": parameters, **items}


def _typed(field: Mapping[str, Any]) -> ConnectType:
    """Return a type whose values are those of the file."""
    data_type, name = type_of(field).data_type, field["name"] or ""
    if name in TIMES:
        return ConnectType(data_type, partial(_times, data_type))
    if name in _DECIMALS:
        return ConnectType(data_type, partial(_decimals, int(field["parameters"].get("scale", 0))))
    if name == "io.debezium.data.Bits":
        length = int(field["parameters"].get("length", 0))
        return ConnectType(data_type, partial(each, partial(bits, length=length), pa.large_binary()))
    if pa.types.is_timestamp(data_type):
        return ConnectType(data_type, partial(_plain, pa.large_binary()))  # text, of which the run makes times
    if pa.types.is_string(data_type) and field["type"] in ("struct", "map", "array"):
        return ConnectType(data_type, _json)
    return ConnectType(data_type, partial(_plain, data_type))


def _plain(data_type: Any, column: Any) -> tuple[Any, Flags, str]:
    return column.cast(data_type), np.zeros(len(column), np.bool_), ""


def _times(data_type: Any, column: Any) -> tuple[Any, Flags, str]:
    """Return dates or times."""
    if pa.types.is_temporal(column.type):
        column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
    return times_of(data_type, column.cast(pa.int64()))


def _decimals(scale: int, column: Any) -> tuple[Any, Flags, str]:
    """Return the texts of decimals: of bytes, of bytes that have a scale each, or of decimals of Parquet."""
    if pa.types.is_decimal(column.type):
        return _of_values(column, lambda value: f"{value:f}".encode())
    if pa.types.is_struct(column.type):
        return _of_values(column, lambda value: digits(value["value"], value["scale"]))
    return each(partial(digits, scale=scale), pa.large_binary(), column)


def _of_values(column: Any, text: Callable[[Any], bytes]) -> tuple[Any, Flags, str]:
    found = [None if value is None else text(value) for value in column.to_pylist()]
    return pa.array(found, pa.large_binary()), np.zeros(len(column), np.bool_), ""


def _json(column: Any) -> tuple[Any, Flags, str]:
    """Return nested values as the JSON that a message has."""
    plain = _json_value(column.type)
    found = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))
    return _of_values(column, lambda value: found(plain(value)).encode())


def _json_value(data_type: Any) -> Callable[[Any], Any]:
    """Return a function from the values of a type to those of JSON."""
    types = pa.types
    if types.is_struct(data_type):
        members = {one.name: _json_value(one.type) for one in data_type}
        return lambda value: value and {name: members[name](one) for name, one in value.items()}
    if types.is_map(data_type):
        item = _json_value(data_type.item_type)
        return lambda value: None if value is None else {name: item(one) for name, one in value}
    if types.is_list(data_type):
        inner = _json_value(data_type.value_type)
        return lambda value: None if value is None else [*map(inner, value)]
    if types.is_binary(data_type):
        return lambda value: None if value is None else base64.b64encode(value).decode()
    return lambda value: value
