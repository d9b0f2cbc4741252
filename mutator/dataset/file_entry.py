"""A file that a place keeps, as its manifest or its log names it. A place is a dataset or a table.

The rows of a dataset's file belong to one bucket of one partition, which the entry has itself. Those of a table's file
may belong to many, its extents. A table knows a file by its path also where its bytes are in a log entry or in a pack.
"""

from __future__ import annotations

import base64
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from mutator.errors.quick_dataclass import dataclass

_Bytes = bytes  # in ``FileEntry``, ``bytes`` is a size
# Roles of files with rows; all others are side files. The last two are of a table with history.
DATA, TOMBSTONES, EVENTS, CLOSED = WITH_ROWS = "data", "tombstones", "events", "closed"
OF_HISTORY = (EVENTS, CLOSED)
KEYS = ".keys"  # suffix of key indexes
INDEX = "index"  # role of a table's files without rows: key indexes, side columns, version indexes, masks
_UNSAFE = ("//", "/./", "/../", "\0")  # in a path between slashes


@dataclass(frozen=True, kw_only=True)
class Extent:
    """Successive rows of a file that belong to one partition and bucket."""

    partition: str | None  # directory; "" for tombstones without a partition; None: the table has no partitions
    bucket: int  # the hash of each key, modulo ``buckets``
    buckets: int  # of the partition, when the rows were written
    rows: int
    high: str | None  # highest order value, as text; None: the lowest value there is


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """A file of a place. Paths are relative to the place, and the path is what identifies the file."""

    path: str
    # data | tombstones | events | closed | order (side columns of rows) | filters | rejected | changes | schema
    # | export | index
    role: str = DATA
    rows: int = 0
    bytes: int
    checksum: str
    # Of its rows: of a dataset, 0 for the present one, and below it the earlier ones; of a table, the version that the
    # form began with, and below 0 the earlier forms of a dataset that it took over.
    form: int = 0
    # Of a dataset.
    bucket: int | None = None
    buckets: int | None = None  # of its partition; None: the dataset is unpartitioned
    partition: Mapping[str, str | None] = field(default_factory=dict, hash=False)
    order: str | None = None  # path of the side file of its rows
    filter: str | None = None  # path of the pack with the filter of its keys
    # Commit time of the run that wrote it, or that last compared its bytes with its checksum; None: unknown
    checked: str | None = None
    # Of a table.
    extents: tuple[Extent, ...] = ()  # in the order of the rows
    index: FileEntry | None = None  # of the keys of its rows
    sides: FileEntry | None = None  # the side file of its rows
    content: str | None = None  # the bytes themselves, in base 64; None: they are at the path, or in a pack
    packed: str | None = None  # never in a log entry: its number, the offset in a pack, and the name of the pack

    @property
    def is_data(self) -> bool:
        """Whether it has rows of records."""
        return self.role == DATA

    @property
    def directory(self) -> str:
        """The directory of its partition, or of its part of a split feed, relative to the place."""
        return posixpath.dirname(self.path.removeprefix(f"_mutator/{self.role}/"))

    @property
    def is_apart(self) -> bool:
        """Whether the bytes are at the path."""
        return self.content is None and self.packed is None

    @property
    def keys(self) -> FileEntry:
        """The key index of a table's file."""
        assert self.index is not None
        return self.index

    def stored(self) -> Iterator[FileEntry]:
        """Yield the file, and its key index and side file if it has them."""
        yield self
        if self.index is not None:
            yield self.index
        if self.sides is not None:
            yield self.sides

    def with_each(self, change: Callable[[FileEntry], FileEntry]) -> FileEntry:
        """Return the file with what a function makes of it, of its key index and of its side file."""
        index, sides = (None if one is None else change(one) for one in (self.index, self.sides))
        return replace(change(self), index=index, sides=sides)

    @property
    def inline(self) -> _Bytes | None:
        """The bytes, if the log entry has them."""
        return None if self.content is None else base64.b64decode(self.content, validate=True)

    def with_content(self, content: _Bytes | bytearray) -> FileEntry:
        """Return the file with its bytes, for a log entry."""
        return replace(self, content=base64.b64encode(content).decode(), packed=None)


def unsafe_path(paths: Sequence[str]) -> str | None:
    """Return the first of the paths of entries that does not stay below its place; None if all do.

    >>> unsafe_path(["day=1/part-0.txt", "../part-0.txt", "/part-1.txt"])
    '../part-0.txt'
    """
    if not _is_unsafe("/".join(paths)):  # of all at once, because a manifest may have a million
        return None
    return next(filter(_is_unsafe, paths), None)


def _is_unsafe(path: str) -> bool:
    steps = f"/{path}/"
    return any(unsafe in steps for unsafe in _UNSAFE)


def stored_here(path: str, content: _Bytes | bytearray, checksum: str) -> FileEntry:
    """Return a file of a table, without rows, whose bytes are in the log entry."""
    return FileEntry(path=path, role=INDEX, bytes=len(content), checksum=checksum).with_content(content)


def is_packed(content: str | None) -> bool:
    """Return whether the content of a file, as text, only names a pack: base 64 has no colon."""
    return content is not None and ":" in content
