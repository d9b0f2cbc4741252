"""The report of a round trip, as text and as JSON."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mutator.errors.display import counted
from mutator.pipeline.report import Report
from mutator.pipeline.reports.printed import PrintedReport
from mutator.pipeline.reports.sections import Section, ended, listed, said


@dataclass(frozen=True)
class BridgeReport(PrintedReport):
    """The effects of a round trip on a table and its text copy."""

    run: str
    table: str
    kind: str  # format of the table's files; the name is that of the JSON member
    merged: Report
    changed: bool  # the table has different rows now
    partitions: tuple[str, ...] | None  # the overwritten ones; None: the whole table
    copy: str = ""  # path of the text copy
    exported: Mapping[str, Any] | None = None  # why, rows and bytes; None: the text copy was current
    seconds: float = 0.0

    def members(self) -> dict[str, Any]:
        """Return the members of the JSON; the member ``merged`` is the report of the merge."""
        return {"text" if name == "copy" else name: value for name, value in super().members().items()}

    def sections(self) -> Iterable[Section]:
        """Return the tables, the export, the merge, and what became of the table."""
        if self.exported is None:
            export = "skipped: the text copy is that of the table as it is"
        else:
            size = f"{counted(self.exported['rows'], 'row')}, {counted(self.exported['bytes'], 'byte')}"
            export = f"{size}: {self.exported['why']}"
        table = f"  table  {self.table} ({self.kind})"
        yield said(f"bridge {self.run}", table, f"  text   {self.copy}", f"  export {export}", "")
        yield from self.merged.sections()
        yield said("")
        if not self.changed:
            yield ended("the table stays as it is: no row has changed", self.seconds)
        elif self.partitions is None:
            yield ended("the table was overwritten in one step", self.seconds)
        else:
            yield said(*listed("overwritten", self.partitions))
            yield ended(f"overwrote {counted(len(self.partitions), 'partition')} in one step", self.seconds)
