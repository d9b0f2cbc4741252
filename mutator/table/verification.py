"""The result of a verification of a table, as text for people and as JSON for programs."""

from __future__ import annotations

import json
from dataclasses import dataclass

from mutator.errors.display import counted, printable, text_of
from mutator.pipeline.verify import Difference
from mutator.table.clean_removal import StrayFiles


@dataclass(frozen=True)
class TableVerification:
    """The size of a table, its differences from its log, and what was made again."""

    table: str
    version: int  # the newest that could be read
    files: int
    records: int
    tombstones: int
    differences: tuple[Difference, ...]
    repaired: tuple[str, ...] = ()
    stray: StrayFiles | None = None  # None: the log cannot be read, so it is unknown which files it names

    @property
    def problems(self) -> tuple[str, ...]:
        """The differences, with paths relative to the table."""
        return tuple(map(str, self.differences))

    def json(self) -> str:
        """Return the result as JSON."""
        differences = [difference._asdict() for difference in self.differences]
        stray = None if self.stray is None else vars(self.stray)
        members = {**vars(self), "differences": differences, "stray": stray, "whole": not differences}
        return json.dumps(members, indent=1)

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        """Return lines for a terminal."""
        size = counted(self.files, "file"), counted(self.records, "record"), counted(self.tombstones, "tombstone")
        lines = [f"repaired: {one}" for one in self.repaired]
        lines.append(f"{self.table}, version {self.version}: {', '.join(size)}")
        lines += [f"differs: {printable(one.text(self.table))}" for one in self.differences]
        if not self.differences:
            lines.append(
                "as its log says: files, checksums, key indexes, hidden rows, one row per key, counts, checkpoints"
            )
        if self.stray is not None and self.stray.files:
            lines.append(printable(self.stray.text()))
        return text_of(lines)
