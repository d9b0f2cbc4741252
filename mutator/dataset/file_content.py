"""Read the content of one file: uncompressed, and checksummed as it is stored."""

import io
import posixpath
import tempfile
from collections.abc import Iterable, Iterator
from typing import BinaryIO, cast

from mutator.dataset.checksum import ChunkedChecksum, chunk_of
from mutator.errors import error
from mutator.formats.content import Window
from mutator.rules.encodings import UTF8, transcoded
from mutator.storage import blocks, storage_for
from mutator.storage.compression import decompress
from mutator.storage.stream import spill_directory

WHOLE = 1 << 62  # chunk size of a checksum that has one chunk
_IN_MEMORY = 64 << 20  # bytes of content kept in memory
_BUFFER = 1 << 20


class FileContent:
    """The content of a file, or of a byte range of it; implements ``formats.content.Content``."""

    def __init__(
        self,
        path: str,
        size: int,
        window: Window | None = None,
        *,
        compression: str | None = None,
        chunk: int | None = None,
        checksum: str | None = None,
    ) -> None:
        """Describe the file; nothing is read yet.

        size: bytes of the stored file when it was listed. window: a window with an end covers stored bytes, so the file
        must be UTF-8 and not compressed. chunk: checksum the stored bytes of the window in chunks of this size, for
        ``result``. checksum: of the whole file; reading raises StateError if the file has another one.
        """
        self.path, self.window = path, window or Window()
        self._size, self._compression, self._expected = size, compression, checksum
        if checksum is not None:
            chunk = chunk_of(checksum) or WHOLE
        self._checksum = None if chunk is None else ChunkedChecksum(chunk)
        self._grown = False

    def blocks(self) -> Iterator[bytes]:
        """Yield uncompressed bytes, as UTF-8, from one before the window on, until the caller stops or the file ends.

        Bytes after the window are not checksummed: they are the rest of the window's last line.
        """
        start, end = self.window.start, self.window.end
        with storage_for(self.path).open(self.path, max(start - 1, 0)) as stream:
            if end is None:
                raw = self._counted(blocks(stream), self._size)
                content = decompress(raw, self._compression) if self._compression else raw
                yield from content if self.window.encoding == UTF8 else transcoded(content, self.window.encoding)
                if self._expected is not None:
                    self.result()
                return
            if start > 0:
                yield stream.read(1)
            left, is_last = end - start, end == self._size
            if is_last and not left:
                self._grown = bool(stream.read(1))
            for block in self._counted(blocks(stream, left), left):
                left -= len(block)
                if is_last and not left:
                    self._grown = bool(stream.read(1))  # before the yield: the caller may ask for no more
                yield block
            if not is_last:
                yield from blocks(stream)

    def file(self) -> BinaryIO:
        """Open all of the uncompressed content as a seekable stream.

        If a checksum is wanted, the stored bytes of the window are read first. A small remote file is then kept in
        memory rather than read twice.
        """
        if self._compression or self.window.encoding != UTF8:
            return spooled(self.blocks())
        storage = storage_for(self.path)
        if self._checksum is not None:
            is_whole = self.window.start == 0 and self.window.end in (None, self._size)
            if is_whole and not storage.holds and self._size <= _IN_MEMORY:
                content = io.BytesIO(b"".join(self.blocks()))
                self.result()
                return content
            self._count_window()
            self.result()
        return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, storage.open(self.path)), _BUFFER))

    def result(self) -> tuple[int, list[bytes]]:
        """Return the size of the window in stored bytes and the digests of its chunks, once all of it was read.

        Raises DataError if the file's size changed after it was listed, StateError if it has another checksum.
        """
        assert self._checksum is not None
        start, end = self.window.start, self.window.end
        expected = self._size if end is None else end - start
        size = self._checksum.bytes
        if size != expected or self._grown:
            raise error("changed", path=self.path, before=expected, after="more" if size == expected else size)
        if self._expected not in (None, self._checksum.text()):
            name = posixpath.basename(self.path)
            why = f"the checksum of {name} is {self._checksum.text()} and should be {self._expected}"
            raise error("manifest.damage", path=self.path, why=why)
        return size, self._checksum.digests()

    def checksum(self) -> str:
        """Return the checksum of the window, once all of it was read; raises as ``result`` does."""
        self.result()
        assert self._checksum is not None
        return self._checksum.text()

    def _count_window(self) -> None:
        start, end = self.window.start, self._size if self.window.end is None else self.window.end
        with storage_for(self.path).open(self.path, start) as stream:
            for _ in self._counted(blocks(stream, end - start), end - start):
                pass
            self._grown = self._grown or (end == self._size and bool(stream.read(1)))

    def _counted(self, found: Iterable[bytes], limit: int) -> Iterator[bytes]:
        """Yield blocks of stored bytes unchanged, and note if they are more than the window has."""
        for block in found:
            if self._checksum is not None:
                self._checksum.update(block)
                self._grown = self._grown or self._checksum.bytes > limit
            yield block


def spooled(content: Iterable[bytes]) -> BinaryIO:
    """Return a seekable file with these bytes: in memory, or on disk if they are many."""
    file = tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=spill_directory())  # noqa: SIM115  # closed by the caller
    for block in content:
        file.write(block)
    file.seek(0)
    return cast(BinaryIO, file)
