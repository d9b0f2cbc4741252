"""The page of an apply."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from mutator.dataset.versions.opening import open_snapshot
from mutator.errors import MutatorError
from mutator.errors.display import counted, without_secrets
from mutator.pipeline.html_report.changed_rows import ChangedRow, samples_of
from mutator.pipeline.html_report.merge_page import MergePage, feed_paths
from mutator.table.changes import changes_of

if TYPE_CHECKING:
    from mutator.table.report import ApplyReport

MOST_CHANGED = 1_000  # changed rows of a version, above which none are read: to find them, whole row groups are read
_CHANGED = ("feed inserted", "feed updated", "master removed", "master deleted by absence")


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
        samples_of_changes=_samples(report),
        most_changed=MOST_CHANGED,
        changes_by=None if _has_few_changes(report) else _command_of_changes(report),
        seconds=report.seconds,
        dry_run=report.dry_run,
        notes=report.notes,
        warnings=report.warnings,
        lists={
            "Feed files that an earlier version has": report.consumed,
            "Files with hidden names or names of unfinished files, which were ignored": report.ignored,
        },
    )


def _samples(report: ApplyReport) -> list[ChangedRow]:
    """Return some rows that the version changed; none where they cannot be read any more, which a page does without."""
    if report.dry_run or not report.is_new or not _has_few_changes(report):
        return []
    try:
        after = open_snapshot(report.table, report.version)
        names = [] if after.state.spec is None else after.state.spec["key"]["fields"]
        batches = changes_of(report.table, report.version - 1, after, net=True)
        return samples_of(batches, names, can_pair=True, hide=report.kept_out is not None)
    except (MutatorError, OSError):
        return []


def _has_few_changes(report: ApplyReport) -> bool:
    """Return whether so few rows changed that reading them takes less time than the apply."""
    # An overwrite writes an equal row again, so it has to be compared.
    names = _CHANGED if report.operation == "apply" else (*_CHANGED, "feed no-op")
    return sum(report.counts[name] for name in names) <= MOST_CHANGED


def _command_of_changes(report: ApplyReport) -> str:
    """Return the command that prints the rows that the version changed."""
    table = shlex.quote(without_secrets(report.table))
    return f"mutator table changes {table} --from {report.version - 1} --to {report.version}"
