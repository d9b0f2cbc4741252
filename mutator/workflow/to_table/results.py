"""The outcome of a run whose target is a table, and the status of its base: values, as text and as JSON."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from mutator.dataset.checksummed_json import json_members
from mutator.dataset.commit.process import Owner
from mutator.errors.display import counted, text_of
from mutator.pipeline.text_tables import listed


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run."""

    base: str
    table: str  # path
    run: str
    version: int | None  # None: there was nothing to merge
    claimed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()  # claimed files that earlier versions have
    rewritten: tuple[str, ...] = ()  # claimed files that were rewritten after they were merged, and are back in incr/
    waiting: tuple[tuple[str, str], ...] = ()  # feed files that were not claimed, and why
    stuck: tuple[tuple[str, str], ...] = ()  # those of them that cannot be moved
    recovered: tuple[str, ...] = ()  # actions that finished or undid earlier runs
    report: Any = None  # of the apply; None without one
    stopped: int | None = None  # signal that arrived when it was too late to stop

    def json(self) -> str:
        """Return a JSON document."""
        return json.dumps(asdict(self), indent=1)

    def json_line(self) -> str:
        """Return the JSON document in one line."""
        return json.dumps(asdict(self))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What an operator should know although the run succeeded."""
        which = "an earlier version" if self.version is None else f"version {self.version}"
        return (
            *(f"{name} is not merged: it {why}" for name, why in self.stuck),
            *(f"{name} was rewritten after {which} had its content, and is back in incr/" for name in self.rewritten),
        )

    def text(self) -> str:
        """Return lines for a terminal."""
        lines = [f"recovered: {action}" for action in self.recovered]
        if self.version is None:
            merged_before = f": {counted(len(self.skipped), 'feed file')} merged before" if self.skipped else ""
            lines.append(f"nothing to merge{merged_before}")
            lines += listed("skipped, merged before", self.skipped)
        else:
            made = f"version {self.version} of {self.table}"
            lines += self.report.text().split("\n") if self.report is not None else [made]
        lines += listed("not claimed", [f"{name}: {why}" for name, why in self.waiting])
        return text_of(lines)


@dataclass(frozen=True)
class Status:
    """The status of a base whose target is a table: its run, the table's version, and the feed files that wait."""

    base: str
    table: str
    running: Owner | None  # the process at work now
    # None in these members: it cannot be seen, and a problem says why.
    version: int | None  # the newest
    committed: str | None
    records: int | None
    ready: tuple[str, ...] | None
    waiting: tuple[tuple[str, str], ...] | None
    recovered: tuple[str, ...]
    problems: tuple[str, ...]

    def json(self) -> str:
        """Return a JSON document."""
        return json.dumps(asdict(self, dict_factory=json_members), indent=1)

    def text(self) -> str:
        """Return lines for a terminal."""
        lines = [f"base     {self.base}"]
        if self.running is not None:
            who = self.running
            lines.append(f"state    at work: {who.run}, process {who.process} on {who.host}, since {who.since}")
        else:
            lines.append(f"state    {'needs attention, see below' if self.problems else 'idle'}")
        lines.append(f"table    {self.table}")
        if self.version is None or self.records is None:
            lines.append("version  cannot be seen, see below")
        else:
            lines.append(f"version  {self.version}, {counted(self.records, 'record')}, {self.committed}")
        if self.ready is None or self.waiting is None:
            lines.append("feed     cannot be seen, see below")
        else:
            lines.append(f"feed     {counted(len(self.ready), 'file')} ready, {len(self.waiting)} waiting")
            lines += listed("ready", self.ready)
            lines += listed("waiting", [f"{name}: {why}" for name, why in self.waiting])
        lines += [f"recovered: {action}" for action in self.recovered]
        lines += [f"problem: {problem}" for problem in self.problems]
        return text_of(lines)
