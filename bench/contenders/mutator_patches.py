"""mutator on patches, in whole processes; and the same steps with patches and with full upserts."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from bench.contenders.contender import Ran
from bench.contenders.mutator_dialects import MutatorDialectTable
from bench.contenders.small_runs import MutatorRun, options_of
from bench.layout import PATCHED
from bench.patches import PATCHES, UPSERTS

__all__ = ["MutatorPatches", "MutatorPatchesTable", "PatchesBesideUpserts"]

OPTIONS = {UPSERTS: options_of(PATCHED), PATCHES: options_of(PATCHED | {"ignore.null.updates": "all"})}


class MutatorPatches(MutatorRun):
    """``mutator run``, without Spark."""

    options = OPTIONS[PATCHES]

    def __init__(self, join: str) -> None:
        super().__init__(join, "local")


class MutatorPatchesTable(MutatorDialectTable):
    """``mutator table apply``."""

    def __init__(self) -> None:
        MutatorRun.__init__(self, "aligned", "local")
        self.options = OPTIONS[PATCHES]

    no_feed = MutatorRun.no_feed


class PatchesBesideUpserts(MutatorPatchesTable):
    """A run, an apply and a scan after it, of each kind of feed. Master and table have had no patches before."""

    def prepare(self, master: Path, state: Path) -> None:
        """Make a managed master and a table."""
        self.options, self.kinds = OPTIONS[UPSERTS], [UPSERTS, PATCHES]
        super().prepare(master, state)

    def run(self, feed: Path, output: Path) -> Ran:
        """Take all steps. feed: has a directory for each kind, of which another one is first in each run."""
        from mutator.table.table import Table

        steps, apply = {}, super().run
        for kind in self.kinds:
            self.options = OPTIONS[kind]
            merged = output / kind
            merged.parent.mkdir(exist_ok=True)
            steps[f"run of {kind}"] = _seconds(lambda some=feed / kind, to=merged: self._merge(self.master, some, to))
            shutil.rmtree(merged)
            self.reset()
            steps[f"apply of {kind}"] = _seconds(lambda some=feed / kind: apply(some, output))
            steps[f"scan after {kind}"] = _seconds(lambda: sum(map(len, Table(str(self.path)).scan())))
        self.kinds.reverse()
        return Ran("runs, applies and scans, in turn", steps=steps)

    def export(self, output: Path, to: Path) -> None:
        """Return None: there is no one result."""


def _seconds(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started
