"""Keys of messages in a file of their own, as the sinks of Kafka Connect write them (``store.kafka.keys=true``).

The key in a line, or of a row, belongs to the message in the same line or row of another file. It is read only for
messages that lack it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
_FEWER = "its file of keys has fewer keys than it has messages"


def count(file_format: str, content: Content) -> int:
    """Return the number of the rows of a file; of lines, blank ones included."""
    if file_format != "json":
        return FILE_FORMATS[file_format].count(content, Dialect())
    found, last = 0, b"\n"
    for block in _blocks(content):
        found, last = found + block.count(b"\n"), block[-1:]
    return found + (last != b"\n")


class KeyReader:
    """Returns the keys of rows. It reads both files once, so the rows of each batch follow those of the last one."""

    def __init__(self, keys: KeyFile, file_format: str) -> None:
        """Open nothing yet. file_format: of the messages."""
        numbers: Mapping[str, Callable[[Content], _LineNumbers | _AvroNumbers]]
        numbers = {"json": _LineNumbers, "avro": _AvroNumbers}
        self._numbers = numbers[file_format](keys.messages) if file_format in numbers else None
        self._keys: _JsonKeys | _TypedKeys = (_JsonKeys if keys.file_format == "json" else _TypedKeys)(keys)

    def keys_of(self, offsets: Ints, rows: Ints, names: Sequence[str]) -> Mapping[str, Any]:
        """Return fields of the keys of some rows, a pa.Array by name; of JSON, they are text.

        offsets: of the rows of a batch. rows: some of these, ascending. names: the same for each batch.
        """
        wanted = offsets[rows]
        return self._keys.of(wanted if self._numbers is None else self._numbers.of(wanted), names)


class _LineNumbers:
    """The numbers of lines in a file, from 0."""

    def __init__(self, content: Content) -> None:
        self._blocks = _blocks(content)
        self._before = self._start = self._end = 0  # lines before the block, and its byte offsets
        self._ends: Any = np.zeros(0, np.int64)  # of the lines that end in it

    def of(self, offsets: Ints) -> Ints:
        """Return the numbers of the lines at some byte offsets, ascending."""
        numbers, at = np.zeros(len(offsets), np.int64), 0
        while at < len(offsets):
            inside = slice(at, int(np.searchsorted(offsets, self._end)))
            numbers[inside] = self._before + np.searchsorted(self._ends, offsets[inside] - self._start)
            at = inside.stop
            if at < len(offsets):
                block = next(self._blocks)  # the file has these offsets
                self._before, self._start, self._end = self._before + len(self._ends), self._end, self._end + len(block)
                self._ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _LF)
        return numbers


class _AvroNumbers:
    """The numbers of records in a file, from 0."""

    def __init__(self, content: Content) -> None:
        self._blocks = _records_before(content)
        self._block, self._before = -1, 0

    def of(self, offsets: Ints) -> Ints:
        """Return the numbers of the records at some offsets, ascending."""
        blocks, places = offsets >> avro_container.ROW_BITS, offsets & ((1 << avro_container.ROW_BITS) - 1)
        before = np.zeros(len(offsets), np.int64)
        for number, block in enumerate(blocks.tolist()):
            while self._block < block:
                self._block, self._before = next(self._blocks)
            before[number] = self._before
        return before + places


def _records_before(content: Content) -> Iterator[tuple[int, int]]:
    """Yield the byte offset of each block of an Avro file, and the number of records before it."""
    before = 0
    with content.file() as stream:
        container = avro_container.opened(stream)
        for offset, block in avro_container.blocks(stream, container, Window(), container.expanded):
            yield offset >> avro_container.ROW_BITS, before
            before += block.num_records


class _JsonKeys:
    """The keys in the lines of a file."""

    def __init__(self, keys: KeyFile) -> None:
        self._lines = enumerate(_lines(keys.content))

    def of(self, numbers: Ints, names: Sequence[str]) -> Mapping[str, Any]:
        """Return fields of the keys in some lines, ascending."""
        return columns_of([self._object(number) for number in numbers.tolist()], names)

    def _object(self, number: int) -> Members:
        """Return the object in a line; one without members for a key that is no object."""
        line = next((line for at, line in self._lines if at == number), None)
        if line is None:
            raise NotReadable(_FEWER)
        members = object_in(line.strip()) or {}
        if {*members} == {"schema", "payload"}:
            members = object_in(members["payload"] or b"") or {}
        return members


class _TypedKeys:
    """The keys in the rows of a file that has types."""

    def __init__(self, keys: KeyFile) -> None:
        self._keys = keys
        self._batches: Iterator[Any] | None = None
        self._batch: Any = None
        self._start = self._end = 0  # numbers of the rows of the batch

    def of(self, numbers: Ints, names: Sequence[str]) -> Mapping[str, Any]:
        """Return fields of the keys in some rows, ascending."""
        found, at, self._batches = list[Any](), 0, self._batches or _key_batches(self._keys, names)
        while at < len(numbers):
            to = int(np.searchsorted(numbers, self._end))
            if to > at:
                found.append(self._batch.take(pa.array(numbers[at:to] - self._start)))
            at = to
            if at < len(numbers):
                self._batch = next(self._batches, None)
                if self._batch is None:
                    raise NotReadable(_FEWER)
                self._start, self._end = self._end, self._end + self._batch.num_rows
        table = pa.Table.from_batches(found)
        return {name: table.column(name).combine_chunks() for name in names if name in table.column_names}


def _key_batches(keys: KeyFile, names: Sequence[str]) -> Iterator[Any]:
    """Yield the keys as pa.RecordBatches, with some fields as far as they have them, or another one."""
    reader = FILE_FORMATS[keys.file_format]
    with keys.content.file() as stream:
        schema = reader.probe(stream, Dialect()).schema.with_metadata({PHYSICAL: b""})
    own = [name for name in names if name in schema.names] or schema.names[:1]
    for found in reader.read(keys.content, schema, own, Dialect()):
        yield found.batch


def _lines(content: Content) -> Iterator[bytes]:
    with content.file() as stream:
        yield from stream


def _blocks(content: Content) -> Iterator[bytes]:
    with content.file() as stream:
        while block := stream.read(_BLOCK):
            yield block
