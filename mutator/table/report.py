"""The report of an apply, as text for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from mutator.errors.display import counted, hidden_values, text_of, without_secrets
from mutator.errors.parts import plain
from mutator.pipeline.kept_out import shown_directories, without_values
from mutator.pipeline.report_lines import (
    feed_files_of,
    ignored_lines,
    late_orders,
    merge_warnings,
    outcome_lines,
    reject_lines,
    reject_members,
    remark_lines,
    samples_of,
)
from mutator.pipeline.text_tables import listed
from mutator.plan.run_plan import Plan
from mutator.table.apply import Applied
from mutator.table.compact_report import CompactionReport
from mutator.table.printed_report import PrintedReport


@dataclass(frozen=True)
class ApplyReport(PrintedReport):
    """What an apply did, or what a dry run would do. ``counts`` has the number of rows of each outcome."""

    table: str
    version: int
    is_new: bool  # the feed made this version, or would make it
    operation: str  # apply | insert_overwrite | insert_overwrite_table
    run: str
    dry_run: bool
    feed: tuple[str, ...]
    counts: Mapping[str, int]
    samples: Mapping[str, list[str]]  # note -> the smallest keys
    rejects: Mapping[str, list[Mapping[str, Any]]]  # side -> the first rejected rows
    rejected_file: str | None
    files: int  # that the version added, those in the log entry too
    bytes: int
    replaced: tuple[str, ...] | None  # partitions that an overwrite replaced; None for an apply, or without partitions
    files_removed: int  # that the version no longer has
    lost: int  # replaced records whose keys were not known
    consumed: tuple[str, ...]  # feed files that were skipped, because an earlier version has them
    ignored: tuple[str, ...]  # files whose names start with _ or .
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    seconds: float
    runner: str | None = None  # where the tasks ran, and why
    compaction: CompactionReport | None = None  # that followed, if it made a version
    feed_files: Sequence[Mapping[str, Any]] = ()  # rows, bytes and outcomes of each feed file that was read
    late: Mapping[str, str | None] | None = None  # bounds of the order values of late mutations and newer records
    kept_out: str | None = None  # values that the report may not show, in words

    def html(self) -> str:
        """Return the report as a page of HTML. Raises ConfigError where Jinja2 is not installed."""
        from mutator.table.apply_page import apply_page  # an extra

        return apply_page(self).html()

    def text(self) -> str:
        """Return the report as lines for a terminal."""
        n = self.counts
        verbs = ("would still be", "would become") if self.dry_run else ("is still", "is now")
        verb = verbs[self.is_new]
        lines = [f"table {self.table} {verb} version {self.version}"]
        lines += [f"  feed   {path}" for path in self.feed]
        lines += [f"  runner {self.runner}"] if self.runner is not None else []
        lines += [f"  note   {note}" for note in self.notes]
        lines += ["", *outcome_lines(n), "", *remark_lines(n, self.samples), *reject_lines(self.rejects)]
        lines += [f"all rejected rows: {self.rejected_file}"] if self.rejected_file else []
        lines += [f"kept out: {self.kept_out}"] if self.kept_out is not None else []
        lines += ignored_lines(n)
        lines += self._replaced_lines()
        lines += listed("skipped, consumed before", self.consumed)
        lines += listed("ignored, hidden or unfinished", self.ignored)
        if self.dry_run:
            lines.append(f"dry run: nothing was written; {self.seconds:.1f} s")
        else:
            lines.append(f"added {counted(self.files, 'file')} ({counted(self.bytes, 'byte')}); {self.seconds:.1f} s")
        if self.compaction is not None:
            lines += ["", *self.compaction.text().splitlines()]
        return text_of(lines)

    def _replaced_lines(self) -> list[str]:
        """Return what an overwrite replaced."""
        if self.operation == "apply" or not self.is_new:
            return []
        verb = "would replace" if self.dry_run else "replaced"
        what = "everything" if self.replaced is None else counted(len(self.replaced), "partition")
        lines = [f"{verb} {what}: {counted(self.files_removed, 'data file')} removed"]
        if self.lost:
            lines.append(
                f"{counted(self.lost, 'record')} of damaged files: no later mutation knows that they are deleted"
            )
        return lines


def report_of(applied: Applied, feed: Sequence[str], *, dry_run: bool) -> ApplyReport:
    """Return the report of an apply. feed: paths as the user wrote them."""
    plan, survey, version = applied.plan, applied.survey, applied.version
    result = without_values(plan, applied.result)
    added, replaced = [] if version is None else list(version.stored()), applied.replaced
    partitions = None if replaced is None else replaced.partitions
    rejected = next((one.path for one in version.rejected), None) if version is not None else None
    table = without_secrets(applied.snapshot.table)
    with nullcontext() if plan.shown.rows else hidden_values():
        warnings = [*plan.warnings, *merge_warnings(plan, survey, result)]
    return ApplyReport(
        table=table,
        version=applied.snapshot.version.number,
        is_new=version is not None,
        operation=plan.operation if version is None else version.action,
        run=plan.run if version is None else version.run,
        dry_run=dry_run,
        feed=tuple(map(without_secrets, feed)),
        counts=applied.counts,
        samples=samples_of(result.samples),
        rejects={side: [reject_members(*row) for row in rows] for side, rows in result.rejects.items()},
        rejected_file=f"{table}/{rejected}" if rejected else None,
        files=len(added),
        bytes=sum(one.bytes for one in added),
        replaced=None if partitions is None else shown_directories(plan, partitions),
        files_removed=0 if replaced is None else len(replaced.removed),
        lost=0 if replaced is None else replaced.lost,
        consumed=tuple(without_secrets(source.path) for source in survey.consumed),
        ignored=tuple(map(without_secrets, survey.ignored)),
        notes=_texts(plan, plan.notes),
        warnings=_texts(plan, warnings),
        seconds=round(applied.seconds, 3),
        runner=None if applied.runner is None else applied.runner.text(),
        feed_files=feed_files_of(result),
        late=late_orders(plan, result),
        kept_out=plan.shown.kept_out,
    )


def _texts(plan: Plan, texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(plain(plan.audience(without_secrets(text))) for text in texts)
