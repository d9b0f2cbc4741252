"""The report of a merge: what is common to ``mutator run`` and ``mutator table apply``, section by section."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import zip_longest
from types import SimpleNamespace
from typing import Any, NamedTuple

from mutator.errors.display import counted
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.reports.printed import PageReport, WarningReport
from mutator.pipeline.reports.sections import (
    MOST_TEXTS,
    Cut,
    Drawn,
    Fact,
    FactsBlock,
    ReportSection,
    Sentence,
    TableBlock,
    Texts,
    cut,
    ended,
    listed,
    said,
    size_text,
    time_text,
)
from mutator.pipeline.reports.sums import feed_sum, master_sum, output_sum, tombstone_sum
from mutator.rules.envelopes import NO_ROWS
from mutator.rules.truth_table import (
    FEED_OUTCOMES,
    MOVED_INCOMPLETE,
    MOVED_ONTO,
    RARE_OUTCOMES,
    REVIVED,
    SEALED,
    WAITED,
    records_deleted,
)

_FILES = 100  # of a page
_PARTITIONS = 100  # of a page
_SHOWN_PARTITIONS = 20  # on a terminal; the JSON has them all
_REJECTS = 50  # of a page
_EVERY_ROW = "Every row that was read is in one of the outcomes below."
_DECIDED_TWICE = (
    "The other outcomes are not known for each file: another writer committed meanwhile, so that some rows were "
    "decided twice."
)
_WIDE, _NARROW = 900, 330  # units of the picture
_IN_TITLE = ("run", "table", "version")  # facts that the first line of the text has
HIDDEN = "Files with hidden names or names of unfinished files, which were ignored"
REMARKS = {  # count -> noun, and the rest of a line
    "tied": ("tied key", ": mutations with the highest order value that differ"),
    MOVED_ONTO: ("key", " with a record onto which another one moved, so that one of both is lost"),
    MOVED_INCOMPLETE: ("key", " with a new record that lacks fields, which the feed and the place do not have"),
    "out of order": ("key", " with a mutation older than the record, which changed fields that are older still"),
    "partly cleared": ("key", " of whose fields a truncate cleared some"),
    SEALED: ("key", " with a mutation older than a seal, which merge functions could not take into account in full"),
    "inserted and deleted": ("key", " inserted and deleted within this feed"),
    REVIVED: ("key", " inserted again after a remembered delete"),
    WAITED: ("key", " inserted, for which patches waited"),
    "duplicate IDs": ("ID", " with more than one row in the master, of which the last was kept"),
    "below horizon": ("insert", " older than the newest expired tombstone"),
}
_STEPS = {  # step -> its work
    "survey": "lists the inputs, and reads their first rows",
    "plan": "chooses the splits, the join and the engine",
    "merge": "starts the runner; then reads, shuffles, merges and writes rows, which overlap and are timed as one",
    "check": "adds up the counts, and compares them with the files that were written",
    "publish": "makes the result visible",
}


class Changes(NamedTuple):
    """Samples of changed rows for a page, or the reason why it has none."""

    samples: Sequence[Any] = ()
    are_missing: bool = False  # the run did not write its changed rows
    most: int = 0  # changed rows of a page with samples; more are left out
    command: str = ""  # prints all of them, if they are left out


class Own(NamedTuple):
    """What the report of a run and that of an apply say each in its own way."""

    title: str  # first line of the text
    page_title: str
    result: str  # its name on a page
    facts: Sequence[Fact]  # what was merged
    plan: Sequence[Fact]  # how it was merged, on a page
    plan_lines: Sequence[str]  # the same on a terminal with --verbose
    lists: Sequence[tuple[str, str, Sequence[str]]]  # of files: what they are, on a terminal and on a page
    done: str  # what was written, for the last line
    changes: Callable[[], Changes]  # for a page
    overwrite_lines: Sequence[str] = ()  # what an overwrite replaces, on a terminal
    changes_lines: Sequence[str] = ()  # where all of them are
    expired: Sequence[str] = ()  # tombstones
    replaced: Sequence[str] = ()  # by an overwrite
    partitions: Sequence[Mapping[str, Any]] = ()  # counts of each one that was written
    steps: Sequence[tuple[str, float]] = ()  # with their seconds
    more: Sequence[ReportSection] = ()  # what followed the merge


@dataclass(frozen=True, kw_only=True)
class MergeReport(PageReport, WarningReport):
    """The result of a merge, or of a dry run: the members that the reports of all merges have."""

    run: str
    dry_run: bool
    operation: str  # apply | insert_overwrite | insert_overwrite_table
    feed: tuple[str, ...]
    counts: Mapping[str, int]
    samples: Mapping[str, list[str]]  # note -> the smallest keys
    rejects: Mapping[str, Sequence[Mapping[str, Any]]]  # side -> the first rejected rows
    rejected_file: str | None
    files: int  # that were written; of a table, those in the log entry too
    bytes: int
    replaced: tuple[str, ...] | None  # partitions that an overwrite replaced; None for an apply, or without partitions
    consumed: tuple[str, ...]  # feed files that were skipped, because an earlier merge has them
    ignored: tuple[str, ...]  # files whose names start with _ or .
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    seconds: float
    runner: str | None = None  # where the tasks ran, and why
    feed_files: Sequence[Mapping[str, Any]] = ()  # rows, bytes and outcomes of each feed file that was read
    late: Mapping[str, str | None] | None = None  # bounds of the order values of late mutations and newer records
    other_tables: Mapping[str, int] = field(default_factory=dict)  # rows of the feed that are not taken, by table
    kept_out: str | None = None  # values that the report may not show, in words

    @property
    def changed(self) -> int:
        """The number of records that were inserted, updated or deleted."""
        written = sum(self.counts.get(name, 0) for name in ("feed inserted", "feed updated"))
        return written + records_deleted(self.counts)

    def sections(self) -> Iterable[ReportSection]:
        """Return the sections, in the order of the text."""
        own, kept_out = self.own(), [] if self.kept_out is None else [f"kept out: {self.kept_out}"]
        return (
            said(own.title),
            _about(own),
            _plan(self, own),
            _warnings(self),
            _outcomes(self, own.result),
            _feed_files(self),
            _partitions(own.partitions),
            _remarks(self),
            said(*own.expired),
            _rejects(self),
            ReportSection(blocks=[Drawn("changes", own.changes)], lines=own.changes_lines),
            _steps(own.steps, self.seconds),
            said(*kept_out, *_ignored_lines(self.counts, self.notes), *own.replaced),
            *(said(*listed(what, paths)) for what, _, paths in own.lists),
            ended(own.done, self.seconds),
            *own.more,
        )

    def head(self) -> tuple[str, Iterable[str], Iterable[tuple[str, str]]]:
        """Return the title of the page, the sentences below it, and its first figures."""
        n = self.counts
        leads = ["Dry run: nothing was written." if self.dry_run else _EVERY_ROW]
        leads += [] if self.kept_out is None else [f"Some values are not shown: {self.kept_out}."]
        figures = [
            (n.get("feed rows", 0), "feed rows"),
            (self.changed, "records changed"),
            (n["feed late"], "late rows"),
            (_rejected(n), "rejected rows"),
            (n.get("output rows", 0), f"rows {'would be' if self.dry_run else 'now'}"),
        ]
        shown = [(f"{value:,}", name) for value, name in figures]
        return self.own().page_title, leads, [*shown, (time_text(self.seconds), "duration")]

    @abstractmethod
    def own(self) -> Own:
        """Return what the report of a run and that of an apply say each in its own way."""


def _about(own: Own) -> ReportSection:
    """Return the section on what was merged."""
    facts = FactsBlock(own.facts)
    lines = [f"  {name:<6} {value}" for name, value in facts.all if name not in _IN_TITLE]
    return ReportSection("Run", [facts], lines, "about", rank=3)


def _plan(report: MergeReport, own: Own) -> ReportSection:
    """Return the section on how it was merged, with the notes."""
    notes = cut(report.notes, MOST_TEXTS, "note")
    blocks = [
        FactsBlock(own.plan),
        *([Texts(notes, "Notes")] if notes else []),
        *(Texts(cut(paths, MOST_TEXTS, "path"), heading, "mono") for _, heading, paths in own.lists if paths),
    ]
    lines = [*own.overwrite_lines, *(f"  note   {note}" for note in report.notes)]
    return ReportSection("Plan", blocks, lines, "plan", rank=2, all_lines=[*own.plan_lines, *lines])


def _warnings(report: MergeReport) -> ReportSection:
    """Return the section of warnings, which a terminal has in a stream of their own."""
    found = cut(report.warnings, MOST_TEXTS, "warning")
    return ReportSection("Warnings", [Texts(found)] if found else (), (), "warnings", "warn")


def _outcomes(report: MergeReport, result: str) -> ReportSection:
    """Return the section with the counts of all outcomes: in two columns, and as a picture."""
    n = report.counts
    feed, master, output = feed_sum(n), master_sum(n), output_sum(n)

    def lines(*, verbose: bool) -> list[str]:
        left, right = (
            [(one.name, one.rows), *((f"  {part.name}", part.rows) for part in (one.parts if verbose else one.some))]
            for one in (feed, master)
        )
        right += [(output.name, output.rows)]
        right += [("tombstones", n["tombstones out"])] if verbose or n["tombstones out"] else []
        cells = ([f"{name:<24}{count:>12,}" for name, count in column] for column in (left, right))
        return ["", *(f"{one:<36}    {other}".rstrip() for one, other in zip_longest(*cells, fillvalue="")), ""]

    def sums() -> Any:
        from mutator.pipeline.reports.pictures import flow_of  # for a page alone

        flows = flow_of(n, result, _WIDE), flow_of(n, result, _NARROW, narrow=True)
        return SimpleNamespace(
            feed=feed,
            master=master,
            output=output,
            tombstones=tombstone_sum(n),
            flows=flows,
            ignored=n.get("feed ignored", 0) + n.get("master ignored", 0),
        )

    blocks = [Drawn("outcomes", sums)]
    return ReportSection("Outcomes", blocks, lines(verbose=False), "outcomes", all_lines=lines(verbose=True))


def _feed_files(report: MergeReport) -> ReportSection:
    """Return the section with the outcomes of each feed file."""
    files, n = report.feed_files, report.counts
    known = all(file["outcomes"] is not None for file in files)
    rare = [name for name in RARE_OUTCOMES if n.get(f"feed {name}")]
    names = (*FEED_OUTCOMES, *rare) if known else ("rejected",)

    def table() -> TableBlock:
        shown = files  # those with most rows first if there are too many
        if len(files) > _FILES:
            shown = sorted(files, key=lambda one: (-one["rejected"], -one["rows"]))
        found = cut(shown, _FILES, "feed file", "those without rejects that have the fewest rows")
        columns = [("file", "path"), *((name, "n") for name in ("rows", *names, "ignored", "size"))]
        rows = [
            _row(
                one["path"],
                [one["rows"], *(_rows(one, name) for name in names)],
                one["ignored"],
                one["bytes"],
            )
            for one in found
        ]
        sums = [n.get("feed rows", 0), *(n[f"feed {name}"] for name in names)]
        foot = _row("all files", sums, n["feed ignored"], sum(one["bytes"] for one in files)) if len(files) > 1 else ()
        return TableBlock(columns, [replace(found, items=rows)], foot, "tight")

    blocks = [Drawn("table", table), *([] if known else [Sentence(_DECIDED_TWICE)])]
    return ReportSection("Feed files", blocks if files else (), (), "files")


def _rows(file: Mapping[str, Any], name: str) -> int:
    """Return the rows of a feed file that have an outcome."""
    found: int = file["rejected"] if name == "rejected" else file["outcomes"].get(name, 0)
    return found


def _row(name: str, counts: Sequence[int], ignored: int, size: int) -> list[str]:
    return [name, *(f"{count:,}" for count in (*counts, ignored)), size_text(size)]


def _partitions(found: Sequence[Mapping[str, Any]]) -> ReportSection:
    """Return the section with the counts of each partition."""
    names = list(found[0]) if found else []

    columns = [(name, "n" if number else "path") for number, name in enumerate(names)]

    def rows(shown: Iterable[Mapping[str, Any]]) -> list[list[str]]:
        return [[one["partition"], *(f"{one[name]:,}" for name in names[1:])] for one in shown]

    def table() -> TableBlock:
        shown = found  # those with most changes if there are too many
        if len(found) > _PARTITIONS:
            most = sorted(found, key=lambda one: (-_changes(one), one["partition"]))[:_PARTITIONS]
            directories = {one["partition"] for one in most}
            shown = [one for one in found if one["partition"] in directories]
        part = cut(rows(shown), _PARTITIONS, "partition", "those with the fewest changes", len(found))
        return TableBlock(columns, [part], unnamed="no partition")

    if not found:
        return ReportSection("Partitions")
    more = len(found) - _SHOWN_PARTITIONS
    lines = TableBlock(columns, [Cut(rows(found[:_SHOWN_PARTITIONS]))]).lines()
    lines += [f"and {counted(more, 'more partition')}"] if more > 0 else []
    return ReportSection("Partitions", [Drawn("table", table)], [*lines, ""], "partitions")


def _changes(partition: Mapping[str, Any]) -> int:
    names = ("inserted", "updated", "deleted", "moved in", "moved out")
    return sum(partition.get(name, 0) for name in names) or int(partition["rows"])


def _remarks(report: MergeReport) -> ReportSection:
    """Return the section with sentences on keys, each with the smallest keys that it is true of."""
    n = report.counts
    found = [
        (f"{counted(n[name], noun)}{rest}", report.samples.get(name, []))
        for name, (noun, rest) in REMARKS.items()
        if n.get(name) and (name in report.samples or report.kept_out is not None)
    ]
    lines = [f"{sentence}, for example {'; '.join(keys)}" for sentence, keys in found]
    shown = partial(SimpleNamespace, late=report.late, rows=n["feed late"], remarks=found)
    is_empty = not found and not report.late
    return ReportSection(
        "Ties, late rows and other remarks", () if is_empty else [Drawn("remarks", shown)], lines, name="remarks"
    )


def _rejects(report: MergeReport) -> ReportSection:
    """Return the section of rejected rows: the first ones, and on a page more of them, from the file that has all."""
    samples, path = report.rejects, report.rejected_file
    lines = [line for side in ("master", "feed") for line in reject_lines(samples.get(side, []))]
    lines += [f"all rejected rows: {path}"] if path else []

    def rows() -> Any:
        from mutator.pipeline.reports.row_samples import rejected_rows

        # In the memory of a Python caller, the file has no path that a reader could use.
        of_caller = getattr(samples, "path", None)
        readable = None if report.kept_out is not None else of_caller or path
        shown = path if of_caller in (None, path) else None
        return SimpleNamespace(
            total=_rejected(report.counts), file=shown, **vars(rejected_rows(readable, samples, _REJECTS))
        )

    blocks = [Drawn("rejects", rows)] if _rejected(report.counts) else ()
    return ReportSection("Rejected rows", blocks, lines, "rejects", rank=1)


def reject_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each reason of some rejected rows, with their places.

    >>> rows = [{"path": "a", "place": f"line {line}", "reason": "has 1 field"} for line in (1, 4)]
    >>> [*reject_lines(rows), *reject_lines(rows[:1])]
    ['rejected: 2 rows: has 1 field: a: line 1; line 4', 'rejected: a: line 1: has 1 field']
    """
    by_reason: dict[str, dict[str, list[str]]] = {}
    for one in rows:
        by_reason.setdefault(one["reason"], {}).setdefault(one["path"], []).append(one["place"])
    for reason, paths in by_reason.items():
        where = "; ".join(f"{path}: {'; '.join(places)}" for path, places in paths.items())
        count = sum(map(len, paths.values()))
        yield f"rejected: {where}: {reason}" if count == 1 else f"rejected: {counted(count, 'row')}: {reason}: {where}"


