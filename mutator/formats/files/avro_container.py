"""Read the blocks of an Avro object container file that a task owns, and write blocks of encoded records.

A block begins after a sync marker, so reading can start anywhere in a file. The offset of a row is the byte offset of
its block, shifted left by ``ROW_BITS``, plus the row's number in the block.
"""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import Any, BinaryIO, cast

import fastavro
from fastavro.write import Writer

from mutator.errors.display import counted
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.content import NotReadable, Renames, Window
from mutator.formats.files.avro_schema import collapsed, expanded, parsed, physical, renamed_fields

ROW_BITS = 20  # for the number of a row in its block
_SYNC = 16
_STEP = 1 << 20
_BLOCK = 256 << 10  # bytes of a written block before compression


@dataclass(frozen=True)
class AvroOutput:
    """How to write a file."""

    schema: Mapping[str, Any]
    codec: str | None = None  # a name of fastavro's
    metadata: Mapping[str, str] = field(default_factory=dict)  # for the header, beside Avro's own
    sync: bytes = b""  # 16 bytes between blocks; empty: random ones
    in_path: tuple[str, ...] = ()  # fields of the records that the file lacks


@dataclass(frozen=True)
class Container:
    """The header of a file."""

    output: AvroOutput  # how the file was written
    expanded: Mapping[str, Any]  # its schema
    body: int  # byte offset of the first block
    head: bytes  # the header as it would be without logical types


def opened(stream: BinaryIO, renamed: Renames = ()) -> Container:
    """Read the header of a file. Raises NotReadable."""
    with faults():
        reader = fastavro.block_reader(stream)
        schema = json.loads(reader.metadata["avro.schema"])
        codec = reader.metadata.get("avro.codec", "null")
        stream.seek(0)
        head = b""
        sync = reader._header["sync"]
        while (found := head.find(sync)) < 0:
            if not (block := stream.read(_STEP)):
                raise NotReadable("its header has no end")
            head += block
        made, whole = io.BytesIO(), renamed_fields(expanded(schema), dict(renamed))
        fastavro.writer(made, parsed(physical(whole)), [], codec=codec, sync_marker=sync)
        own = {name: text for name, text in reader.metadata.items() if not name.startswith("avro.")}
        return Container(AvroOutput(schema, codec, own, sync), whole, found + _SYNC, made.getvalue())


def registry_id(stream: BinaryIO) -> int | None:
    """Return the number of the schema of a message in the wire format of registries: byte 0, then 4 bytes; else None.

    The stream is then at its beginning.
    """
    head = stream.read(5)
    stream.seek(0)
    return int.from_bytes(head[1:], "big") if len(head) == 5 and head[0] == 0 else None


def blocks(stream: BinaryIO, container: Container, window: Window, projected: Any) -> Iterator[tuple[int, Any]]:
    """Yield the offset of the first row of each block that begins in a window, and the block.

    Its records have physical values. projected: the reader's schema, None for all fields. Raises NotReadable.
    """
    start = _next_block(stream, container, window.start)
    if start is None:
        return
    stream.seek(start)
    with faults():
        for block in fastavro.block_reader(cast(BinaryIO, _Behind(container.head, stream)), parsed(projected)):
            offset = block.offset - len(container.head) + start
            if window.end is not None and offset >= window.end:
                return
            yield offset << ROW_BITS, block


def split_records(block: Any) -> tuple[list[Any], bytes, list[int]]:
    """Return the values of a block's records, the block's bytes, and where each record ends there.

    The values are those of the projected schema. The first end is 0, the start of the first record.
    """
    data = block.bytes_
    tell, ends, values = data.tell, [0], []
    with faults():
        for row in block:
            values.append(row)
            ends.append(tell())
    content = data.getvalue()
    if ends[-1] != len(content):
        raise NotReadable(f"the block at byte {block.offset} is longer than its {counted(len(values), 'record')}")
    return values, content, ends


def _next_block(stream: BinaryIO, container: Container, start: int) -> int | None:
    """Return the byte offset of the first block that begins at an offset or after it."""
    if start <= container.body:
        return container.body
    at = start - _SYNC
    stream.seek(at)
    data = b""
    while block := stream.read(_STEP):
        data += block
        found = data.find(container.output.sync)
        if found >= 0:
            return at + found + _SYNC
        at, data = at + len(data) - _SYNC, data[-_SYNC:]
    return None


class _Behind:
    """A stream with some bytes before it."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._head, self._stream, self._at = head, stream, 0

    def tell(self) -> int:
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        size = -1 if size is None else size
        data = b""
        if self._at < len(self._head):
            data = self._head[self._at :] if size < 0 else self._head[self._at : self._at + size]
        if size < 0 or len(data) < size:
            data += self._stream.read(-1 if size < 0 else size - len(data))
        self._at += len(data)
        return data


class BlockWriter:
    """Write encoded records in blocks."""

    def __init__(self, stream: BinaryIO, output: AvroOutput) -> None:
        """Write the header."""
        codec, own = output.codec or "snappy", dict(output.metadata)
        schema = collapsed(output.schema)
        self._writer: Any = Writer(stream, schema, codec=codec, metadata=own, sync_marker=output.sync)
        self._parts: list[bytes] = []
        self._bytes = 0

    def write(self, records: Iterator[bytes]) -> None:
        """Write the next records."""
        for record in records:
            self._parts.append(record)
            self._bytes += len(record)
            if self._bytes >= _BLOCK:
                self._flush()

    def _flush(self) -> None:
        if self._parts:
            self._writer.write_block(_Encoded(len(self._parts), io.BytesIO(b"".join(self._parts))))
        self._parts, self._bytes = [], 0

    def close(self) -> None:
        """Write the last block."""
        self._flush()
        self._writer.flush()


@dataclass(frozen=True)
class _Encoded:
    """A block in the form that fastavro writes."""

    num_records: int
    bytes_: io.BytesIO


@contextmanager
def faults() -> Iterator[None]:
    """Raise NotReadable for every exception of fastavro: the file is damaged."""
    try:
        yield
    except NotReadable:
        raise
    except OSError as fault:
        raise NotReadable(f"it cannot be read as Avro: {fault}") from None
    except Exception as fault:  # noqa: BLE001  # each codec has its own, and a wrong length may cause any
        raise NotReadable(f"it cannot be read as Avro: {type(fault).__name__}: {fault}") from None
