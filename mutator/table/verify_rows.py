"""Verify the rows of a table: files with their key indexes and hidden rows, and that no key has two live rows."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.config import Config
from mutator.dataset.file_entry import OF_HISTORY, FileEntry
from mutator.dataset.versions.key_index import decoded_key
from mutator.dataset.versions.snapshot import LiveExtent, Snapshot
from mutator.engine.each import checked, guarded
from mutator.engine.runner import each_on
from mutator.engine.versions.live_rows import LiveRows
from mutator.errors import MutatorError
from mutator.errors.display import counted, key_text
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.verify import Difference
from mutator.plan.reading import SAMPLES, Reading
from mutator.plan.rows.format_choice import stored_row_plan
from mutator.rules.byte_columns import Ints
from mutator.rules.key_hash import Hashes
from mutator.rules.order_types import is_same_order
from mutator.storage.progress import expected
from mutator.table.apply import OpenRunner
from mutator.table.prepare import plan_without_feed
from mutator.table.verify_file import Checked, HiddenRows, VerifiedRows, check_file
from mutator.table.verify_log import Walk

_AT_ONCE = 1 << 20  # live rows whose keys are compared at once, about


@dataclass(frozen=True)
class _Part:
    """The rows of an extent. rows: of its whole file; None: its key index has them."""

    place: LiveExtent
    rows: VerifiedRows | None


class RowsOfTable:
    """The rows of all files of a table."""

    def __init__(self, walk: Walk, config: Config, open_runner: OpenRunner) -> None:
        """Read nothing yet. walk: that has read the log."""
        self._walk, self._open_runner = walk, open_runner
        assert walk.snapshot is not None
        self._snapshot = walk.snapshot
        self._plan = plan_without_feed(self._snapshot, config)
        self._live = LiveRows(self._snapshot)
        self.rebuilt: dict[str, bytes] = {}
        self.waiting = 0  # tombstones that patches wait beside

    def differences(self) -> list[Difference]:
        """Compare the files with the log, and their rows with the hidden rows and with each other."""
        files = list(self._walk.files.values())
        given = [(self._plan_of(file), file, self._walk.hidden.get(file.path, [])) for file in files]
        bytes_ = sum(file.bytes for file in files)
        with self._open_runner(bytes_) as (runner, _), expected(bytes_):
            results: list[Checked] = checked(each_on(runner)(given, partial(_check, self._snapshot)))
        found = [difference for one in results for difference in one.differences]
        self.rebuilt = {
            file.keys.path: one.rebuilt for file, one in zip(files, results, strict=True) if one.rebuilt is not None
        }
        live = {*self._snapshot.files.column("path").to_pylist()}
        self.waiting = sum(one.waiting for file, one in zip(files, results, strict=True) if file.path in live)
        return found + self._twice(files, results, live)

    def _plan_of(self, file: FileEntry) -> Reading:
        """Return the plan of the order that a file was written in."""
        order = self._walk.orders.get(file.path)
        if not order or is_same_order(order, self._snapshot.state.spec["order"]):
            return self._plan
        state = self._snapshot.state
        found = stored_row_plan(replace(state, spec={**state.spec, "order": order}))
        own = found.layouts["master"]
        members = {"order_type": own.order_type, "order_fields": own.order_fields, "null_lowest": own.null_lowest}
        layouts = {name: replace(layout, **members) for name, layout in self._plan.rows.layouts.items()}
        rows = replace(self._plan.rows, layouts=layouts, order_type=found.order_type, orders_beside=found.orders_beside)
        return replace(self._plan, rows=rows, by_file_name=order["by"] == "file name")

    def _twice(self, files: Sequence[FileEntry], results: Sequence[Checked], live: set[str]) -> list[Difference]:
        """Return the keys with more than one live row or tombstone. One bucket is compared after the other.

        live: paths of the files of the snapshot.
        """
        buckets = dict[int, list[_Part]]()
        parts = [
            _Part(LiveExtent(file, extent, end - extent.rows), one.rows)
            for file, one in zip(files, results, strict=True)
            if file.path in live and file.role not in OF_HISTORY and (one.has_index or one.rows is not None)
            for extent, end in zip(file.extents, accumulate(one.rows for one in file.extents), strict=True)
        ]
        fewest = int(np.gcd.reduce([part.place.extent.buckets for part in parts])) if parts else 1
        for part in parts:
            buckets.setdefault(part.place.extent.bucket % fewest, []).append(part)
        try:
            twice = sorted(key for bucket in buckets.values() for key in self._twice_in(bucket))
        except MutatorError as fault:
            if fault.kind != "table.file":
                raise
            path = posixpath.relpath(fault.fields["path"], self._snapshot.table)
            return [Difference(fault.why, path)]  # an index that was whole when its file was checked
        if not twice:
            return []
        samples = "; ".join(key_text(decoded_key(key, self._plan.key_width)) for key in twice[:SAMPLES])
        return [Difference(f"{counted(len(twice), 'key')} with more than one row or tombstone, for example {samples}")]

    def _twice_in(self, bucket: Sequence[_Part]) -> Iterator[bytes]:
        """Yield the keys of a bucket with more than one live row. One range of hashes is compared after the other."""
        bits = (sum(part.place.extent.rows for part in bucket) // _AT_ONCE).bit_length()
        bounds = [np.uint64(number << 64 - bits) for number in range(1, 1 << bits)]
        for number in range(1 << bits):
            yield from self._twice_between(bucket, ([None, *bounds][number], [*bounds, None][number]))

    def _twice_between(self, bucket: Sequence[_Part], bounds: tuple[Any, Any]) -> list[bytes]:
        """Return the keys with more than one live row, of those whose hashes are in a range.

        bounds: the first hash of the range, and the one after it; None: there is no bound.
        """
        by_partition = self._snapshot.state.key_scope == "partition"
        names: dict[str | None, int] = {}
        found = []
        for number, part in enumerate(bucket):
            hashes, positions, entries = self._rows(part, bounds)
            hidden = [one for one, _ in self._walk.hidden.get(part.place.file.path, [])]
            live = ~np.isin(positions, np.concatenate([np.zeros(0, np.int64), *hidden]))
            scope = names.setdefault(part.place.extent.partition, len(names)) if by_partition else 0
            rows = int(live.sum())
            found.append((hashes[live], np.full(rows, scope), np.full(rows, number), entries[live]))
        columns = [np.concatenate(column) for column in zip(*found, strict=True)]
        order = np.lexsort((columns[1], columns[0]))
        hashes, scopes, numbers, entries = (column[order] for column in columns)
        if not len(hashes):
            return []
        equal = (hashes[1:] == hashes[:-1]) & (scopes[1:] == scopes[:-1])
        doubtful = np.append(equal, False) | np.append(False, equal)
        seen = Counter[tuple[int, bytes]]()
        for number in np.unique(numbers[doubtful]).tolist():
            own = doubtful & (numbers == number)
            seen.update(zip(scopes[own].tolist(), self._keys(bucket[number], entries[own]).to_pylist(), strict=True))
        return [key for (_, key), count in seen.items() if count > 1]

    def _rows(self, part: _Part, bounds: tuple[Any, Any]) -> tuple[Hashes, Ints, Ints]:
        """Return (hashes, positions, entries) of the rows in a range of hashes.

        Without an index, entries are positions.
        """
        place, (first, end) = part.place, bounds
        if part.rows is not None:
            hashes = part.rows.hashes[place.start : place.end]
            inside = np.ones(len(hashes), np.bool_) if first is None else hashes >= first
            chosen = np.flatnonzero(inside if end is None else inside & (hashes < end))
            return hashes[chosen], place.start + chosen, place.start + chosen
        hashes = self._live.hashes(place.file)[place.start : place.end]
        begin = 0 if first is None else int(np.searchsorted(hashes, first))
        stop = len(hashes) if end is None else int(np.searchsorted(hashes, end))
        entries = np.arange(place.start + begin, place.start + stop)
        return hashes[begin:stop], self._live.positions(place.file, entries), entries

    def _keys(self, part: _Part, entries: Ints) -> Any:
        """Return the encoded keys of some rows."""
        if part.rows is not None:
            return part.rows.keys.take(pa.array(entries))
        return self._live.entry_keys(part.place.file, entries)


def _check(snapshot: Snapshot, given: tuple[Reading, FileEntry, list[HiddenRows]], number: int, attempt: int) -> Any:
    plan, *others = given
    return guarded(check_file, plan, snapshot, *others)
