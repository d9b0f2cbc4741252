"""Verify a table: its log, files, key indexes, masks, keys, counts and checkpoints; make again what is derived."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from mutator.errors import error
from mutator.pipeline.verify import Difference
from mutator.table.apply import OpenRunner
from mutator.table.stray_files import stray_files
from mutator.table.verification import TableVerification
from mutator.table.verify_file import put_back
from mutator.table.verify_log import Walk
from mutator.table.verify_rows import RowsOfTable

_STARTS = 10  # times that a verification begins, because versions that it reads are cleaned meanwhile


class _Outlived(Exception):
    """A cleaning has removed files that a verification needs."""


def verify_table(path: str, config_of: Any, open_runner: OpenRunner, *, repair: bool = False) -> TableVerification:
    """Compare a table with its log. repair: make key indexes, checkpoints and the hint again where they are damaged.

    path: full path. config_of: returns the Config of a snapshot. Raises ConfigError where there is no table, StateError
    if cleanings always remove files before they are read.
    """
    for _ in range(_STARTS):
        with suppress(_Outlived):
            return _verification(path, config_of, open_runner, repair)
    raise error("table.outrun.verify", path=path)


def _verification(path: str, config_of: Any, open_runner: OpenRunner, repair: bool) -> TableVerification:
    """Verify a table, once. Raises _Outlived."""
    walk = Walk(path)
    walk.read_log()
    if walk.differences and walk.is_cleaned_since():
        raise _Outlived
    differences, files, repaired = list(walk.differences), 0, list[str]()
    if walk.snapshot is not None and walk.snapshot.state.spec is not None:
        done = RowsOfTable(walk, config_of(walk.snapshot), open_runner)
        differences += _of_needed_files(walk, done.differences())
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


def _of_needed_files(walk: Walk, differences: Sequence[Difference]) -> Sequence[Difference]:
    """Return the differences of rows without those of files that only versions had which were cleaned meanwhile.

    A verification may take longer than the grace of a cleaning. Raises _Outlived if such a file is of the newest
    version of the walk: its keys were not compared with those of the others.
    """
    if not (differences and walk.is_cleaned_since()):
        return differences
    now = Walk(walk.table)
    now.read_log()
    gone = [file for path, file in walk.files.items() if path not in now.files]
    assert walk.snapshot is not None
    if now.differences or {file.path for file in gone} & set(walk.snapshot.files.column("path").to_pylist()):
        raise _Outlived
    paths = {part.path for file in gone for part in (file.data, file.index)}
    return [one for one in differences if one.file not in paths]
