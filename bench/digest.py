"""A digest of the rows of files, independent of their order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from bench.columns import lines_in

__all__ = ["Digest", "data_files", "digest", "partition_of"]

BLOCK = 8 << 20
LONGEST = 4096  # bytes of a line
AHEAD = 4  # blocks that are hashed at a time


@dataclass(frozen=True)
class Digest:
    """Rows, and the sum and the exclusive or of their 64-bit hashes."""

    rows: int = 0
    total: int = 0
    mixed: int = 0

    def __str__(self) -> str:
        return f"{self.rows:,} rows {self.total:016x}/{self.mixed:016x}"


def data_files(directory: Path) -> list[Path]:
    """Return the files below a directory that Hive and Spark read: none with a hidden name."""
    return [
        path
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not any(part[0] in "_." for part in path.relative_to(directory).parts)
    ]


def digest(paths: Iterable[Path], root: Path | None = None) -> Digest:
    """Return the digest of all lines of the files; rows of Parquet, ORC and Avro are hashed as lines of text.

    The line end is not part of the line. With a root, the file's directory relative to it is part of each row's hash,
    and the partition values in its name become fields of rows of Parquet.
    """
    rows = total = mixed = 0
    for path in paths:
        directory = "" if root is None else path.parent.relative_to(root).as_posix()
        for hashes in _hashes(path, partition_of(directory)):
            hashes ^= np.uint64(_salt(directory))
            rows += len(hashes)
            total = (total + int(hashes.sum(dtype=np.uint64))) % 2**64
            mixed ^= int(np.bitwise_xor.reduce(hashes))
    return Digest(rows, total, mixed)


# A random odd number for every position in a line: the hash depends on the value and the position of each byte.
_WEIGHTS = np.random.default_rng(20_240_229).integers(0, 2**63, LONGEST, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


def partition_of(directory: str) -> dict[str, str]:
    """Return the partition values that Hive would read from a path.

    >>> partition_of("country=ch/store=7"), partition_of("table_001")
    ({'country': 'ch', 'store': '7'}, {})
    """
    return {name: value for name, mark, value in (part.partition("=") for part in directory.split("/")) if mark}


def _salt(directory: str) -> int:
    """Return a number for a directory; 0 for the root."""
    return int.from_bytes(blake2b(directory.encode(), digest_size=8).digest()) if directory not in ("", ".") else 0


def _hashes(path: Path, partition: Mapping[str, str]) -> Iterable[np.ndarray]:
    if (blocks := lines_in(path, partition)) is not None:
        yield from _in_threads(_line_hashes, (block for block in blocks if len(block)))
        return
    rest = b""
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            block = rest + block
            end = block.rfind(b"\n") + 1
            rest = block[end:]
            if end:
                yield _line_hashes(block[:end])
    if rest:
        yield _line_hashes(rest + b"\n")


def _in_threads(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    """Yield the result for each item, in order, while others are computed: numpy and Arrow free the interpreter."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        ahead: deque[Future[Any]] = deque()
        for item in items:
            ahead.append(pool.submit(function, item))
            if len(ahead) > AHEAD:
                yield ahead.popleft().result()
        yield from (future.result() for future in ahead)


def _line_hashes(block: bytes | memoryview) -> np.ndarray:
    """Return a hash of every line of a block; the block ends with a line end."""
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == 10)
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts
    if lengths.max() >= LONGEST:
        raise ValueError(f"a line has {lengths.max():,} bytes; the digest allows at most {LONGEST - 1:,}")
    positions = np.arange(len(data)) - np.repeat(starts, lengths + 1)
    sums = np.add.reduceat(_WEIGHTS[positions] * (data.astype(np.uint64) + np.uint64(1)), starts)
    # the finaliser of MurmurHash3; without it, a sum of hashes would only be a sum of bytes
    for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53)):
        sums = (sums ^ (sums >> np.uint64(shift))) * np.uint64(factor)
    return sums ^ (sums >> np.uint64(33))
