"""Spark's types as Arrow's: without Spark's session, whose time zone must not change an instant."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types

__all__ = ["arrow_schema"]

PLAIN = {
    types.BooleanType: pa.bool_(),
    types.ByteType: pa.int8(),
    types.ShortType: pa.int16(),
    types.IntegerType: pa.int32(),
    types.LongType: pa.int64(),
    types.FloatType: pa.float32(),
    types.DoubleType: pa.float64(),
    types.StringType: pa.string(),
    types.CharType: pa.string(),
    types.VarcharType: pa.string(),
    types.BinaryType: pa.binary(),
    types.DateType: pa.date32(),
    types.TimestampType: pa.timestamp("us", "UTC"),
    types.TimestampNTZType: pa.timestamp("us"),
}


def arrow_schema(schema: types.StructType) -> pa.Schema:
    """Return Arrow's schema of a Spark schema; TypeError names a field whose type is not one of a table file."""
    return pa.schema([_field(field.name, field.dataType, field.nullable) for field in schema])


def _field(name: str, kind: types.DataType, nullable: bool) -> pa.Field:
    try:
        return pa.field(name, _type(kind), nullable)
    except KeyError:
        raise TypeError(f"field {name} is {kind.simpleString()}") from None


def _type(kind: types.DataType) -> pa.DataType:
    if isinstance(kind, types.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, types.ArrayType):
        return pa.list_(pa.field("element", _type(kind.elementType), kind.containsNull))
    if isinstance(kind, types.MapType):
        value = pa.field("value", _type(kind.valueType), kind.valueContainsNull)
        return pa.map_(pa.field("key", _type(kind.keyType), False), value)
    if isinstance(kind, types.StructType):
        return pa.struct([_field(field.name, field.dataType, field.nullable) for field in kind])
    return PLAIN[type(kind)]
