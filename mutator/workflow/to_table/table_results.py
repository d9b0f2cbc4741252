"""The outcome of a run whose target is a table, and the status of its base."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from mutator.dataset.checksummed_json import json_members
from mutator.dataset.commit.process import Owner
from mutator.errors.display import counted, text_of
from mutator.workflow.directory.bad_files import FailedFile
from mutator.workflow.directory.failed_run import FailedRun
from mutator.workflow.directory.results import RunOutcome, failed_lines, feed_lines


@dataclass(frozen=True, kw_only=True)
class TableRunOutcome(RunOutcome):
    """The outcome of a run."""

    table: str  # path
    compactions: tuple[Any, ...] = ()  # reports of those that followed, while no feed file waited
    compaction_fault: str | None = None  # why one of them failed

    @property
    def warnings(self) -> tuple[str, ...]:
        """What an operator should know although the run succeeded."""
        fault = self.compaction_fault
        if fault is None:
            return super().warnings
        what = "the compaction after it failed" if self.stopped is None else "the compaction after it is not complete"
        return (*super().warnings, f"{what}: {fault}")

    @property
    def is_upkeep(self) -> bool:
        """Whether nothing happened but compactions."""
        has_run = self.version is not None or self.claimed or self.recovered
        return not has_run and (bool(self.compactions) or self.compaction_fault is not None)

    def text(self) -> str:
        """Return lines for a terminal."""
        lines = [] if self.is_upkeep else [super().text()]
        return "\n".join([*lines, *(report.text() for report in self.compactions)])

    def made(self) -> list[str]:
        """Return lines on the version that the run made: the report has them, unless a signal came before it."""
        return [] if self.report is not None else [f"version {self.version} of {self.table}"]


@dataclass(frozen=True)
class TableRunStatus:
    """The status of a base whose target is a table: its run, the table's version, and the feed files that wait."""

    base: str
    table: str
    running: Owner | None  # the process at work now
    # None in these members: it cannot be seen, and a problem says why.
    version: int | None  # the newest
    committed: str | None
    records: int | None
    ready: tuple[str, ...] | None
    waiting: tuple[tuple[str, str], ...] | None
    recovered: tuple[str, ...]
    problems: tuple[str, ...]
    failed: FailedRun | None = None  # the last run, if it failed
    failed_files: tuple[FailedFile, ...] = ()  # feed files that were set aside

    def json(self) -> str:
        """Return a JSON document."""
        return json.dumps(asdict(self, dict_factory=json_members), indent=1)

    def text(self) -> str:
        """Return lines for a terminal."""
        lines = [f"base     {self.base}"]
        if self.running is not None:
            who = self.running
            lines.append(f"state    at work: {who.run}, process {who.process} on {who.host}, since {who.since}")
        else:
            lines.append(f"state    {'needs attention, see below' if self.problems else 'idle'}")
        lines.append(f"table    {self.table}")
        if self.version is None or self.records is None:
            lines.append("version  cannot be seen, see below")
        else:
            lines.append(f"version  {self.version}, {counted(self.records, 'record')}, {self.committed}")
        lines += feed_lines(self.ready, self.waiting, self.failed)
        lines += failed_lines(self.failed_files)
        lines += [f"recovered: {action}" for action in self.recovered]
        lines += [f"problem: {problem}" for problem in self.problems]
        return text_of(lines)
