"""The bytes that a format reads: a part of one file, uncompressed; and how it says that they cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, BinaryIO, NamedTuple, Protocol

__all__ = [
    "Content",
    "InMemory",
    "NotReadable",
    "Reject",
    "Unfit",
    "Window",
    "Writer",
]


class NotReadable(ValueError):
    """Content that is not of the format, or a known row that is none any more: the text says why."""


class Unfit(NotReadable):
    """A known row that cannot be what this run wants it to be: the file is right, and the text says why not."""


@dataclass(frozen=True)
class Window:
    """Which part of a file to read: the rows that begin in [start, end). The rest is of text alone."""

    ending: str = ""
    start: int = 0
    end: int | None = None  # None: to the end of the content
    bom: bool = False
    header_end: int = 0


class Content(Protocol):
    """A file's content, uncompressed, and which part of it is read."""

    @property
    def window(self) -> Window:
        """The part."""

    def blocks(self) -> Iterator[bytes]:
        """Yield bytes from one before the window on, if there is one, as far as they are asked for."""

    def file(self) -> BinaryIO:
        """Open all of the content, to be read at any place."""


class Reject(NamedTuple):
    """A row that cannot be read as a record."""

    offset: int
    line: int  # within the split, from 1
    reason: str
    row: bytes


class Writer(Protocol):
    """Writes the rows of one file."""

    def write(self, rows: Any) -> None:
        """Take the next rows."""

    def close(self) -> None:
        """Write what is left."""

    @property
    def rows(self) -> int:
        """How many rows were written, counted in what was written."""

    @property
    def rows_by_chunk(self) -> Sequence[int]:
        """How many rows begin in each checksum chunk of the file."""


@dataclass(frozen=True)
class InMemory:
    """Content that is held in memory."""

    data: bytes
    window: Window = Window()

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes from one before the window on."""
        yield self.data[max(self.window.start - 1, 0) :]

    def file(self) -> BinaryIO:
        """Open it."""
        return BytesIO(self.data)
