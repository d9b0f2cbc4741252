"""Avro files as columns; where all of a run is Avro, records stay encoded (``blocks.avro_rows``)."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO, ClassVar

import fastavro
import numpy as np
import pyarrow as pa

from mutator.formats.content import Content, NotReadable
from mutator.formats.files.avro_container import PLACE, BlockWriter, blocks, faults, opened, split_records
from mutator.formats.files.avro_schema import (
    arrow_field,
    collapsed,
    expanded,
    from_arrow,
    json_value,
    parsed,
    physical,
    reader_of,
    to_arrow,
)
from mutator.formats.files.contract import Dialect, FileSchema, RowBatch
from mutator.rules.byte_columns import ByteColumn
from mutator.rules.typed_values import mapped

__all__ = ["AvroFiles", "decoded", "default_of", "encoded", "encoded_default"]


class AvroFiles:
    """The kind "avro"."""

    suffix = ".avro"
    in_ranges = True
    nested = True
    typed = True
    codecs: ClassVar[Mapping[str, str]] = {
        "none": "null",
        "snappy": "snappy",
        "gzip": "deflate",
        "deflate": "deflate",
        "zstd": "zstandard",
    }

    def probe(self, stream: BinaryIO, dialect: Dialect) -> FileSchema:
        """Read the head."""
        with faults():
            return _look(opened(stream).schema)

    def count(self, content: Content, dialect: Dialect) -> int:
        """Add up what the blocks say."""
        with content.file() as stream, faults():
            return sum(block.num_records for block in fastavro.block_reader(stream))

    def stored(self, spec: Mapping[str, Any]) -> FileSchema:
        """Return what the Avro schema says."""
        with faults():
            return _look(spec["schema"])

    def read(self, content: Content, schema: Any, names: Sequence[str], dialect: Dialect) -> Iterator[RowBatch]:
        """Read the blocks of the window."""
        with content.file() as stream:
            known, seen = opened(stream), 0
            fields = [one for name in names for one in known.expanded["fields"] if one["name"] == name]
            projected = {
                **physical(known.expanded),
                "fields": [{**one, "type": physical(one["type"])} for one in fields],
            }
            for one in projected["fields"]:
                one.pop("default", None)
            arrow = to_arrow({"fields": fields})
            for place, block in blocks(stream, known, content.window, projected):
                with faults():
                    rows = list(block)
                columns = [decoded([row[one["name"]] for row in rows], one) for one in fields]
                batch = pa.RecordBatch.from_arrays(columns, schema=arrow)
                places = np.arange(len(rows))
                yield RowBatch(batch, place + places, seen + places + 1, lines=len(rows), raw=partial(_records, block))
                seen += len(rows)

    def position(self, offset: int, line: int) -> str:
        """Return where its block begins, and its number there."""
        return f"block at byte {offset >> PLACE}, record {(offset & ((1 << PLACE) - 1)) + 1}"

    def storable_type(self, kind: Any) -> Any:
        """Return what is read back: integers of 32 or 64 bits, UTC as the zone; seconds are milliseconds."""
        types = pa.types
        if types.is_integer(kind) and kind not in (pa.int32(), pa.int64()):
            small = kind.bit_width < 32
            return pa.int32() if small else pa.int64() if kind != pa.uint64() else None
        if types.is_float16(kind):
            return pa.float32()
        if types.is_timestamp(kind):
            return pa.timestamp("ms" if kind.unit == "s" else kind.unit, None if kind.tz is None else "UTC")
        if types.is_time(kind):
            return pa.time32("ms") if types.is_time32(kind) else pa.time64("us") if kind.unit == "us" else None
        return None if types.is_duration(kind) else kind

    def writer(self, stream: BinaryIO, schema: Any, dialect: Dialect) -> _Writer:
        """Write to a stream."""
        return _Writer(stream, schema, dialect)


def _records(block: Any) -> ByteColumn:
    """Return the encoded records of a block that was read before."""
    block.bytes_.seek(0)
    _, content, ends = split_records(block)
    positions = np.array(ends, np.int64)
    return ByteColumn(np.frombuffer(content, np.uint8), positions[:-1], positions[1:])


def _look(native: Mapping[str, Any]) -> FileSchema:
    fields = expanded(native)["fields"]
    defaults = {one["name"]: default for one in fields if (default := default_of(one)) is not None}
    return FileSchema(pa.schema([_held_field(one) for one in fields]), native=dict(native), defaults=defaults)


class _Writer:
    def __init__(self, stream: BinaryIO, schema: Any, dialect: Dialect) -> None:
        avro = from_arrow(schema) if dialect.avro is None else dialect.avro
        self._inner = BlockWriter(stream, avro, dialect.codec)
        self._encode = encoder(expanded(avro))

    def write(self, batch: Any) -> None:
        rows = pa.RecordBatch.from_arrays([mapped(c, _plain_type, _plain) for c in batch.columns], batch.schema.names)
        self._inner.write(self._encode(row) for row in rows.to_pylist())

    def close(self) -> None:
        self._inner.close()


def encoder(schema: Mapping[str, Any]) -> Any:
    """Return a function that encodes a record of Python values, with integers for times."""
    whole = parsed(schema)
    fill = _mapped_values(schema)

    def encode(row: Any) -> bytes:
        made = io.BytesIO()
        fastavro.schemaless_writer(made, whole, row if fill is None else fill(row))
        return made.getvalue()

    return encode


def decoded(values: Sequence[Any], one: Mapping[str, Any]) -> Any:
    """Return the Arrow column of the physical values of a field."""
    reader = reader_of(one["type"])
    try:
        return pa.array(values if reader is None else [reader(value) for value in values], arrow_field(one).type)
    except (pa.ArrowException, ArithmeticError) as fault:  # bytes can say more than the type lets them
        raise NotReadable(f"field {one['name']} has a value that is none of its type: {fault}") from None


def encoded(column: Any, one: Mapping[str, Any]) -> list[bytes]:
    """Return the encoded values of a column for a field."""
    name = one["name"]
    encode = encoder({"type": "record", "name": "value", "fields": [{"name": name, "type": one["type"]}]})
    return [encode({name: value}) for value in mapped(column, _plain_type, _plain).to_pylist()]


def encoded_default(one: Mapping[str, Any]) -> bytes:
    """Return the encoded default of a field, whatever its type."""
    made = io.BytesIO()
    whole = parsed({"type": "record", "name": "value", "fields": [{**one, "type": physical(one["type"])}]})
    fastavro.schemaless_writer(made, whole, {one["name"]: json_value(one["type"], one["default"])})
    return made.getvalue()


def _mapped_values(schema: Any) -> Any:
    """Return a function that makes dicts of the lists of pairs that Arrow has for maps; None where there are none."""
    if isinstance(schema, list):
        found = [inner for one in schema if (inner := _mapped_values(one)) is not None]
        return None if not found else lambda value: None if value is None else found[0](value)
    if isinstance(schema, str):
        return None
    kind = schema["type"]
    if kind == "map":
        inner = _mapped_values(schema["values"])
        return lambda value: {_key(one): _value(one) if inner is None else inner(_value(one)) for one in value}
    if kind == "array" and (inner := _mapped_values(schema["items"])) is not None:
        return lambda value: [inner(one) for one in value]
    if kind in ("record", "error"):
        parts = {one["name"]: inner for one in schema["fields"] if (inner := _mapped_values(one["type"])) is not None}
        if parts:
            return lambda value: {name: parts[name](one) if name in parts else one for name, one in value.items()}
    return None


def _key(pair: Any) -> Any:
    return pair["key"] if isinstance(pair, dict) else pair[0]


def _value(pair: Any) -> Any:
    return pair["value"] if isinstance(pair, dict) else pair[1]


def _plain_type(kind: Any) -> Any:
    if not pa.types.is_temporal(kind):
        return kind
    return pa.int32() if kind.bit_width == 32 else pa.int64()


def _plain(column: Any) -> Any:
    return column.view(_plain_type(column.type))


def _held_field(one: Mapping[str, Any]) -> Any:
    """Return a field's Arrow type; a union that Arrow cannot hold is one only where it is asked for."""
    try:
        return arrow_field(one)
    except NotReadable:
        shown = json.dumps(collapsed(one["type"]))
        return pa.field(one["name"], pa.sparse_union([pa.field(shown, pa.null())]))


def default_of(one: Mapping[str, Any]) -> Any:
    """Return the default of a field as an Arrow scalar; None for NULL, and where there is none that Arrow can hold."""
    if one.get("default") is None:
        return None
    try:
        return decoded([json_value(one["type"], one["default"])], one)[0]
    except (NotReadable, ValueError, TypeError, AttributeError, LookupError):
        return None
