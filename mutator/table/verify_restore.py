"""Compare checkpoints with what the log gives, and restores with the versions that they restored.

Verify what cleanings have left of a table: what its log begins with, archives of entries, and lists of files.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.commits import Commit
from mutator.dataset.file_entry import WITH_ROWS, FileEntry
from mutator.dataset.versions.checkpoint import FILES, files_of
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.masks import restored_masks
from mutator.dataset.versions.opening import base_of, open_snapshot
from mutator.dataset.versions.packs import RESTORE, content_of, packs_of, unpacked, without_packs
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors import MutatorError, suppressed
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.verify import Difference
from mutator.rules.byte_columns import Ints
from mutator.table.clean_plan import owned_by
from mutator.table.clean_removal import mark_of, named_files


@dataclass
class Beginning:
    """The first version that is left, and its files."""

    snapshot: Snapshot | None = None  # of the earliest version; None: version 0, with which the log begins
    files: dict[str, FileEntry] = field(default_factory=dict)  # of it, and of earlier versions with tags
    hidden: dict[str, Ints] = field(default_factory=dict)  # path -> positions of hidden rows
    live: dict[str, int] = field(default_factory=dict)  # role -> rows of the earliest version
    named: set[str] = field(default_factory=set)  # paths of files that are not strays
    differences: list[Difference] = field(default_factory=list)


def what_is_left(table: str) -> Beginning:
    """Return what cleanings have left of a table; nothing if it was never cleaned, or cannot be opened."""
    found, log = Beginning(), TableLog(table)
    try:
        head = open_snapshot(table)
    except MutatorError:
        return found  # reading the log shows why
    cleaning = head.state.cleaning
    for number, name in sorted(cleaning.left.bases.items(), reverse=True):
        snapshot = base_of(log, table, name)
        if snapshot is None:
            path = posixpath.relpath(log.checkpoint_path(name), table)
            what = f"it is missing or damaged, and the log begins with it: version {number} cannot be read"
            found.differences.append(Difference(what, path, RESTORE))
        else:
            _add(found, snapshot, is_earliest=number == cleaning.earliest)
    found.named |= {path for _, path in cleaning.left.kept}
    found.differences += _kept(log, table, cleaning.left.kept)
    for waiting in cleaning.waiting.values():
        found.named |= {waiting.named.path, mark_of(waiting)}
        try:
            named = named_files(table, waiting)
        except MutatorError as fault:
            found.differences.append(Difference(fault.why, waiting.named.path, RESTORE))
        else:
            found.named.update(() if named is None else named.column("path").to_pylist())
    found.differences += [*_archives(log, table), *_entries(log, table, cleaning.earliest)]
    return found


def _add(found: Beginning, snapshot: Snapshot, *, is_earliest: bool) -> None:
    """Add the files of a version."""
    masks, live = snapshot.masks.of_files(), dict.fromkeys(WITH_ROWS, 0)
    for file in files_of(snapshot.files, np.arange(len(snapshot.files))):
        hidden = masks[file.path][0] if file.path in masks else np.zeros(0, np.int64)
        live[file.role] += file.rows - len(hidden)
        if file.path not in found.files:
            found.files[file.path], found.hidden[file.path] = file, hidden
    found.named.update(owned_by(snapshot.files).column("path").to_pylist())
    if is_earliest:
        found.snapshot, found.live = snapshot, live


def _kept(log: TableLog, table: str, kept: Sequence[tuple[int, str]]) -> Iterator[Difference]:
    """Yield the files of withdrawn rows of versions that are gone that are lost or damaged."""
    for number, path in kept:
        with suppressed("table.log.damaged", "table.log.archive"):  # which are differences, too
            for stored in log.read(number).withdrawn:
                if stored.path == path:
                    try:
                        content_of(table, stored)
                    except MutatorError as fault:
                        yield Difference(fault.why, path, RESTORE)


def _archives(log: TableLog, table: str) -> Iterator[Difference]:
    """Yield the archives that are damaged."""
    for one in log.archive.files():
        with suppressed("table.log.archive"):
            for _ in log.archive.contents(one.first, one.last):
                pass
            continue
        path = posixpath.relpath(posixpath.join(log.archive.directory, one.name), table)
        yield Difference("its digest is not that of its name", path, RESTORE)


def _entries(log: TableLog, table: str, last: int) -> Iterator[Difference]:
    """Yield the first entry up to one that is lost or damaged. No rows depend on these entries, but commands do."""
    try:
        for _ in log.chain(None, last):
            pass
    except MutatorError as fault:
        if fault.kind != "table.log.archive":  # which is a difference already
            path = posixpath.relpath(fault.fields["path"], table)
            yield Difference(fault.why, path, RESTORE)


Rows = list[tuple[Ints, Any]]  # positions of hidden rows of a file, and their encoded keys; None: not known
_Masks = Mapping[str, tuple[Ints, Ints, Any]]  # file -> hidden rows, touched rows, order values of these
_NONE = np.zeros(0, np.int64)


def difference_of(own: Snapshot, name: str) -> str | None:
    """Return how a checkpoint differs from the snapshot of its version, in words; None if it does not.

    Raises StateError if a version index of the snapshot cannot be read.
    """
    log = TableLog(own.table)
    read = log.checkpoint(name)
    if read is None:
        return "it is damaged"
    files, state, masks = read
    unpacked_files = unpacked(own.table, files)
    if unpacked_files is None:
        return "a pack that it names is missing or damaged"
    own_files = without_packs(log, own.files, packs_of(own.files))
    rows = own.mask_rows()
    found = {} if masks is None else log.masks(masks)
    if found is None:
        return f"its file of masks {masks} is missing or damaged"
    same = unpacked_files.equals(own_files.cast(FILES)) and state == own.state
    same = same and found.keys() == {one[0] for one in rows}
    if not same or not all(equal_masks(found[one[0]], one[1:]) for one in rows):
        return "it is not what the log gives"
    return None


def equal_masks(found: Sequence[Any], own: Sequence[Any]) -> bool:
    """Return whether two masks of a file, each (hidden rows, touched rows, order values), are equal."""
    return bool(
        np.array_equal(found[0], own[0])
        and np.array_equal(found[1], own[1])
        and found[2].to_pylist() == own[2].to_pylist()
    )


def followed(
    own: Snapshot, version: Commit, ever: Mapping[str, Rows], *, has_base: bool
) -> tuple[dict[str, Rows] | None, list[str]]:
    """Return the rows that a restore hides, by file, and how it differs from what it should be, in words.

    own: the snapshot after it. ever: the rows that all versions have hidden. has_base: the first of these are not
    known, because their entries were cleaned. The rows are None if the file of the masks is lost or damaged.
    """
    assert version.restored is not None
    try:
        masks = restored_masks(own.table, version.restored.masks)
    except MutatorError as fault:
        return None, [str(fault)]
    found, differences = dict[str, Rows](), list[str]()
    for path, (positions, _, _) in masks.items():
        found[path], unknown = _hidden(positions, ever.get(path, []))
        if len(unknown) and has_base:
            found[path].append((unknown, None))
        elif len(unknown):
            differences.append(f"it hides rows of {path} that no earlier version has hidden")
    return found, [*differences, *_of_version(own, masks, version.restored.version)]


def _hidden(positions: Ints, ever: Rows) -> tuple[Rows, Ints]:
    """Return some rows with their keys, and those of them that were never hidden. positions: of the rows."""
    keyed = [(one, keys.cast(pa.large_binary())) for one, keys in ever if keys is not None]
    known, first = np.unique(np.concatenate([_NONE, *(one for one, _ in keyed)]), return_index=True)
    keys = pa.concat_arrays([pa.array([], pa.large_binary()), *(one for _, one in keyed)])
    chosen = np.isin(known, positions)
    left = np.setdiff1d(positions, known)
    others = np.intersect1d(left, np.concatenate([_NONE, *(one for one, keys in ever if keys is None)]))
    found: Rows = [(known[chosen], keys.take(pa.array(first[chosen])))]
    return [*found, *([(others, None)] if len(others) else [])], np.setdiff1d(left, others)


def _of_version(own: Snapshot, masks: _Masks, number: int) -> Iterator[str]:
    with suppress(MutatorError):  # that version was cleaned, or its damage is a difference already
        earlier = open_snapshot(own.table, number)
        rows: dict[str, Sequence[Any]] = {path: rest for path, *rest in earlier.mask_rows()}
        is_same = _paths(own) == _paths(earlier) and rows.keys() == masks.keys()
        if not is_same or not all(equal_masks(masks[path], rest) for path, rest in rows.items()):
            yield f"it does not have the rows of version {number}, which it restores"


def _paths(snapshot: Snapshot) -> set[str]:
    return set(snapshot.files.column("path").to_pylist())
