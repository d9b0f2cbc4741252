"""Make a master in Hive-style directories, and a feed that touches a few of them.

A row has the number of its store after the ID, and is in the directory ``store=<number>``. No record moves, because
some contenders look for an ID in only one partition. The keys of store *s* start at *s* times the rows of a partition,
so IDs are unique in the whole master.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.data import draw_master_times, draw_mutations, write_mutations, write_rows

__all__ = ["TOUCHED", "write_partitioned_feed", "write_partitioned_master"]

TOUCHED = 10  # partitions that most feeds have mutations for


def write_partitioned_master(directory: Path, partitions: int, rows: int, seed: int = 1) -> int:
    """Write a master of unique IDs with ``rows`` rows in all, one file per partition; return its size in bytes."""
    each = rows // partitions
    size = 0
    for store in range(partitions):
        random = np.random.default_rng((seed, 3, store))
        partition = directory / f"store={store}"
        partition.mkdir(parents=True)
        keys = np.arange(store * each, (store + 1) * each)
        stores = np.full(each, store)
        size += write_rows(partition / "part-00000.txt", keys, draw_master_times(each, random), random, stores)
    return size


def write_partitioned_feed(
    directory: Path, partitions: int, master_rows: int, rows: int, seed: int = 1, count: int = TOUCHED
) -> int:
    """Write a feed for some partitions of that master, spread evenly; return its size in bytes. count: of them."""
    random = np.random.default_rng((seed, 4))
    each = master_rows // partitions
    touched = random.permutation(partitions)[:count]
    mutations = draw_mutations(len(touched) * each, rows, random)
    # First the keys of the touched stores, then those of inserts, which follow the keys of the master.
    is_insert = mutations.keys >= len(touched) * each
    stores = touched[np.where(is_insert, mutations.keys % len(touched), mutations.keys // each % len(touched))]
    inserted = partitions * each + mutations.keys - len(touched) * each
    keys = np.where(is_insert, inserted, stores * each + mutations.keys % each)
    return write_mutations(directory, mutations._replace(keys=keys), random, stores)
