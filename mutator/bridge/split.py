"""Rows apart by the partition that they belong to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.formats.scalar_text import exact_text
from mutator.partitions import DEFAULT
from mutator.table import Partition

__all__ = ["by_partition", "parted"]

_NULL = pa.array([b"", DEFAULT.encode()], pa.large_binary())


def by_partition(batch: Any, fields: Sequence[str]) -> Iterator[tuple[Partition, Any]]:
    """Yield each partition that rows of a batch belong to, and the numbers of these rows.

    The empty text is NULL, as Hive has it, and so is the name that NULL has as a directory.
    """
    yield from parted([exact_text(batch.column(name)) for name in fields])


def parted(columns: Sequence[Any]) -> Iterator[tuple[Partition, Any]]:
    """Do the same for columns of text (large binaries)."""
    codes, known = np.zeros(len(columns[0]), np.int64), list[Partition]([()])
    for column in columns:
        column = pc.if_else(pc.is_in(column, _NULL), pa.scalar(None, pa.large_binary()), column)
        encoded = column.dictionary_encode("encode")
        values = [
            None if value is None else value.decode("utf-8", "surrogateescape")
            for value in encoded.dictionary.to_pylist()
        ]
        # Numbered anew for each field, so that no number outgrows its type.
        pairs, codes = np.unique(
            codes * len(values) + encoded.indices.to_numpy(zero_copy_only=False), return_inverse=True
        )
        known = [(*known[pair // len(values)], values[pair % len(values)]) for pair in pairs.tolist()]
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1)) if len(order) else order
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        yield known[codes[order[start]]], order[start:end]
