"""Files whose pages have checksums, so that a few bytes can be read from anywhere and still be verified.

The body is followed by the digests of its pages. The checksum of the whole is the digest of these digests, as
``checksum.combine`` makes it: who has read the digests can verify any page alone.
"""

from __future__ import annotations

import mmap
from typing import Any, BinaryIO, Protocol

import numpy as np

from mutator.dataset import checksum
from mutator.rules.byte_columns import Bytes, Ints
from mutator.storage import read_file, storage_for

PAGE = 1 << 16  # bytes
_DIGEST = 16  # bytes
_WHOLE = PAGE  # bytes of a body that is read at once: any read of it needs the page
_TOGETHER = 4  # pages between two wanted ones that are read rather than skipped by another request


class DamagedPage(ValueError):
    """A file is not the one that its checksum describes. The message says why."""


class PagedFile:
    """Verified ranges of the body of a file. Each page is read and verified once."""

    def __init__(self, source: PageSource, size: int, expected: str) -> None:
        """Read the digests. size: bytes of the body. expected: checksum. Raises DamagedPage, StorageError."""
        pages = max(-(-size // PAGE), 1)
        self._source, self.size = source, size
        digests = source.read(size, size + pages * _DIGEST)
        self._digests = [digests[start : start + _DIGEST] for start in range(0, len(digests), _DIGEST)]
        if len(digests) != pages * _DIGEST or checksum.combine(self._digests, PAGE) != expected:
            raise DamagedPage("its digests are not those of its checksum")
        self._verified = np.zeros(pages, np.bool_)

    @property
    def memory(self) -> int:
        """Bytes of memory that only this object uses."""
        return self._source.memory

    def read(self, start: int, end: int) -> Bytes:
        """Return the bytes of a range of the body, without a copy where the file is mapped into memory."""
        self.load(range(start // PAGE, -(-end // PAGE)))
        return self._source.view(start, end)

    def view(self, start: int, end: int) -> Bytes:
        """Return the bytes of a range, of which only those in loaded pages are valid."""
        return self._source.view(start, end)

    def load(self, pages: range | Ints) -> None:
        """Read and verify pages. Raises DamagedPage."""
        asked = np.zeros(len(self._verified), np.bool_)
        asked[list(pages) if isinstance(pages, range) else pages] = True
        wanted = np.flatnonzero(asked & ~self._verified)
        if not len(wanted):
            return
        gaps = np.flatnonzero(np.diff(wanted) > _TOGETHER) + 1
        for run in np.split(wanted, gaps):
            self._source.fetch(int(run[0]) * PAGE, min((int(run[-1]) + 1) * PAGE, self.size))
        for page in wanted.tolist():
            found = checksum.digest(self._source.view(page * PAGE, min((page + 1) * PAGE, self.size)))  # type: ignore[arg-type]
            if found != self._digests[page]:
                raise DamagedPage(f"page {page + 1} has another checksum")
        self._verified[wanted] = True


class PageSource(Protocol):
    """The bytes of a file."""

    @property
    def memory(self) -> int:
        """Bytes of memory that only this object uses."""

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes of a range; fewer if the file ends before."""

    def fetch(self, start: int, end: int) -> None:
        """Get the bytes of a range, for ``view``."""

    def view(self, start: int, end: int) -> Bytes:
        """Return the bytes of a range that was fetched."""


class InMemory:
    """The bytes of a file that are in memory."""

    def __init__(self, content: Any) -> None:
        """content: anything with a buffer."""
        self._content = np.frombuffer(content, np.uint8)
        self.memory = len(self._content)

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes of a range."""
        return self._content[start:end].tobytes()

    def fetch(self, start: int, end: int) -> None:
        """Do nothing."""

    def view(self, start: int, end: int) -> Bytes:
        """Return the bytes of a range; fewer if the file is shorter."""
        return self._content[start:end]


class Mapped(InMemory):
    """The bytes of a file that are mapped into memory: the system reads them, and takes their memory back."""

    def __init__(self, content: Any) -> None:
        """content: anything with a buffer."""
        super().__init__(content)
        self.memory = 0


class Remote:
    """The bytes of a file that are read by range requests. Memory is used for the ranges that were read."""

    def __init__(self, path: str, size: int) -> None:
        """Read nothing yet. size: bytes of the ranges that may be fetched."""
        self._path = path
        self._content = np.frombuffer(mmap.mmap(-1, max(size, 1)), np.uint8)
        self.memory = 0

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes of a range; fewer if the file ends before."""
        with storage_for(self._path).open(self._path, start) as stream:
            return _read(stream, end - start)

    def fetch(self, start: int, end: int) -> None:
        """Read the bytes of a range. Raises DamagedPage if the file ends before."""
        found = self.read(start, end)
        if len(found) != end - start:
            raise DamagedPage(f"it ends at byte {start + len(found)}")
        self._content[start:end] = np.frombuffer(found, np.uint8)
        self.memory += end - start

    def view(self, start: int, end: int) -> Bytes:
        """Return the bytes of a range that was fetched."""
        return self._content[start:end]


def open_paged(path: str, size: int, expected: str) -> PagedFile:
    """Open a paged file. size: bytes of the body. Raises DamagedPage, StorageError."""
    if size <= _WHOLE:
        return PagedFile(InMemory(read_file(path)), size, expected)
    content = storage_for(path).mapped(path)
    return PagedFile(Remote(path, size) if content is None else Mapped(content), size, expected)


def body_of(size: int) -> int:
    """Return the size of the body of a file, in bytes. size: of the whole file.

    >>> body_of(16), body_of(PAGE + 16), body_of(PAGE + 33)
    (0, 65536, 65537)
    """
    return size - _DIGEST * -(-size // (PAGE + _DIGEST))


def with_digests(body: Any) -> tuple[bytes, str]:
    """Return the digests that follow a body, and its checksum. body: anything with a buffer."""
    view = memoryview(body).cast("B")
    digests = [checksum.digest(view[start : start + PAGE]) for start in range(0, len(view), PAGE)]  # type: ignore[arg-type]
    digests = digests or [checksum.digest(b"")]
    return b"".join(digests), checksum.combine(digests, PAGE)


def _read(stream: BinaryIO, count: int) -> bytes:
    parts = []
    while count and (part := stream.read(count)):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
