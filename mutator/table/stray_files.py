"""Files below a table that no version names: those of killed commands, and of commands that are running."""

from __future__ import annotations

import posixpath
from collections.abc import Collection
from dataclasses import dataclass

from mutator.dataset.versions.log import DIRECTORY
from mutator.errors.display import counted
from mutator.storage import walk

_OF_THE_LOG = ("log", "archive", "bookmarks", "checkpoints", "hint.json")


@dataclass(frozen=True)
class StrayFiles:
    """Files that no version names."""

    files: int
    bytes: int
    example: str | None  # the first path, relative to the table

    def text(self) -> str:
        """Return a line for a terminal."""
        size = f"{counted(self.files, 'file')} ({counted(self.bytes, 'byte')})"
        return f"{size} of no version, for example {self.example}: of a killed command, or of one that is running"


def stray_files(table: str, named: Collection[str]) -> StrayFiles:
    """Return the files below a table that no version names. named: paths that versions name, relative to the table."""
    known = tuple(f"{DIRECTORY}/{name}" for name in _OF_THE_LOG)
    found = [(posixpath.relpath(entry.path, table), entry.bytes) for entry in walk(table)]
    stray = sorted(one for one in found if one[0] not in named and not one[0].startswith(known))
    return StrayFiles(len(stray), sum(size for _, size in stray), stray[0][0] if stray else None)
