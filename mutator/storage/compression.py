"""Compressed feed files: recognised by their magic bytes, and uncompressed block by block.

A file may contain several compressed streams, one after the other. Every row must be accounted for, so a stream that
ends early is an error, and so are bytes after the last stream, which some readers ignore.
"""

import bz2
import codecs
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from mutator.rules.known_formats import BY_TITLE, FORMATS

_BLOCK = 1 << 20

_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"PK\x03\x04", "a zip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"\xff\x06\x00\x00sNaPpY", "snappy"),
    *((known.magic, known.title) for known in FORMATS.values() if known.magic),
)

_COMPRESSORS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.compressobj(wbits=31),  # writes no name and no time: equal content gives equal bytes
    "bzip2": bz2.BZ2Compressor,
    "xz": lzma.LZMACompressor,
    "zstd": zstd.ZstdCompressor,
}

# Containers have such bytes after their magic bytes; text has none.
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class CorruptStream(ValueError):
    """A compressed file that cannot be read to its end; the message says why."""


_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(wbits=31),
    "bzip2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(format=lzma.FORMAT_XZ),  # a bare .lzma stream has no checksum
    "zstd": zstd.ZstdDecompressor,
}


def compressor(name: str) -> Any:
    """Return an object that compresses: ``compress`` takes the next bytes, ``flush`` ends the stream.

    name: gzip, bzip2, zstd or xz.

    >>> b"".join(decompress([compressor("xz").flush()], "xz"))
    b''
    """
    return _COMPRESSORS[name]()


def sniff(head: bytes) -> str | None:
    """Return the compression or container that a file's first bytes announce; None if they may be text.

    >>> sniff(b"BZh91AY"), sniff(b"BZh,1,2")
    ('bzip2', None)
    """
    for magic, name in _MAGIC:
        if head.startswith(magic):
            # "BZh" and "ORC" may begin a row of text. bzip2 continues with a digit and pi, ORC with control bytes.
            if name == "bzip2" and not (head[3:4].isdigit() and head[4:7] in (b"1AY", b"\x17rE")):
                continue
            if name in BY_TITLE and _is_text(head):
                continue
            return name
    return None


def _is_text(head: bytes) -> bool:
    """Return whether the first bytes of a file are UTF-8 without control characters."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return _CONTROL.search(head) is None


def decompress(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Yield the uncompressed content of a stream of blocks.

    name: gzip, bzip2, zstd or xz. Raises CorruptStream.
    """
    decoder = None
    try:
        for block in blocks:
            while block:
                if decoder is None:
                    decoder = _DECOMPRESSORS[name]()
                yield from _drain(decoder, block)
                if not decoder.eof:
                    break
                block = decoder.unused_data  # the next stream of the file, or bytes that do not belong there
                decoder = None
    except (zlib.error, lzma.LZMAError, zstd.ZstdError, OSError, EOFError, ValueError) as fault:
        raise CorruptStream(f"its {name} content cannot be read: {fault}") from None
    if decoder is not None:
        raise CorruptStream(f"its {name} content ends early")


def _drain(decoder: Any, data: bytes) -> Iterator[bytes]:
    """Yield the content of compressed bytes in blocks of bounded size, because it may be very large."""
    while True:
        content = decoder.decompress(data, _BLOCK)
        if content:  # readers would take an empty block for a line
            yield content
        if decoder.eof:
            return
        if hasattr(decoder, "unconsumed_tail"):  # zlib returns the input that it did not use
            data = decoder.unconsumed_tail
            if not data and len(content) < _BLOCK:
                return
        elif decoder.needs_input:
            return
        else:
            data = b""
