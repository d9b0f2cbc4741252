"""Packs of key filters: Parquet files with a row for each file of a dataset, which other programs can read too.

path    string        of the file, relative to the dataset
low     binary        the lowest first ID value in it, in canonical bytes
high    binary        the highest; NULL where it is not known
words   large binary  the filter: 64-bit words, little-endian (``rules.bloom_filter``)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mutator.rules.bloom_filter import Words

__all__ = ["KeyFilter", "read_filters", "write_filters"]

_SCHEMA = pa.schema([("path", pa.string()), ("low", pa.binary()), ("high", pa.binary()), ("words", pa.large_binary())])
_AT_ONCE = 32  # filters that are read together


class KeyFilter(NamedTuple):
    """What is known of the keys of a file."""

    path: str
    low: bytes
    high: bytes | None  # None: it is not known
    words: Words


def write_filters(stream: BinaryIO, filters: Iterable[KeyFilter]) -> int:
    """Write a pack, and return of how many files; a few filters are held at a time."""
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
    """Read a pack. Raises what Arrow raises where it is damaged."""
    file = pq.ParquetFile(stream, page_checksum_verification=True)
    for number in range(file.num_row_groups):
        table = file.read_row_group(number)
        columns = [table.column(name).combine_chunks() for name in ("path", "low", "high", "words")]
        for path, low, high, words in zip(*columns, strict=True):
            yield KeyFilter(path.as_py(), low.as_py(), high.as_py(), np.frombuffer(words.as_buffer(), "<u8"))
