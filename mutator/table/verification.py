"""The result of a verification of a table, as text for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mutator.errors.display import counted, printable
from mutator.pipeline.reports.printed import PrintedReport
from mutator.pipeline.reports.sections import Section, said
from mutator.pipeline.verify import Difference, compared_with
from mutator.table.clean_removal import StrayFiles

_SAME = "as its log says: files, checksums, key indexes, hidden rows, one row per key, counts, checkpoints"


@dataclass(frozen=True)
class TableVerification(PrintedReport):
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

    def members(self) -> dict[str, Any]:
        """Return the members of the JSON."""
        differences = [difference._asdict() for difference in self.differences]
        return {**super().members(), "differences": differences, "whole": not differences}

    def sections(self) -> Iterable[Section]:
        """Return what was repaired, the sizes, the differences or what was compared, and stray files."""
        size = counted(self.files, "file"), counted(self.records, "record"), counted(self.tombstones, "tombstone")
        return (
            said(*(f"repaired: {one}" for one in self.repaired)),
            said(f"{self.table}, version {self.version}: {', '.join(size)}"),
            compared_with(self.table, self.differences, _SAME),
            said(*([] if self.stray is None or not self.stray.files else [printable(self.stray.text())])),
        )
