"""Make events of records with several versions each, and feeds of newer ones, as Parquet; the same bytes each time.

Fields and values are those of ``bench.patches``. All versions of a record differ, and a feed has at most one change of
each record, newer than all others: there are systems that lose any other. A directory has

    events/5, events/20     so many versions of each record; of 20, a quarter of the records
    events/few              5 versions of a quarter of the records
    0.1%, 5%, few           feeds: shares of the records, and 5 % of a quarter of them
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.data import MASTER, MOST, NEW
from bench.patches import write_parts

__all__ = ["EVENTS", "FEEDS", "FEW", "write_events_of_versions", "write_feeds_of_versions"]

FEW = "few"
EVENTS = {"5": (5, 1), "20": (20, 4), FEW: (5, 4)}  # versions of each record, and by what the records are divided
FEEDS = {"0.1%": (1000, 1), "5%": (20, 1), FEW: (20, 4)}  # one in so many of the records, which are divided


def write_events_of_versions(directory: Path, kind: str, rows: int, seed: int = 1) -> None:
    """Write the events of a kind for so many records, oldest versions first."""
    versions, divisor = EVENTS[kind]
    count, length = rows // divisor, MOST // versions
    directory.mkdir(parents=True)
    for number in range(versions):
        random = np.random.default_rng((seed, 1, number))
        times = MASTER + number * length + random.integers(0, length, count)
        write_parts(directory / f"{number:02}", np.arange(count), times, random)


def write_feeds_of_versions(directory: Path, rows: int, seed: int = 1) -> None:
    """Write all feeds for so many records."""
    for number, (kind, (share, divisor)) in enumerate(FEEDS.items()):
        random = np.random.default_rng((seed, 2, number))
        count = rows // divisor
        keys = random.permutation(count)[: max(count // share, 1)]
        write_parts(directory / kind, keys, NEW + np.arange(len(keys)), random)
