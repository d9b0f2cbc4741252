"""Read and write Avro files as columns; ``blocks.avro_rows`` keeps the records of all-Avro runs encoded."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO, ClassVar

import fastavro
import numpy as np
import pyarrow as pa

from mutator.formats.content import Content, NotReadable, OtherForm
from mutator.formats.files import avro_container, avro_schema
from mutator.formats.files.file_format import Dialect, FileSchema, RowBatch
from mutator.rules.byte_columns import ByteColumn
from mutator.rules.envelope import PHYSICAL
from mutator.rules.typed_values import convert_leaves

_MESSAGES = "has messages as they are in a topic, with the number of a schema in a registry, and no Avro container"
_CONTAINERS = "have the sink write containers, which have their schema: as format.class, io.confluent.connect."
_CONTAINERS += "s3.format.avro.AvroFormat, or that of another sink, with the AvroConverter as value.converter"


class AvroFiles:
    """The file format "avro"."""

    nested = True
    codecs: ClassVar[Mapping[str, str]] = {
        "none": "null",
        "snappy": "snappy",
        "gzip": "deflate",
        "deflate": "deflate",
        "zstd": "zstandard",
    }

    def probe(self, stream: BinaryIO, dialect: Dialect) -> FileSchema:
        """Return the schema in the header."""
        if (number := avro_container.registry_id(stream)) is not None:
            raise OtherForm(f"{_MESSAGES} (schema {number})", _CONTAINERS)
        with avro_container.faults():
            return _file_schema(avro_container.opened(stream).output.schema)

    def count(self, content: Content, dialect: Dialect) -> int:
        """Return the sum of the row counts of the blocks."""
        with content.file() as stream, avro_container.faults():
            return sum(block.num_records for block in fastavro.block_reader(stream))

    def stored(self, spec: Mapping[str, Any]) -> FileSchema:
        """Return the Avro schema in the manifest."""
        with avro_container.faults():
            return _file_schema(spec["schema"])

    def read(self, content: Content, schema: Any, names: Sequence[str], dialect: Dialect) -> Iterator[RowBatch]:
        """Read the blocks of the window."""
        with content.file() as stream:
            container, seen = avro_container.opened(stream, content.window.renamed), 0
            fields = [field for name in names for field in container.expanded["fields"] if field["name"] == name]
            if PHYSICAL in (schema.metadata or {}):
                fields = [{**field, "type": avro_schema.physical(field["type"])} for field in fields]
            projected = avro_schema.physical({**container.expanded, "fields": fields})
            arrow = avro_schema.to_arrow({"fields": fields})
            for offset, block in avro_container.blocks(stream, container, content.window, projected):
                with avro_container.faults():
                    rows = list(block)
                columns = [decoded([row[field["name"]] for row in rows], field) for field in fields]
                batch = pa.RecordBatch.from_arrays(columns, schema=arrow)
                numbers = np.arange(len(rows))
                offsets, raw = offset + numbers, partial(_records, block)
                yield RowBatch(batch, offsets, seen + numbers + 1, lines=len(rows), raw=raw)
                seen += len(rows)

    def position(self, offset: int, line: int) -> str:
        """Return the byte at which the row's block begins, and the row's number in the block."""
        block, row = divmod(offset, 1 << avro_container.ROW_BITS)
        return f"block at byte {block}, record {row + 1}"

    def storable_type(self, data_type: Any) -> Any:
        """Return integers of 32 or 64 bits, times of milliseconds or finer, and UTC as the only zone."""
        types = pa.types
        if types.is_integer(data_type) and data_type not in (pa.int32(), pa.int64()):
            small = data_type.bit_width < 32
            return pa.int32() if small else pa.int64() if data_type != pa.uint64() else None
        if types.is_float16(data_type):
            return pa.float32()
        if types.is_timestamp(data_type):
            unit = "ms" if data_type.unit == "s" else data_type.unit
            return pa.timestamp(unit, None if data_type.tz is None else "UTC")
        if types.is_time(data_type):
            if types.is_time32(data_type):
                return pa.time32("ms")
            return pa.time64("us") if data_type.unit == "us" else None
        return None if types.is_duration(data_type) else data_type

    def writer(self, stream: BinaryIO, schema: Any, dialect: Dialect) -> _Writer:
        """Return a writer to a stream."""
        return _Writer(stream, schema, dialect)


def _records(block: Any) -> ByteColumn:
    """Return the encoded records of a block that was read before."""
    block.bytes_.seek(0)
    _, content, ends = avro_container.split_records(block)
    positions = np.array(ends, np.int64)
    return ByteColumn(np.frombuffer(content, np.uint8), positions[:-1], positions[1:])


def _file_schema(native: Mapping[str, Any]) -> FileSchema:
    fields = avro_schema.expanded(native)["fields"]
    defaults = {field["name"]: default for field in fields if (default := default_of(field)) is not None}
    return FileSchema(pa.schema([_shown_field(field) for field in fields]), native=dict(native), defaults=defaults)


class _Writer:
    def __init__(self, stream: BinaryIO, schema: Any, dialect: Dialect) -> None:
        avro = avro_schema.from_arrow(schema) if dialect.avro is None else dialect.avro
        self._inner = avro_container.BlockWriter(stream, avro_container.AvroOutput(avro, dialect.codec))
        self._encode = encoder(avro_schema.expanded(avro))

    def write(self, batch: Any) -> None:
        rows = pa.RecordBatch.from_arrays(
            [convert_leaves(c, _plain_type, _plain) for c in batch.columns], batch.schema.names
        )
        self._inner.write(self._encode(row) for row in rows.to_pylist())

    def close(self) -> None:
        self._inner.close()


def encoder(schema: Mapping[str, Any]) -> Any:
    """Return a function that encodes a record, a dict of Python values with integers for times."""
    fastavro_schema = avro_schema.parsed(schema)
    with_dicts = avro_schema.map_writer(schema)

    def encode(row: Any) -> bytes:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, fastavro_schema, row if with_dicts is None else with_dicts(row))
        return buffer.getvalue()

    return encode


def decoded(values: Sequence[Any], field: Mapping[str, Any]) -> Any:
    """Return the physical values of a field as a pa.Array; raises NotReadable for a value that its type excludes."""
    decode = avro_schema.decoder(field["type"])
    try:
        return pa.array(values if decode is None else list(map(decode, values)), avro_schema.arrow_field(field).type)
    except (pa.ArrowException, ArithmeticError) as fault:  # the bytes may hold more than the type allows
        raise NotReadable(f"field {field['name']} has a value that its type does not allow: {fault}") from None


def encoded(column: Any, field: Mapping[str, Any]) -> list[bytes]:
    """Return the encodings of a pa.Array as values of a field."""
    name = field["name"]
    encode = encoder({"type": "record", "name": "value", "fields": [{"name": name, "type": field["type"]}]})
    return [encode({name: value}) for value in convert_leaves(column, _plain_type, _plain).to_pylist()]


def encoded_default(field: Mapping[str, Any]) -> bytes:
    """Return the encoding of a field's default, even if Arrow has no type for it."""
    buffer = io.BytesIO()
    plain = {**field, "type": avro_schema.physical(field["type"])}
    schema = avro_schema.parsed({"type": "record", "name": "value", "fields": [plain]})
    value = avro_schema.json_value(field["type"], field["default"])
    fastavro.schemaless_writer(buffer, schema, {field["name"]: value})
    return buffer.getvalue()


def _plain_type(data_type: Any) -> Any:
    if not pa.types.is_temporal(data_type):
        return data_type
    return pa.int32() if data_type.bit_width == 32 else pa.int64()


def _plain(column: Any) -> Any:
    return column.view(_plain_type(column.type))


def _shown_field(field: Mapping[str, Any]) -> Any:
    """Return a field's pa.Field; an opaque field gets a union that shows its type, an error only where it is read."""
    if not avro_schema.is_opaque(field):
        return avro_schema.arrow_field(field)
    text = json.dumps(avro_schema.collapsed(field["type"]))
    return pa.field(field["name"], pa.sparse_union([pa.field(text, pa.null())]))


def default_of(field: Mapping[str, Any]) -> Any:
    """Return the default of a field as a pa.Scalar; None for NULL, for no default, and if Arrow cannot store it."""
    if field.get("default") is None:
        return None
    try:
        return decoded([avro_schema.json_value(field["type"], field["default"])], field)[0]
    except (NotReadable, ValueError, TypeError, AttributeError, LookupError):
        return None
