"""Checksums of files: XXH3-128, whole or by chunks.

``xxh3-128:<hex>`` is the digest of the file's bytes. ``xxh3-128/<N>:<hex>`` is the digest of the concatenated digests
of its chunks of N bytes, so that several tasks can compute it, each for its own byte range, like S3's composite
checksums. A file of at most one chunk has the first form.

>>> whole(b"abc") == combine([digest(b"abc")], 1024)
True
"""

from collections.abc import Iterable, Sequence

import xxhash

from mutator.storage import blocks as stored_blocks
from mutator.storage import storage_for

NAME = "xxh3-128"


def digest(data: bytes) -> bytes:
    """Return the 16-byte digest of bytes."""
    return xxhash.xxh3_128_digest(data)


def whole(data: bytes) -> str:
    """Return the checksum of a file's whole content."""
    return f"{NAME}:{digest(data).hex()}"


def combine(digests: Sequence[bytes], chunk: int) -> str:
    """Return a file's checksum, given the digests of its chunks in order. chunk: bytes of a chunk."""
    if len(digests) == 1:
        return f"{NAME}:{digests[0].hex()}"
    return f"{NAME}/{chunk}:{digest(b''.join(digests)).hex()}"


def chunk_of(checksum: str) -> int | None:
    """Return the chunk size of a checksum; None if it has no chunks. Raises ValueError if the text is not a checksum.

    >>> chunk_of("xxh3-128/1024:" + 32 * "0")
    1024
    """
    head, mark, tail = checksum.partition(":")
    name, slash, chunk = head.partition("/")
    if not mark or name != NAME or len(tail) != 32 or (slash and not chunk.isdecimal()):
        raise ValueError(f"'{checksum}' is not a checksum that this program knows")
    return int(chunk) if slash else None


class ChunkedChecksum:
    """The checksum of a stream of blocks, chunk by chunk."""

    def __init__(self, chunk: int) -> None:
        self.chunk = chunk
        self.bytes = 0
        self._state = xxhash.xxh3_128()
        self._digests: list[bytes] = []

    def update(self, block: bytes | memoryview) -> None:
        """Add the next bytes."""
        view = memoryview(block)
        while view:
            # A full chunk ends only when more bytes come, so that there is no empty chunk at the end.
            if self.bytes and self.bytes % self.chunk == 0:
                self._digests.append(self._state.digest())
                self._state = xxhash.xxh3_128()
            part = view[: self.chunk - self.bytes % self.chunk]
            self._state.update(part)
            self.bytes += len(part)
            view = view[len(part) :]

    def digests(self) -> list[bytes]:
        """Return the digests of all chunks so far; without input, that of one empty chunk."""
        return [*self._digests, self._state.digest()]

    def text(self) -> str:
        """Return the checksum of everything so far."""
        return combine(self.digests(), self.chunk)


def of_blocks(blocks: Iterable[bytes], chunk: int | None) -> str:
    """Return the checksum of a stream. chunk: chunk size of the checksum to compare with (``chunk_of``)."""
    state = ChunkedChecksum(chunk or 1 << 62)
    for block in blocks:
        state.update(block)
    return state.text()


def of_file(path: str, chunk: int | None) -> str:
    """Read a file and return its checksum. chunk: as for ``of_blocks``. Raises StorageError."""
    with storage_for(path).open(path) as stream:
        return of_blocks(stored_blocks(stream), chunk)


def difference(path: str, expected: str) -> str | None:
    """Return how the checksum of a file differs from the expected one, None if it does not. Raises StorageError."""
    found = of_file(path, chunk_of(expected))
    return None if found == expected else f"its checksum is {found} and should be {expected}"
