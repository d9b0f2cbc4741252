"""The archive of a log: entries that a cleaning took out of the log, many in one file.

    _mutator/table/archive/<20 digits>-<20 digits>-<digest>.parquet    the entries from one number to another

A row is an entry: its number, and its bytes as they were in the log. The digest is that of the file's bytes, so the
file verifies itself. Archives follow each other without gaps, from entry 1. Entry 0 stays in the log: it is what makes
a directory a table.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mutator.dataset import checksum
from mutator.errors import error, suppressed
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass
from mutator.storage import entries_of, read_file, storage_for

FIRST = 1  # number of the first entry that can be archived
_NAME = re.compile(r"([0-9]{20})-([0-9]{20})-([0-9a-f]{32})\.entries")
_SCHEMA = pa.schema([pa.field("number", pa.int64()), pa.field("content", pa.binary())])
_LARGEST = 16 << 20  # bytes of the entries of an archive, unless a single entry has more
_MOST = 4096  # entries of an archive
_GROUP = 256  # entries that are read to find one


@dataclass(frozen=True)
class Archived:
    """A file of entries."""

    name: str
    first: int
    last: int


class LogArchive:
    """The archives of one log."""

    def __init__(self, directory: str) -> None:
        """Read nothing yet."""
        self.directory = directory
        self._opened: tuple[str, Any] | None = None  # the last archive that was read

    def files(self) -> list[Archived]:
        """Return the archives in the order of their entries, found by a listing."""
        found = (_NAME.fullmatch(entry.name) for entry in entries_of(self.directory))
        archived = (Archived(match[0], int(match[1]), int(match[2])) for match in found if match)
        return sorted(archived, key=lambda one: (one.first, one.last, one.name))

    def last(self) -> int:
        """Return the number of the last entry that was archived; 0 without any."""
        return max((one.last for one in self.files()), default=0)

    def content(self, number: int) -> bytes | None:
        """Return the bytes of an entry; None if no archive has it. Raises StateError if the archive is damaged."""
        return next((content for found, content in self.contents(number, number) if found == number), None)

    def contents(self, first: int, last: int) -> Iterator[tuple[int, bytes]]:
        """Yield (number, bytes) of the entries from one number to another, as far as archives have them.

        Raises StateError if an archive is damaged.
        """
        for archived in self.files():
            if archived.last < first or archived.first > last:
                continue
            opened = self._file(archived)
            for group in range(opened.num_row_groups):
                numbers = opened.metadata.row_group(group).column(0).statistics
                if numbers.max < first or numbers.min > last:
                    continue
                rows = opened.read_row_group(group)
                for number, content in zip(*(column.to_pylist() for column in rows.columns), strict=True):
                    if first <= number <= last:
                        yield number, content
                        first = number + 1

    def backwards(self, last: int) -> Iterator[tuple[int, bytes]]:
        """Yield (number, bytes) of the entries up to one that archives have, newest first; each is read once.

        Raises StateError if an archive is damaged.
        """
        for archived in reversed(self.files()):
            if archived.first > last:
                continue
            opened = self._file(archived)
            for group in reversed(range(opened.num_row_groups)):
                if opened.metadata.row_group(group).column(0).statistics.min > last:
                    continue
                numbers, contents = (column.to_pylist() for column in opened.read_row_group(group).columns)
                for number, content in zip(reversed(numbers), reversed(contents), strict=True):
                    if number <= last:
                        yield number, content
                        last = number - 1

    def write(self, entries: Iterable[tuple[int, bytes]]) -> None:
        """Write entries that follow the last archive. entries: (number, bytes), in order."""
        part, size = list[tuple[int, bytes]](), 0
        for number, content in entries:
            if part and (size + len(content) > _LARGEST or len(part) == _MOST):
                self._write(part)
                part, size = [], 0
            part.append((number, content))
            size += len(content)
        if part:
            self._write(part)

    def _write(self, part: list[tuple[int, bytes]]) -> None:
        columns = [pa.array(column, one.type) for column, one in zip(zip(*part, strict=True), _SCHEMA, strict=True)]
        sink = pa.BufferOutputStream()
        # Entries have much in common, so a page has several of them; a group is what has to be read to find one.
        pq.write_table(
            pa.table(columns, schema=_SCHEMA), sink, compression="zstd", row_group_size=_GROUP, use_dictionary=False
        )
        content = bytes(sink.getvalue())
        name = f"{part[0][0]:020d}-{part[-1][0]:020d}-{checksum.digest(content).hex()}.entries"
        storage = storage_for(self.directory)
        storage.make_directory(self.directory)
        with suppressed("storage.exists"), storage.create_new(posixpath.join(self.directory, name)) as stream:
            stream.write(content)
        failpoint("clean.archived")

    def _file(self, archived: Archived) -> Any:
        """Open an archive. Raises StateError if it is damaged."""
        name = archived.name
        if self._opened is None or self._opened[0] != name:
            path = posixpath.join(self.directory, name)
            content = read_file(path)
            found = checksum.digest(content).hex()
            if not name.endswith(f"-{found}.entries"):
                why = f"its digest is {found}, and not that of its name"
                raise error("table.log.archive", path=path, first=archived.first, last=archived.last, why=why)
            self._opened = name, pq.ParquetFile(pa.BufferReader(content))
        return self._opened[1]
