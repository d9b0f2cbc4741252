"""Make a master, and feeds of patches or of full upserts for it, as Parquet; the same bytes each time.

The master is ``id,name,stock,price,note,time``. A patch has two of name, stock, price and note, drawn for each row. The
others are NULL, which leaves them as they are with ``ignore.null.updates``. Upserts have the same IDs and times, and
set all fields. One mutation in ten is of an ID that was mutated before, and one in twenty is older than the master.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.columns import write_parquet
from bench.data import ID_SPACE, SPREAD, FeedShares, draw_master_times, draw_mutations, texts

__all__ = ["PATCHES", "ROW_BYTES", "UPSERTS", "write_master_of_patches", "write_parts", "write_patches"]

PATCHES, UPSERTS = "patches", "upserts"
ROW_BYTES = 75
FILES = 4
SHARES = FeedShares(insert=0, delete=0)
PAIRS = np.array(list(combinations(("name", "stock", "price", "note"), 2)))  # of fields that a patch leaves unset


def write_master_of_patches(directory: Path, rows: int, seed: int = 1) -> None:
    """Write a master of unique IDs."""
    random = np.random.default_rng((seed, 1))
    write_parts(directory, np.arange(rows), draw_master_times(rows, random), random)


def write_patches(directory: Path, kind: str, master_rows: int, rows: int, seed: int = 1) -> None:
    """Write a feed of a kind for the master of that many rows."""
    random = np.random.default_rng((seed, 2))
    drawn = draw_mutations(master_rows, rows, random, SHARES)
    write_parts(directory, drawn.keys, drawn.times, random, patches=kind == PATCHES)


def write_parts(
    directory: Path, keys: np.ndarray, times: np.ndarray, random: np.random.Generator, *, patches: bool = False
) -> None:
    """Write rows of some keys and times in a few files. patches: leave two fields of each unset."""
    directory.mkdir(parents=True)
    for number, part in enumerate(np.array_split(np.arange(len(keys)), FILES)):
        if not (count := len(part)):
            continue
        cents = random.integers(100, 100_000, count)
        price = pc.binary_join_element_wise(texts(cents // 100), texts(cents % 100, "", 2), ".")
        columns = {
            "id": texts(keys[part] * SPREAD % ID_SPACE, "P", 10),
            "name": texts(random.integers(0, 1_000_000, count), "item-", 6),
            "stock": pa.array(random.integers(0, 1000, count)),
            "price": price.cast(pa.decimal128(9, 2)),
            "note": texts(random.integers(0, 10_000_000, count), "note-of-the-item-", 7),
            "time": pa.array(times[part]),
        }
        unset = PAIRS[random.integers(0, len(PAIRS), count)]
        for name in np.unique(PAIRS) if patches else ():
            columns[name] = pc.if_else(pa.array((unset == name).any(axis=1)), None, columns[name])
        write_parquet(pa.table(columns), directory / f"part-{number:05}.parquet")
