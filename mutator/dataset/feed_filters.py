"""Filters of the keys of feed files, so that whoever looks for a key reads only the files that may have it.

A file for each run, named after it, below ``_mutator/feed_filters/`` of a base. Everything in it can be derived from
the feed again: without it, or if it is damaged, each feed file is read.

    words       of the filters, one after the other: 64-bit, little-endian (``rules.bloom_filter``)
    digests     of the pages of the words (``versions.paged_file``)
    JSON        the feed files, and the settings by which they were read
    16 bytes    sizes of the words and of the JSON, little-endian

A search reads the end of the file, and of each filter the page with the block of the key.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, BinaryIO

import numpy as np

from mutator.dataset import checksum, checksummed_json
from mutator.dataset.commits import FeedFile
from mutator.dataset.versions.paged_file import PAGE, DamagedPage, PagedFile, open_paged
from mutator.errors import MutatorError
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.bloom_filter import BLOCK, block_of, filter_of, may_contain
from mutator.rules.key_hash import Hashes
from mutator.storage import storage_for

_FORMAT, _VERSION = "mutator feed filters", 1
_KEYS = 64  # of a block: 2 bytes a key, and of a thousand absent keys one looks present
_SIZES = 16  # bytes
_END = 1 << 16  # bytes that are read at first


def words_of(hashes: Hashes) -> bytes:
    """Return the filter of key hashes as it is stored."""
    return filter_of(hashes, _KEYS).astype("<u8").tobytes()


@dataclass(frozen=True)
class FileFilter:
    """The filters of a feed file: one for each part of it."""

    name: str
    bytes: int
    checksum: str
    rejected: int  # rows that could not be read, whose keys are in no filter
    parts: Sequence[tuple[int, int]]  # offset and size of each filter, in bytes


class FilterWriter:
    """Writes the filters of a run to a stream, one part of a file after the other."""

    def __init__(self, stream: BinaryIO) -> None:
        """Write nothing yet."""
        self._stream = stream
        self._size = 0
        self._page = b""
        self._digests: list[bytes] = []

    def add(self, words: bytes) -> tuple[int, int]:
        """Write a filter; return its offset and its size."""
        start = self._size
        self._stream.write(words)
        self._size += len(words)
        content = self._page + words
        whole = len(content) // PAGE * PAGE
        self._digests += [checksum.digest(content[at : at + PAGE]) for at in range(0, whole, PAGE)]
        self._page = content[whole:]
        return start, len(words)

    def close(self, files: Sequence[FileFilter], settings: Mapping[str, Any]) -> None:
        """Write the end of the file. settings: by which the feed was read, by their published names."""
        if self._page or not self._digests:
            self._digests.append(checksum.digest(self._page))
        members = {
            "words": checksum.combine(self._digests, PAGE),
            "settings": dict(settings),
            "files": [asdict(one) for one in files],
        }
        document = checksummed_json.dump(_FORMAT, _VERSION, members)
        sizes = np.array([self._size, len(document)], "<u8").tobytes()
        self._stream.write(b"".join(self._digests) + document + sizes)


class FeedFilters:
    """The filters of the feed files of a run."""

    def __init__(self, path: str, files: Sequence[FileFilter], settings: Mapping[str, Any], words: PagedFile) -> None:
        """Describe the filters of a file; ``open_feed_filters`` opens one."""
        self.settings = settings
        self._path, self._words = path, words
        self._files = {(one.name, one.bytes, one.checksum): one for one in files}

    def exclude(self, file: FeedFile, hashes: Hashes) -> bool:
        """Return whether a feed file certainly has no row of a key. hashes: of the key, one element."""
        found = self._files.get((file.name, file.bytes, file.checksum))
        if found is None or found.rejected:
            return False
        try:
            return not any(self._may_contain(start, size, hashes) for start, size in found.parts)
        except (DamagedPage, MutatorError, ValueError):
            return False

    def _may_contain(self, start: int, size: int, hashes: Hashes) -> bool:
        at = start + 8 * int(block_of(size // 8, hashes)[0])
        block = np.frombuffer(self._words.read(at, at + BLOCK).tobytes(), "<u8").astype(np.uint64)
        return bool(may_contain(block, hashes)[0])


def open_feed_filters(path: str) -> FeedFilters | None:
    """Return the filters of a file; None if it is missing or damaged."""
    try:
        entry = storage_for(path).stat(path)
        if entry is None or entry.bytes < _SIZES:
            return None
        end = _read(path, max(entry.bytes - _END, 0))
        size, length = (int(one) for one in np.frombuffer(end[-_SIZES:], "<u8"))
        if length + _SIZES > len(end):
            end = _read(path, max(entry.bytes - length - _SIZES, 0))
        members = checksummed_json.parse(end[-length - _SIZES : -_SIZES], _FORMAT, _VERSION)
        files = [FileFilter(**{**one, "parts": [tuple(part) for part in one["parts"]]}) for one in members["files"]]
        return FeedFilters(path, files, members["settings"], open_paged(path, size, members["words"]))
    except (DamagedPage, MutatorError, ValueError, TypeError, KeyError, OverflowError):
        return None


def _read(path: str, start: int) -> bytes:
    parts: list[Any] = []
    with storage_for(path).open(path, start) as stream:
        while part := stream.read(_END):
            parts.append(part)
    return b"".join(parts)
