"""The report of a base: its state, its versions, and the feed files that wait, whatever its target is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mutator.errors.display import counted, text_of
from mutator.pipeline.text_tables import aligned, listed
from mutator.pipeline.version_point import VersionPoint


@dataclass(frozen=True, kw_only=True)
class BaseReport:
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

    def json(self) -> str:
        """Return a JSON document."""
        members: dict[str, Any] = asdict(self)
        return json.dumps(members, indent=1)

    def html(self) -> str:
        """Return a page of HTML. Raises ConfigError where Jinja2 is not installed."""
        from mutator.pipeline.html_report.base_page import BasePage  # an extra

        return BasePage(self).html()

    def text(self) -> str:
        """Return lines for a terminal."""
        lines = [f"base {self.base}: {counted(self.count, 'version')}"]
        lines += [f"at work: {self.running}"] if self.running is not None else []
        heads = ("version", "kind", "feed files", "rows", "late", "rejected", "lag")
        rows: list[tuple[str, ...]] = [heads]
        for one in self.versions[-10:]:
            late, rejected = (f"{one.counts.get(f'feed {name}', 0):,}" for name in ("late", "rejected"))
            lag = "" if one.lag is None else f"{one.lag:,.1f} s"
            rows.append((f"{one.number:,}", one.kind, f"{one.files:,}", f"{one.rows:,}", late, rejected, lag))
        lines += aligned(rows, right={0, 2, 3, 4, 5, 6})
        lines += listed_feed(self.ready or (), self.waiting or (), self.failed)
        lines += listed("set aside", [f"{path}: {why}" for path, why in self.set_aside])
        lines += [f"problem: {problem}" for problem in self.problems]
        return text_of(lines)


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
