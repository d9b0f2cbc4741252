"""The page of an apply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mutator.errors.display import counted
from mutator.pipeline.html_report.merge_page import MergePage, feed_paths

if TYPE_CHECKING:
    from mutator.table.report import ApplyReport


def apply_page(report: ApplyReport) -> MergePage:
    """Return the page of an apply."""
    plan = [("runner", report.runner)] if report.runner is not None else []
    if not report.dry_run:
        plan.append(("written", f"{counted(report.files, 'file')}, {counted(report.bytes, 'byte')}"))
    if report.compaction is not None:
        plan.append(("compacted", f"version {report.compaction.version}"))
    files = counted(len(report.feed_files), "feed file")
    return MergePage(
        title=f"{'Dry run of applying' if report.dry_run else 'Apply'} {files} to {report.table}",
        target=f"version {report.version}",
        about=[
            ("run", report.run),
            ("table", report.table),
            ("version", f"{report.version:,}"),
            *feed_paths(report.feed),
        ],
        plan=plan,
        counts=report.counts,
        samples=report.samples,
        rejects=report.rejects,
        rejected_file=report.rejected_file,
        feed_files=report.feed_files,
        late=report.late,
        kept_out=report.kept_out,
        seconds=report.seconds,
        dry_run=report.dry_run,
        notes=report.notes,
        warnings=report.warnings,
        lists={
            "Feed files that an earlier version has": report.consumed,
            "Files with hidden names, which were ignored": report.ignored,
        },
    )
