"""The first bytes of delimited files, which the probe reads anyway, for the check of plausible mistakes."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import BinaryIO

from mutator.errors import StorageError
from mutator.formats.files.registry import FILE_FORMATS
from mutator.plan.inspect.source import Source
from mutator.storage import Storage

HEAD = 16 << 10  # bytes of a file
FILES = 256  # of a side


class RecordedStream:
    """A stream for reading that keeps the first bytes read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.head = b""

    def read(self, size: int = -1) -> bytes:
        """Read the next bytes, as many as the stream returns."""
        data = self._stream.read(size)
        if len(self.head) < HEAD:
            self.head += data[: HEAD - len(self.head)]
        return data


def with_few_heads(sources: Iterable[Source]) -> Iterator[Source]:
    """Yield files; only the first ones keep their first bytes, so that a side with many files needs little memory."""
    for number, source in enumerate(sources):
        yield source if number < FILES else replace(source, head=b"")


def with_first_head(storage: Storage, sources: Sequence[Source]) -> tuple[Source, ...]:
    """Return the files of a managed master; the first delimited one that has rows gets its first bytes.

    Only files on a disk are read, because a run would otherwise not open each of them.
    """
    found = list(sources)
    for number, source in enumerate(found):
        if storage.holds and source.bytes and not FILE_FORMATS[source.file_format].typed:
            with suppress(StorageError), storage.open(source.path) as stream:  # the file may be taken over unread
                found[number] = replace(source, head=stream.read(HEAD))
            break
    return tuple(found)
