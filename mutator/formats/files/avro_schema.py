"""Avro schemas: what Arrow type a field has, what schema a table has, and which schemas encode alike.

Logical types are read by ourselves: the physical values are integers and bytes, which lose nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType, parse_schema

from mutator.formats.content import NotReadable

__all__ = [
    "arrow_field",
    "avro_of",
    "avro_type",
    "collapsed",
    "encoding",
    "expanded",
    "from_arrow",
    "json_value",
    "parsed",
    "physical",
    "to_arrow",
]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PRIMITIVE: dict[str, Any] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: dict[tuple[str, str], Any] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_FROM_LOGICAL = {kind: names for names, kind in _LOGICAL.items()}
_MOST_DIGITS = 38
_EXACT = Context(prec=100)  # Python rounds to 28 digits where nothing else is said


def expanded(schema: Any) -> dict[str, Any]:
    """Return a record schema with every named type written out where it is used. Raises NotReadable.

    A type that holds itself has no end, and is an error.
    """
    try:
        parse_schema(schema)
        found = _expanded(schema, {}, ())
    except NotReadable:
        raise
    except (SchemaParseException, UnknownType, LookupError, TypeError, ValueError, AttributeError) as fault:
        raise NotReadable(f"its Avro schema is none: {fault}") from None
    if not isinstance(found, dict) or found.get("type") != "record":
        raise NotReadable("its Avro schema is no record, so it has no fields")
    return found


def _expanded(schema: Any, known: dict[str, Any], inside: tuple[str, ...], space: str = "") -> Any:
    if isinstance(schema, list):
        return [_expanded(one, known, inside, space) for one in schema]
    if isinstance(schema, str):
        if schema in _PRIMITIVE:
            return schema
        full = schema if "." in schema or not space else f"{space}.{schema}"
        if full in inside:
            raise NotReadable(f"its Avro type {schema} holds itself")
        return known[full] if full in known else known[schema]
    kind = schema["type"]
    if isinstance(kind, dict | list):
        return _expanded(kind, known, inside, space)
    made = {name: value for name, value in schema.items() if not name.startswith("__")}
    if kind in ("record", "error", "enum", "fixed"):
        name, space = schema["name"], schema.get("namespace", space)
        full = name if "." in name or not space else f"{space}.{name}"
        space = full.rpartition(".")[0]
        if space:  # what it is depends on where it is used no longer
            made |= {"name": full.rpartition(".")[2], "namespace": space}
        if "fields" in schema:
            made["fields"] = [
                {**one, "type": _expanded(one["type"], known, (*inside, full), space)} for one in schema["fields"]
            ]
        known[full] = made
    elif kind == "array":
        made["items"] = _expanded(schema["items"], known, inside, space)
    elif kind == "map":
        made["values"] = _expanded(schema["values"], known, inside, space)
    elif kind not in _PRIMITIVE:
        return _expanded(kind, known, inside, space)
    return made


def collapsed(schema: Any, known: set[str] | None = None) -> Any:
    """Return an expanded schema with every named type written out once, as Avro wants it; undone by ``expanded``."""
    known = set() if known is None else known
    if isinstance(schema, list):
        return [collapsed(one, known) for one in schema]
    if isinstance(schema, str):
        return schema
    made = dict(schema)
    if "name" in made:
        full = ".".join(part for part in (made.get("namespace"), made["name"]) if part)
        if full in known:
            return full
        known.add(full)
    if "fields" in made:
        made["fields"] = [{**one, "type": collapsed(one["type"], known)} for one in made["fields"]]
    for name in ("items", "values"):
        if name in made:
            made[name] = collapsed(made[name], known)
    return made


def parsed(schema: Any) -> Any:
    """Return an expanded schema as fastavro has it."""
    return parse_schema(collapsed(schema))


def physical(schema: Any) -> Any:
    """Return an expanded schema without logical types."""
    if isinstance(schema, list):
        return [physical(one) for one in schema]
    if isinstance(schema, str):
        return schema
    made = {name: value for name, value in schema.items() if name not in ("logicalType", "precision", "scale")}
    if made["type"] in _PRIMITIVE:
        return made["type"]
    if "fields" in made:
        made["fields"] = [{"name": one["name"], "type": physical(one["type"])} for one in made["fields"]]
    for name in ("items", "values"):
        if name in made:
            made[name] = physical(made[name])
    return made


def encoding(schema: Any) -> Any:
    """Return what two schemas have in common that encode all values alike and mean the same by them."""
    if isinstance(schema, list):
        return [encoding(one) for one in schema]
    if isinstance(schema, str):
        return {"type": schema}
    kept = ("type", "items", "values", "size", "symbols", "logicalType", "precision", "scale")
    made = {name: schema[name] for name in kept if name in schema}
    if "fields" in schema:
        made["fields"] = [(one["name"], encoding(one["type"])) for one in schema["fields"]]
    for name in ("items", "values"):
        if name in made:
            made[name] = encoding(made[name])
    return made


def _is_decimal(schema: Mapping[str, Any]) -> bool:
    """Tell whether a type is a decimal that Arrow can hold; else it is what its bytes are, as the standard has it."""
    digits, scale = schema.get("precision"), schema.get("scale", 0)
    if schema.get("logicalType") != "decimal" or not isinstance(digits, int) or not isinstance(scale, int):
        return False
    return 0 < digits <= _MOST_DIGITS and 0 <= scale <= digits


def to_arrow(schema: Mapping[str, Any]) -> Any:
    """Return the Arrow schema of an expanded record schema; raises NotReadable for a field that Arrow cannot hold."""
    return pa.schema([arrow_field(one) for one in schema["fields"]])


def arrow_field(one: Mapping[str, Any]) -> Any:
    """Return the Arrow field of a field of a record."""
    kind, nullable = _arrow(one["type"], one["name"])
    return pa.field(one["name"], kind, nullable)


def _arrow(schema: Any, where: str) -> tuple[Any, bool]:
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        if len(others) > 1:
            raise NotReadable(f"field {where} is a union of {len(others)} types, which only Avro can hold")
        return (_arrow(others[0], where)[0], len(others) < len(schema)) if others else (pa.null(), True)
    if isinstance(schema, str):
        return _PRIMITIVE[schema], schema == "null"
    kind, logical = schema["type"], schema.get("logicalType")
    if _is_decimal(schema):
        return pa.decimal128(schema["precision"], schema.get("scale", 0)), False
    if logical == "decimal" and isinstance(schema.get("precision"), int) and schema["precision"] > _MOST_DIGITS:
        raise NotReadable(f"field {where} is a decimal of {schema['precision']} digits, which only Avro can hold")
    if (kind, logical) in _LOGICAL:
        return _LOGICAL[kind, logical], False
    if kind == "enum":
        return pa.string(), False
    if kind == "fixed":
        return pa.binary(schema["size"]), False
    if kind == "array":
        item, nullable = _arrow(schema["items"], where)
        return pa.list_(pa.field("item", item, nullable)), False
    if kind == "map":
        item, nullable = _arrow(schema["values"], where)
        return pa.map_(pa.string(), pa.field("value", item, nullable)), False
    if kind in ("record", "error"):
        parts = [(one["name"], *_arrow(one["type"], f"{where}.{one['name']}")) for one in schema["fields"]]
        return pa.struct([pa.field(*part) for part in parts]), False
    return _PRIMITIVE[kind], False


def from_arrow(schema: Any, name: str = "row") -> dict[str, Any]:
    """Return the Avro schema of an Arrow schema; raises NotReadable for a field that Avro cannot hold."""
    return {"type": "record", "name": name, "fields": [_avro_field(one, name) for one in schema]}


def avro_of(schema: Any, known: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the Avro schema of an Arrow schema, with the fields of a known one where they hold the same.

    An enum is not among them: it would not take every text.
    """
    made = from_arrow(schema)
    if known is None:
        return made
    fields = {one["name"]: one for one in known["fields"]}
    for place, one in enumerate(schema):
        field = fields.get(one.name)
        try:
            if field is not None and arrow_field(field).equals(one) and '"enum"' not in json.dumps(field):
                made["fields"][place] = field
        except NotReadable:
            continue  # a union, of which the Arrow field holds one type
    return {**known, "fields": made["fields"]}


