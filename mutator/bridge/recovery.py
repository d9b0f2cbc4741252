"""Clean up after killed runs, and find the text copy that belongs to the table as it is.

The log of text copies and table states: ``_mutator/bridge/<20 digits>.json`` below the base of the text copies.

An entry is written before the table is changed, and names the files that the table will have. The table itself is the
commit point: an entry is current if the table has exactly these files. So after a kill at any instant the current
entry has the text copy of the table as it is, with its tombstones and all feed files merged so far. Any other entry was
never committed, or another program has changed the table since.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from mutator.bridge.contract import BridgeFile, BridgeTable, files_of
from mutator.bridge.importing import text_copy
from mutator.dataset import checksummed_json
from mutator.dataset.commits import FeedFile
from mutator.dataset.manifest import DIRECTORY
from mutator.dataset.numbered_log import NumberedLog
from mutator.errors import MutatorError, error, suppressed
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.file_names import first_few, is_run_id
from mutator.storage import Storage, entries_of, link_or_copy, storage_for


@dataclass(frozen=True)
class StateEntry:
    """A text copy, and the state of the table that it belongs to."""

    number: int
    run: str
    table: str
    text: str  # directory, relative to the base
    dataset: str  # commit id of its manifest
    files: tuple[BridgeFile, ...] | None  # None: a run began to write them
    fields: tuple[str, ...] = ()  # name and type of each field of the table
    staged: Mapping[str, Any] | None = None  # the record of ``Table.stage``; None: the run changed no row
    changed_by: str = ""  # the last run that wrote files of the table
    digests: Mapping[str, Any] = field(default_factory=dict)  # name and checksum of a text file -> digests of its rows


class BridgeState:
    """The entries of a base directory."""

    def __init__(self, base: str) -> None:
        self._directory = posixpath.join(base, "_mutator", "bridge")
        self._log = NumberedLog(self._directory, "mutator bridge", 1, _entry, checksummed_json.record_members)

    def entries(self) -> list[StateEntry]:
        """Return all entries, newest first. Raises StateError if one is damaged."""
        return [self._log.read(number) for number in reversed(self._log.numbers())]

    def add(self, entry: StateEntry) -> None:
        """Write a new entry. Raises StateError if another run has written one with its number."""
        with suppressed("storage.exists"):
            self._log.create(entry)
            return
        raise error("table.changed", table=entry.table, what="was merged, by another run")

    def clear(self) -> None:
        """Remove all entries, damaged ones too."""
        for file in entries_of(self._directory):
            storage_for(file.path).remove(file.path)

    def remove(self, entry: StateEntry) -> None:
        """Remove an entry that no longer counts."""
        self._log.remove(entry.number)


def _entry(members: dict[str, Any]) -> StateEntry:
    if members["files"] is not None:
        members["files"] = files_of(members["files"])
    return StateEntry(**checksummed_json.attributes(StateEntry, members | {"fields": tuple(members["fields"])}))


@dataclass(frozen=True)
class TextBase:
    """The base directory of text copies, during one run."""

    path: str
    given: str  # as the user spells it
    run: str
    storage: Storage
    state: BridgeState

    def path_of(self, name: str) -> str:
        """Return the path of a directory in the base."""
        return posixpath.join(self.path, name)


def settle(table: BridgeTable, base: TextBase) -> tuple[StateEntry | None, str]:
    """Remove the files of killed runs; return the current entry, or None and the reason for an export."""
    entries, files = base.state.entries(), table.files()
    others = {one.table for one in entries} - {table.name}
    if others:
        raise error("table.other", path=base.path, other=min(others), table=table.name)
    found = next((one for one in entries if one.files == files), None)
    failpoint("bridge.settle.found")
    for one, own in _own_files(entries):
        # This run began later entries, too, but committed the current one.
        if found is not None and one.run == found.run and one.number <= found.number:
            continue
        if one.staged is not None and own & set(files):
            table.retire(one.staged)  # committed, but the table was changed by another program since
        elif one.files != files:
            table.discard(one.run)
    if found is not None and found.staged is not None:
        table.retire(found.staged)
    failpoint("bridge.settle.retired")
    if found is None:
        return None, _why(entries, files)
    remove_older(base, found)
    if found.fields != fields_of(table):
        return None, "its fields have changed"
    known = None
    with suppressed("path.missing", "storage.missing"):
        _, known = text_copy(base.path_of(found.text))
    if known is None:
        return None, "its text copy is gone"
    return (found, "") if known.commit.id == found.dataset else (None, "its text copy is another one")


def fields_of(table: BridgeTable) -> tuple[str, ...]:
    """Return name and type of each field of a table, as entries have them."""
    return tuple(f"{one.name} {one.type}" for one in table.schema)


def _own_files(entries: Sequence[StateEntry]) -> Iterator[tuple[StateEntry, set[BridgeFile]]]:
    """Yield each entry with the files that no older entry names: those that its run wrote.

    Its other files were carried over from the table before.
    """
    for at, one in enumerate(entries):
        yield one, set(one.files or ()).difference(*(older.files or () for older in entries[at + 1 :]))


def remove_older(base: TextBase, kept: StateEntry) -> None:
    """Remove all entries but one, and all text copies but its own; files of rejected rows move to the base."""
    for one in base.state.entries():
        if one.number != kept.number:
            base.state.remove(one)
    failpoint("bridge.tidied")
    for there in entries_of(base.path):
        if _is_text(there.name) and there.name != kept.text:
            _keep_rejected(base, there.path)
            base.storage.remove(there.path)


def _keep_rejected(base: TextBase, text: str) -> None:
    """Move the files of rejected rows out of a text copy: their feed files are merged, so these are the only ones."""
    rejected = posixpath.join(base.path, DIRECTORY, "rejected")
    for one in entries_of(posixpath.join(text, DIRECTORY, "rejected")):
        target = posixpath.join(rejected, one.name)
        if one.type != "file" or base.storage.stat(target) is not None:
            continue
        base.storage.make_directory(rejected)
        if base.storage.renames:
            base.storage.rename_new(one.path, target)
        else:
            with suppressed("storage.exists"):  # another recovery was faster
                link_or_copy(one.path, target)


def _is_text(name: str) -> bool:
    """Return whether a run made this directory: text-<run>, export-<run>, or its staging directory .text-<run>.…"""
    prefix, _, rest = name.removeprefix(".").partition("-")
    return prefix in ("text", "export") and is_run_id(rest.split(".")[0])


def _why(entries: Sequence[StateEntry], files: Sequence[BridgeFile]) -> str:
    """Return why a table is exported."""
    last = next((one for one in entries if one.files is not None), None)
    if last is None:
        return "there was no text copy yet"
    names = sorted({posixpath.basename(one.path) for one in set(last.files or ()) ^ set(files)})
    return f"another program has changed the table: {first_few(names, 2)}"


def consumed(base: TextBase, entries: Sequence[StateEntry], files: Sequence[BridgeFile]) -> tuple[FeedFile, ...]:
    """Return the feed files that had been merged before another program changed the table.

    Their rows are in the table if it has a file that was written with them. If it has none, it may be an older state;
    merging these feed files again changes no newer row.
    """
    for one in entries:
        if one.files is None or not any(one.changed_by in file.path for file in files):
            continue
        if not one.changed_by and not set(one.files) & set(files):
            continue
        try:
            return text_copy(base.path_of(one.text))[1].feed
        except MutatorError:  # the copy is needed for nothing else
            return ()
    return ()
