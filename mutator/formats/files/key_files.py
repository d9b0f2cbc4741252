"""Keys of messages in a file of their own, as the sinks of Kafka Connect write them (``store.kafka.keys=true``).

The key in a line, or of a row, belongs to the message in the same line or row of another file. It is read only for
messages that lack it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.formats.content import Content, KeyFile, NotReadable, Window
from mutator.formats.files import avro_container
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.rules.byte_columns import Ints
from mutator.rules.dialects.image_messages import Members, columns_of, object_in
from mutator.rules.envelope import PHYSICAL

FORMATS = ("json", "avro", "parquet")
_BLOCK = 1 << 20
_LF = 10


def count(file_format: str, content: Content) -> int:
    """Return the number of the rows of a file; of lines, blank ones included."""
    if file_format != "json":
        return FILE_FORMATS[file_format].count(content, Dialect())
    found, last = 0, b"\n"
    for block in _blocks(content):
        found, last = found + block.count(b"\n"), block[-1:]
    return found + (last != b"\n")


def keys_of(keys: KeyFile, file_format: str, offsets: Ints, rows: Ints, names: Sequence[str]) -> Mapping[str, Any]:
    """Return fields of the keys of some rows, a pa.Array by name; of JSON, they are text.

    file_format: of the messages. offsets: of the rows of a batch. rows: some of these.
    """
    numbers = _numbers(file_format, keys.messages, offsets[rows])
    if keys.file_format == "json":
        return columns_of(list(_objects(keys.content, numbers)), names)
    reader, last, found = FILE_FORMATS[keys.file_format], int(numbers[-1]), list[Any]()
    with keys.content.file() as stream:
        schema = reader.probe(stream, Dialect()).schema.with_metadata({PHYSICAL: b""})
    own, before = [name for name in names if name in schema.names], 0
    for batch in reader.read(keys.content, schema, own, Dialect()) if own else ():
        inside = numbers[(numbers >= before) & (numbers < before + len(batch.offsets))]
        found.append(batch.batch.take(pa.array(inside - before)))
        before += len(batch.offsets)
        if before > last:
            break
    table = pa.Table.from_batches(found) if found else pa.table({})
    return {name: table.column(name).combine_chunks() for name in table.column_names}


def _numbers(file_format: str, content: Content, offsets: Ints) -> Ints:
    """Return the numbers of rows of a file, from 0. offsets: as its format gives them, ascending."""
    if file_format == "parquet":
        return offsets
    if file_format == "avro":
        blocks, places = offsets >> avro_container.ROW_BITS, offsets & ((1 << avro_container.ROW_BITS) - 1)
        firsts = _rows_before(content, int(blocks[-1]))
        return np.array([firsts[block] for block in blocks.tolist()], np.int64) + places
    numbers, before, start = np.zeros(len(offsets), np.int64), 0, 0
    for block in _blocks(content):
        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _LF)
        inside = (offsets >= start) & (offsets < start + len(block))
        numbers[inside] = before + np.searchsorted(ends, offsets[inside] - start)
        before, start = before + len(ends), start + len(block)
        if start > offsets[-1]:
            break
    return numbers


def _rows_before(content: Content, last: int) -> dict[int, int]:
    """Return the number of rows before each block of an Avro file up to the last one, by its byte offset."""
    found, before = dict[int, int](), 0
    with content.file() as stream:
        container = avro_container.opened(stream)
        for offset, block in avro_container.blocks(stream, container, Window(), container.expanded):
            found[offset >> avro_container.ROW_BITS] = before
            before += block.num_records
            if offset >> avro_container.ROW_BITS == last:
                break
    return found


def _objects(content: Content, numbers: Ints) -> Iterator[Members]:
    """Yield the objects in some lines of JSON; one without members for a key that is no object."""
    wanted, last = {*numbers.tolist()}, int(numbers[-1])
    with content.file() as stream:
        for number, line in takewhile(lambda one: one[0] <= last, enumerate(stream)):
            if number in wanted:
                members = object_in(line.strip()) or {}
                if {*members} == {"schema", "payload"}:
                    members = object_in(members["payload"] or b"") or {}
                yield members
                wanted.remove(number)
    if wanted:
        raise NotReadable("its file of keys has fewer lines than it")


def _blocks(content: Content) -> Iterator[bytes]:
    with content.file() as stream:
        while block := stream.read(_BLOCK):
            yield block