def avro_type(one: Any) -> Any:
    """Return the Avro type of an Arrow field."""
    return _avro_field(one, "row")["type"]


def _avro_field(one: Any, path: str) -> dict[str, Any]:
    if not _NAME.match(one.name):
        raise NotReadable(f"field {one.name} cannot be a name in Avro")
    kind = _avro(one.type, f"{path}.{one.name}", one.name)
    if one.nullable and kind != "null":
        return {"name": one.name, "type": ["null", kind], "default": None}
    return {"name": one.name, "type": kind}


def _avro(kind: Any, path: str, where: str) -> Any:
    types = pa.types
    if kind in _FROM_LOGICAL:
        base, logical = _FROM_LOGICAL[kind]
        return {"type": base, "logicalType": logical}
    for name, primitive in _PRIMITIVE.items():
        if kind == primitive:
            return name
    if types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if types.is_timestamp(kind) and kind.tz is not None:
        return _avro(pa.timestamp(kind.unit, "UTC"), path, where)
    if types.is_fixed_size_binary(kind):
        space, _, name = path.rpartition(".")
        return {"type": "fixed", "name": name, "namespace": space, "size": kind.byte_width}
    if types.is_struct(kind):
        space, _, name = path.rpartition(".")  # a name of its own, whatever fields are called
        return {"type": "record", "name": name, "namespace": space, "fields": [_avro_field(one, path) for one in kind]}
    if types.is_map(kind) and kind.key_type == pa.string():
        return {"type": "map", "values": _avro_field(kind.item_field.with_name("value"), path)["type"]}
    if types.is_list(kind):
        return {"type": "array", "items": _avro_field(kind.value_field.with_name("item"), path)["type"]}
    raise NotReadable(f"field {where} is of type {kind}, which Avro has not")


