"""The report of ``mutator table apply``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mutator.dataset.versions.opening import open_snapshot
from mutator.errors import MutatorError
from mutator.errors.display import command, counted, without_secrets
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.kept_out import shown_directories, without_values
from mutator.pipeline.merge_warnings import merge_warnings
from mutator.pipeline.op_codes import notes_on_kinds
from mutator.pipeline.report import members_of, shown_texts
from mutator.pipeline.reports.merge_report import HIDDEN, Changes, MergeReport, Own
from mutator.pipeline.reports.sections import Fact, said
from mutator.plan.run_plan import Plan
from mutator.table.apply import Applied
from mutator.table.changes import changes_of
from mutator.table.compact import CompactionReport

MOST_CHANGED = 1_000  # changed rows of a version, above which none are read: to find them, whole row groups are read
_CHANGED = ("feed inserted", "feed updated", "master removed", "master deleted by absence", "master truncated")


@dataclass(frozen=True, kw_only=True)
class ApplyReport(MergeReport):
    """The result of an apply, or of a dry run. ``counts`` has the number of rows of each outcome."""

    table: str
    version: int
    is_new: bool  # the feed made this version, or would make it
    files_removed: int  # that the version no longer has
    lost: int  # replaced records whose keys were not known
    compaction: CompactionReport | None = None  # that followed, if it made a version

    def own(self) -> Own:
        """Return what no other report of a merge says, or says like this."""
        verbs = ("would still be", "would become") if self.dry_run else ("is still", "is now")
        plan: list[Fact] = [] if self.runner is None else [("runner", self.runner)]
        if not self.dry_run:
            plan.append(("written", f"{counted(self.files, 'file')}, {counted(self.bytes, 'byte')}"))
        plan += [] if self.compaction is None else [("compacted", f"version {self.compaction.version}")]
        files = counted(len(self.feed_files), "feed file")
        done = f"added {counted(self.files, 'file')} ({counted(self.bytes, 'byte')})"
        return Own(
            title=f"table {self.table} {verbs[self.is_new]} version {self.version}",
            page_title=f"{'Dry run of applying' if self.dry_run else 'Apply'} {files} to {self.table}",
            result=f"version {self.version}",
            facts=[("run", self.run), ("table", self.table), ("version", f"{self.version:,}"), ("feed", self.feed)],
            plan=plan,
            plan_lines=[] if self.runner is None else [f"  runner {self.runner}"],
            lists=(
                ("skipped, consumed before", "Feed files that an earlier version has", self.consumed),
                ("ignored, hidden or unfinished", HIDDEN, self.ignored),
            ),
            done="dry run: nothing was written" if self.dry_run else done,
            changes=self._changes,
            replaced=self._replaced_lines(),
            more=() if self.compaction is None else (said(""), *self.compaction.sections()),
        )

    def _changes(self) -> Changes:
        """Return samples of the changed rows; none where they cannot be read any more, which a page does without."""
        # So few rows that reading them takes less time than the apply. An overwrite writes an equal row again.
        names = _CHANGED if self.operation == "apply" else (*_CHANGED, "feed no-op")
        if sum(self.counts.get(name, 0) for name in names) > MOST_CHANGED:
            words = ("--from", str(self.version - 1), "--to", str(self.version))
            shown = command("table", "changes", without_secrets(self.table), *words)
            return Changes() if self.dry_run else Changes(most=MOST_CHANGED, command=shown)
        if self.dry_run or not self.is_new:
            return Changes()
        from mutator.pipeline.reports.row_samples import samples_of  # loads the block types of all formats

        try:
            after = open_snapshot(self.table, self.version)
            keys = after.state.spec["key"]["fields"] if after.state.spec else []
            batches = changes_of(self.table, self.version - 1, after, net=True)
            return Changes(samples_of(batches, keys, can_pair=True, hide=self.kept_out is not None))
        except (MutatorError, OSError):
            return Changes()

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
    table, *paths = (plan.audience.paths(without_secrets(path)) for path in (applied.snapshot.table, *feed))
    return ApplyReport(
        **members_of(plan, survey, result, applied.runner),
        table=table,
        version=applied.snapshot.version.number,
        is_new=version is not None,
        operation=plan.operation if version is None else version.action,
        run=plan.run if version is None else version.run,
        dry_run=dry_run,
        feed=tuple(paths),
        counts=applied.counts,
        rejected_file=f"{table}/{rejected}" if rejected else None,
        files=len(added),
        bytes=sum(one.bytes for one in added),
        replaced=None if partitions is None else shown_directories(plan, partitions),
        files_removed=0 if replaced is None else len(replaced.removed),
        lost=0 if replaced is None else replaced.lost,
        notes=shown_texts(plan, (*plan.notes, *notes_on_kinds(plan, result), *_placed(plan, applied.counts))),
        warnings=shown_texts(plan, [*plan.warnings, *merge_warnings(plan, survey, result)]),
        seconds=round(applied.seconds, 3),
    )


def _placed(plan: Plan, counts: Mapping[str, int]) -> list[str]:
    """Return a note on late mutations of a table with history, which are not lost."""
    late = counts.get("feed late", 0) if plan.keeps_events else 0
    times = "its time" if late == 1 else "their times"
    return [f"{counted(late, 'late mutation')}: placed at {times} in the history"] * bool(late)
