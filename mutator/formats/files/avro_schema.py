"""Avro schemas: their Arrow types, the schema of an Arrow table, and which schemas encode alike.

fastavro sees physical types alone, whose integers and bytes lose nothing; logical types are read here. It is loaded
with the first schema, because rows of other formats only have their types looked up here.
"""

import json
import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from mutator.formats.content import NotReadable
from mutator.rules.schema_evolution import DEFAULT_OF_MEMBER

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
_FROM_LOGICAL = {data_type: names for names, data_type in _LOGICAL.items()}
_MOST_DIGITS = 38
_EXACT = Context(prec=100)  # Python's default rounds to 28 digits


def expanded(schema: Any) -> dict[str, Any]:
    """Return a record schema with every named type written out where it is used.

    Raises NotReadable for a schema that is invalid, is not of a record, or has a type that contains itself.
    """
    from fastavro.schema import SchemaParseException, UnknownType, parse_schema

    try:
        parse_schema(schema)
        found = _expanded(schema, {}, ())
    except NotReadable:
        raise
    except (SchemaParseException, UnknownType, LookupError, TypeError, ValueError, AttributeError) as fault:
        raise NotReadable(f"its Avro schema is invalid: {fault}") from None
    if not isinstance(found, dict) or found.get("type") != "record":
        raise NotReadable("its Avro schema is not a record, so it has no fields")
    return found


def _expanded(schema: Any, known: dict[str, Any], inside: tuple[str, ...], space: str = "") -> Any:
    if isinstance(schema, list):
        return [_expanded(one, known, inside, space) for one in schema]
    if isinstance(schema, str):
        if schema in _PRIMITIVE:
            return schema
        full = schema if "." in schema or not space else f"{space}.{schema}"
        if full in inside:
            raise NotReadable(f"its Avro type {schema} contains itself")
        return known[full] if full in known else known[schema]
    type_name = schema["type"]
    if isinstance(type_name, dict | list):
        return _expanded(type_name, known, inside, space)
    made = {name: value for name, value in schema.items() if not name.startswith("__")}
    if type_name in ("record", "error", "enum", "fixed"):
        name, space = schema["name"], schema.get("namespace", space)
        full = name if "." in name or not space else f"{space}.{name}"
        space = full.rpartition(".")[0]
        if space:  # so that its meaning does not depend on where it is used
            made |= {"name": full.rpartition(".")[2], "namespace": space}
        if "fields" in schema:
            made["fields"] = [
                {**one, "type": _expanded(one["type"], known, (*inside, full), space)} for one in schema["fields"]
            ]
        known[full] = made
    elif type_name == "array":
        made["items"] = _expanded(schema["items"], known, inside, space)
    elif type_name == "map":
        made["values"] = _expanded(schema["values"], known, inside, space)
    elif type_name not in _PRIMITIVE:
        return _expanded(type_name, known, inside, space)
    return made


def collapsed(schema: Any, known: set[str] | None = None) -> Any:
    """Return an expanded schema with every named type written out once; the inverse of ``expanded``."""
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
    return _with_parts(made, lambda part: collapsed(part, known))


