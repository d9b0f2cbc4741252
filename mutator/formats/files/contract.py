"""What kinds of files with named fields have in common: how they are looked at, read as columns, and written.

A kind (``parquet``, ``orc``, ``avro``, ``csv``, ``escaped``) turns bytes into Arrow record
batches of the file's own types and back; what rows mean is not its affair (``blocks.column_rows``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, ClassVar, Protocol

from mutator.formats.content import Content, Reject
from mutator.rules.byte_columns import ByteColumn, Ints

__all__ = ["ROWS", "Dialect", "FileFormat", "FileSchema", "RowBatch", "TableWriter", "readable", "rows_at_once"]

ROWS = 1 << 16  # of a batch, if they are not wide
_BYTES = 16 << 20  # of a batch


@dataclass(frozen=True)
class Dialect:
    """What is the same for all files of a kind in a run, and does not stand in them."""

    delimiter: bytes = b","
    null: bytes = b""  # what stands, without quotes, for NULL
    header: bool = False  # the first line has the names of the fields
    names: tuple[str, ...] = ()  # given by the user, where files have none
    codec: str | None = None  # of files that are written
    avro: Mapping[str, Any] | None = field(default=None, hash=False)  # schema of Avro files that are written


@dataclass(frozen=True)
class FileSchema:
    """What a file says of itself."""

    schema: Any  # pa.Schema, of the file's own types
    typed: bool = True
    named: bool = True  # False: fields are known by their place alone
    header_end: int = 0
    bom: bool = False
    native: Any = field(default=None, hash=False)  # the format's own schema
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)  # pa.Scalar


@dataclass(frozen=True)
class RowBatch:
    """Some consecutive rows, as they stand in the file."""

    batch: Any  # pa.RecordBatch of the fields that were asked for
    offsets: Ints
    numbers: Ints  # of the rows in the split, from 1: lines of text, else rows
    rejects: Sequence[Reject] = ()
    lines: int = 0
    ignored: int = 0
    raw: Callable[[], ByteColumn] | None = None  # rows as stored: lines, each with a line feed, or Avro records


class TableWriter(Protocol):
    """Writes one file."""

    def write(self, batch: Any) -> None:
        """Take the next rows, a pa.RecordBatch."""

    def close(self) -> None:
        """Write what is left."""


class FileFormat(Protocol):
    """One kind of files."""

    suffix: str
    in_ranges: bool  # tasks may read parts of a file
    nested: bool  # fields may be lists, maps and records
    typed: bool  # False: fields are text, whatever they mean
    codecs: ClassVar[Mapping[str, str]]  # of what is written: as the user says -> as the library says

    def stored(self, spec: Mapping[str, Any]) -> FileSchema:
        """Return what a manifest says of the files of a dataset."""

    def probe(self, stream: BinaryIO, dialect: Dialect) -> FileSchema:
        """Look at a file's schema. Raises NotReadable, or what the library raises."""

    def read(self, content: Content, schema: Any, names: Sequence[str], dialect: Dialect) -> Iterator[RowBatch]:
        """Read some fields of the rows of a window. Raises NotReadable."""

    def count(self, content: Content, dialect: Dialect) -> int:
        """Return the number of rows, rejects among them: of what a footer or blocks say, where there are such."""

    def position(self, offset: int, line: int) -> str:
        """Say where a row is. offset: as its reader has it. line: of the file, from 1."""

    def storable_type(self, kind: Any) -> Any:
        """Return the type that a field of a type has when it is read back; None where it cannot be written."""

    def writer(self, stream: BinaryIO, schema: Any, dialect: Dialect) -> TableWriter:
        """Write to a stream."""


def readable(schema: Any) -> Any:
    """Return a schema as it is; raises UnicodeDecodeError where names in it, however deep, are no text.

    A damaged footer may have such, and Arrow stumbles over them only when they are asked for.
    """
    for one in schema:
        _touch(one)
    return schema


def _touch(one: Any) -> None:
    _ = one.name, getattr(one.type, "tz", None)
    for number in range(one.type.num_fields):
        _touch(one.type.field(number))


def rows_at_once(rows: int, size: int) -> int:
    """Return how many rows of some that have a size, in bytes, are read at once."""
    return max(min(ROWS, _BYTES * max(rows, 1) // max(size, 1)), 1)
