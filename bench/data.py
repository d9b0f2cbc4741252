"""Make a master and a feed from a seed, the same bytes each time.

A master row is ``id,name,stock,price,time`` (about 46 bytes); a feed row ends with the op code, ``U`` or ``D``. No
mutation has the time of another mutation or of a master row, so every system must choose the same winner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "FILE_BYTES",
    "ID_SPACE",
    "LATE",
    "NEW",
    "ROW_BYTES",
    "SPREAD",
    "FeedShares",
    "Mutations",
    "bytes_of",
    "draw_master_times",
    "draw_mutations",
    "lines_of",
    "texts",
    "write_feed",
    "write_master",
    "write_mutations",
    "write_rows",
]

FILE_BYTES = 64 << 20
ROW_BYTES = 46
# Times of late mutations, of the master and of new mutations: ranges of twenty million seconds that do not overlap.
LATE, MASTER, NEW = 1_400_000_000, 1_420_000_000, 1_440_000_000
MOST = 20_000_000  # rows with distinct times that fit into a range

# Multiplying by a number without a common factor with 10^10 scatters the IDs, so that files are not sorted.
SPREAD, ID_SPACE = 7_640_891_577, 10**10


@dataclass(frozen=True)
class FeedShares:
    """Shares of a feed's rows."""

    insert: float = 0.10
    delete: float = 0.10
    late: float = 0.05
    repeat: float = 0.10  # of updates and deletes: keys that were mutated before in this feed


class Mutations(NamedTuple):
    """A feed in columns, with one element per row: number of the key, whether the row is a delete, time."""

    keys: np.ndarray
    is_delete: np.ndarray
    times: np.ndarray


def write_master(directory: Path, rows: int, seed: int = 1) -> int:
    """Write a master of unique IDs as files of about 64 MB; return its size in bytes."""
    directory.mkdir(parents=True)
    per_file = FILE_BYTES // ROW_BYTES
    size = 0
    for number, start in enumerate(range(0, rows, per_file)):
        random = np.random.default_rng((seed, 1, number))
        keys = np.arange(start, min(start + per_file, rows))
        size += write_rows(directory / f"part-{number:05}.txt", keys, draw_master_times(len(keys), random), random)
    return size


def write_feed(directory: Path, master_rows: int, rows: int, seed: int = 1, shares: FeedShares | None = None) -> int:
    """Write a feed for the master of that many rows, as four files or more; return its size in bytes."""
    random = np.random.default_rng((seed, 2))
    return write_mutations(directory, draw_mutations(master_rows, rows, random, shares), random)


def draw_master_times(rows: int, random: np.random.Generator) -> np.ndarray:
    """Draw the times of master rows. Several rows may have the same time, because each ID has one row."""
    return MASTER + random.integers(0, MOST, rows)


def draw_mutations(
    known_keys: int, rows: int, random: np.random.Generator, shares: FeedShares | None = None
) -> Mutations:
    """Draw mutations of the keys below a number; inserts have the keys that follow it."""
    shares = shares or FeedShares()
    if rows > MOST:
        raise ValueError(f"a feed of {rows:,} rows: times are unique only up to {MOST:,}")
    inserts, deletes = round(rows * shares.insert), round(rows * shares.delete)
    known = random.integers(0, known_keys, rows - inserts)
    repeats = round(len(known) * shares.repeat)
    known[len(known) - repeats :] = known[:repeats]
    keys = np.concatenate([known, known_keys + np.arange(inserts)])
    # Deletes are drawn from all rows, so that some come before an update of the same key and some after it.
    is_delete = np.zeros(rows, bool)
    is_delete[random.permutation(len(known))[:deletes]] = True
    times = NEW + np.arange(rows)
    times[random.permutation(rows)[: round(rows * shares.late)]] += LATE - NEW
    # Times and rows are shuffled, so that neither files nor rows are in the order of time.
    times = times[random.permutation(rows)]
    order = random.permutation(rows)
    return Mutations(keys[order], is_delete[order], times[order])


def write_mutations(
    directory: Path, mutations: Mutations, random: np.random.Generator, stores: np.ndarray | None = None, files: int = 4
) -> int:
    """Write a feed to at least ``files`` files; return its size in bytes. stores: store of each row, after the ID."""
    directory.mkdir(parents=True)
    rows = len(mutations.keys)
    size = 0
    for number, part in enumerate(np.array_split(np.arange(rows), max(files, -(-rows * ROW_BYTES // FILE_BYTES)))):
        size += write_rows(
            directory / f"feed-{number:05}.csv",
            mutations.keys[part],
            mutations.times[part],
            random,
            None if stores is None else stores[part],
            pa.array(np.where(mutations.is_delete[part], "D", "U")),
        )
    return size


def write_rows(
    path: Path,
    keys: np.ndarray,
    times: np.ndarray,
    random: np.random.Generator,
    stores: np.ndarray | None = None,
    ops: pa.Array | None = None,
) -> int:
    """Write rows of these keys and times, with a store after the ID and an op code at the end if given; return their
    size in bytes.
    """
    size = 0
    with path.open("wb") as file:
        for part in _slices(len(keys)):
            count = len(keys[part])
            cents = random.integers(100, 100_000, count)
            columns = [
                texts(keys[part] * SPREAD % ID_SPACE, "P", 10),
                *([] if stores is None else [texts(stores[part])]),
                texts(random.integers(0, 1_000_000, count), "item-", 6),
                texts(random.integers(0, 1000, count)),
                pc.binary_join_element_wise(texts(cents // 100), texts(cents % 100, "", 2), "."),
                texts(times[part]),
                *([] if ops is None else [ops.slice(part.start, count)]),
            ]
            size += file.write(lines_of(columns))
    return size


def _slices(count: int) -> Iterator[slice]:
    step = 1 << 18
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def texts(numbers: np.ndarray, prefix: str = "", width: int = 0) -> pa.Array:
    """Return numbers as text: a prefix, then at least ``width`` digits."""
    digits = pc.cast(pa.array(numbers), pa.string())
    if width:
        digits = pc.utf8_lpad(digits, width, "0")
    return pc.binary_join_element_wise(prefix, digits, "") if prefix else digits


def lines_of(columns: Sequence[pa.Array]) -> memoryview:
    """Return the bytes of the lines with these columns of fields; a null is ``\\N``."""
    nulls = {"null_handling": "replace", "null_replacement": "\\N"}
    # the empty last field adds the line end
    return bytes_of(pc.binary_join_element_wise(pc.binary_join_element_wise(*columns, ",", **nulls), "", "\n"))


def bytes_of(lines: pa.Array) -> memoryview:
    """Return the bytes of texts, one after the other."""
    offsets = np.frombuffer(lines.buffers()[1], np.int32)[lines.offset : lines.offset + len(lines) + 1]
    return memoryview(lines.buffers()[2])[offsets[0] : offsets[-1]]
