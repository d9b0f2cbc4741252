"""The files that a version has, and those that the versions up to it have replaced, with the versions that did so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.commits import COMPACT, Commit
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.dataset.versions.snapshot import KeptKeys, Snapshot, added_files
from mutator.errors import suppressed
from mutator.rules.order_columns import flags

_NEAR = 32  # entries that are read rather than another snapshot


@dataclass(frozen=True)
class EarlierFiles:
    """The files that were live at a version or before a version that replaced some, as far back as they are there."""

    snapshot: Snapshot  # of the version; ``files`` are all of these
    replacements: tuple[Commit, ...]  # the newest first
    entries: dict[int, Commit]  # that were read, by number
    oldest: Any  # paths of the files that were live before the first of the replacements, a pa.Array

    def without_copies(self) -> Snapshot:
        """Return the snapshot without the files of compactions whose rows are in other files, too."""
        compactions = [one.number for one in self.replacements if one.action == COMPACT]
        files = self.snapshot.files
        is_copy = pc.is_in(files.column("version"), value_set=pa.array(compactions, pa.int64()))
        is_first = pc.is_in(files.column("path"), value_set=self.oldest)
        return self.snapshot.only(flags(pc.or_(pc.invert(is_copy), is_first)))


def earlier_files(snapshot: Snapshot) -> EarlierFiles:
    """Return the files of a version, and those that were replaced before. Their rows may be hidden.

    One snapshot is opened, that of the version before the first replacement. The entries after it name the other files.
    """
    log = TableLog(snapshot.table)
    replacements = list(_replacements(log, snapshot))
    entries = {one.number: one for one in replacements}
    while replacements:
        with suppressed("table.version.gone"):  # a cleaning that the snapshot does not know has taken it away
            oldest = open_snapshot(snapshot.table, replacements[-1].number - 1)
            parts = [oldest.files, *_between(oldest.table, replacements, entries), snapshot.files]
            found = replace(snapshot, files=_each_once(parts), keys=KeptKeys())
            paths = oldest.files.column("path").combine_chunks()
            return EarlierFiles(found, tuple(replacements), entries, paths)
        replacements.pop()
    return EarlierFiles(snapshot, (), {}, pa.array([], pa.string()))


def _replacements(log: TableLog, snapshot: Snapshot) -> Iterator[Commit]:
    """Yield the versions that replaced files, the newest first, as long as the version before each is there."""
    left, number = snapshot.state.cleaning.left, snapshot.version.last_replacement
    while number is not None and left.has(number - 1):
        version = log.read(number)
        yield version
        number = version.compacted


def _between(table: str, replacements: Sequence[Commit], entries: dict[int, Commit]) -> Iterator[Any]:
    """Yield the files that the first replacement and the versions after it added, but for those after the last one.

    Where many versions replaced nothing, a snapshot has what their entries have. entries: gets those that are read.
    """
    for first, following in zip(replacements[:0:-1], replacements[-2::-1], strict=True):
        last = following.number - 1
        if last - first.number > _NEAR:
            yield open_snapshot(table, last).files
            continue
        entries.update((one.number, one) for one in TableLog(table).after(first.number, last))
        yield from (added_files(entries[number]) for number in range(first.number, last + 1))


def _each_once(parts: Sequence[Any]) -> Any:
    """Return the files of some pa.Tables, each path once."""
    files = pa.concat_tables(parts).combine_chunks()
    codes = files.column("path").combine_chunks().dictionary_encode().indices.to_numpy()
    _, first = np.unique(codes, return_index=True)
    return files.take(pa.array(np.sort(first)))
