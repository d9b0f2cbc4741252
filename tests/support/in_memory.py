"""Content of a file in memory."""

from collections.abc import Iterator
from dataclasses import field
from io import BytesIO
from typing import BinaryIO

from mutator.errors.quick_dataclass import dataclass
from mutator.formats.content import Window


@dataclass(frozen=True)
class InMemory:
    """Content in memory.

    >>> b"".join(InMemory(b"a\\nb\\n", Window("lf", start=2)).blocks())
    b'\\nb\\n'
    """

    data: bytes
    window: Window = field(default_factory=Window)

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes from one before the window."""
        yield self.data[max(self.window.start - 1, 0) :]

    def file(self) -> BinaryIO:
        """Open the content."""
        return BytesIO(self.data)
