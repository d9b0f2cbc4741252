"""The report of ``mutator run``."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, field
from typing import Any

from mutator.dataset.manifest import CHANGES, DIRECTORY
from mutator.dataset.state import State
from mutator.engine.receipts import Key
from mutator.errors import error
from mutator.errors.display import OUT, counted, key_text, one_line, without_secrets
from mutator.errors.parts import plain
from mutator.errors.quick_dataclass import dataclass
from mutator.frames.change_feed import change_files
from mutator.frames.dataset import Dataset
from mutator.frames.rejected import Rejects
from mutator.pipeline.accounting import Result
from mutator.pipeline.kept_out import without_values
from mutator.pipeline.merge_warnings import merge_warnings
from mutator.pipeline.op_codes import notes_on_kinds, other_tables
from mutator.pipeline.reports.merge_report import HIDDEN, REMARKS, Changes, MergeReport, Own, reject_lines
from mutator.pipeline.reports.sums import feed_sum, master_sum
from mutator.pipeline.step_times import StepTimes
from mutator.plan.inspect.survey import Survey
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.plan.runner_choice import RunnerChoice
from mutator.rules.changes import changed_counts
from mutator.rules.order_tuples import shown_order, shown_text

_CELL = "padding: 1px 12px 1px 0; text-align: left; vertical-align: top"
_NUMBER = "padding: 1px 24px 1px 0; text-align: right; font-variant-numeric: tabular-nums"


@dataclass(frozen=True, kw_only=True)
class Report(MergeReport):
    """The report of a run, or of a dry run.

    ``counts`` has the number of rows of each outcome, ``result`` the merged rows, ``rejects`` the rejected ones.
    ``print(report)`` shows what ``mutator run`` prints; a notebook shows a table.
    """

    master: str
    output: str
    engine: str
    join: str
    reason: str
    buckets: int | None
    tasks: int
    rejects: Rejects  # side -> the first rejected rows; and all of them as tables
    carried: int  # data files that were carried over, because no mutation concerns them
    unread_bytes: int  # of files that were carried over unread
    checked_bytes: int  # of files that were carried over, and compared with their checksums
    partitions: Sequence[Mapping[str, Any]] | None  # counts of each partition that was written
    litter: tuple[str, ...]  # files of a killed run that were removed
    horizon: str | None
    steps: Mapping[str, float] = field(default_factory=dict)  # seconds of each step
    changes: str | None = None  # directory of the changed rows; None: not written, or no row has changed
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

    def _repr_html_(self) -> str:
        return _html_of(self)

    def own(self) -> Own:
        """Return what no other report of a merge says, or says like this."""
        expired = counted(self.counts["expired"], "tombstone")
        horizon = f"the horizon is {self.horizon or 'the lowest order value'}"
        buckets = "none" if self.buckets is None else f"{self.buckets:,}"
        written = f"{counted(self.files, 'file')}, {counted(self.bytes, 'byte')}"
        taken = f"{counted(self.carried, 'file')}, {counted(self.unread_bytes, 'byte')} unread"
        changed = counted(sum(changed_counts(self.counts).values()), "changed row")
        plan: list[tuple[str, str, bool]] = [
            ("engine", self.engine, True),
            ("join", f"{self.join}: {self.reason}", True),
            ("buckets", "by partition" if self.partitions is not None else buckets, True),
            ("read tasks", f"{self.tasks:,}", True),
            ("runner", str(self.runner), self.runner is not None),
            ("written", written, not self.dry_run),
            ("taken over", taken, self.carried > 0),
            ("expired", f"{expired}; {horizon}", self.counts["expired"] > 0),
        ]
        files = counted(len(self.feed_files), "feed file")
        return Own(
            title=f"run {self.run}{' (dry run: nothing was written)' if self.dry_run else ''}",
            page_title=f"{'Dry run of' if self.dry_run else 'Merge of'} {files} into {self.master}",
            result="new master",
            facts=[
                *(("run", self.run), ("master", self.master), ("feed", self.feed)),
                *([("output", self.output)] if self.output else []),
            ],
            plan=[(name, value) for name, value, is_shown in plan if is_shown],
            plan_lines=self._plan_lines(),
            overwrite_lines=self._overwrite_lines(),
            lists=(
                ("skipped, consumed before", "Feed files that an earlier run had merged", self.consumed),
                ("ignored, hidden or unfinished", HIDDEN, self.ignored),
                ("removed, left by a killed run", "Files of a killed run, which were removed", self.litter),
            ),
            done=self._done(),
            changes=self._changes,
            partitions=self.partitions or (),
            steps=[*self.steps.items()],
            changes_lines=[f"{changed}: {self.changes}"] if self.changes else [],
            expired=[f"{expired} expired; {horizon}"] if self.counts["expired"] else [],
        )

    def _plan_lines(self) -> list[str]:
        buckets = "no buckets" if self.buckets is None else counted(self.buckets, "bucket")
        if self.partitions is not None:
            buckets = "buckets by partition"
        shape = f"{self.engine} engine, {self.join} join, {buckets}, {counted(self.tasks, 'read task')}"
        lines = [f"  plan   {shape}: {self.reason}"]
        return [*lines, *([f"  runner {self.runner}"] if self.runner is not None else [])]

    def _overwrite_lines(self) -> list[str]:
        if self.operation == "apply":
            return []
        whole = "the whole master is replaced"
        what = whole if self.replaced is None else f"{counted(len(self.replaced), 'partition')} replaced"
        return [f"  write  {self.operation}: {what}"]

    def _changes(self) -> Changes:
        """Return samples of the changed rows, for a page."""
        from mutator.pipeline.reports.row_samples import changed_rows  # loads the block types of all formats

        if self.dry_run:
            return Changes()
        written: Dataset | None = vars(self)["_written"]
        found = changed_rows(self.output if written is None else written.path, hide=self.kept_out is not None)
        return Changes(found or (), are_missing=found is None and self.changed > 0)

    def _done(self) -> str:
        rows = counted(self.counts["output rows"], "row")
        if self.dry_run:
            return f"would write {rows}"
        return f"wrote {rows} in {counted(self.files, 'file')} ({counted(self.bytes, 'byte')}){self._carried()}"

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
        before = sum(n[f"master {name}"] for name in ("kept", "replaced", "removed", "deleted by absence", "truncated"))
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
    made: State,
    given: Mapping[str, Any],
    litter: tuple[str, ...],
    dry_run: bool,
    times: StepTimes,
    runner: RunnerChoice | None,
) -> Report:
    """Return the report of a run. given: master, feed and output as the user wrote them, without secrets."""
    result = without_values(plan, result)
    rejected = next((part.path for part in made.beside if part.role == "rejected"), None)
    strategy, members = plan.strategy, members_of(plan, survey, result, runner)
    return Report(
        **given,
        **members | {"rejects": Rejects(members["rejects"])},
        run=plan.run,
        dry_run=dry_run,
        engine=strategy.engine,
        join=strategy.join,
        reason=plain(plan.audience(strategy.reason)),
        buckets=strategy.buckets,
        tasks=len(plan.tasks),
        counts=made.commit.counts,
        files=len(made.files),
        bytes=sum(part.bytes for part in made.files),
        carried=result.carried,
        unread_bytes=result.unread,
        checked_bytes=result.checked_bytes,
        partitions=_rows_by_partition(plan, result),
        operation=plan.operation,
        replaced=_replaced(plan, result),
        rejected_file=f"{given['output']}/{rejected}" if rejected else None,
        litter=_paths(plan, litter),
        notes=shown_texts(plan, (*plan.notes, *_search_notes(result), *notes_on_kinds(plan, result))),
        warnings=shown_texts(plan, (*plan.warnings, *merge_warnings(plan, survey, result))),
        horizon=shown_text(plan.rows.order_type, made.commit.horizon) if plan.shown.order else OUT,
        seconds=times.total,
        steps=times.seconds,
        changes=f"{given['output']}/{DIRECTORY}/{CHANGES}" if change_files(made) else None,
    )


def shown_texts(plan: Plan, texts: Iterable[str]) -> tuple[str, ...]:
    """Return notes or warnings as a report has them, each on one line."""
    return tuple(one_line(plain(plan.audience(without_secrets(text)))) for text in texts)


def _paths(plan: Plan, paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(plan.audience.paths(without_secrets(path)) for path in paths)


def members_of(plan: Plan, survey: Survey, result: Result, runner: RunnerChoice | None) -> dict[str, Any]:
    """Return the fields that are the same for every merge. result: without the values that are kept out."""
    shown = plan.audience.paths
    return {
        "samples": samples_of(result.samples, leave_out="tied" if _rows_are_in_order(plan) else ""),
        "rejects": {
            side: [reject_members(shown(row[0]), *row[1:]) for row in rows] for side, rows in result.rejects.items()
        },
        "consumed": _paths(plan, [source.path for source in survey.consumed]),
        "ignored": _paths(plan, survey.ignored),
        "runner": None if runner is None else runner.text(),
        "feed_files": _feed_files_of(plan, result),
        "late": _late_orders(plan, result),
        "other_tables": other_tables(result),
        "kept_out": plan.shown.kept_out,
    }


def samples_of(samples: Mapping[str, Sequence[Key]], leave_out: str = "") -> dict[str, list[str]]:
    """Return the sample keys of each remark, as text. leave_out: a remark that a report counts, and does not show."""
    shown = {*REMARKS} - {leave_out}
    return {name: [key_text(key) for key in keys] for name, keys in samples.items() if name in shown}


def _rows_are_in_order(plan: Reading) -> bool:
    """Return whether the place of a row decides between the changes of a file, as the source wrote them."""
    return plan.by_file_name and plan.rows.layouts["feed"].envelope.unwraps


def reject_members(path: str, offset: int, line: int, position: str, reason: str, row: bytes) -> Mapping[str, Any]:
    """Return a rejected row as the JSON of a report has it."""
    text = row.decode("utf-8", "backslashreplace")
    return {"path": path, "offset": offset, "line": line, "place": position, "reason": reason, "row": text}


def _feed_files_of(plan: Plan, result: Result) -> list[Mapping[str, Any]]:
    return [
        {
            "path": plan.audience.paths(without_secrets(source.shown_path)),
            "sequence": source.sequence,
            "bytes": source.bytes,
            "rows": rows,
            "rejected": rejected,
            "ignored": ignored,
            "outcomes": outcomes,
        }
        for source, rows, rejected, ignored, outcomes in result.read
    ]


def _late_orders(plan: Reading, result: Result) -> dict[str, str | None] | None:
    if result.late is None:
        return None
    return {name: shown_order(plan.rows.order_type, value) for name, value in result.late._asdict().items()}


def _html_of(report: Report) -> str:
    """Return a report as HTML: its paths, the counts that are not 0, the first rejects, notes and warnings."""
    n = report.counts
    head = f"run {report.run}" + (" (dry run: nothing was written)" if report.dry_run else "")
    rows = [
        *_row("master", report.master),
        *(row for part in report.feed for row in _row("feed", part)),
        *(_row("output", report.output) if report.output else ()),
    ]
    sides = [[(one.name, one.rows), *one.some] for one in (feed_sum(n), master_sum(n))]
    sides[1] += [("output rows", n["output rows"])]
    sides[1] += [("tombstones", n["tombstones out"])] if n["tombstones out"] else []
    counts = []
    for number in range(max(map(len, sides))):
        cells = [_count(*column[number]) if number < len(column) else "<td></td><td></td>" for column in sides]
        counts.append(f"<tr>{''.join(cells)}</tr>")
    return "\n".join(
        [
            '<div style="font-size: 90%">',
            f"<div>{_text(head)}</div>",
            f'<table style="border: none"><tbody>{"".join(rows)}</tbody></table>',
            f'<table style="border: none"><tbody>{"".join(counts)}</tbody></table>',
            *(f"<div>{_text(line)}</div>" for line in _lines(report)),
            "</div>",
        ]
    )


def _lines(report: Report) -> Iterator[str]:
    for rows in report.rejects.values():
        yield from reject_lines(rows)
    yield from (f"note: {note}" for note in report.notes)
    yield from (f"warning: {warning}" for warning in report.warnings)
    done = "would write" if report.dry_run else "wrote"
    yield f"{done} {counted(report.counts['output rows'], 'row')}; {report.seconds:.1f} s"


def _row(name: str, value: str) -> Iterator[str]:
    yield f'<tr><th style="{_CELL}">{_text(name)}</th><td style="{_CELL}">{_text(value)}</td></tr>'


def _count(name: str, count: int) -> str:
    return f'<th style="{_CELL}">{_text(name)}</th><td style="{_NUMBER}">{count:,}</td>'


def _text(value: str) -> str:
    from html import escape  # here, because only notebooks need it

    return escape(one_line(value))
