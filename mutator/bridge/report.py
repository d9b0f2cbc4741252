"""What a run of the bridge did, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mutator.pipeline.report import Report

__all__ = ["BridgeReport"]

_SHOWN = 5


@dataclass(frozen=True)
class BridgeReport:
    """What became of a table, and of its text copy."""

    run: str
    table: str
    kind: str  # of the table's files
    merged: Report
    changed: bool  # the table has other rows now
    partitions: tuple[str, ...] | None  # that were overwritten; None: the table was, as a whole
    text: str = ""
    exported: Mapping[str, Any] | None = None  # rows and bytes, and why; None: the text copy was that of the table
    seconds: float = 0.0

    def json(self) -> str:
        """Return the report as a JSON document; the merge's own is its member ``merged``."""
        return json.dumps(asdict(self), indent=1)

    def shown(self) -> str:
        """Return the report as lines for a terminal."""
        lines = [f"bridge {self.run}", f"  table  {self.table} ({self.kind})", f"  text   {self.text}"]
        if self.exported is None:
            lines.append("  export skipped: the text copy is that of the table as it is")
        else:
            lines.append(
                f"  export {self.exported['rows']:,} rows, {self.exported['bytes']:,} bytes: {self.exported['why']}"
            )
        lines += ["", self.merged.text(), ""]
        if not self.changed:
            lines.append(f"the table stays as it is: no row has changed; {self.seconds:.1f} s")
        elif self.partitions is None:
            lines.append(f"the table was overwritten in one step; {self.seconds:.1f} s")
        else:
            more = len(self.partitions) - _SHOWN
            lines += [f"overwritten: {one}" for one in self.partitions[:_SHOWN]]
            lines += [f"overwritten: and {more:,} more"] * (more > 0)
            lines.append(f"{len(self.partitions):,} partitions were overwritten in one step; {self.seconds:.1f} s")
        return "\n".join(lines)
