"""The outcome of a run, the status and the history of a base: values, as text for a terminal and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mutator.dataset.checksummed_json import json_members
from mutator.dataset.commit.process import Owner
from mutator.dataset.version_log import UNCHANGED, Version

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
    """The outcome of a run or restore."""

    base: str
    run: str
    version: int | None  # None: there was nothing to merge
    mode: str  # how the version became the master
    claimed: tuple[str, ...]
    skipped: tuple[str, ...]  # claimed files that an earlier run had merged
    waiting: tuple[tuple[str, str], ...]  # feed files that were not claimed, and why
    recovered: tuple[str, ...]  # actions that finished or undid earlier runs
    report: Any  # of the merge; None without one
    stopped: int | None = None  # signal that arrived when it was too late to stop
    restored: int | None = None  # the version that was restored

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
    """The status of a base: its run, its version, and the feed files that wait."""

    base: str
    running: Owner | None  # the process at work now
    version: Version  # the latest
    made: Version  # the one that made or restored the master
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
class KeptVersion:
    """A version and the path of its dataset."""

    version: Version
    path: str | None  # None: the dataset was removed


def history_text(versions: Sequence[KeptVersion]) -> str:
    """Return a table with a line for each version."""
    head = ("version", "committed", "what", "feed files", "inserted", "updated", "deleted", "rows", "dataset")
    rows: list[tuple[str, ...]] = [head]
    for kept in versions:
        version, counts = kept.version, kept.version.counts
        what = f"restore of {version.restored}" if version.restored is not None else version.action
        done = [f"{counts.get(f'feed {name}', 0):,}" if counts else "" for name in ("inserted", "updated", "deleted")]
        size = f"{version.rows:,}" if version.dataset else ""
        files = str(len(version.feed)) if version.action == "run" else ""
        where = "as before" if version.action in UNCHANGED else kept.path or "removed"
        rows.append((str(version.number), version.committed[:19], what, files, *done, size, where))
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if 3 <= column <= 7 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def history_json(versions: Sequence[KeptVersion]) -> str:
    """Return a JSON document: a list with an object for each version."""
    objects = [{**asdict(kept.version, dict_factory=json_members), "path": kept.path} for kept in versions]
    return json.dumps(objects, indent=1)


def _without_report(outcome: Outcome) -> Outcome:
    return Outcome(**{**outcome.__dict__, "report": None})


def _listed(what: str, names: Sequence[str]) -> list[str]:
    shown = [f"{what}: {name}" for name in names[:_SHOWN]]
    return [*shown, f"{what}: and {len(names) - _SHOWN:,} more"] if len(names) > _SHOWN else shown
