"""Packs of key filters: Parquet files, readable by other programs, with a row for each file of a dataset.

path    string        path of the file, relative to the dataset
low     binary        lowest first ID value of its keys, in canonical bytes
high    binary        highest first ID value; NULL if unknown
words   large binary  filter of its keys: 64-bit words, little-endian (``rules.bloom_filter``)
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from mutator.rules.bloom_filter import Words, read_words

_SCHEMA = pa.schema([("path", pa.string()), ("low", pa.binary()), ("high", pa.binary()), ("words", pa.large_binary())])
_RANGE = ["path", "low", "high"]
_AT_ONCE = 32  # filters of one row group


class KeyFilter(NamedTuple):
    """The keys of a file: their range and a filter."""

    path: str
    low: bytes
    high: bytes | None  # None: unknown
    words: Words


def write_filters(stream: BinaryIO, filters: Iterable[KeyFilter]) -> int:
    """Write a pack; return the number of filters. Only a few of them are in memory at a time."""
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False, "write_page_checksum": True}
    waiting, count = iter(filters), 0
    with pq.ParquetWriter(stream, _SCHEMA, **options) as writer:
        while some := list(itertools.islice(waiting, _AT_ONCE)):
            words = [one.words.astype("<u8").tobytes() for one in some]
            columns = [[one.path for one in some], [one.low for one in some], [one.high for one in some], words]
            writer.write_table(pa.table(columns, schema=_SCHEMA))
            count += len(some)
    return count


def read_filters(stream: BinaryIO) -> Iterator[KeyFilter]:
    """Yield the filters of a pack. Raises Arrow's exceptions if it is damaged."""
    file = pq.ParquetFile(stream, page_checksum_verification=True)
    for number in range(file.num_row_groups):
        yield from _filters(file.read_row_group(number))


def read_wanted(
    stream: BinaryIO, wanted: Callable[[bytes, bytes | None], bool]
) -> Iterator[tuple[str, KeyFilter | None]]:
    """Yield the path of each filter of a pack, and the filter if its range of keys is wanted, else None.

    wanted: called with the lowest and the highest first ID value. Filters are nearly all of a pack, and those of a row
    group without a wanted one are not read. Raises as ``read_filters`` does.
    """
    file = pq.ParquetFile(stream, page_checksum_verification=True)
    for number in range(file.num_row_groups):
        paths, *bounds = (column.to_pylist() for column in file.read_row_group(number, columns=_RANGE).columns)
        hits = list(map(wanted, *bounds))
        if any(hits):
            found = _filters(file.read_row_group(number))
            yield from ((one.path, one if hit else None) for one, hit in zip(found, hits, strict=True))
        else:
            yield from ((path, None) for path in paths)


def row_groups(stream: BinaryIO) -> dict[str, int]:
    """Return the number of the row group of each file's filter, by path. Raises as ``read_filters`` does."""
    file = pq.ParquetFile(stream, page_checksum_verification=True)
    paths = ((number, file.read_row_group(number, columns=["path"])) for number in range(file.num_row_groups))
    return {path: number for number, table in paths for path in table.column("path").to_pylist()}


def read_row_group(stream: BinaryIO, number: int) -> list[KeyFilter]:
    """Return the filters of one row group of a pack. Raises as ``read_filters`` does."""
    return list(_filters(pq.ParquetFile(stream, page_checksum_verification=True).read_row_group(number)))


def _filters(table: Any) -> Iterator[KeyFilter]:
    columns = [table.column(name).combine_chunks() for name in ("path", "low", "high", "words")]
    for path, low, high, words in zip(*columns, strict=True):
        yield KeyFilter(path.as_py(), low.as_py(), high.as_py(), read_words(words.as_buffer()))
