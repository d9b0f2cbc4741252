"""The page of a base: its versions over time, the feed files that wait, and problems."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mutator.errors.display import counted
from mutator.pipeline.html_report.cut import Cut, cut
from mutator.pipeline.html_report.page import page_of, short_text, size_text, time_text
from mutator.pipeline.html_report.trend import Trend, bars, steps

if TYPE_CHECKING:
    from mutator.pipeline.base_report import BaseReport
    from mutator.pipeline.version_point import VersionPoint

_CHARTED = 90  # versions
_LISTED = 40
_FILES = 100
_TEXTS = 50
_DAY = 86_400
# Ends of the scales of durations, in seconds.
_TIMES = (0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 6 * 3600, 12 * 3600, _DAY, 2 * _DAY, 7 * _DAY)
_OUTCOMES = ("inserted", "updated", "deleted", "no-op", "superseded", "delete of unknown")


class BasePage:
    """The content of the page of a base."""

    def __init__(self, report: BaseReport) -> None:
        self.report = report
        self._points = report.versions[-_CHARTED:]

    def html(self) -> str:
        """Return the page."""
        return page_of("base.html", page=self)

    @property
    def charts(self) -> list[Trend]:
        """The charts of the newest versions."""
        points = self._points
        numbers = [one.number for one in points]
        merged = [one for one in points if one.counts]
        of_merges = [one.number for one in merged]
        found = [
            steps("Rows of the result", "rows", numbers, [one.rows for one in points], _whole),
            bars("Bytes of the feed", "feed", numbers, {"step": [one.feed_bytes for one in points]}, _bytes),
            steps(self._bytes_title, "bytes", numbers, [one.bytes for one in points], _bytes),
            bars(
                "Lag from arrival to commit", "lag", numbers, {"step": [one.lag for one in points]}, time_text, _TIMES
            ),
            bars("Outcomes of feed rows", "outcomes", of_merges, _columns(merged, _OUTCOMES), _whole),
            bars("Late and rejected rows", "late", of_merges, _columns(merged, ("late", "rejected")), _whole),
        ]
        if any(one.seconds for one in points):
            found.append(
                bars("Duration", "duration", numbers, {"step": [one.seconds for one in points]}, time_text, _TIMES)
            )
        return found

    @property
    def uncharted(self) -> int:
        """The number of versions that are older than the first of the charts."""
        return self.report.count - len(self._points)

    @property
    def newest(self) -> VersionPoint | None:
        """The newest version."""
        return self.report.versions[-1] if self.report.versions else None

    @property
    def age(self) -> str:
        """The age of the newest version, as text."""
        newest = self.newest
        return "–" if newest is None else time_text(max(self.report.taken - newest.committed, 0))

    @property
    def longest_lag(self) -> str:
        """The longest lag of the charts, as text."""
        found = [one.lag for one in self._points if one.lag is not None]
        return time_text(max(found)) if found else "–"

    @property
    def versions(self) -> Cut:
        """The newest versions, newest first."""
        newest = list(reversed(self.report.versions[-_LISTED:]))
        return cut(newest, _LISTED, "version", "the oldest ones", max(self.report.count, len(newest)))

    @property
    def waiting(self) -> Cut:
        """Feed files that have to wait, and why."""
        return cut(self.report.waiting or (), _FILES, "waiting file")

    @property
    def set_aside(self) -> Cut:
        """Feed files that were set aside, and why."""
        return cut(self.report.set_aside, _FILES, "set-aside file")

    @property
    def ready(self) -> Cut:
        """Feed files that the next run claims, first those with which the last one failed."""
        failed = set(self.report.failed)
        return cut(sorted(self.report.ready or (), key=lambda name: name not in failed), _FILES, "ready file")

    @property
    def needs(self) -> Cut:
        """Problems that somebody has to solve."""
        return cut(_needs(self.report), _TEXTS, "problem")

    @property
    def taken(self) -> str:
        """When the page was made."""
        return moment(self.report.taken)

    def moment(self, seconds: float) -> str:
        """Return a time as text."""
        return moment(seconds)

    @property
    def _bytes_title(self) -> str:
        return "Bytes that the version added" if self.report.table is not None else "Bytes of the master"


def moment(seconds: float) -> str:
    """Write a time.

    >>> moment(0)
    '1970-01-01 00:00:00 UTC'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


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


def _columns(points: Sequence[VersionPoint], outcomes: Sequence[str]) -> dict[str, list[float | None]]:
    return {name: [one.counts.get(f"feed {name}", 0) for one in points] for name in outcomes}


def _whole(value: float) -> str:
    return short_text(int(value))


_bytes: Callable[[float], str] = lambda value: size_text(int(value))  # noqa: E731
