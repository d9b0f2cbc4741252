"""The outcome of a run whose target is a table, and the status of its base."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mutator.dataset.commit.process import Owner
from mutator.errors.display import counted
from mutator.pipeline.reports.sections import ReportSection, said
from mutator.workflow.directory.bad_files import FailedFile
from mutator.workflow.directory.failed_run import FailedRun
from mutator.workflow.directory.results import UNSEEN, BaseStatus, RunOutcome


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

    def sections(self) -> Iterator[ReportSection]:
        """Yield the sections of the run, and of the compactions that followed."""
        yield from () if self.is_upkeep else super().sections()
        for report in self.compactions:
            yield from report.sections()

    def made(self) -> list[str]:
        """Return lines on the version that the run made: the report has them, unless a signal came before it."""
        return [] if self.report is not None else [f"version {self.version} of {self.table}"]


@dataclass(frozen=True)
class TableRunStatus(BaseStatus):
    """The status of a base whose target is a table."""

    base: str
    table: str
    running: Owner | None
    # None in these members: it cannot be seen, and a problem says why.
    version: int | None  # the newest
    committed: str | None
    records: int | None
    ready: tuple[str, ...] | None
    waiting: tuple[tuple[str, str], ...] | None
    recovered: tuple[str, ...]
    problems: tuple[str, ...]
    failed: FailedRun | None = None
    failed_files: tuple[FailedFile, ...] = ()

    def target(self) -> ReportSection:
        """Return the section on the table and its version."""
        version = UNSEEN
        if self.version is not None and self.records is not None:
            version = f"{self.version}, {counted(self.records, 'record')}, {self.committed}"
        return said(f"table    {self.table}", f"version  {version}")
