"""Rows apart by the partition that they belong to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.bridge.contract import Partition
from mutator.formats.values.scalar_text import exact_text
from mutator.rules.partition_paths import DEFAULT, number_combinations

__all__ = ["by_partition", "parted"]

_NULL = pa.array([b"", DEFAULT.encode()], pa.large_binary())


def by_partition(batch: Any, fields: Sequence[str]) -> Iterator[tuple[Partition, Any]]:
    """Yield each partition that rows of a batch belong to, and the numbers of these rows.

    The empty text is NULL, as Hive has it, and so is the name that NULL has as a directory.
    """
    yield from parted([exact_text(batch.column(name)) for name in fields])


def parted(columns: Sequence[Any]) -> Iterator[tuple[Partition, Any]]:
    """Do the same for columns of text (large binaries)."""
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
    codes, said = number_combinations(numbered)
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(said) + 1))
    for number, one in enumerate(said):
        partition = tuple(known[code] for known, code in zip(values, one, strict=True))
        yield partition, order[starts[number] : starts[number + 1]]
