"""Verify the rows of a table: files with their key indexes and hidden rows, and that no key has two live rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.config import Config
from mutator.dataset.partition_index import SPEC
from mutator.dataset.versions.key_index import decoded_key
from mutator.dataset.versions.snapshot import Snapshot
from mutator.dataset.versions.version import TableFile
from mutator.engine.each import checked, guarded
from mutator.engine.runner import each_on
from mutator.errors.display import counted, key_text
from mutator.pipeline.verify import Difference
from mutator.plan.run_plan import SAMPLES, Plan
from mutator.table.apply import OpenRunner
from mutator.table.prepare import prepare
from mutator.table.verify_file import Checked, check_file
from mutator.table.verify_log import Walk

_AT_ONCE = 1 << 20  # live rows whose keys are compared at once, about


class RowsOfTable:
    """The rows of all files of a table."""

    def __init__(self, walk: Walk, config: Config, open_runner: OpenRunner) -> None:
        """Read nothing yet. walk: that has read the log."""
        self._walk, self._open_runner = walk, open_runner
        assert walk.snapshot is not None
        self._snapshot = walk.snapshot
        _, self._plan = prepare(self._snapshot, replace(config, sync_mode="partial"), [])
        self.rebuilt: dict[str, bytes] = {}

    def differences(self) -> list[Difference]:
        """Compare the files with the log, and their rows with the hidden rows and with each other."""
        files = list(self._walk.files.values())
        with self._open_runner(sum(file.data.bytes for file in files)) as (runner, _):
            results: list[Checked] = checked(each_on(runner)(files, partial(_check, self._plan, self._snapshot)))
        found = [difference for one in results for difference in one.differences]
        self.rebuilt = {
            file.index.path: one.rebuilt for file, one in zip(files, results, strict=True) if one.rebuilt is not None
        }
        for file, one in zip(files, results, strict=True):
            found += self._masks(file, one)
        return found + self._twice(files, results)

    def _masks(self, file: TableFile, one: Checked) -> list[Difference]:
        """Compare the hidden rows of a file with its rows."""
        parts = self._walk.hidden.get(file.path, [])
        if not parts:
            return []
        positions = np.concatenate([part[0] for part in parts])
        found = []
        if (positions >= file.rows).any():
            found.append("a version hides rows that it does not have")
        if len(np.unique(positions)) != len(positions):
            found.append("a row is hidden twice")
        elif not found and one.keys is not None:
            known = [part for part in parts if part[1] is not None]  # a base has no keys of hidden rows
            keys = pa.concat_arrays([pa.array([], pa.large_binary()), *(part[1] for part in known)])
            positions = np.concatenate([np.zeros(0, np.int64), *(part[0] for part in known)])
            if not pc.all(pc.equal(keys, one.keys.take(pa.array(positions)))).as_py() and len(keys):
                found.append("a version hides a row under another key")
        return [Difference(what, file.path) for what in found]

    def _twice(self, files: Sequence[TableFile], results: Sequence[Checked]) -> list[Difference]:
        """Return the keys with more than one live row or tombstone. One range of hashes is compared after the other."""
        live = set(self._snapshot.files.column("path").to_pylist())
        pairs = [
            (file, one)
            for file, one in zip(files, results, strict=True)
            if file.path in live and one.hashes is not None
        ]
        bits = (sum(file.rows for file, _ in pairs) // _AT_ONCE).bit_length()
        twice = sorted(key for part in range(1 << bits) for key in self._twice_in(part, bits, pairs))
        if not twice:
            return []
        samples = "; ".join(key_text(decoded_key(key, self._plan.key_width)) for key in twice[:SAMPLES])
        return [Difference(f"{counted(len(twice), 'key')} with more than one row or tombstone, for example {samples}")]

    def _twice_in(self, part: int, bits: int, pairs: Sequence[tuple[TableFile, Checked]]) -> list[bytes]:
        """Return the keys with more than one live row, of those whose hashes begin with some bits.

        part: these bits, as a number. pairs: the live files and what was found in each.
        """
        by_partition = (self._snapshot.state.spec or {}).get(SPEC, {}).get("scope") == "partition"
        names: dict[str | None, int] = {}
        found = []
        for number, (file, one) in enumerate(pairs):
            assert one.hashes is not None
            rows = np.arange(file.rows)
            if bits:
                rows = np.flatnonzero(one.hashes >> np.uint64(64 - bits) == part)
            hidden = [positions for positions, _ in self._walk.hidden.get(file.path, [])]
            rows = np.setdiff1d(rows, np.concatenate([np.zeros(0, np.int64), *hidden]))
            scope = np.zeros(len(rows), np.int64)
            if by_partition:
                codes = np.array([names.setdefault(extent.partition, len(names)) for extent in file.extents], np.int64)
                ends = np.cumsum([extent.rows for extent in file.extents])
                scope = codes[np.searchsorted(ends, rows, side="right")]
            found.append((one.hashes[rows], scope, np.full(len(rows), number), rows))
        if not found:
            return []
        columns = [np.concatenate(column) for column in zip(*found, strict=True)]
        order = np.lexsort((columns[1], columns[0]))
        hashes, scopes, numbers, positions = (column[order] for column in columns)
        equal = (hashes[1:] == hashes[:-1]) & (scopes[1:] == scopes[:-1])
        doubtful = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
        seen = Counter(
            (int(scopes[row]), pairs[numbers[row]][1].keys[int(positions[row])].as_py()) for row in doubtful.tolist()
        )
        return [key for (_, key), count in seen.items() if count > 1]


def _check(plan: Plan, snapshot: Snapshot, file: TableFile, number: int, attempt: int) -> Any:
    return guarded(check_file, plan, snapshot, file)