def _with_parts(schema: dict[str, Any], convert: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a type with a function applied to the types of its fields, items and values."""
    if "fields" in schema:
        schema["fields"] = [{**field, "type": convert(field["type"])} for field in schema["fields"]]
    for name in ("items", "values"):
        if name in schema:
            schema[name] = convert(schema[name])
    return schema


def parsed(schema: Any) -> Any:
    """Return an expanded schema in fastavro's own form."""
    from fastavro.schema import parse_schema

    return parse_schema(collapsed(schema))


def physical(schema: Any) -> Any:
    """Return an expanded schema without logical types, and its fields without defaults."""
    if isinstance(schema, list):
        return [physical(one) for one in schema]
    if isinstance(schema, str):
        return schema
    made = {name: value for name, value in schema.items() if name not in ("logicalType", "precision", "scale")}
    if made["type"] in _PRIMITIVE:
        return made["type"]
    if "fields" in made:
        made["fields"] = [{"name": field["name"], "type": field["type"]} for field in made["fields"]]
    return _with_parts(made, physical)


def encoding(schema: Any) -> Any:
    """Return the part of a schema that decides its encoding: equal for two schemas whose bytes mean the same."""
    if isinstance(schema, list):
        return [encoding(one) for one in schema]
    if isinstance(schema, str):
        return {"type": schema}
    kept = ("type", "items", "values", "size", "symbols", "logicalType", "precision", "scale")
    made = {name: schema[name] for name in kept if name in schema}
    if "fields" in schema:
        made["fields"] = [(field["name"], encoding(field["type"])) for field in schema["fields"]]
    return made | {name: encoding(made[name]) for name in ("items", "values") if name in made}


def _is_decimal(schema: Mapping[str, Any]) -> bool:
    """Return whether a type is a decimal that Arrow can hold; as the standard says, others are plain bytes."""
    digits, scale = schema.get("precision"), schema.get("scale", 0)
    if schema.get("logicalType") != "decimal" or not isinstance(digits, int) or not isinstance(scale, int):
        return False
    return 0 < digits <= _MOST_DIGITS and 0 <= scale <= digits


def to_arrow(schema: Mapping[str, Any]) -> Any:
    """Return the pa.Schema of an expanded record schema; raises NotReadable for a field that Arrow cannot store."""
    return pa.schema([arrow_field(field) for field in schema["fields"]])


def arrow_field(field: Mapping[str, Any]) -> Any:
    """Return the pa.Field of a field of a record; raises NotReadable for a type that Arrow cannot store."""
    data_type, nullable = _arrow(field["type"], field["name"])
    return pa.field(field["name"], data_type, nullable)


def is_opaque(field: Mapping[str, Any]) -> bool:
    """Return whether Arrow has no type for a field of a record, such as a union of several types."""
    try:
        arrow_field(field)
    except NotReadable:
        return True
    return False


def comparable_field(field: Mapping[str, Any]) -> Any:
    """Return the pa.Field of a field of a record; for an opaque field, of a type that equals only itself."""
    if not is_opaque(field):
        return arrow_field(field)
    text = json.dumps(encoding(field["type"]), sort_keys=True)
    return pa.field(field["name"], pa.struct([pa.field(text, pa.null())]), "null" in field["type"])


def _arrow(schema: Any, where: str) -> tuple[Any, bool]:
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        if len(others) > 1:
            raise NotReadable(f"field {where} is a union of {len(others)} types, which only Avro can hold")
        return (_arrow(others[0], where)[0], len(others) < len(schema)) if others else (pa.null(), True)
    if isinstance(schema, str):
        return _PRIMITIVE[schema], schema == "null"
    type_name, logical = schema["type"], schema.get("logicalType")
    if _is_decimal(schema):
        return pa.decimal128(schema["precision"], schema.get("scale", 0)), False
    if logical == "decimal" and isinstance(schema.get("precision"), int) and schema["precision"] > _MOST_DIGITS:
        raise NotReadable(f"field {where} is a decimal of {schema['precision']} digits, which only Avro can hold")
    if (type_name, logical) in _LOGICAL:
        return _LOGICAL[type_name, logical], False
    if type_name == "enum":
        return pa.string(), False
    if type_name == "fixed":
        return pa.binary(schema["size"]), False
    if type_name == "array":
        item, nullable = _arrow(schema["items"], where)
        return pa.list_(pa.field("item", item, nullable)), False
    if type_name == "map":
        item, nullable = _arrow(schema["values"], where)
        return pa.map_(pa.string(), pa.field("value", item, nullable)), False
    if type_name in ("record", "error"):
        return pa.struct([_member(one, f"{where}.{one['name']}") for one in schema["fields"]]), False
    return _PRIMITIVE[type_name], False


def _member(field: Mapping[str, Any], where: str) -> Any:
    """Return the pa.Field of a field of a nested record, which keeps its default."""
    data_type, nullable = _arrow(field["type"], where)
    default = field.get("default")
    metadata = None if default is None else {DEFAULT_OF_MEMBER: json.dumps(default).encode()}
    return pa.field(field["name"], data_type, nullable, metadata)


def from_arrow(schema: Any, name: str = "row") -> dict[str, Any]:
    """Return the Avro schema of a pa.Schema; raises NotReadable for a field that Avro cannot store."""
    return {"type": "record", "name": name, "fields": [_avro_field(field, name) for field in schema]}


def avro_of(schema: Any, known: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the Avro schema of a pa.Schema, with the fields of a known Avro schema that have the same Arrow types.

    Enums are not kept: they cannot store every text.
    """
    made = from_arrow(schema)
    if known is None:
        return made
    fields = {one["name"]: one for one in known["fields"]}
    for position, one in enumerate(schema):
        field = fields.get(one.name)
        if field is not None and comparable_field(field).equals(one) and '"enum"' not in json.dumps(field):
            made["fields"][position] = field
    return {**known, "fields": made["fields"]}


def avro_type(field: Any) -> Any:
    """Return the Avro type of a pa.Field."""
    return _avro_field(field, "row")["type"]


def _avro_field(field: Any, path: str) -> dict[str, Any]:
    if not _NAME.match(field.name):
        raise NotReadable(f"field {field.name} has a name that Avro does not allow")
    avro = _avro(field.type, f"{path}.{field.name}", field.name)
    default = (field.metadata or {}).get(DEFAULT_OF_MEMBER)
    if default is not None:
        return {"name": field.name, "type": [avro, "null"] if field.nullable else avro, "default": json.loads(default)}
    if field.nullable and avro != "null":
        return {"name": field.name, "type": ["null", avro], "default": None}
    return {"name": field.name, "type": avro}


def _avro(data_type: Any, path: str, where: str) -> Any:
    types = pa.types
    if data_type in _FROM_LOGICAL:
        base, logical = _FROM_LOGICAL[data_type]
        return {"type": base, "logicalType": logical}
    for name, primitive in _PRIMITIVE.items():
        if data_type == primitive:
            return name
    if types.is_decimal(data_type):
        return {"type": "bytes", "logicalType": "decimal", "precision": data_type.precision, "scale": data_type.scale}
    if types.is_timestamp(data_type) and data_type.tz is not None:
        return _avro(pa.timestamp(data_type.unit, "UTC"), path, where)
    if types.is_fixed_size_binary(data_type):
        space, _, name = path.rpartition(".")
        return {"type": "fixed", "name": name, "namespace": space, "size": data_type.byte_width}
    if types.is_struct(data_type):
        space, _, name = path.rpartition(".")  # a name that no field has
        return {
            "type": "record",
            "name": name,
            "namespace": space,
            "fields": [_avro_field(one, path) for one in data_type],
        }
    if types.is_map(data_type) and data_type.key_type == pa.string():
        return {"type": "map", "values": _avro_field(data_type.item_field.with_name("value"), path)["type"]}
    if types.is_list(data_type):
        return {"type": "array", "items": _avro_field(data_type.value_field.with_name("item"), path)["type"]}
    raise NotReadable(f"field {where} is of type {data_type}, which Avro does not have")


def decoder(schema: Any) -> Any:
    """Return a function from a type's physical values to values for ``pa.array``; None if they are the same."""

    def decimals(schema: Mapping[str, Any]) -> Any:
        scale = schema.get("scale", 0)
        if not _is_decimal(schema):
            return None
        return lambda value: Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, _EXACT)

    def pairs(item: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda value: [(name, item(one)) for name, one in value.items()]

    return _converter(schema, decimals, pairs)


def map_writer(schema: Any) -> Any:
    """Return a function that makes dicts of a value's maps, which Arrow has as lists of pairs; None without maps."""

    def entries(item: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda value: {name: item(one) for name, one in map(_pair, value)}

    return _converter(schema, lambda _: None, entries)


def _pair(entry: Any) -> Any:
    return (entry["key"], entry["value"]) if isinstance(entry, dict) else entry


def _converter(schema: Any, leaf: Callable[[Any], Any], entries: Callable[[Any], Any]) -> Any:
    """Return a function that converts the values of a type; None if they stay as they are.

    leaf: returns the function for a type without parts, or None. entries: makes the function for maps from that for
    their values.
    """
    if isinstance(schema, list):
        found = [made for one in schema if (made := _converter(one, leaf, entries)) is not None]
        return None if not found else lambda value: None if value is None else found[0](value)
    if isinstance(schema, str):
        return None
    if (made := leaf(schema)) is not None:
        return made
    if schema["type"] == "map":
        return entries(_converter(schema["values"], leaf, entries) or (lambda value: value))
    if schema["type"] == "array" and (item := _converter(schema["items"], leaf, entries)) is not None:
        return lambda value: [item(one) for one in value]
    if schema["type"] in ("record", "error"):
        fields = [(field["name"], _converter(field["type"], leaf, entries)) for field in schema["fields"]]
        parts = {name: made for name, made in fields if made is not None}
        if parts:
            return lambda value: {name: parts[name](one) if name in parts else one for name, one in value.items()}
    return None


def json_value(schema: Any, value: Any) -> Any:
    """Return the physical value of a default, which JSON writes in its own way."""
    if isinstance(schema, list):
        return json_value(schema[0], value)
    type_name = schema if isinstance(schema, str) else schema["type"]
    if type_name in ("bytes", "fixed"):
        return value.encode("latin-1")
    if type_name == "array":
        return [json_value(schema["items"], one) for one in value]
    if type_name == "map":
        return {name: json_value(schema["values"], one) for name, one in value.items()}
    if type_name in ("record", "error"):
        return {
            one["name"]: json_value(one["type"], value.get(one["name"], one.get("default"))) for one in schema["fields"]
        }
    return value


def renamed_fields(schema: Any, names: Mapping[tuple[str, ...], str], path: tuple[str, ...] = ()) -> Any:
    """Return an expanded schema whose fields have other names. names: by the fields around a field, and itself.

    >>> renamed_fields({"type": "record", "fields": [{"name": "a", "type": "int"}]}, {("a",): "b"})["fields"]
    [{'name': 'b', 'type': 'int'}]
    """
    if isinstance(schema, list):
        return [renamed_fields(one, names, path) for one in schema]
    if isinstance(schema, str):
        return schema
    if "fields" not in schema:
        return _with_parts({**schema}, lambda part: renamed_fields(part, names, path))
    fields = [(one, (*path, one["name"])) for one in schema["fields"]]
    made = [
        {**one, "name": names.get(own, one["name"]), "type": renamed_fields(one["type"], names, own)}
        for one, own in fields
    ]
    return {**schema, "fields": made}
