"""What is said of a base: values, as text for a terminal and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mutator.dataset.checksummed_json import json_members
from mutator.dataset.commit.process import Owner
from mutator.dataset.version_log import UNCHANGED, Version

__all__ = ["Outcome", "Place", "Status", "history_json", "history_text"]

_SHOWN = 5
_MODES = {
    "exchange": "in one atomic exchange",
    "two renames": "in two renames (this file system has no exchange: for a moment there was no master)",
    "rename": "in one rename (there was no master before)",
    "log": "by its log entry (this storage has no renames)",
    "done": "already, by another process",
}


@dataclass(frozen=True)
class Outcome:
    """What a run or a restore of a base has done."""

    base: str
    run: str
    version: int | None  # None: nothing was to be merged
    mode: str  # how the version became the master
    claimed: tuple[str, ...]
    skipped: tuple[str, ...]  # of those: merged by an earlier run
    waiting: tuple[tuple[str, str], ...]  # feed files that were not taken, and why
    recovered: tuple[str, ...]  # what earlier runs had left, and what was done with it
    report: Any  # of the merge, None without one
    stopped: int | None = None  # signal that came when it was too late to stop
    restored: int | None = None  # the version that is the master again

    def json(self) -> str:
        """Return a JSON document."""
        report = asdict(self.report) if self.report is not None else None
        return json.dumps({**asdict(_without_report(self)), "report": report}, indent=1)

    def text(self) -> str:
        """Return lines for a terminal."""
        lines = [f"recovered: {action}" for action in self.recovered]
        if self.report is not None:
            lines.append(self.report.text())
        if self.version is None:
            merged_before = f": {len(self.skipped)} feed files were merged before" if self.skipped else ""
            lines.append(f"nothing to merge{merged_before}")
        elif self.restored is not None:
            lines.append(f"version {self.version} is version {self.restored} again; it became the master {self._how()}")
        else:
            lines.append(f"version {self.version} became the master {self._how()}")
        lines += _listed("skipped, merged before", self.skipped if self.report is None else ())
        lines += _listed("not taken", [f"{name}: {why}" for name, why in self.waiting])
        return "\n".join(lines)

    def _how(self) -> str:
        return _MODES.get(self.mode, self.mode)


@dataclass(frozen=True)
class Status:
    """What a base is doing, and what waits."""

    base: str
    running: Owner | None  # who is at work now
    version: Version  # the latest
    made: Version  # the one that made the master, or brought it back
    master: str
    ready: tuple[str, ...]
    waiting: tuple[tuple[str, str], ...]
    recovered: tuple[str, ...]
    problems: tuple[str, ...]

    def json(self) -> str:
        """Return a JSON document."""
        return json.dumps(asdict(self, dict_factory=json_members), indent=1)

    def text(self) -> str:
        """Return lines for a terminal."""
        made, latest = self.made, self.version
        lines = [f"base     {self.base}"]
        if self.running is not None:
            who = self.running
            lines.append(f"state    at work: {who.run}, process {who.process} on {who.host}, since {who.since}")
        elif self.problems:
            lines.append("state    needs a hand, see below")
        else:
            lines.append("state    idle")
        if made.number:
            lines.append(f"version  {made.number}, {made.rows:,} rows, {made.action}, {made.committed}")
        else:
            lines.append("version  none yet: the master is what was given")
        if latest.action == "abandoned":
            lines.append(f"         version {latest.number} only says that run {latest.run} did not commit")
        if latest.action == "settled":
            lines.append(f"         version {latest.number} only says that run {latest.run} found nothing new")
        lines.append(f"master   {self.master}")
        lines.append(f"feed     {len(self.ready)} files ready, {len(self.waiting)} waiting")
        lines += _listed("ready", self.ready)
        lines += _listed("waiting", [f"{name}: {why}" for name, why in self.waiting])
        lines += [f"recovered: {action}" for action in self.recovered]
        lines += [f"problem: {problem}" for problem in self.problems]
        return "\n".join(lines)


@dataclass(frozen=True)
class Place:
    """A version, and where its dataset lies; None where it was removed."""

    version: Version
    path: str | None


def history_text(places: Sequence[Place]) -> str:
    """Return a line a version."""
    head = ("version", "committed", "what", "feed files", "inserted", "updated", "deleted", "rows", "dataset")
    rows: list[tuple[str, ...]] = [head]
    for place in places:
        one, counts = place.version, place.version.counts
        what = f"restore of {one.restored}" if one.restored is not None else one.action
        done = [f"{counts.get(f'feed {name}', 0):,}" if counts else "" for name in ("inserted", "updated", "deleted")]
        size = f"{one.rows:,}" if one.dataset else ""
        files = str(len(one.feed)) if one.action == "run" else ""
        where = "as before" if one.action in UNCHANGED else place.path or "removed"
        rows.append((str(one.number), one.committed[:19], what, files, *done, size, where))
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if 3 <= column <= 7 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def history_json(places: Sequence[Place]) -> str:
    """Return a JSON document: a list with a member a version."""
    return json.dumps(
        [{**asdict(place.version, dict_factory=json_members), "path": place.path} for place in places], indent=1
    )


def _without_report(outcome: Outcome) -> Outcome:
    return Outcome(**{**outcome.__dict__, "report": None})


def _listed(what: str, names: Sequence[str]) -> list[str]:
    shown = [f"{what}: {name}" for name in names[:_SHOWN]]
    return [*shown, f"{what}: and {len(names) - _SHOWN:,} more"] if len(names) > _SHOWN else shown
