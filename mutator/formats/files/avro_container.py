"""Avro object container files, by the block: fastavro reads and writes them, and here is what of them a task reads.

A block begins behind a sync marker, so a file can be read from any place on. The place of a row is that of its block,
and its number there.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import fastavro
from fastavro.write import Writer

from mutator.formats.content import NotReadable, Window
from mutator.formats.files.avro_schema import collapsed, expanded, parsed, physical

__all__ = ["PLACE", "BlockWriter", "Container", "blocks", "faults", "opened", "split_records"]

PLACE = 20  # bits of a row's number in its block
_SYNC = 16
_STEP = 1 << 20
_BLOCK = 256 << 10  # bytes of a block that is written, before it is compressed
_CODECS = {"none": "null", "gzip": "deflate", "zstd": "zstandard"}


@dataclass(frozen=True)
class Container:
    """What the head of a file says."""

    schema: Mapping[str, Any]  # as it stands there
    expanded: Mapping[str, Any]
    codec: str
    metadata: Mapping[str, str]  # that is no matter of Avro's
    sync: bytes
    body: int  # where the first block begins
    head: bytes  # that the file would have without logical types


def opened(stream: BinaryIO) -> Container:
    """Read the head of a file."""
    with faults():
        reader = fastavro.block_reader(stream)
        schema = json.loads(reader.metadata["avro.schema"])
        codec = reader.metadata.get("avro.codec", "null")
        stream.seek(0)
        head = b""
        sync = reader._header["sync"]
        while (found := head.find(sync)) < 0:
            if not (block := stream.read(_STEP)):
                raise NotReadable("its head has no end")
            head += block
        made, whole = io.BytesIO(), expanded(schema)
        fastavro.writer(made, parsed(physical(whole)), [], codec=codec, sync_marker=sync)
        own = {name: text for name, text in reader.metadata.items() if not name.startswith("avro.")}
        return Container(schema, whole, codec, own, sync, found + _SYNC, made.getvalue())


def blocks(stream: BinaryIO, known: Container, window: Window, projected: Any) -> Iterator[tuple[int, Any]]:
    """Yield the place of each block that begins in a window, and the block; its records are physical values.

    projected: the reader's schema, None for all fields.
    """
    start = _next_block(stream, known, window.start)
    if start is None:
        return
    stream.seek(start)
    with faults():
        for block in fastavro.block_reader(cast(BinaryIO, _Behind(known.head, stream)), parsed(projected)):
            place = block.offset - len(known.head) + start
            if window.end is not None and place >= window.end:
                return
            yield place << PLACE, block
    return


def split_records(block: Any) -> tuple[list[Any], bytes, list[int]]:
    """Return the values of a block's records, as its reader wants them, its content, and where each record ends there.

    The first end is 0, where the first record begins.
    """
    data = block.bytes_
    tell, ends, values = data.tell, [0], []
    with faults():
        for row in block:
            values.append(row)
            ends.append(tell())
    content = data.getvalue()
    if ends[-1] != len(content):
        raise NotReadable(f"the block at byte {block.offset} is longer than its {len(values)} records")
    return values, content, ends


def _next_block(stream: BinaryIO, known: Container, start: int) -> int | None:
    """Return where the first block begins that does not begin before a place."""
    if start <= known.body:
        return known.body
    at = start - _SYNC
    stream.seek(at)
    held = b""
    while block := stream.read(_STEP):
        held += block
        found = held.find(known.sync)
        if found >= 0:
            return at + found + _SYNC
        at, held = at + len(held) - _SYNC, held[-_SYNC:]
    return None


class _Behind(io.RawIOBase):
    """Some bytes, and behind them a stream."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._head, self._stream, self._at = head, stream, 0

    def readable(self) -> bool:
        return True

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
    """Writes records that are encoded already."""

    def __init__(
        self,
        stream: BinaryIO,
        schema: Mapping[str, Any],
        codec: str | None,
        metadata: Mapping[str, str] | None = None,
        sync: bytes = b"",
    ) -> None:
        """metadata: what stands in the head beside Avro's own. sync: 16 bytes between blocks; random ones if empty."""
        chosen = _CODECS.get(codec or "snappy", codec or "snappy")
        own = dict(metadata or {})
        self._writer: Any = Writer(stream, collapsed(schema), codec=chosen, metadata=own, sync_marker=sync)
        self._parts: list[bytes] = []
        self._rows = self._bytes = 0

    def write(self, records: Iterator[bytes]) -> None:
        """Take the next records."""
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
        """Write what is left."""
        self._flush()
        self._writer.flush()


@dataclass(frozen=True)
class _Encoded:
    """A block as fastavro writes it."""

    num_records: int
    bytes_: io.BytesIO


@contextmanager
def faults() -> Iterator[None]:
    """Turn what fastavro raises for a file that is damaged into NotReadable."""
    try:
        yield
    except NotReadable:
        raise
    except OSError as fault:
        raise NotReadable(f"it cannot be read as Avro: {fault}") from None
    except Exception as fault:  # noqa: BLE001  # each codec has errors of its own, and a wrong length is any of them
        raise NotReadable(f"it cannot be read as Avro: {type(fault).__name__}: {fault}") from None
