"""Streams that are read block by block, and the common part of the remote backends' streams."""

import io
import os
from collections.abc import Iterator
from typing import Any, BinaryIO

from mutator.errors import error
from mutator.storage.progress import count

BLOCK = 1 << 20  # bytes; bounds how much of a file a task has in memory


def blocks(stream: BinaryIO, most: int | None = None, first: int | None = None) -> Iterator[bytes]:
    """Yield a stream's bytes in blocks, ``most`` bytes in total. Raises StorageError.

    first: most bytes of the first block; None for as many as of the others.
    """
    left, size = most, BLOCK if first is None else first
    while left is None or left > 0:
        try:
            block = stream.read(size if left is None else min(size, left))
        except OSError as fault:
            raise error("storage", path=getattr(stream, "name", "a file"), why=fault.strerror or fault) from None
        if not block:
            return
        if left is not None:
            left -= len(block)
        count(len(block))
        yield block
        size = BLOCK


class ReadStream(io.RawIOBase):
    """A stream for reading; a subclass defines ``read``."""

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes into a buffer, as many as one ``read`` returns."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view)) or b""
        view[: len(data)] = data
        return len(data)


def spill_directory() -> str | None:
    """Return the first existing directory of SPARK_LOCAL_DIRS; None if none exists."""
    directories = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return next((path for path in directories if path and os.path.isdir(path)), None)
