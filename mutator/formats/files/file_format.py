"""The contract of a file format: how a file's schema is probed, and its rows read and written as Arrow record batches.

A format knows bytes and the file's own types. What its fields mean (key, order value, op code) is decided by the block
types, see ``formats.blocks.block_type``. To add a format, write a class with the members of ``FileFormat``, and name it
in ``rules.known_formats.FORMATS`` and ``file_formats.FILE_FORMATS``; ``orc`` is the shortest example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from mutator.errors.quick_dataclass import dataclass
from mutator.formats.content import Content, Reject
from mutator.rules.byte_columns import ByteColumn, Flags, Ints

if TYPE_CHECKING:
    from mutator.rules.carried_fields import CarriedValues


@dataclass(frozen=True)
class Dialect:
    """How a file of text writes its fields: as the settings say it, or the manifest of its dataset."""

    delimiter: bytes = b","  # one byte
    null: bytes = b""  # the text that means NULL where it is not quoted
    header: bool = False  # the first line has the names of the fields
    names: tuple[str, ...] = ()  # given by the user, for files without a header
    codec: str | None = None  # for writing, a value of ``FileFormat.codecs``; None: the format's default
    avro: Mapping[str, Any] | None = field(default=None, hash=False)  # schema for writing Avro files
    lacks: bool = False  # for reading JSON Lines: say which members a row lacks, as ``RowBatch.unset``
    empty_is_null: bool = False  # in delimited text without quotes, where it is a value but for patches
    escape: bytes = b""  # for reading: the byte before a quote within quotes; "": quotes are doubled


def stored_dialect(spec: Mapping[str, Any]) -> Dialect:
    """Return the dialect in which a dataset's files were written, from the specification in its manifest."""
    if "escaped" in spec:
        return Dialect(spec["escaped"]["delimiter"].encode("latin-1"))
    if "csv" not in spec:
        return Dialect()
    stored = spec["csv"]
    null = stored["null"].encode("utf-8", "surrogateescape")
    return Dialect(stored["delimiter"].encode("latin-1"), null, stored["header"])


@dataclass(frozen=True)
class FileSchema:
    """The fields of a file, and the facts about its head that a reader needs."""

    schema: Any  # pa.Schema, of the file's own types
    typed: bool = True  # False: all fields are text, and a run decides their types
    named: bool = True  # False: fields are known by position alone
    header_end: int = 0  # byte offset after the header line
    bom: bool = False  # the file begins with a UTF-8 byte order mark
    native: Any = field(default=None, hash=False)  # the format's own schema; of Avro, the JSON value
    # Of JSON Lines: its pa.Schema with each object as a struct, whose members may have values that the type lacks
    opened: Any = field(default=None, compare=False)
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)  # pa.Scalar by field


@dataclass(frozen=True)
class RowBatch:
    """Consecutive rows of a file. The arrays have one element per row of ``batch``; rejects are not among these."""

    batch: Any  # pa.RecordBatch of the requested fields, of the file's own types
    offsets: Ints  # int64, growing; ``FileFormat.position`` explains them
    numbers: Ints  # int64: number of the row in the split, from 1; of text, of its line
    rejects: Sequence[Reject] = ()
    lines: int = 0  # rows, rejects and ignored lines
    ignored: int = 0  # blank lines and headers
    raw: Callable[[], ByteColumn] | None = None  # rows as stored: lines, each with a line feed, or Avro records
    joined: bool = False  # two rows may be of one row of the file, and have its offset
    as_text: bool = False  # values are text, in columns of large_binary, and the run decides their types
    unset: Mapping[str, Flags] = field(default_factory=dict)  # which rows leave a field unset, which is NULL; by name
    carried: CarriedValues | None = None  # values of such fields, by the offsets of rows

    def without(self, rows: Ints) -> RowBatch:
        """Return the batch without some of its rows."""
        kept, raw = np.delete(np.arange(len(self.offsets)), rows), self.raw
        lines = None if raw is None else lambda: raw().only(kept)
        batch, offsets, numbers = self.batch.take(pa.array(kept)), self.offsets[kept], self.numbers[kept]
        unset = {name: rows[kept] for name, rows in self.unset.items()}
        return replace(self, batch=batch, offsets=offsets, numbers=numbers, raw=lines, unset=unset)


class TableWriter(Protocol):
    """Writes one file."""

    def write(self, batch: Any) -> None:
        """Write the next rows, a pa.RecordBatch of the writer's schema."""

    def close(self) -> None:
        """Write the rows and footers that are still in memory. The stream stays open."""


class FileFormat(Protocol):
    """One file format. Its methods keep no state, and run on the driver and in tasks alike."""

    nested: bool  # fields may be lists, maps and structs
    codecs: ClassVar[Mapping[str, str]]  # for writing: the user's name -> the library's name

    def stored(self, spec: Mapping[str, Any]) -> FileSchema:
        """Return the schema of a dataset's files, from the specification in its manifest."""

    def probe(self, stream: BinaryIO, dialect: Dialect) -> FileSchema:
        """Return a file's schema from its head or footer. Raises NotReadable, or an exception of the library."""

    def read(self, content: Content, schema: Any, names: Sequence[str], dialect: Dialect) -> Iterator[RowBatch]:
        """Yield the rows of the content's window, with the named fields in this order.

        schema: the file's pa.Schema, as probed. Raises NotReadable.
        """

    def count(self, content: Content, dialect: Dialect) -> int:
        """Return the number of rows, rejects included; from a footer or block headers if the format has them."""

    def position(self, offset: int, line: int) -> str:
        """Describe where a row is, for messages. offset: from ``RowBatch.offsets``. line: from 1; 0: not known."""

    def storable_type(self, data_type: Any) -> Any:
        """Return the pa.DataType that a written pa.DataType has when it is read back; None if it cannot be written.

        None for a nested type that cannot be written with any parts.
        """

    def writer(self, stream: BinaryIO, schema: Any, dialect: Dialect) -> TableWriter:
        """Return a writer of a pa.Schema of storable types to a stream."""
