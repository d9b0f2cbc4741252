"""mutator's tables with history, in whole processes; and the same steps on tables without."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from bench.contenders.contender import Ran
from bench.contenders.small_runs import MUTATOR, MutatorRun, done, options_of
from bench.data import MASTER, MOST
from bench.histories import EVENTS, FEEDS, FEW
from bench.layout import PATCHED, PATCHED_FIELDS

__all__ = ["HistoryBesideNone", "MutatorHistory"]

_ALL = ("-D", "max.delete.fraction=1")
_THEN = MASTER + MOST // 2  # a time at which each record had a version


class MutatorHistory(MutatorRun):
    """``mutator table apply`` to a table with history."""

    options = options_of(PATCHED)

    def __init__(self) -> None:
        super().__init__("aligned", "local")

    def prepare(self, master: Path, state: Path) -> None:
        """Make a table of the events, and close its history."""
        self.pristine, self.path = state / "pristine", state / "table"
        if not self.pristine.exists():
            self._make(master, self.pristine, "on")

    def _make(self, events: Path, table: Path, history: str) -> None:
        done(*MUTATOR, "table", "create", table, *self.options, "-D", f"history={history}", "--quiet")
        for part in sorted(events.iterdir()):
            done(*MUTATOR, "table", "apply", table, *_ALL, "--feed", part, "--runner", "local", "--quiet")
        done(*MUTATOR, "table", "compact", table, "--all", "--runner", "local", "--quiet")

    def reset(self) -> None:
        """Make a new table of hard links: an apply changes no file."""
        _link(self.pristine, self.path)

    def run(self, feed: Path, output: Path) -> Ran:
        """Apply the feed."""
        report = json.loads(self.apply(self.path, feed))
        return Ran(f"{report['files']} files added; {report['runner']}")

    def apply(self, table: Path, feed: Path) -> bytes:
        """Apply a feed to a table; return the report."""
        return done(*MUTATOR, "table", "apply", table, *_ALL, "--feed", feed, "--runner", "local", "--json")

    def export(self, output: Path, to: Path) -> Path | None:
        """Scan the versions."""
        import pyarrow.parquet as pq

        from mutator.table.table import Table

        to.mkdir(parents=True)
        rows = Table(str(self.path)).scan([*PATCHED_FIELDS, "valid_to"])
        with pq.ParquetWriter(to / "part.parquet", rows.schema) as writer:
            for batch in rows:
                writer.write_batch(batch)
        return to


class HistoryBesideNone(MutatorHistory):
    """Applies and scans, with history and without, and with other numbers of versions."""

    def prepare(self, master: Path, state: Path) -> None:
        """Make the tables."""
        self.pristine, self.path = state / "pristine", state / "tables"
        self.turns = [("history", "5"), ("none", "none")]
        if not self.pristine.exists():
            for kind in EVENTS:
                self._make(master / kind, self.pristine / kind, "on")
            self._make(master / "5", self.pristine / "none", "off")

    def run(self, feed: Path, output: Path) -> Ran:
        """Take all steps. feed: has a directory for each feed; another table is the first in each run."""
        from mutator.table.table import Table

        steps = {}
        for name, place in self.turns:
            table = self.path / place
            for kind in [one for one in FEEDS if one != FEW]:
                _link(self.pristine / place, table)
                steps[f"apply of {kind}, {name}"] = _seconds(lambda to=table, some=feed / kind: self.apply(to, some))
            now = {} if place == "none" else {"current": True}
            steps[f"scan now, {name}"] = _seconds(lambda at=table, how=now: _count(Table(str(at)).scan(**how)))
        at = self.path / "5"
        steps["scan then, history"] = _seconds(lambda: _count(Table(str(at)).scan(valid_at=_THEN)))
        for versions, place in (("20", "20"), ("5", FEW)):
            _link(self.pristine / place, self.path / place)
            few = self.path / place
            steps[f"apply to {versions} versions"] = _seconds(lambda to=few: self.apply(to, feed / FEW))
        self.turns.reverse()
        return Ran("applies and scans, in turn", steps=steps)

    def export(self, output: Path, to: Path) -> None:
        """Return None: there is no one result."""


def _link(pristine: Path, table: Path) -> None:
    shutil.rmtree(table, ignore_errors=True)
    shutil.copytree(pristine, table, copy_function=os.link)


def _count(rows: object) -> int:
    return sum(map(len, rows))  # type: ignore[call-overload]


def _seconds(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started
