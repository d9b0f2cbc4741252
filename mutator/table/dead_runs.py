"""Runs without a version whose files are so old that no process can be about to commit them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.versions.log import DIRECTORY
from mutator.rules.file_names import run_of
from mutator.storage import Entry, walk

_AT_ONCE = 1 << 18  # files
_OTHERS = tuple(f"{DIRECTORY}/{name}/" for name in ("log", "archive", "checkpoints"))  # whose files are no run's


@dataclass(frozen=True)
class DeadRuns:
    """Files of runs without a version."""

    runs: tuple[str, ...]
    paths: list[str]  # relative to the table
    bytes: list[int]


def dead_runs(table: str, known: Any, written_before: float) -> DeadRuns:
    """Return the files below a table of runs that all wrote their last file before a time.

    known: paths of files that are no run's without a version, a pa.ChunkedArray. A run that has written anything since
    is alive: a merge may take longer than the time that a run may do nothing. Files without a run's id in their names
    are never among the result.
    """
    strays = list(_strays(table, known))
    alive = {run for run, _, entry in strays if entry.last_write >= written_before}
    dead = [(run, path, entry) for run, path, entry in strays if run not in alive]
    runs = tuple(sorted({run for run, _, _ in dead}))
    return DeadRuns(runs, [path for _, path, _ in dead], [entry.bytes for _, _, entry in dead])


def _strays(table: str, known: Any) -> Iterator[tuple[str, str, Entry]]:
    """Yield (run, path, entry) of the files that are not known."""
    found = walk(table)
    while entries := list(islice(found, _AT_ONCE)):
        paths = [entry.path.removeprefix(f"{table}/") for entry in entries]
        is_known = pc.is_in(pa.array(paths, pa.string()), value_set=known)
        for number in np.flatnonzero(~is_known.to_numpy(zero_copy_only=False)).tolist():
            path = paths[number]
            run = run_of(path)
            if run is not None and not path.startswith(_OTHERS):
                yield run, path, entries[number]
