"""A file below the staging directory: counted and checksummed while it is written."""

from __future__ import annotations

from typing import Any, BinaryIO

from mutator.dataset.checksum import ChunkedChecksum
from mutator.storage import storage_for

__all__ = ["WORK", "Counted", "place_of"]

WORK = "work"  # where tasks write if files can be moved; it is gone before anything becomes visible


def place_of(staging: str) -> str:
    """Return the directory whose content becomes the output, given the one that tasks write to."""
    return staging.removesuffix(f"/{WORK}") if storage_for(staging).renames else staging


class Counted:
    """A stream that counts and checksums what is written to it."""

    closed = False

    def __init__(self, stream: BinaryIO, path: str, chunk: int) -> None:
        self._stream = stream
        self.path = path
        self.checksum = ChunkedChecksum(chunk)
        self.bytes = 0

    def write(self, data: bytes | memoryview) -> int:
        """Take the next bytes."""
        self._stream.write(data)
        self.checksum.update(data)
        self.bytes += len(data)
        return len(data)

    def receipt(self) -> dict[str, Any]:
        """Return what the manifest says of every file."""
        return {"path": self.path, "bytes": self.bytes, "checksum": self.checksum.text()}

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self.bytes

    def flush(self) -> None:
        """Do what a stream does."""
        self._stream.flush()

    def writable(self) -> bool:
        """Tell that it can be written to."""
        return True

    def readable(self) -> bool:
        """Tell that it cannot be read."""
        return False

    def seekable(self) -> bool:
        """Tell that it has no places."""
        return False

    def close(self) -> None:
        """Note that no more will come; the storage closes the stream."""
        self.closed = True
