"""Group rows by partition."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.bridge.contract import Partition
from mutator.formats.values.scalar_text import exact_text
from mutator.rules.partition_paths import DEFAULT
from mutator.rules.partition_transforms import number_combinations

_NULL = pa.array([b"", DEFAULT.encode()], pa.large_binary())


def by_partition(batch: Any, fields: Sequence[str]) -> Iterator[tuple[Partition, Any]]:
    """Yield (partition, int64 array of its row numbers) for the rows of a pa.RecordBatch.

    As in Hive, the empty text is NULL, and so is the directory name of NULL.
    """
    yield from split_by_partition([exact_text(batch.column(name)) for name in fields])


def split_by_partition(columns: Sequence[Any]) -> Iterator[tuple[Partition, Any]]:
    """Yield the same for the partition fields' columns, each a pa.Array of large_binary."""
    numbered, values = [], []
    for column in columns:
        column = pc.if_else(pc.is_in(column, _NULL), pa.scalar(None, pa.large_binary()), column)
        encoded = column.dictionary_encode("encode")
        numbered.append(encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64))
        values.append(
            [
                None if value is None else value.decode("utf-8", "surrogateescape")
                for value in encoded.dictionary.to_pylist()
            ]
        )
    codes, partitions = number_combinations(numbered)
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(partitions) + 1))
    for number, one in enumerate(partitions):
        partition = tuple(known[code] for known, code in zip(values, one, strict=True))
        yield partition, order[starts[number] : starts[number + 1]]
