"""The report of a run, as text for people and as JSON for programs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, asdict, dataclass, field
from typing import Any

from mutator.dataset.manifest import CHANGES, DIRECTORY, Manifest
from mutator.errors import error
from mutator.errors.display import OUT, counted, text_of, with_warnings, without_secrets
from mutator.errors.parts import plain
from mutator.frames.change_feed import change_files
from mutator.frames.dataset import Dataset
from mutator.frames.rejected import Rejects
from mutator.pipeline.accounting import Result
from mutator.pipeline.html_report.notebook import html_of
from mutator.pipeline.kept_out import without_values
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
from mutator.pipeline.step_times import StepTimes
from mutator.pipeline.text_tables import aligned, listed
from mutator.plan.inspect.survey import Survey
from mutator.plan.run_plan import Plan
from mutator.plan.runner_choice import RunnerChoice
from mutator.rules.changes import changed_counts

_PARTITIONS = 20  # shown as text; the JSON has them all


@dataclass(frozen=True)
class Report:
    """The report of a run, or of a dry run.

    ``counts`` has the number of rows of each outcome, ``result`` the merged rows, ``rejects`` the rejected ones.
    ``print(report)`` shows what ``mutator run`` prints; a notebook shows a table.
    """

    run: str
    dry_run: bool
    master: str
    feed: tuple[str, ...]
    output: str
    engine: str
    join: str
    reason: str
    buckets: int | None
    tasks: int
    counts: Mapping[str, int]
    samples: Mapping[str, list[str]]  # note -> the smallest keys
    rejects: Rejects  # side -> the first rejected rows; and all of them as tables
    files: int
    bytes: int
    carried: int  # data files that were carried over, because no mutation concerns them
    unread_bytes: int  # of files that were carried over unread
    checked_bytes: int  # of files that were carried over, and compared with their checksums
    partitions: Sequence[Mapping[str, Any]] | None  # counts of each partition that was written
    operation: str  # apply | insert_overwrite | insert_overwrite_table
    replaced: tuple[str, ...] | None  # partitions that an overwrite replaced; None for an apply, or without partitions
    rejected_file: str | None
    consumed: tuple[str, ...]  # feed files that were skipped, because an earlier run merged them
    ignored: tuple[str, ...]  # files whose names start with _ or .
    litter: tuple[str, ...]  # files of a killed run that were removed
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    horizon: str | None
    seconds: float
    runner: str | None = None  # where the tasks ran, and why
    steps: Mapping[str, float] = field(default_factory=dict)  # seconds of each step
    feed_files: Sequence[Mapping[str, Any]] = ()  # rows, bytes and outcomes of each feed file that was read
    late: Mapping[str, str | None] | None = None  # bounds of the order values of late mutations and newer records
    changes: str | None = None  # directory of the changed rows; None: they were not written, or there are none
    kept_out: str | None = None  # values that the report may not show, in words
    written: InitVar[Dataset | None] = None  # None: a dry run, or the run of a workflow

    def __post_init__(self, written: Dataset | None) -> None:
        object.__setattr__(self, "_written", written)

    @property
    def result(self) -> Dataset:
        """The merged rows. Raises ConfigError for a dry run, which has written none."""
        written: Dataset | None = vars(self)["_written"]
        if written is None:
            raise error("result.none")
        return written

    def json(self) -> str:
        """Return the report as a JSON document.

        Its ``counts`` have a member for each name of the accounting, even if it is 0.
        """
        return json.dumps(asdict(self), indent=1)

    def __str__(self) -> str:
        return with_warnings(self.text(), self.warnings)

    def _repr_html_(self) -> str:
        return html_of(self)

    def html(self) -> str:
        """Return the report as a page of HTML. Raises ConfigError where Jinja2 is not installed."""
        from mutator.pipeline.html_report.run_page import run_page  # an extra

        return run_page(self).html()

    def text(self) -> str:
        """Return the report as lines for a terminal."""
        n = self.counts
        lines = [f"run {self.run}{' (dry run: nothing was written)' if self.dry_run else ''}"]
        lines += [f"  master {self.master}", *(f"  feed   {path}" for path in self.feed), f"  output {self.output}"]
        buckets = "no buckets" if self.buckets is None else counted(self.buckets, "bucket")
        if self.partitions is not None:
            buckets = "buckets by partition"
        shape = f"{self.engine} engine, {self.join} join, {buckets}, {counted(self.tasks, 'read task')}"
        lines += [f"  plan   {shape}: {self.reason}"]
        lines += [f"  runner {self.runner}"] if self.runner is not None else []
        lines += self._write_line()
        lines += [f"  note   {note}" for note in self.notes]
        lines += ["", *outcome_lines(n), ""]
        if self.partitions:
            lines += [*_table(self.partitions), ""]
        lines += remark_lines(n, self.samples)
        if n["expired"]:
            horizon = self.horizon or "the lowest order value"
            lines.append(f"{counted(n['expired'], 'tombstone')} expired; the horizon is {horizon}")
        lines += reject_lines(self.rejects)
        if self.rejected_file:
            lines.append(f"all rejected rows: {self.rejected_file}")
        if self.changes:
            lines.append(f"{counted(sum(changed_counts(n).values()), 'changed row')}: {self.changes}")
        lines += [f"kept out: {self.kept_out}"] if self.kept_out is not None else []
        lines += ignored_lines(n)
        for what, paths in (
            ("skipped, consumed before", self.consumed),
            ("ignored, hidden or unfinished", self.ignored),
            ("removed, left by a killed run", self.litter),
        ):
            lines += listed(what, paths)
        if self.dry_run:
            lines.append(f"would write {counted(n['output rows'], 'row')}; {self.seconds:.1f} s")
        else:
            lines.append(
                f"wrote {counted(n['output rows'], 'row')} in {counted(self.files, 'file')} "
                f"({counted(self.bytes, 'byte')}){self._carried()}; "
                f"{self.seconds:.1f} s"
            )
        return text_of(lines)

    def _write_line(self) -> list[str]:
        """Return the line on an overwrite."""
        if self.operation == "apply":
            return []
        whole = "the whole master is replaced"
        what = whole if self.replaced is None else f"{counted(len(self.replaced), 'partition')} replaced"
        return [f"  write  {self.operation}: {what}"]

    def _carried(self) -> str:
        """Return the clause on the files that were carried over, with the bytes of the files beside them."""
        if not self.carried:
            return ""
        checked = f", {counted(self.checked_bytes, 'byte')} checked" if self.checked_bytes else ""
        taken = f"{self.carried} of them taken over (and files beside them)"
        return f", {taken}: {counted(self.unread_bytes, 'byte')} unread{checked}"


def _search_notes(result: Result) -> tuple[str, ...]:
    """Return a note on the search for records in other partitions than those of their mutations."""
    n = result.counts
    if not n["looked for"]:
        return ()
    ids, filters, files = counted(n["looked for"], "ID"), counted(n["filters"], "filter"), n["files looked into"]
    searched = f"{counted(files, 'file')} {'was' if files == 1 else 'were'} looked into"
    return (f"{ids} may have records in other partitions, by {filters}: {searched}",)


def _rows_by_partition(plan: Plan, result: Result) -> list[dict[str, Any]] | None:
    """Return the counts of each partition that was written; None for a master without partitions."""
    if not plan.is_partitioned:
        return None
    found: list[dict[str, Any]] = []
    for directory in sorted(result.partitions):
        n = result.partitions[directory]
        before = sum(n[f"master {name}"] for name in ("kept", "replaced", "removed", "deleted by absence"))
        rows = {"partition": directory, "rows": n["rows written"]}
        if not directory and not before and not n["rows written"]:
            continue  # it has only tombstones without a partition
        if plan.by_table and plan.master is None:
            found.append(rows)  # outcomes were counted before the records had a partition
            continue
        changed = {name: n[f"feed {name}"] for name in ("inserted", "updated", "deleted")}
        if plan.operation != "apply":
            changed["deleted by absence"] = n["master deleted by absence"]
        moved = {name: n[name] for name in ("moved in", "moved out")}
        found.append({"partition": directory, "before": before, **changed, **moved, "rows": n["rows written"]})
    return found


def _replaced(plan: Plan, result: Result) -> tuple[str, ...] | None:
    if plan.operation == "apply" or result.replaced is None:
        return None
    return tuple(sorted(result.replaced))


def report_of(
    plan: Plan,
    survey: Survey,
    result: Result,
    made: Manifest,
    given: Mapping[str, Any],
    litter: tuple[str, ...],
    dry_run: bool,
    times: StepTimes,
    runner: RunnerChoice | None,
) -> Report:
    """Return the report of a run. given: master, feed and output as the user wrote them, without secrets."""
    result = without_values(plan, result)
    rejected = next((part.path for part in made.beside if part.role == "rejected"), None)
    strategy = plan.strategy
    return Report(
        **given,
        run=plan.run,
        dry_run=dry_run,
        engine=strategy.engine,
        join=strategy.join,
        reason=plain(plan.audience(strategy.reason)),
        buckets=strategy.buckets,
        tasks=len(plan.tasks),
        counts=made.commit.counts,
        samples=samples_of(result.samples),
        rejects=Rejects({side: [reject_members(*row) for row in rows] for side, rows in result.rejects.items()}),
        files=len(made.files),
        bytes=sum(part.bytes for part in made.files),
        carried=result.carried,
        unread_bytes=result.unread,
        checked_bytes=result.checked_bytes,
        partitions=_rows_by_partition(plan, result),
        operation=plan.operation,
        replaced=_replaced(plan, result),
        rejected_file=f"{given['output']}/{rejected}" if rejected else None,
        consumed=tuple(without_secrets(source.path) for source in survey.consumed),
        ignored=tuple(map(without_secrets, survey.ignored)),
        litter=tuple(map(without_secrets, litter)),
        notes=_texts(plan, (*plan.notes, *_search_notes(result))),
        warnings=_texts(plan, (*plan.warnings, *merge_warnings(plan, survey, result))),
        horizon=made.commit.horizon if plan.shown.order else OUT,
        seconds=times.total,
        runner=None if runner is None else runner.text(),
        steps=times.seconds,
        feed_files=feed_files_of(result),
        late=late_orders(plan, result),
        changes=f"{given['output']}/{DIRECTORY}/{CHANGES}" if change_files(made) else None,
        kept_out=plan.shown.kept_out,
    )


def _texts(plan: Plan, texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(plain(plan.audience(without_secrets(text))) for text in texts)


def _table(partitions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Show the first partitions as a table."""
    names = list(partitions[0])
    shown = [names, *([f"{one[name]:,}" if name != "partition" else one[name] for name in names] for one in partitions)]
    lines = aligned(shown[: _PARTITIONS + 1], right=range(1, len(names)))
    more = len(partitions) - _PARTITIONS
    return [*lines, f"and {counted(more, 'more partition')}"] if more > 0 else lines
