"""A file's content, read for the bridge: whole or in part, and checked where its checksum is known."""

from __future__ import annotations

import io
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, cast

from mutator.dataset.checksum import ChunkedChecksum, chunk_of
from mutator.errors import error
from mutator.formats.content import Window
from mutator.storage import blocks, storage_for

__all__ = ["FileContent"]

_BUFFER = 1 << 20


@dataclass(frozen=True)
class FileContent:
    """Content of a file; the contract is ``formats.block.Content``."""

    path: str
    size: int
    window: Window = field(default_factory=Window)
    checksum: str | None = None

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes from one before the window on; raises StateError at the end of a file that is another."""
        start = max(self.window.start - 1, 0)
        state = None if self.checksum is None or start else ChunkedChecksum(chunk_of(self.checksum) or 1 << 62)
        seen = start
        with storage_for(self.path).open(self.path, start) as stream:
            for block in blocks(stream):
                if state is not None:
                    state.update(block)
                seen += len(block)
                yield block
        if seen != self.size:
            raise error("changed", path=self.path, before=self.size, after=seen)
        if state is not None and state.text() != self.checksum:
            raise error(
                "manifest.damage",
                path=self.path,
                why=f"the checksum of {posixpath.basename(self.path)} is {state.text()} and should be {self.checksum}",
            )

    def file(self) -> BinaryIO:
        """Open the file, to be read at any place; one whose checksum is known is read through before."""
        if self.checksum is not None:
            for _ in self.blocks():
                pass
        stream = storage_for(self.path).open(self.path)
        return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, stream), _BUFFER))
