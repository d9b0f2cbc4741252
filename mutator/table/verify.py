"""Verify a table: its log, files, key indexes, masks, keys, counts and checkpoints; make again what is derived."""

from __future__ import annotations

from typing import Any

from mutator.table.apply import OpenRunner
from mutator.table.stray_files import stray_files
from mutator.table.verification import TableVerification
from mutator.table.verify_file import put_back
from mutator.table.verify_log import Walk
from mutator.table.verify_rows import RowsOfTable


def verify_table(path: str, config_of: Any, open_runner: OpenRunner, *, repair: bool = False) -> TableVerification:
    """Compare a table with its log. repair: make key indexes, checkpoints and the hint again where they are damaged.

    path: full path. config_of: returns the Config of a snapshot. Raises ConfigError where there is no table.
    """
    walk = Walk(path)
    walk.read_log()
    differences, files, repaired = list(walk.differences), 0, list[str]()
    if walk.snapshot is not None and walk.snapshot.state.spec is not None:
        done = RowsOfTable(walk, config_of(walk.snapshot), open_runner)
        differences += done.differences()
        files = len(walk.files)
        if repair:
            differences, indexes = put_back(path, differences, done.rebuilt)
            repaired += indexes
    derived = walk.derived() if walk.whole else []
    if repair and derived and walk.snapshot is not None and not walk.differences:
        repaired += walk.write_derived(derived)
        derived = []
    differences += derived
    version = None if walk.snapshot is None else walk.snapshot.version
    numbers = (0, 0, 0) if version is None else (version.number, version.records, version.tombstones)
    stray = stray_files(path, walk.named) if walk.whole else None
    return TableVerification(path, numbers[0], files, *numbers[1:], tuple(differences), tuple(repaired), stray)
