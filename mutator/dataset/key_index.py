"""The key index of a data file or tombstone file of a table: which of its rows has a key.

A file has one or more *extents*, runs of rows of one partition and bucket. Within each extent the entries are sorted by
key hash; the entries of an extent are as many as its rows, and lie at the same numbers. The body is three columns, four
where order comes from file names, one after the other:

    key hashes  uint64, position in the file  uint32, row hash  uint32, sequence  int64

all little-endian, and 16 or 24 bytes a row. The pages have checksums (``paged_file``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mutator.dataset.paged_file import PAGE, InMemory, PagedFile, open_paged, with_digests
from mutator.rules.byte_columns import Bytes, Ints
from mutator.rules.key_hash import Hashes
from mutator.rules.row_hash import RowHashes

_COLUMNS = (np.dtype("<u8"), np.dtype("<u4"), np.dtype("<u4"), np.dtype("<i8"))
_HASHES, _POSITIONS, _ROW_HASHES, _SEQUENCES = range(4)
_SPARSE = 4  # a search reads single pages where an extent has more than this many for each wanted key


def index_bytes(
    hashes: Hashes, row_hashes: RowHashes, extents: Ints, sequences: Ints | None = None
) -> tuple[bytes, str]:
    """Return the content of the key index of a file, and its checksum.

    hashes, row_hashes, sequences: one per row, in the order of the rows. extents: int64 array, the number of rows of
    each extent.
    """
    extent = np.repeat(np.arange(len(extents)), extents)
    order = np.lexsort((hashes, extent)) if len(extents) > 1 else np.argsort(hashes, kind="stable")
    columns: list[Any] = [hashes[order], order, row_hashes[order]]
    columns += [] if sequences is None else [sequences[order]]
    body = b"".join(column.astype(form).tobytes() for column, form in zip(columns, _COLUMNS, strict=False))
    digests, checksum = with_digests(body)
    return body + digests, checksum


def body_bytes(rows: int, *, sequences: bool) -> int:
    """Return the size of the body of the index of a file, in bytes."""
    return rows * sum(form.itemsize for form in (_COLUMNS if sequences else _COLUMNS[:_SEQUENCES]))


class KeyIndex:
    """The key index of one file."""

    def __init__(self, file: PagedFile, rows: int) -> None:
        self._file, self.rows = file, rows

    @classmethod
    def open(cls, path: str, rows: int, checksum: str, *, sequences: bool, content: bytes | None = None) -> KeyIndex:
        """Open an index. content: its bytes, if they are known. Raises DamagedPage, StorageError."""
        size = body_bytes(rows, sequences=sequences)
        if content is not None:
            return cls(PagedFile(InMemory(content), size, checksum), rows)
        return cls(open_paged(path, size, checksum), rows)

    def find(self, wanted: Hashes, start: int, end: int) -> tuple[Ints, Ints]:
        """Return (numbers of wanted hashes, numbers of entries) of all entries of an extent that have a wanted hash.

        wanted: ascending. start, end: the extent. A hash may have several entries, because keys may share one.
        """
        if start == end or not len(wanted):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        known, numbers = self._near(wanted, start, end)
        first = np.searchsorted(known, wanted, "left")
        counts = np.searchsorted(known, wanted, "right") - first
        found = np.flatnonzero(counts)
        counts = counts[found]
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(found, counts), numbers(np.repeat(first[found], counts) + within)

    def _near(self, wanted: Hashes, start: int, end: int) -> tuple[Hashes, Callable[[Ints], Ints]]:
        """Return the hashes of all entries, or of those pages that may have wanted ones, and how to number them."""
        each = PAGE // 8
        firsts = np.arange(start // each + 1, (end - 1) // each + 1)  # pages that begin within the extent
        if len(firsts) <= _SPARSE * len(wanted):
            return self._column(_HASHES, start, end), lambda found: found + start
        pages = self._pages_of(wanted, start, end)
        bounds = [(max(page * each, start), min((page + 1) * each, end)) for page in pages.tolist()]
        self._file.load(pages)
        known = np.concatenate([self._column(_HASHES, *bound) for bound in bounds])
        lengths = np.array([last - first for first, last in bounds])
        shift = np.array([first for first, _ in bounds]) - (np.cumsum(lengths) - lengths)
        begins = np.cumsum(lengths)
        return known, lambda found: found + shift[np.searchsorted(begins, found, "right")]

    def _pages_of(self, wanted: Hashes, start: int, end: int) -> Ints:
        """Return the pages that may have wanted hashes, found by a binary search of all of them at once."""
        each = PAGE // 8
        low = np.full(len(wanted), start // each)
        high = np.full(len(wanted), (end - 1) // each)
        last_page = (end - 1) // each
        # The first page whose last hash is not below the wanted one.
        while (open_ := low < high).any():
            middle = (low + high) // 2
            below = np.zeros(len(wanted), np.bool_)
            pages = np.unique(middle[open_])
            self._file.load(pages)
            ends = (min((page + 1) * each, end) for page in pages.tolist())
            lasts = np.concatenate([self._column(_HASHES, number - 1, number) for number in ends])
            below[open_] = lasts[np.searchsorted(pages, middle[open_])] < wanted[open_]
            low = np.where(open_ & below, middle + 1, low)
            high = np.where(open_ & ~below, middle, high)
        # A hash that several keys share may go on in the next page.
        return np.unique(np.concatenate((low, np.minimum(low + 1, last_page))))

    def hashes(self, start: int = 0, end: int | None = None) -> Hashes:
        """Return the key hashes of the entries of an extent."""
        found: Hashes = self._column(_HASHES, start, self.rows if end is None else end)
        return found

    def positions(self, entries: Ints) -> Ints:
        """Return the positions, in the file, of the rows of some entries."""
        found: Ints = self._take(_POSITIONS, entries).astype(np.int64)
        return found

    def row_hashes(self, entries: Ints) -> RowHashes:
        """Return the row hashes of some entries."""
        found: RowHashes = self._take(_ROW_HASHES, entries)
        return found

    def sequences(self, entries: Ints) -> Ints:
        """Return the sequences of the rows of some entries."""
        found: Ints = self._take(_SEQUENCES, entries)
        return found

    def verify(self) -> None:
        """Read every page. Raises DamagedPage."""
        self._file.read(0, self._file.size)

    def _begin(self, column: int) -> int:
        return self.rows * sum(form.itemsize for form in _COLUMNS[:column])

    def _column(self, column: int, start: int, end: int) -> Any:
        begin, form = self._begin(column), _COLUMNS[column]
        found: Bytes = self._file.read(begin + start * form.itemsize, begin + end * form.itemsize)
        return found.view(form)

    def _take(self, column: int, entries: Ints) -> Any:
        if not len(entries):
            return np.zeros(0, _COLUMNS[column])
        begin, width = self._begin(column), _COLUMNS[column].itemsize
        self._file.load(np.concatenate((begin + entries * width, begin + entries * width + width - 1)) // PAGE)
        whole = self._file.view(begin, begin + self.rows * width).view(_COLUMNS[column])
        return whole[entries]