def _rejected(counts: Mapping[str, int]) -> int:
    return counts.get("feed rejected", 0) + counts.get("master rejected", 0)


def _steps(steps: Sequence[tuple[str, float]], seconds: float) -> ReportSection:
    """Return the section with the seconds of each step, and of all."""
    found = [(step, _STEPS.get(step, ""), duration) for step, duration in steps]
    shown = partial(SimpleNamespace, steps=found, seconds=seconds)
    return ReportSection("Time of each step", [Drawn("steps", shown)] if found else (), (), "time", rank=1)


def _ignored_lines(counts: Mapping[str, int], notes: Sequence[str]) -> Iterator[str]:
    """Yield a line on blank and header lines, one on rows that are not mutations, and one on rows that are several."""
    rows = counts.get("feed no mutations", 0)
    lines = counts["feed ignored"] + counts["master ignored"] - rows
    if lines:
        yield f"{counted(lines, 'blank or header line')} ignored"
    if rows:
        of_messages = any(note.startswith(NO_ROWS) for note in notes)  # which says their kinds
        yield f"{counted(rows, 'row')} ignored{'' if of_messages else ' for the op code'}"
    if more := counts.get("feed halves", 0):
        yield f"{counted(more, 'mutation')} more than feed rows, because some rows say several"
