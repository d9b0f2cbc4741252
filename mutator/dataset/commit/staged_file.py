"""A file below the staging directory: counted and checksummed while it is written."""

import io
from typing import Any, BinaryIO

from mutator.dataset.checksum import ChunkedChecksum
from mutator.dataset.file_entry import DATA, FileEntry
from mutator.storage import storage_for

WORK = "work"  # where tasks write if files can be moved; removed before anything becomes visible


def output_directory(staging: str) -> str:
    """Return the directory whose content becomes the output, given the one that tasks write to."""
    return staging.removesuffix(f"/{WORK}") if storage_for(staging).renames else staging


class StagedFile(io.RawIOBase):
    """A writable stream that counts and checksums its bytes, and describes the file for a manifest or a log.

    The storage flushes and closes the underlying stream.
    """

    def __init__(self, stream: BinaryIO, path: str, chunk: int) -> None:
        """Write to a stream. path: relative to the staging directory. chunk: bytes of a checksum chunk."""
        super().__init__()
        self._stream = stream
        self.path = path
        self.checksum = ChunkedChecksum(chunk)
        self.bytes = 0

    def write(self, data: Any) -> int:
        """Write bytes; return their number."""
        self._stream.write(data)
        self.checksum.update(data)
        self.bytes += len(data)
        return len(data)

    def entry(self, rows: int, role: str = DATA, **members: Any) -> FileEntry:
        """Return the entry of this file. members: others that it has."""
        text = self.checksum.text()
        return FileEntry(path=self.path, role=role, rows=rows, bytes=self.bytes, checksum=text, **members)

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self.bytes

    def writable(self) -> bool:
        """Return True: the stream can be written to."""
        return True
