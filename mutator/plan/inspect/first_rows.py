"""The first rows of a file: the lines that the probe reads anyway, and rows as columns of text, read where needed.

The first are for the guards, which look at each run; the others show which setting is wrong when a run is refused.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import BinaryIO

import pyarrow as pa

from mutator.dataset.file_content import FileContent
from mutator.errors import MutatorError, StorageError
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.content import OtherHeader, unreadable
from mutator.formats.files import lines
from mutator.formats.files.lines import numbered_rows
from mutator.formats.files.path_fields import read_rows
from mutator.plan.inspect.source import Source
from mutator.rules.encodings import UTF8
from mutator.rules.typed_values import canonical
from mutator.storage import Storage, blocks

HEAD = 16 << 10  # bytes of a file
FILES = 256  # of a side
_ROWS = 1000
_BYTES = 1 << 20

Column = Sequence[bytes | None]
Split = Callable[[bytes], list[bytes]]


@dataclass(frozen=True)
class FirstRows:
    """Some rows of a file, by field: its name, or its ordinal in the file if fields have no names."""

    file: str  # base name
    count: int
    columns: Mapping[str, Column]
    others: int = 0  # rows that were left out: their width is not that of most rows


def first_rows(source: Source, split: Split | None, most_rows: int = _ROWS, most_bytes: int = _BYTES) -> FirstRows:
    """Read the first rows of a file; no rows if it cannot be read. Raises DataError for a second, other header.

    split: splits a row of delimited text; None if the fields of the file have names. most_bytes: of their values.
    """
    content = FileContent(source.path, source.bytes, source.window(), compression=source.compression)
    try:
        if split is not None:
            return _of_text(source.name, content, split, most_rows, most_bytes)
        return _with_schema(source, content, most_rows, most_bytes)
    except OtherHeader as fault:
        raise unreadable(source.path, fault) from None
    except (
        MutatorError,
        ValueError,
        KeyError,
        OSError,
        pa.ArrowException,
    ):  # of a file that the run could read: it has changed
        return FirstRows(source.name, 0, {})


def first_batch(
    source: Source, names: Sequence[str], most_rows: int = _ROWS, most_bytes: int | None = None
) -> pa.RecordBatch | None:
    """Return the first rows of a file whose fields have names, as its format reads them; None if it cannot be read.

    most_bytes: that are read of delimited text, where a part of a file can be read; None for as many as the format
    reads at once.
    """
    kind = source.format
    in_parts = kind.delimited and kind.splittable and not source.compression and source.encoding == UTF8
    window = source.window(end=min(source.bytes, most_bytes) if most_bytes is not None and in_parts else None)
    content = FileContent(source.path, source.bytes, window, compression=source.compression)
    try:
        assert source.file_schema is not None
        batch = next(_record_batches(source, content, source.file_schema.schema, list(dict.fromkeys(names))), None)
        return None if batch is None else batch.slice(0, most_rows)
    except (MutatorError, ValueError, KeyError, OSError, pa.ArrowException):
        return None


def has_rows(source: Source) -> bool:
    """Return whether a file has any row, even one that is not a record; False for a damaged file."""
    if source.file_format == "text":
        return source.width is not None
    return source.bytes > 0 and first_rows(source, None, most_rows=1).count > 0


def _of_text(name: str, content: FileContent, split: Split, most_rows: int, most_bytes: int) -> FirstRows:
    """Return the rows that have as many fields as most."""
    rows: list[list[bytes]] = []
    size = 0
    for _, _, row in numbered_rows(content):
        size += len(row or b"")
        if row is not None:
            rows.append(split(row))
        if len(rows) == most_rows or size > most_bytes:
            break
    width = Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
    usual = [row for row in rows if len(row) == width]
    columns = {str(field): column for field, column in enumerate(zip(*usual, strict=True))}
    return FirstRows(name, len(usual), columns, len(rows) - len(usual))


def _with_schema(source: Source, content: FileContent, most_rows: int, most_bytes: int) -> FirstRows:
    """Return the fields that are not nested."""
    if source.file_schema is None:
        return FirstRows(source.name, 0, {})
    schema = source.file_schema.schema
    names = [field.name for field in schema if not pa.types.is_nested(field.type)]
    columns: dict[str, list[bytes | None]] = {name: [] for name in names}
    count = size = 0
    for batch in _record_batches(source, content, schema, names):
        for name in names:
            values = canonical(batch.column(name).slice(0, most_rows - count)).to_pylist()
            columns[name] += values
            size += sum(len(value or b"") for value in values)
        count = min(count + batch.num_rows, most_rows)
        if count == most_rows or size > most_bytes:
            break
    return FirstRows(source.name, count, columns)


def _record_batches(
    source: Source, content: FileContent, schema: pa.Schema, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    found = read_rows(source.file_format, content, schema, names, source.dialect)
    return (batch.batch for batch in found)


def first_bytes(blocks: Iterable[bytes]) -> bytes:
    """Return the first bytes of a file, one more than a head has if the file is longer.

    blocks: the file's content, uncompressed, in blocks of any size; no more of them are read than needed.
    """
    data = b""
    for block in blocks:
        data += block[: HEAD + 1 - len(data)]
        if len(data) > HEAD:
            break
    return data


def head_of(data: bytes, ending: str) -> bytes:
    """Return the head of a file: all of a short file, else the whole lines in its first bytes.

    data: see ``first_bytes``. ending: LF, CR or EXACT_LF, as in ``lines``.

    >>> head_of(b"a,1\\nb,2", lines.LF)
    b'a,1\\nb,2'
    """
    if len(data) <= HEAD:
        return data
    return data[: data.rfind(b"\r" if ending == lines.CR else b"\n") + 1]


class BlockStream:
    """A stream for reading that returns a block at a time, whatever its size."""

    def __init__(self, content: Iterator[bytes]) -> None:
        self._content = content

    def read(self, size: int = -1) -> bytes:
        """Return the next block."""
        return next(self._content, b"")


class RecordedStream:
    """A stream for reading that keeps the first bytes read from it. ending: of its lines; those read have LF."""

    def __init__(self, stream: BinaryIO, ending: str) -> None:
        self._stream, self._ending = stream, ending
        self._read = b""

    def read(self, size: int = -1) -> bytes:
        """Read the next bytes, as many as the stream returns."""
        data = self._stream.read(size)
        self._read += data[: max(HEAD + 1 - len(self._read), 0)]
        return data.replace(b"\r", b"\n") if self._ending == lines.CR else data

    def head(self) -> bytes:
        """Return the head of the file, see ``head_of``; reads more if the reader needed less."""
        return head_of(first_bytes(chain([self._read], blocks(self._stream))), self._ending)


def with_few_heads(sources: Iterable[Source]) -> Iterator[Source]:
    """Yield files; only the first ones keep their first bytes, so that a side with many files needs little memory."""
    for number, source in enumerate(sources):
        yield source if number < FILES else replace(source, head=b"")


def with_first_head(storage: Storage, sources: Sequence[Source]) -> tuple[Source, ...]:
    """Return the files of a managed master; the first delimited one that has rows gets its first bytes.

    Only files on a disk are read, because a run would otherwise not open each of them.
    """
    found = list(sources)
    for number, source in enumerate(found):
        if storage.holds and source.bytes and source.format.delimited:
            with suppress(StorageError), storage.open(source.path) as stream:  # the file may be taken over unread
                found[number] = replace(source, head=head_of(first_bytes(blocks(stream)), source.ending))
            break
    return tuple(found)
