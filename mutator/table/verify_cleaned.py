"""Verify what cleanings have left of a table: what its log begins with, archives of entries, and lists of files."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from mutator.dataset.file_entry import DATA, TOMBSTONES, FileEntry
from mutator.dataset.versions.checkpoint import files_of
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import base_of, open_snapshot
from mutator.dataset.versions.packs import content_of
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors import MutatorError, suppressed
from mutator.pipeline.verify import Difference
from mutator.rules.byte_columns import Ints
from mutator.table.clean_plan import owned_by
from mutator.table.clean_removal import mark_of, named_files

_COPY = "restore it from a copy of the table"


@dataclass
class Beginning:
    """What the versions that are left begin with."""

    snapshot: Snapshot | None = None  # of the earliest version; None: version 0, with which the log begins
    files: dict[str, FileEntry] = field(default_factory=dict)  # of it, and of earlier versions with tags
    hidden: dict[str, Ints] = field(default_factory=dict)  # path -> positions of hidden rows
    live: dict[str, int] = field(default_factory=dict)  # role -> rows of the earliest version
    named: set[str] = field(default_factory=set)  # paths of files that are no strays
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
            found.differences.append(Difference(what, path, _COPY))
        else:
            _add(found, snapshot, is_earliest=number == cleaning.earliest)
    found.named |= {path for _, path in cleaning.left.kept}
    found.differences += _kept(log, table, cleaning.left.kept)
    for waiting in cleaning.waiting.values():
        found.named |= {waiting.named.path, mark_of(waiting)}
        try:
            named = named_files(table, waiting)
        except MutatorError as fault:
            found.differences.append(Difference(str(fault.fields.get("why", fault)), waiting.named.path, _COPY))
        else:
            found.named.update(() if named is None else named.column("path").to_pylist())
    found.differences += [*_archives(log, table), *_entries(log, table, cleaning.earliest)]
    return found


def _add(found: Beginning, snapshot: Snapshot, *, is_earliest: bool) -> None:
    """Add the files of a version."""
    masks, live = snapshot.masks.of_files(), {DATA: 0, TOMBSTONES: 0}
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
                        yield Difference(str(fault.fields.get("why", fault)), path, _COPY)


def _archives(log: TableLog, table: str) -> Iterator[Difference]:
    """Yield the archives that are damaged."""
    for one in log.archive.files():
        with suppressed("table.log.archive"):
            for _ in log.archive.contents(one.first, one.last):
                pass
            continue
        path = posixpath.relpath(posixpath.join(log.archive.directory, one.name), table)
        yield Difference("its digest is not that of its name", path, _COPY)


def _entries(log: TableLog, table: str, last: int) -> Iterator[Difference]:
    """Yield the first entry up to one that is lost or damaged. No rows depend on these entries, but commands do."""
    try:
        for _ in log.chain(None, last):
            pass
    except MutatorError as fault:
        if fault.kind != "table.log.archive":  # which is a difference already
            path = posixpath.relpath(fault.fields["path"], table)
            yield Difference(str(fault.fields.get("why", fault)), path, _COPY)
