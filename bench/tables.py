"""Make many small tables: ``masters/<table>`` and ``feeds/<table>``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.data import draw_mutations, write_master, write_mutations

__all__ = ["write_feeds", "write_masters"]


def write_masters(directory: Path, tables: int, rows: int, seed: int = 1) -> int:
    """Write masters with ``rows`` rows in all; return their size in bytes."""
    return sum(
        write_master(directory / _name(number), rows // tables, seed * tables + number) for number in range(tables)
    )


def write_feeds(directory: Path, tables: int, master_rows: int, rows: int, seed: int = 1) -> int:
    """Write a feed of one file for each master, ``rows`` mutations in all; return their size in bytes."""
    size = 0
    for number in range(tables):
        random = np.random.default_rng((seed, 5, number))
        mutations = draw_mutations(master_rows // tables, rows // tables, random)
        size += write_mutations(directory / _name(number), mutations, random, files=1)
    return size


def _name(number: int) -> str:
    return f"table_{number:03}"
