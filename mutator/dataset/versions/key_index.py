"""The key index of a data file or tombstone file of a table: which of its rows has a key.

A file has one or more *extents*, runs of rows of one partition and bucket. Within each extent the entries are sorted by
key hash; the entries of an extent are as many as its rows, and lie at the same numbers. The body is these columns, one
after the other, with one value per row:

    key hash   uint64
    position   uint32    of the row in the file
    row hash   uint32
    key end    uint32    of the key in the next column
    key        bytes     as ``encoded_keys`` returns them
    order      0, 1, 2, 4 or 8 bytes, unsigned: the order value, less the lowest one of the file

    lowest     int64     order value, after all columns
    type       uint8     order type
    width      uint8     bytes of an order value
    magic      6 bytes   "orders"

Where an order value of the file is not a 64-bit number, width is 255, lowest is the size of all order values, and they
are two columns:

    order end  uint32    of the order value in the next column
    order      bytes     as ``order_columns`` has them

Numbers are little-endian. The pages have checksums (``paged_file``), so a search reads and verifies few bytes. Two keys
may have one hash: the key itself decides.

To look up many hashes: where an index has few of them, a table of their first bits excludes nearly all of its entries.
The table has at most 4 MB, and the index is read in order, so this takes a quarter of the time of a binary search for
each hash.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.versions.paged_file import (
    PAGE,
    DamagedPage,
    InMemory,
    PagedFile,
    body_of,
    open_paged,
    with_digests,
)
from mutator.rules.byte_columns import ByteColumn, Bytes, Flags, Ints, chosen, concatenated, joined, offsets_of, packed
from mutator.rules.key_hash import Hashes
from mutator.rules.order_columns import compact, expanded, flags
from mutator.rules.order_values import basic_type
from mutator.rules.row_hash import RowHashes
from mutator.rules.sort_order import hash_order, then_by

_AT_ONCE = 64  # places in the table for each wanted hash, at least: fewer than 1 of 64 other hashes pass
_FEW, _MOST = 1 << 11, 1 << 15  # wanted hashes for which the table saves more time than it takes
_TIMES = 4  # with more entries for each wanted hash, a binary search is faster
MOST_BYTES = (1 << 32) - 1  # of the keys, or the order values, of one file
_HASH, _POSITION, _ROW_HASH, _KEY_END = range(4)
_COLUMNS = tuple(map(np.dtype, ("<u8", "<u4", "<u4", "<u4")))
_TAIL, _MAGIC = struct.Struct("<qBB6s"), b"orders"
_ORDER_TYPES = (None, "sequence", "long", "timestamp", "decimal", "string")
_WIDTHS = (0, 1, 2, 4, 8)
_ANY = 255  # width of order values of any length
_ALL = (1 << 64) - 1
_EACH = PAGE // 8  # hashes of a page
_SPARSE = 4  # a search reads single pages where an extent has more than this many for each wanted key


class WantedHashes:
    """Wanted key hashes, ascending.

    >>> wanted = WantedHashes(np.array([3, 5, 9], np.uint64))
    >>> [column.tolist() for column in wanted.matches(np.array([4, 5, 5, 9], np.uint64))]
    [[1, 1, 2], [1, 2, 3]]
    """

    def __init__(self, hashes: Hashes) -> None:
        """hashes: ascending."""
        self.hashes = hashes

    def __len__(self) -> int:
        return len(self.hashes)

    def matches(self, known: Hashes) -> tuple[Ints, Ints]:
        """Return (numbers of wanted hashes, numbers of known ones) of all pairs that are equal. known: ascending."""
        if not _FEW <= len(self) <= _MOST or len(known) > _TIMES * len(self):
            return matches(known, self.hashes)
        likely = np.flatnonzero(self._prefixes[known >> self._shift])
        at, numbers = matches(self.hashes, known[likely])
        return numbers, likely[at]

    @property
    def _shift(self) -> np.uint64:
        return np.uint64(64 - (_AT_ONCE * len(self)).bit_length())

    @cached_property
    def _prefixes(self) -> Flags:
        """Whether a wanted hash has a prefix, by the prefix."""
        found = np.zeros(1 << (_AT_ONCE * len(self)).bit_length(), np.bool_)
        found[self.hashes >> self._shift] = True
        return found


def matches(known: Hashes, wanted: Hashes) -> tuple[Ints, Ints]:
    """Return (numbers of wanted hashes, numbers of known ones) of all pairs that are equal. Both are ascending."""
    if not len(known):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    first = np.searchsorted(known, wanted, "left")
    found = np.flatnonzero(known[np.minimum(first, len(known) - 1)] == wanted)
    counts = _counts(known, wanted[found], first[found])
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(found, counts), np.repeat(first[found], counts) + within


def _counts(known: Hashes, wanted: Hashes, first: Ints) -> Ints:
    """Return how often each wanted hash is known, given where it is first; nearly all are known once."""
    counts = np.ones(len(wanted), np.int64)
    following = first + 1
    several = np.flatnonzero((following < len(known)) & (known[np.minimum(following, len(known) - 1)] == wanted))
    counts[several] = np.searchsorted(known, wanted[several], "right") - first[several]
    return counts


def encoded_keys(keys: Sequence[Any]) -> Any:
    """Return one value for each key (pa.Array of large_binary): its values, all but the last with a length before it.

    keys: a pa.Array of large_binary for each ID field.

    >>> encoded_keys([pa.array([b"ab"], pa.large_binary()), pa.array([b"c"], pa.large_binary())]).to_pylist()
    [b'\\x02\\x00\\x00\\x00abc']
    """
    parts: list[Any] = []
    for column in keys[:-1]:
        lengths = np.diff(offsets_of(column)[0]).astype("<u4")
        form = pa.binary(4)
        parts.append(pa.Array.from_buffers(form, len(lengths), [None, pa.py_buffer(lengths)]).cast(pa.binary()))
        parts[-1] = parts[-1].cast(pa.large_binary())
        parts.append(column)
    return concatenated(*parts, keys[-1]) if parts else keys[0]


def decoded_key(encoded: bytes, width: int) -> tuple[bytes, ...]:
    """Return the values of an encoded key. width: number of ID fields. Raises ValueError for other bytes.

    >>> decoded_key(b"\\x02\\x00\\x00\\x00abc", 2)
    (b'ab', b'c')
    """
    values, start = [], 0
    for _ in range(width - 1):
        end = start + 4 + int.from_bytes(encoded[start : start + 4], "little")
        values.append(encoded[start + 4 : end])
        start = end
    if start > len(encoded):
        raise ValueError("it is not an encoded key")
    return (*values, encoded[start:])


def decoded_keys(encoded: Any, width: int) -> list[Any]:
    """Return a column (pa.Array of large_binary) for each ID field; undoes ``encoded_keys``.

    >>> decoded_keys(pa.array([b"\\x02\\x00\\x00\\x00abc"], pa.large_binary()), 2)[1].to_pylist()
    [b'c']
    """
    if width == 1:
        return [encoded]
    keys = [decoded_key(one, width) for one in encoded.to_pylist()]
    return [pa.array([key[field] for key in keys], pa.large_binary()) for field in range(width)]


def index_bytes(
    hashes: Hashes, keys: Any, row_hashes: RowHashes, extents: Ints, order_type: str, orders: Any
) -> tuple[bytearray, str]:
    """Return the content of the key index of a file, and its checksum.

    hashes, keys, row_hashes, orders: one per row, in the order of the rows; keys as ``encoded_keys`` returns them.
    extents: int64 array, the number of rows of each extent. orders: as ``order_columns`` has them. Raises ValueError if
    the keys or the order values have too many bytes.
    """
    order = hash_order(hashes)
    if len(extents) > 1:
        order = then_by(order, np.repeat(np.arange(len(extents)), extents))
    keys = keys.take(pa.array(order))
    columns: list[Any] = [hashes[order], order, row_hashes[order], _ends("keys", keys)]
    fixed = [column.astype(form, copy=False) for column, form in zip(columns, _COLUMNS, strict=True)]
    # Both threads of a compaction would wait for the copies of an index: a bytearray grows by the digests in place.
    content = bytearray().join([*fixed, joined(keys), *_order_column(order_type, orders.take(pa.array(order)))])
    digests, checksum = with_digests(content)
    content += digests
    return content, checksum


def _ends(name: str, values: Any) -> Ints:
    """Return where each value ends in the bytes of all."""
    ends = offsets_of(values)[0][1:]
    if len(ends) and ends[-1] > MOST_BYTES:
        raise ValueError(f"the {name} of this file have {ends[-1]:,} bytes, which is more than {MOST_BYTES:,}")
    return ends


def _order_column(order_type: str, orders: Any) -> tuple[Any, ...]:
    """Return the order values in the fewest bytes, and the end of the body."""
    column = compact(order_type, orders)
    if column.type != pa.int64():
        ends, values = _ends("order values", column), joined(column)
        return (
            ends.astype("<u4"),
            values,
            _TAIL.pack(len(values), _ORDER_TYPES.index(basic_type(order_type)), _ANY, _MAGIC),
        )
    numbers = column.to_numpy()
    lowest = int(numbers.min()) if len(numbers) else 0
    above = numbers.astype(np.uint64) - np.uint64(lowest & _ALL)  # modulo 2 to the power of 64
    highest = int(above.max(initial=0))
    width = next(width for width in _WIDTHS if highest < 1 << 8 * width)
    tail = _TAIL.pack(lowest, _ORDER_TYPES.index(basic_type(order_type)), width, _MAGIC)
    return above.astype(f"<u{width}") if width else b"", tail


class KeyIndex:
    """The key index of one file."""

    def __init__(self, file: PagedFile, rows: int) -> None:
        self._file, self.rows = file, rows
        widths = [form.itemsize for form in _COLUMNS]
        self._begins = [rows * sum(widths[:number]) for number in range(len(widths) + 1)]
        if self._begins[-1] + _TAIL.size > file.size:
            raise DamagedPage(f"it has {file.size:,} bytes, which are too few for {rows:,} rows")

    @classmethod
    def open(cls, path: str, rows: int, size: int, checksum: str, *, content: bytes | None = None) -> KeyIndex:
        """Open an index. size: bytes of the file. content: its bytes, if known. Raises DamagedPage, StorageError."""
        body = body_of(size)
        file = open_paged(path, body, checksum) if content is None else PagedFile(InMemory(content), body, checksum)
        return cls(file, rows)

    @property
    def memory(self) -> int:
        """Bytes of memory that only this index uses."""
        return self._file.memory

    def find(self, hashes: Hashes, keys: Any, start: int, end: int) -> tuple[Ints, Ints]:
        """Return (numbers of the wanted keys, numbers of entries) of all entries of an extent that have a wanted key.

        hashes: of the wanted keys, ascending. keys: encoded, one for each hash. start, end: the extent. An extent may
        have a key several times, of which at most one row is live.
        """
        numbers, entries = self.find_hashes(WantedHashes(hashes), start, end)
        if not len(numbers):
            return numbers, entries
        same = flags(pc.equal(self.keys(entries), chosen(keys, numbers)))
        return numbers[same], entries[same]

    def find_hashes(self, wanted: WantedHashes, start: int, end: int) -> tuple[Ints, Ints]:
        """Return (numbers of wanted hashes, numbers of entries) of all entries of an extent that have a wanted hash.

        start, end: the extent.
        """
        if start == end or not len(wanted):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        known, numbered = self._near(wanted.hashes, start, end)
        numbers, found = wanted.matches(known)
        return numbers, numbered(found)

    def _near(self, wanted: Hashes, start: int, end: int) -> tuple[Hashes, Callable[[Ints], Ints]]:
        """Return the hashes of all entries, or of the pages that may have wanted ones, and how to number them."""
        if (end - start) // _EACH <= _SPARSE * len(wanted):
            return self.hashes(start, end), lambda found: found + start
        pages = self._pages_of(wanted, start, end)
        bounds = [(max(page * _EACH, start), min((page + 1) * _EACH, end)) for page in pages.tolist()]
        self._file.load(pages)
        known = np.concatenate([self.hashes(*bound) for bound in bounds])
        ends = np.cumsum([last - first for first, last in bounds])
        shift = np.array([last for _, last in bounds]) - ends
        return known, lambda found: found + shift[np.searchsorted(ends, found, "right")]

    def _pages_of(self, wanted: Hashes, start: int, end: int) -> Ints:
        """Return the pages that may have wanted hashes, found by a binary search of all of them at once."""
        final = (end - 1) // _EACH
        low = np.full(len(wanted), start // _EACH)
        high = np.full(len(wanted), final)
        while (open_ := low < high).any():  # the first page whose last hash is not below the wanted one
            middle = (low + high) // 2
            pages = np.unique(middle[open_])
            self._file.load(pages)
            ends = (min((page + 1) * _EACH, end) for page in pages.tolist())
            lasts = np.concatenate([self.hashes(number - 1, number) for number in ends])
            below = np.zeros(len(wanted), np.bool_)
            below[open_] = lasts[np.searchsorted(pages, middle[open_])] < wanted[open_]
            low = np.where(open_ & below, middle + 1, low)
            high = np.where(open_ & ~below, middle, high)
        # The entries of a hash that several rows share may go on in the following pages.
        pages = np.unique(low)
        self._file.load(pages)
        while True:
            ends = (min((page + 1) * _EACH, end) for page in pages.tolist())
            lasts = np.concatenate([self.hashes(number - 1, number) for number in ends])
            more = np.setdiff1d(pages[np.isin(lasts, wanted)] + 1, pages)
            more = more[more <= final]
            if not len(more):
                return pages
            pages = np.union1d(pages, more)

    def hashes(self, start: int = 0, end: int | None = None) -> Hashes:
        """Return the key hashes of the entries of an extent."""
        return self._range(_HASH, start, self.rows if end is None else end)  # type: ignore[no-any-return]

    def positions(self, entries: Ints) -> Ints:
        """Return the positions, in the file, of the rows of some entries."""
        return self._take(_POSITION, entries).astype(np.int64)  # type: ignore[no-any-return]

    def row_hashes(self, entries: Ints) -> RowHashes:
        """Return the row hashes of some entries."""
        return self._take(_ROW_HASH, entries)  # type: ignore[no-any-return]

    @cached_property
    def _tail(self) -> tuple[int, str, int, int]:
        """The lowest order value, the order type, the bytes of an order value, and where the order values begin."""
        size = self._file.size
        lowest, number, width, magic = _TAIL.unpack(self._file.read(size - _TAIL.size, size).tobytes())
        begin = size - _TAIL.size - (self.rows * 4 + lowest if width == _ANY else self.rows * width)
        order_type = _ORDER_TYPES[number] if magic == _MAGIC and number < len(_ORDER_TYPES) else None
        if order_type is None or width not in (*_WIDTHS, _ANY) or not self._begins[-1] <= begin <= size - _TAIL.size:
            raise DamagedPage("its order values are not where they should be")
        return lowest, order_type, width, begin

    @property
    def order_type(self) -> str:
        """The type of the order values."""
        return self._tail[1]

    def orders(self, entries: Ints) -> Any:
        """Return the order values of the rows of some entries, as ``order_columns`` has them."""
        return expanded(self.order_type, self.compact_orders(entries))

    def compact_orders(self, entries: Ints) -> Any:
        """Return the order values of the rows of some entries, as ``order_columns.compact`` returns them."""
        lowest, _, width, begin = self._tail
        if width == _ANY:
            return self._values("order values", begin, begin + 4 * self.rows, entries)
        above = np.zeros(len(entries), np.uint64)
        if width:
            above = self._taken(begin, np.dtype(f"<u{width}"), entries).astype(np.uint64)
        return pa.array((above + np.uint64(lowest & _ALL)).view(np.int64))

    def keys(self, entries: Ints) -> Any:
        """Return the encoded keys of some entries, a pa.Array of large_binary."""
        return self._values("keys", self._begins[_KEY_END], self._begins[-1], entries)

    def _values(self, name: str, ends_begin: int, begin: int, entries: Ints) -> Any:
        """Return values of any length, a pa.Array of large_binary, given where their ends and their bytes begin."""
        form = _COLUMNS[_KEY_END]
        ends = self._taken(ends_begin, form, entries).astype(np.int64)
        before = self._taken(ends_begin, form, np.maximum(entries - 1, 0)).astype(np.int64)
        starts = np.where(entries > 0, before, 0)
        if (ends < starts).any() or ends.max(initial=0) > self._file.size - begin:
            raise DamagedPage(f"its {name} do not follow each other")
        spans = (begin + starts) // PAGE, (begin + ends) // PAGE
        if len(entries) and (spans[1] - spans[0]).max() > 1:
            self._file.read(begin, self._file.size)
        else:
            last = max(self._file.size - 1, 0) // PAGE
            self._file.load(np.minimum(np.concatenate(spans), last))
        data = self._file.view(begin, self._file.size)
        if len(entries) and (starts[1:] == ends[:-1]).all():  # the whole of an extent, as nearly always in an overwrite
            return packed(data[starts[0] : ends[-1]].tobytes(), ends - starts)
        return ByteColumn(data, starts, ends).take()

    def verify(self) -> None:
        """Read every page. Raises DamagedPage."""
        self._file.read(0, self._file.size)

    def _range(self, column: int, start: int, end: int) -> Any:
        begin, form = self._begins[column], _COLUMNS[column]
        found: Bytes = self._file.read(begin + start * form.itemsize, begin + end * form.itemsize)
        return found.view(form)

    def _take(self, column: int, entries: Ints) -> Any:
        return self._taken(self._begins[column], _COLUMNS[column], entries)

    def _taken(self, begin: int, form: Any, entries: Ints) -> Any:
        """Return values of a column. begin: of the column. form: of a value, a np.dtype."""
        if not len(entries):
            return np.zeros(0, form)
        width = form.itemsize
        self._file.load(np.concatenate((begin + entries * width, begin + entries * width + width - 1)) // PAGE)
        return self._file.view(begin, begin + self.rows * width).view(form)[entries]
