"""Verify a history: closed versions are those of their events, and open ones are the records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.versions.snapshot import LiveExtent, Snapshot
from mutator.engine.each import checked, guarded
from mutator.engine.runner import each_on
from mutator.engine.versions.history_rows import HistoryRows, Meaning, is_closed
from mutator.errors.display import command, key_text
from mutator.pipeline.verify import Difference
from mutator.plan.rows.row_plan import IGNORED
from mutator.rules.byte_columns import Ints
from mutator.rules.history import OPEN
from mutator.rules.row_hash import RowHashes, row_hashes
from mutator.rules.typed_values import canonical
from mutator.table.apply import OpenRunner
from mutator.table.history import History, of_units
from mutator.table.scan import scan_batches

_GROUPS = 1 << 12  # of row hashes that are compared as one sum


class HistoryOfTable:
    """The history of a table."""

    def __init__(self, snapshot: Snapshot, open_runner: OpenRunner) -> None:
        """Read nothing yet."""
        self._snapshot, self._open_runner = snapshot, open_runner
        self._history = History(snapshot)
        ignored = snapshot.state.spec.get(IGNORED, ())
        self._compared = [name for name in self._history.fields.names if name not in ignored]

    def differences(self) -> Iterator[Difference]:
        """Yield the closed files with other versions than those of their events, and other open versions than records.

        A deletion that the table has forgotten lets older rows in, so these are not compared then.
        """
        meaning, units = self._history.meaning, self._history.units()
        given = [(of_units(self._snapshot, [unit]), meaning, self._compared, unit) for unit in units]
        with self._open_runner(sum(one.file.bytes for unit in units for one in unit)) as (runner, _):
            found: list[Any] = checked(each_on(runner)(given, _checked))
        cure = f"write them again: {command('table', 'compact', self._snapshot.table, '--all')}"
        for path in sorted(path for one in found for path in one[0]):
            yield Difference("has versions that are not those of its events", path, cure)
        if self._snapshot.version.horizon is not None:
            return
        of_records = np.zeros((2, _GROUPS), np.uint64)
        for batch in self._records():
            of_records += _sums(_hashes(batch))
        differs = np.flatnonzero((sum((one[1] for one in found), np.zeros_like(of_records)) != of_records).any(axis=0))
        if len(differs):
            yield Difference(self._sample(int(differs[0])))

    def _records(self) -> Iterator[Any]:
        return scan_batches(self._snapshot, self._compared)

    def _sample(self, group: int) -> str:
        """Return a text on the difference, with a key. group: of row hashes that differ."""
        ends = self._history.schema.names[len(self._history.fields) + 1]
        open_ones = self._history.batches(self._compared, [(ends, "is null")], None)
        texts = [{*self._keys_in(batches, group)} for batches in (open_ones, self._records())]
        differs = sorted(texts[0] ^ texts[1])
        sample = f", for example of {key_text(differs[0][1:])}" if differs else ""  # else closed rows hide it
        return f"the open versions of its history are not its records{sample}"

    def _keys_in(self, batches: Any, group: int) -> Iterator[tuple[bytes, ...]]:
        for batch in batches:
            hashes = _hashes(batch)
            some = batch.take(pa.array(np.flatnonzero(hashes % _GROUPS == group)))
            keys = (canonical(some.column(name)).to_pylist() for name in self._history.meaning.key)
            yield from zip((b"%d" % one for one in hashes[hashes % _GROUPS == group]), *keys, strict=True)


def _checked(given: Any, number: int, attempt: int) -> Any:
    return guarded(partial(_check, *given))


def _check(
    snapshot: Snapshot, meaning: Meaning, names: Sequence[str], unit: Sequence[LiveExtent]
) -> tuple[list[str], Any]:
    """Return the closed files of a bucket that differ from their events, and the sums of its open versions."""
    rows, wrong = HistoryRows(snapshot, meaning), list[str]()
    for extent in unit:
        if is_closed(extent, meaning):
            kept = rows.closed(extent, np.zeros(0, np.uint64))
            columns = [kept.rows.column(name).combine_chunks() for name in meaning.fields.names]
            known = _sorted(meaning, columns, kept.starts, kept.ends, kept.endings)
            if known != _sorted(meaning, *_versions(rows, meaning, [extent])):
                wrong.append(extent.file.path)
    columns, _, _, endings = _versions(rows, meaning, unit)
    is_open = pa.array(endings == OPEN)
    chosen = {name: columns[meaning.fields.names.index(name)].filter(is_open) for name in names}
    return wrong, _sums(_hashes(pa.RecordBatch.from_pydict(chosen)))


def _versions(rows: HistoryRows, meaning: Meaning, unit: Sequence[LiveExtent]) -> tuple[list[Any], Any, Any, Ints]:
    found = meaning.versions(rows.events([rows.place_of(one) for one in unit]).columns)
    columns = [found.field(number) for number in range(len(meaning.fields))]
    return columns, found.starts, found.ends, found.endings


def _sorted(meaning: Meaning, columns: Sequence[Any], starts: Any, ends: Any, endings: Ints) -> bytes:
    """Return the row hashes of versions, sorted: equal for the same versions in any order."""
    each = [*columns, starts, ends, pa.array(endings.astype(np.int64))]
    found = row_hashes(pa.StructArray.from_arrays(each, names=[str(number) for number in range(len(each))]))
    return np.sort(found).tobytes()


def _hashes(batch: Any) -> RowHashes:
    columns = [one.combine_chunks() if isinstance(one, pa.ChunkedArray) else one for one in batch.columns]
    return row_hashes(pa.StructArray.from_arrays(columns, fields=list(batch.schema)))


def _sums(hashes: RowHashes) -> Any:
    """Return (number of rows, sum of the row hashes) of each group of row hashes."""
    groups = hashes % _GROUPS
    counts = np.bincount(groups, minlength=_GROUPS).astype(np.uint64)
    sums = np.zeros(_GROUPS, np.uint64)
    np.add.at(sums, groups, hashes.astype(np.uint64))
    return np.stack((counts, sums))
