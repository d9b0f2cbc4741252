"""The report of a base: its versions over time, the feed files that wait, and problems, whatever its target is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace

from mutator.errors.display import counted
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.reports.pictures import Trend, bars, steps
from mutator.pipeline.reports.printed import PageReport
from mutator.pipeline.reports.sections import (
    MOST_TEXTS,
    Drawn,
    ReportSection,
    Sentence,
    TableBlock,
    Texts,
    aligned,
    cut,
    listed,
    said,
    short_text,
    size_text,
    time_text,
)
from mutator.pipeline.version_point import VersionPoint
from mutator.rules.truth_table import records_deleted

_CHARTED = 90  # versions of a page
_LISTED = 40  # versions of a page
_SHOWN = 10  # versions on a terminal
_FILES = 100
_DAY = 86_400
# Ends of the scales of durations, in seconds.
_TIMES = (0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 6 * 3600, 12 * 3600, _DAY, 2 * _DAY, 7 * _DAY)
_OUTCOMES = ("inserted", "updated", "deleted", "no-op", "superseded", "delete of unknown")


@dataclass(frozen=True, kw_only=True)
class BaseReport(PageReport):
    """The report of a base. Members that are None cannot be seen, and a problem says why."""

    base: str
    table: str | None  # path of its target, if that is a table; None: a master
    taken: float  # when, in seconds since 1970
    running: str | None  # the run at work, in words
    versions: Sequence[VersionPoint]  # the newest ones, oldest first
    count: int  # of all versions
    ready: Sequence[str] | None  # feed files that the next run claims
    waiting: Sequence[tuple[str, str]] | None  # feed files that have to wait, and why
    problems: Sequence[str]
    failed: Sequence[str] = ()  # feed files with which the last run failed
    # Feed files that were set aside and not delivered again, and why.
    set_aside: Sequence[tuple[str, str]] = ()

    def sections(self) -> Iterable[ReportSection]:
        """Return the sections, in the order of the text."""
        running = [f"at work: {self.running}"] if self.running is not None else []
        return (
            said(f"base {self.base}: {counted(self.count, 'version')}", *running),
            _versions(self),
            _charts(self),
            _feed(self),
            _problems(self),
        )

    def head(self) -> tuple[str, Iterable[str], Iterable[tuple[str, str]]]:
        """Return the title of the page, the sentence below it, and its first figures."""
        state = "Idle, with problems." if self.problems else "Idle."
        state = f"At work: {self.running}." if self.running else state
        target = f" Its target is the table {self.table}." if self.table else ""
        newest = self.versions[-1] if self.versions else None
        lags = [one.lag for one in self.versions[-_CHARTED:] if one.lag is not None]
        figures = [
            (f"{newest.number:,}" if newest else "–", "newest version"),
            (f"{newest.rows:,}" if newest else "–", "rows"),
            (time_text(max(self.taken - newest.committed, 0)) if newest else "–", "since last commit"),
            (time_text(max(lags)) if lags else "–", "longest lag"),
            ("–" if self.ready is None else f"{len(self.ready):,}", "files ready"),
            ("–" if self.waiting is None else f"{len(self.waiting):,}", "files waiting"),
        ]
        return f"Base {self.base}", [f"As it was on {_moment(self.taken)}. {state}{target}"], figures


def _versions(report: BaseReport) -> ReportSection:
    """Return the section with a row for each of the newest versions."""
    heads = ("version", "kind", "feed files", "rows", "late", "rejected", "lag")
    rows: list[tuple[str, ...]] = [heads]
    for one in report.versions[-_SHOWN:]:
        late, rejected = (f"{one.counts.get(f'feed {name}', 0):,}" for name in ("late", "rejected"))
        lag = "" if one.lag is None else f"{one.lag:,.1f} s"
        rows.append((f"{one.number:,}", one.kind, f"{one.files:,}", f"{one.rows:,}", late, rejected, lag))
    lines = aligned(rows, right={0, 2, 3, 4, 5, 6})
    return ReportSection(
        "Versions", [Drawn("table", partial(_table, report))] if report.versions else (), lines, "versions", rank=1
    )


def _table(report: BaseReport) -> TableBlock:
    names = ("inserted", "updated", "deleted", "late", "rejected")
    columns = [("version", "n"), ("committed", "time"), ("kind", "time"), ("files", "n")]
    columns += [(name, "n") for name in (*names, "rows", "lag")]
    rows = []
    for one in reversed(report.versions[-_LISTED:]):  # newest first
        n = one.counts
        done = {name: n.get(f"feed {name}", 0) for name in names}
        done["deleted"] = records_deleted(n)
        rows.append(
            (
                f"{one.number:,}",
                _moment(one.committed),
                one.kind,
                f"{one.files:,}",
                *(f"{count:,}" if n else "" for count in done.values()),
                f"{one.rows:,}",
                "" if one.lag is None else time_text(one.lag),
            )
        )
    return TableBlock(columns, [cut(rows, _LISTED, "version", "the oldest ones", max(report.count, len(rows)))])


def _charts(report: BaseReport) -> ReportSection:
    """Return the section with charts of the newest versions."""
    points = report.versions[-_CHARTED:]
    older = report.count - len(points)
    shown = lambda: SimpleNamespace(charts=_trends(report, points), older=older, count=report.count)  # noqa: E731
    return ReportSection("Versions over time", [Drawn("charts", shown)] if points else (), ())


def _trends(report: BaseReport, points: Sequence[VersionPoint]) -> list[Trend]:
    numbers = [one.number for one in points]
    merged = [one for one in points if one.counts]
    of_merges = [one.number for one in merged]
    of_bytes = "Bytes that the version added" if report.table is not None else "Bytes of the master"
    found = [
        steps("Rows of the result", "rows", numbers, [one.rows for one in points], _whole),
        bars("Bytes of the feed", "feed", numbers, {"step": [one.feed_bytes for one in points]}, _bytes),
        steps(of_bytes, "bytes", numbers, [one.bytes for one in points], _bytes),
        bars("Lag from arrival to commit", "lag", numbers, {"step": [one.lag for one in points]}, time_text, _TIMES),
        bars("Outcomes of feed rows", "outcomes", of_merges, _columns(merged, _OUTCOMES), _whole),
        bars("Late and rejected rows", "late", of_merges, _columns(merged, ("late", "rejected")), _whole),
    ]
    if any(one.seconds for one in points):
        seconds: list[float | None] = [one.seconds for one in points]
        found.append(bars("Duration", "duration", numbers, {"step": seconds}, time_text, _TIMES))
    return found


def _columns(points: Sequence[VersionPoint], outcomes: Sequence[str]) -> dict[str, list[float | None]]:
    return {name: [one.counts.get(f"feed {name}", 0) for one in points] for name in outcomes}


def _feed(report: BaseReport) -> ReportSection:
    """Return the section with the feed files that wait, are ready or were set aside."""
    failed = set(report.failed)
    ready = sorted(report.ready or (), key=lambda name: name not in failed)
    again = {True: "failed in the last run; ", False: ""}
    claimed = {True: "the next one claims it again", False: "ready: the next run claims it"}
    waits = {True: "it waits: it ", False: "waits: it "}
    parts = [
        cut([(path, f"set aside: {why}") for path, why in report.set_aside], _FILES, "set-aside file"),
        cut(
            [(name, f"{again[name in failed]}{waits[name in failed]}{why}") for name, why in report.waiting or ()],
            _FILES,
            "waiting file",
        ),
        cut([(name, f"{again[name in failed]}{claimed[name in failed]}") for name in ready], _FILES, "ready file"),
    ]
    unseen = Sentence("They cannot be seen; see above." if report.waiting is None else "None.")
    block = TableBlock([("file", "path"), ("state", "why")], parts) if any(parts) else unseen
    lines = listed_feed(report.ready or (), report.waiting or (), report.failed)
    lines += listed("set aside", [f"{path}: {why}" for path, why in report.set_aside])
    return ReportSection("Feed files that wait", [block], lines, "waiting")


def _problems(report: BaseReport) -> ReportSection:
    """Return the section with problems that somebody has to solve."""
    found = cut(_needs(report), MOST_TEXTS, "problem")
    title, css = ("Problems", "warn") if found else ("No problems", "")
    lines = [f"problem: {problem}" for problem in report.problems]
    return ReportSection(title, [Texts(found)], lines, css=css, rank=-1)


def _needs(report: BaseReport) -> Iterator[str]:
    yield from report.problems
    newest = next((one for one in reversed(report.versions) if one.counts), None)
    if newest is None:
        return
    for outcome, rest in (
        ("rejected", "could not be read as records; _mutator/rejected of the version has them"),
        ("late", "changed nothing, because the records are newer"),
    ):
        rows = newest.counts.get(f"feed {outcome}", 0)
        if rows:
            yield f"version {newest.number}: {counted(rows, 'row')} of the feed {rest}"


def listed_feed(ready: Sequence[str], waiting: Sequence[tuple[str, str]], failed: Sequence[str]) -> list[str]:
    """Return lines with the names of feed files in incr/; those with which the last run failed have lines of their own.

    >>> listed_feed(["a.csv"], [("b.csv", "is 1.0 s old")], ["b.csv"])
    ['ready: a.csv', 'waiting, failed in the last run: b.csv: is 1.0 s old']
    """
    ready_lines = [(name, name) for name in ready]
    waiting_lines = [(name, f"{name}: {why}") for name, why in waiting]
    lines, again = list[str](), set(failed)
    for what, found in (("ready", ready_lines), ("waiting", waiting_lines)):
        lines += listed(what, [line for name, line in found if name not in again])
        lines += listed(f"{what}, failed in the last run", [line for name, line in found if name in again])
    return lines


def _moment(seconds: float) -> str:
    """Write a time.

    >>> _moment(0)
    '1970-01-01 00:00:00 UTC'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _whole(value: float) -> str:
    return short_text(int(value))


_bytes: Callable[[float], str] = lambda value: size_text(int(value))  # noqa: E731
