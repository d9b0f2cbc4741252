"""mutator in whole processes, on change files: ``mutator run``, and ``mutator table apply``."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from bench.contenders.contender import Ran
from bench.contenders.mutator_table import write_rows
from bench.contenders.small_runs import MUTATOR, MutatorRun, done, options_of
from bench.dialects import write_delete_of_nothing
from bench.layout import DIALECTS

__all__ = ["MutatorDialect", "MutatorDialectTable"]


class MutatorDialect(MutatorRun):
    """``mutator run`` on a kind of change files, without Spark."""

    def __init__(self, join: str, kind: str) -> None:
        super().__init__(join, "local")
        self.kind = kind
        self.options = options_of(DIALECTS[kind])

    def no_feed(self, directory: Path) -> Path:
        """Make a feed of one change, of a record that is not there: messages say what orders them."""
        write_delete_of_nothing(directory, self.kind)
        return directory


class MutatorDialectTable(MutatorDialect):
    """``mutator table apply``."""

    def __init__(self, kind: str) -> None:
        super().__init__("aligned", kind)

    def prepare(self, master: Path, state: Path) -> None:
        """Make a table of a managed master."""
        super().prepare(master, state)
        self.pristine, self.path = state / "pristine", state / "table"
        if not self.pristine.exists():
            done(*MUTATOR, "table", "create", self.pristine, *self.options, "--dataset", self.master, "--quiet")

    def reset(self) -> None:
        """Make a new table of hard links: an apply changes no file."""
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.copytree(self.pristine, self.path, copy_function=os.link)

    def run(self, feed: Path, output: Path) -> Ran:
        """Apply the feed."""
        apply = (*MUTATOR, "table", "apply", self.path, *self.options, "--feed", feed, "--runner", "local", "--json")
        report = json.loads(done(*apply))
        return Ran(f"{report['files']} files added; {report['runner']}")

    def export(self, output: Path, to: Path) -> Path:
        """Scan the table."""
        from mutator.table.table import Table

        to.mkdir(parents=True)
        write_rows(Table(str(self.path)), to / "part.parquet")
        return to
