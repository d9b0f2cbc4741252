"""Streams of HDFS files: a writer that syncs block by block, and a reader that asks for ranges."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from mutator.storage.hdfs_client import FAULTS, os_errors, translated
from mutator.storage.stream import ReadStream

if TYPE_CHECKING:
    from hdfs_native import Client, FileReader, FileWriter
    from typing_extensions import Buffer

# Bytes that a reader asks for at once: few after a seek, then twice as many each time. Only the part of a range that
# is read, and a little more, is in memory.
_FIRST_RANGE, _LAST_RANGE = 1 << 20, 64 << 20


class HdfsWriter(io.RawIOBase):
    """A file being written. Each block is synced before the client goes on to the next one."""

    def __init__(self, path: str, inner: FileWriter, block: int) -> None:
        self.path = path  # within its file system
        self._inner = inner
        self._abandoned = False
        self._block = block
        self._left = block

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Buffer, /) -> int:
        """Write all of the data."""
        view = memoryview(data).cast("B")
        at = 0
        if self._abandoned:
            return len(view)
        while at < len(view):
            if self._block and not self._left:
                self.hsync()
                self._left = self._block
            part = view[at : at + self._left] if self._block else view[at:]
            with os_errors():
                self._inner.write(bytes(part))  # for a memoryview the client makes a call for each byte
            at += len(part)
            self._left -= len(part)
        return at

    def hsync(self) -> None:
        """Have the DataNodes sync the current block."""
        # Erasure-coded files cannot be synced; Java's client does not sync them either.
        with os_errors(), suppress(NotImplementedError):
            self._inner.hsync()

    def finish(self) -> None:
        """Make the file durable, and close it at the NameNode."""
        self.hsync()
        with os_errors():
            self._inner.close()

    def abandon(self) -> None:
        """Close a file that was removed, and ignore later writes from a buffer."""
        self._abandoned = True
        with suppress(*FAULTS):  # the file does not exist any more
            self._inner.close()


class Reader(ReadStream):
    """A file being read in ranges; the beginning of a range can be used while the rest arrives."""

    def __init__(self, name: str, inner: FileReader) -> None:
        self.name = name
        self._inner = inner
        self._length = len(inner)
        self._position = 0
        self._rest = memoryview(b"")  # bytes after the position that have arrived
        self._coming: Iterator[bytes] = iter(())  # the blocks after those
        self._asked = 0  # position up to which bytes were asked for
        self._range = _FIRST_RANGE

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to a position, which may be past the end."""
        to = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._length}[whence]
        if to < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self.name)
        if self._position <= to <= self._position + len(self._rest):
            self._rest = self._rest[to - self._position :]
        else:
            self._rest, self._coming, self._asked, self._range = memoryview(b""), iter(()), to, _FIRST_RANGE
        self._position = to
        return to

    def readinto(self, buffer: Buffer, /) -> int:
        """Fill the buffer; fewer bytes are read only at the end of the file."""
        view = memoryview(buffer).cast("B")
        done = 0
        while done < len(view) and self._more():
            part = self._rest[: len(view) - done]
            view[done : done + len(part)] = part
            self._rest = self._rest[len(part) :]
            self._position += len(part)
            done += len(part)
        return done

    def readall(self) -> bytes:
        """Read the rest of the file."""
        return self.read(max(0, self._length - self._position)) or b""

    def _more(self) -> bool:
        """Wait until bytes have arrived; return False at the end of the file."""
        while not self._rest:
            if self._position >= self._length:
                return False
            with os_errors():
                if self._position >= self._asked:
                    size = min(self._range, self._length - self._position)
                    self._coming = self._inner.read_range_stream(self._position, size)
                    self._asked = self._position + size
                    self._range = min(2 * self._range, _LAST_RANGE)
                block = next(self._coming, None)
            if block is None:
                raise OSError(errno.EIO, f"HDFS gives no more at byte {self._position} of {self._length}")
            self._rest = memoryview(block)
        return True


def create(client: Client, path: str, scratch: str) -> HdfsWriter:
    """Begin a file that must not exist, in a directory that must exist."""
    from hdfs_native import WriteOptions  # an extra

    with translated(path):
        writer = client.create(scratch, WriteOptions(overwrite=False, create_parent=False))
        return HdfsWriter(scratch, writer, client.get_file_info(scratch).blocksize or 0)
