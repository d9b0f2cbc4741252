"""The report of the runs of a split feed, as text and as JSON."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mutator.errors.display import counted
from mutator.pipeline.reports.printed import PrintedReport
from mutator.pipeline.reports.sections import Section, ended, said
from mutator.rules.truth_table import FEED_OUTCOMES, records_deleted

_COLUMNS = ("inserted", "updated", "deleted")


@dataclass(frozen=True)
class PartitionRun:
    """The outcome of one partition."""

    directory: str
    how: str  # merged | carried
    counts: Mapping[str, int]  # as its manifest has them, of its last run
    before: bool = False  # made by an earlier call that did not finish


@dataclass(frozen=True)
class PartitionRuns(PrintedReport):
    """The outcome of all partitions."""

    master: str
    feed: str
    output: str
    partitions: tuple[PartitionRun, ...]
    warnings: tuple[str, ...]
    seconds: float

    def counts(self) -> dict[str, int]:
        """Return the sums of feed rows, their outcomes and output rows."""
        names = ("feed rows", *(f"feed {name}" for name in FEED_OUTCOMES))
        merged = [one for one in self.partitions if one.how == "merged"]
        found = {name: sum(one.counts.get(name, 0) for one in merged) for name in names}
        return found | {"output rows": sum(one.counts.get("output rows", 0) for one in self.partitions)}

    def members(self) -> dict[str, Any]:
        """Return the members of the JSON."""
        return {**super().members(), "counts": self.counts()}

    def sections(self) -> Iterable[Section]:
        """Return a table with a row for each partition, and the sums."""
        width = max([len("partition"), *(len(one.directory) for one in self.partitions)])
        head = "".join(f"{name:>12}" for name in ("feed rows", *_COLUMNS, "output rows"))
        lines = [f"{'partition':<{width}}  {'':<8}{head}"]
        for one in self.partitions:
            shown = [one.counts.get(name, 0) for name in ("feed rows", "feed inserted", "feed updated")]
            shown.append(records_deleted(one.counts))
            cells = [f"{count:,}" for count in shown] if one.how == "merged" else ["" for _ in shown]
            cells.append(f"{one.counts.get('output rows', 0):,}")
            before = "  (before)" if one.before else ""
            lines.append(f"{one.directory:<{width}}  {one.how:<8}{''.join(f'{cell:>12}' for cell in cells)}{before}")
        n, lost = self.counts(), list[str]()
        if unknown := n["feed delete of unknown"]:
            found = "found no record in its partition" if unknown == 1 else "found no records in their partitions"
            lost = [f"{counted(unknown, 'delete')} {found}"]
        merged = sum(one.how == "merged" for one in self.partitions)
        done = f"wrote {counted(n['output rows'], 'row')} in {counted(len(self.partitions), 'partition')}, "
        done += f"{merged:,} merged and {len(self.partitions) - merged:,} carried over"
        return said(*lines, "", *lost), ended(done, self.seconds)