def reader_of(schema: Any) -> Any:
    """Return a function from the physical values of a type to what Arrow takes; None where they are the same."""
    if isinstance(schema, list):
        found = [reader for one in schema if one != "null" and (reader := reader_of(one)) is not None]
        return None if not found else lambda value: None if value is None else found[0](value)
    if isinstance(schema, str):
        return None
    kind = schema["type"]
    if _is_decimal(schema):
        scale = schema.get("scale", 0)
        return lambda value: Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, _EXACT)
    if kind == "array" and (item := reader_of(schema["items"])) is not None:
        return lambda value: [item(one) for one in value]
    if kind == "map":
        item = reader_of(schema["values"])
        return lambda value: [(name, one if item is None else item(one)) for name, one in value.items()]
    if kind in ("record", "error"):
        parts = {one["name"]: reader for one in schema["fields"] if (reader := reader_of(one["type"])) is not None}
        if parts:
            return lambda value: {name: parts[name](one) if name in parts else one for name, one in value.items()}
    return None


def json_value(schema: Any, value: Any) -> Any:
    """Return the physical value that a default, as JSON has it, stands for in an expanded schema."""
    if isinstance(schema, list):
        return json_value(schema[0], value)
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind in ("bytes", "fixed"):
        return value.encode("latin-1")
    if kind == "array":
        return [json_value(schema["items"], one) for one in value]
    if kind == "map":
        return {name: json_value(schema["values"], one) for name, one in value.items()}
    if kind in ("record", "error"):
        return {
            one["name"]: json_value(one["type"], value.get(one["name"], one.get("default"))) for one in schema["fields"]
        }
    return value
