"""The log of text copies and table states: ``_mutator/bridge/<20 digits>.json`` below the base of the text copies.

An entry is written before the table is changed, and names the files that the table will have. The table itself is the
commit point: an entry is current if the table has exactly these files. So after a kill at any instant the current
entry has the text copy of the table as it is, with its tombstones and all feed files merged so far. Any other entry was
never committed, or another program has changed the table since.
"""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mutator.bridge.contract import BridgeFile, files_of
from mutator.dataset import checksummed_json
from mutator.dataset.numbered_log import NumberedLog
from mutator.errors import error, suppressed
from mutator.storage import entries_of, storage_for


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
