"""The first lines of delimited files, which the probe reads anyway, for the check of plausible mistakes."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import BinaryIO

from mutator.errors import StorageError
from mutator.formats.files import lines
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.plan.inspect.source import Source
from mutator.storage import Storage, blocks

HEAD = 16 << 10  # bytes of a file
FILES = 256  # of a side


def first_bytes(blocks: Iterable[bytes]) -> bytes:
    """Return the first bytes of a file, one more than a head has if the file is longer.

    blocks: the file's content, uncompressed, in blocks of any size; no more of them are read than needed.
    """
    data = b""
    for block in blocks:
        data += block[: HEAD + 1 - len(data)]
        if len(data) > HEAD:
            break
    return data


def head_of(data: bytes, ending: str) -> bytes:
    """Return the head of a file: all of a short file, else the whole lines in its first bytes.

    data: see ``first_bytes``. ending: LF, CR or EXACT_LF, as in ``lines``.

    >>> head_of(b"a,1\\nb,2", lines.LF)
    b'a,1\\nb,2'
    """
    if len(data) <= HEAD:
        return data
    return data[: data.rfind(b"\r" if ending == lines.CR else b"\n") + 1]


class RecordedStream:
    """A stream for reading that keeps the first bytes read from it. ending: of its lines; those read have LF."""

    def __init__(self, stream: BinaryIO, ending: str) -> None:
        self._stream, self._ending = stream, ending
        self._read = b""

    def read(self, size: int = -1) -> bytes:
        """Read the next bytes, as many as the stream returns."""
        data = self._stream.read(size)
        self._read += data[: max(HEAD + 1 - len(self._read), 0)]
        return data.replace(b"\r", b"\n") if self._ending == lines.CR else data

    def head(self) -> bytes:
        """Return the head of the file, see ``head_of``; reads more if the reader needed less."""
        return head_of(first_bytes(chain([self._read], blocks(self._stream))), self._ending)


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
                found[number] = replace(source, head=head_of(first_bytes(blocks(stream)), source.ending))
            break
    return tuple(found)
