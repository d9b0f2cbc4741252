"""Convert Spark types to Arrow types without the session, whose time zone must not change timestamps."""

import pyarrow as pa
from pyspark.sql import types

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
    """Return the pa.Schema of a Spark schema; raises TypeError that names a field whose type files cannot store."""
    return pa.schema([_field(field.name, field.dataType, field.nullable) for field in schema])


def _field(name: str, data_type: types.DataType, nullable: bool) -> pa.Field:
    try:
        return pa.field(name, _type(data_type), nullable)
    except KeyError:
        raise TypeError(f"field {name} is {data_type.simpleString()}") from None


def _type(data_type: types.DataType) -> pa.DataType:
    if isinstance(data_type, types.DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, types.ArrayType):
        return pa.list_(pa.field("element", _type(data_type.elementType), data_type.containsNull))
    if isinstance(data_type, types.MapType):
        value = pa.field("value", _type(data_type.valueType), data_type.valueContainsNull)
        return pa.map_(pa.field("key", _type(data_type.keyType), False), value)
    if isinstance(data_type, types.StructType):
        return pa.struct([_field(field.name, field.dataType, field.nullable) for field in data_type])
    return PLAIN[type(data_type)]
