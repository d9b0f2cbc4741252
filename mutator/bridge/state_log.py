"""Which text copy belongs to which state of a table: ``_mutator/bridge/<20 digits>.json`` below the text copy's base.

An entry is written before the table is changed, and says which files the table will have then. The table itself is the
commit point: an entry counts if the table's files are those that it names. So after a kill at any instant the newest
entry that counts has the text copy of the table as it is, with its tombstones and all feed files merged so far; one
that does not count was never committed, or the table was changed by somebody else.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from mutator.bridge.contract import TableFile, files_of
from mutator.dataset import checksummed_json
from mutator.errors import MutatorError, error
from mutator.storage import blocks, entries_of, storage_for

__all__ = ["Entry", "State"]

_FORMAT, _VERSION = "mutator bridge", 1
_NAME = re.compile(r"([0-9]{20})\.json\Z")


@dataclass(frozen=True)
class Entry:
    """A text copy, and the state of the table that it is a copy of."""

    number: int
    run: str
    table: str
    text: str  # directory, relative to the base
    dataset: str  # commit id of its manifest
    files: tuple[TableFile, ...] | None  # None: a run has begun to write them
    fields: tuple[str, ...] = ()  # of the table, with their types
    staged: Mapping[str, Any] | None = None  # what the table is changed by; None: by nothing
    changed_by: str = ""  # the last run that has written files of the table
    digests: Mapping[str, Any] = field(default_factory=dict)  # name and checksum of a text file -> of its rows


class State:
    """The entries of a base."""

    def __init__(self, base: str) -> None:
        self._storage = storage_for(base)
        self._directory = posixpath.join(base, "_mutator", "bridge")

    def entries(self) -> list[Entry]:
        """Return all entries, the newest first. Raises StateError where one is damaged."""
        matches = (_NAME.match(entry.name) for entry in entries_of(self._directory))
        numbers = sorted((int(match[1]) for match in matches if match), reverse=True)
        return [self._read(number) for number in numbers]

    def add(self, entry: Entry) -> None:
        """Write an entry, which must be new. Raises StateError where somebody else has written it."""
        path = self._path(entry.number)
        self._storage.make_directory(self._directory)
        content = checksummed_json.dump(_FORMAT, _VERSION, asdict(entry))
        try:
            with self._storage.create_new(path) as stream:
                stream.write(content)
        except MutatorError as fault:
            if fault.kind != "storage.exists":
                raise
            raise error("table.changed", table=entry.table, what="was merged, by another run") from None

    def clear(self) -> None:
        """Remove all entries, damaged ones too."""
        for one in entries_of(self._directory):
            self._storage.remove(one.path)

    def remove(self, entry: Entry) -> None:
        """Remove an entry that counts no more."""
        self._storage.remove(self._path(entry.number))

    def _read(self, number: int) -> Entry:
        path = self._path(number)
        with self._storage.open(path) as stream:
            data = b"".join(blocks(stream))
        try:
            members = checksummed_json.parse(data, _FORMAT, _VERSION)
            if set(members) != {part.name for part in fields(Entry)} or members["number"] != number:
                raise ValueError("its members are not those of this format")
            if members["files"] is not None:
                members["files"] = files_of(members["files"])
            return Entry(**members | {"fields": tuple(members["fields"])})
        except checksummed_json.Newer as fault:
            raise error("log.newer", path=path, version=fault.version, known=_VERSION) from None
        except (ValueError, TypeError) as fault:
            raise error("log.damaged", path=path, why=fault) from None

    def _path(self, number: int) -> str:
        return posixpath.join(self._directory, f"{number:020d}.json")
