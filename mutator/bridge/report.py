"""The report of a round trip, as text and as JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mutator.errors.display import counted, text_of
from mutator.pipeline.report import Report
from mutator.pipeline.text_tables import listed


@dataclass(frozen=True)
class BridgeReport:
    """The effects of a round trip on a table and its text copy."""

    run: str
    table: str
    kind: str  # format of the table's files; the name is that of the JSON member
    merged: Report
    changed: bool  # the table has different rows now
    partitions: tuple[str, ...] | None  # the overwritten ones; None: the whole table
    text: str = ""
    exported: Mapping[str, Any] | None = None  # why, rows and bytes; None: the text copy was current
    seconds: float = 0.0

    def json(self) -> str:
        """Return the report as a JSON document; its member ``merged`` is the report of the merge."""
        return json.dumps(asdict(self), indent=1)

    def shown(self) -> str:
        """Return the report as lines for a terminal."""
        lines = [f"bridge {self.run}", f"  table  {self.table} ({self.kind})", f"  text   {self.text}"]
        if self.exported is None:
            lines.append("  export skipped: the text copy is that of the table as it is")
        else:
            size = f"{counted(self.exported['rows'], 'row')}, {counted(self.exported['bytes'], 'byte')}"
            lines.append(f"  export {size}: {self.exported['why']}")
        lines += ["", *self.merged.text().split("\n"), ""]
        if not self.changed:
            lines.append(f"the table stays as it is: no row has changed; {self.seconds:.1f} s")
        elif self.partitions is None:
            lines.append(f"the table was overwritten in one step; {self.seconds:.1f} s")
        else:
            lines += listed("overwritten", self.partitions)
            overwritten = counted(len(self.partitions), "partition")
            lines.append(f"overwrote {overwritten} in one step; {self.seconds:.1f} s")
        return text_of(lines)
