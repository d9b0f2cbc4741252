"""Whether versions left alone what an insert overwrite replaces, so that it may be committed after them.

An overwrite has counted, hidden and buried every record of its partitions as they were. That is still so if no version
since has added rows or tombstones to them, has hidden or touched some there, and has removed none of their files. A
version that moves a record out of such a partition, or deletes it, hides its row, and so is found, too. What these
versions have in common with the keys of the feed, in other partitions, is for ``second_decisions`` to find.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.commits import Commit
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.versions.checkpoint import files_of
from mutator.dataset.versions.masks import index_of, older_rows
from mutator.dataset.versions.snapshot import Snapshot
from mutator.rules.byte_columns import Ints


def kept_apart(snapshots: Sequence[Snapshot], partitions: Collection[str], winners: Sequence[Commit]) -> bool:
    """Return whether versions changed nothing in some partitions.

    snapshots: some that have the files of which versions hid, touched or removed rows; a version that did so to another
    file counts as one that changed the partitions.
    """
    named: dict[str, list[Ints | None]] = {}  # path -> positions of rows; None for all
    added: dict[str, FileEntry] = {}
    for version in winners:
        added |= {file.path: file for file in version.files}
        for file in version.files:
            named.setdefault(file.path, []).append(None)
        for path in version.removed:
            named.setdefault(path, []).append(None)
        for found in older_rows(snapshots[0].table, index_of(version)):
            for path in found.files:
                named.setdefault(path, []).append(found.positions(path))
    known = _files(snapshots, named.keys() - added.keys()) | added
    return named.keys() <= known.keys() and not any(
        _is_in(known[path], partitions, rows) for path, parts in named.items() for rows in parts
    )


def _files(snapshots: Sequence[Snapshot], paths: Collection[str]) -> dict[str, FileEntry]:
    wanted, found = pa.array(sorted(paths), pa.string()), dict[str, FileEntry]()
    for snapshot in snapshots:
        rows = np.flatnonzero(pc.is_in(snapshot.files.column("path").cast(pa.string()), value_set=wanted).to_numpy())
        found |= {file.path: file for file in files_of(snapshot.files, rows)}
    return found


def _is_in(file: FileEntry, partitions: Collection[str], rows: Ints | None) -> bool:
    """Return whether some rows of a file are in some partitions; None for all rows."""
    inside = np.array([one.partition in partitions for one in file.extents], np.bool_)
    if rows is None:
        return bool(inside.any())
    ends = np.cumsum([one.rows for one in file.extents])
    return bool(inside[np.searchsorted(ends, rows, "right")].any())
