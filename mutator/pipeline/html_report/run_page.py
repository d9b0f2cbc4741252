"""The page of ``mutator run``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mutator.errors.display import counted
from mutator.pipeline.html_report.changed_rows import changed_rows
from mutator.pipeline.html_report.merge_page import MergePage, feed_paths

if TYPE_CHECKING:
    from mutator.frames.dataset import Dataset
    from mutator.pipeline.report import Report


def run_page(report: Report) -> MergePage:
    """Return the page of a run."""
    buckets = "none" if report.buckets is None else f"{report.buckets:,}"
    about = [
        ("run", report.run),
        ("master", report.master),
        *feed_paths(report.feed),
        ("output", report.output),
    ]
    plan = [
        ("engine", report.engine),
        ("join", f"{report.join}: {report.reason}"),
        ("buckets", "by partition" if report.partitions is not None else buckets),
        ("read tasks", f"{report.tasks:,}"),
        *([("runner", report.runner)] if report.runner is not None else []),
    ]
    if not report.dry_run:
        plan.append(("written", f"{counted(report.files, 'file')}, {counted(report.bytes, 'byte')}"))
    if report.carried:
        plan.append(("taken over", f"{counted(report.carried, 'file')}, {counted(report.unread_bytes, 'byte')} unread"))
    if report.counts["expired"]:
        horizon = report.horizon or "the lowest order value"
        plan.append(("expired", f"{counted(report.counts['expired'], 'tombstone')}; the horizon is {horizon}"))
    files = counted(len(report.feed_files), "feed file")
    changes = None
    if not report.dry_run:
        written: Dataset | None = vars(report)["_written"]
        changes = changed_rows(report.output if written is None else written.path, hide=report.kept_out is not None)
    return MergePage(
        title=f"{'Dry run of' if report.dry_run else 'Merge of'} {files} into {report.master}",
        target="new master",
        about=about,
        plan=plan,
        counts=report.counts,
        samples=report.samples,
        rejects=report.rejects,
        rejected_file=None if report.rejects.path not in (None, report.rejected_file) else report.rejected_file,
        rejects_path=report.rejects.path,
        feed_files=report.feed_files,
        late=report.late,
        kept_out=report.kept_out,
        samples_of_changes=changes,
        seconds=report.seconds,
        dry_run=report.dry_run,
        steps=report.steps,
        partitions=report.partitions,
        notes=report.notes,
        warnings=report.warnings,
        lists={
            "Feed files that an earlier run had merged": report.consumed,
            "Files with hidden names or names of unfinished files, which were ignored": report.ignored,
            "Files of a killed run, which were removed": report.litter,
        },
    )
