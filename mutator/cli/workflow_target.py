"""The table that a workflow applies feed files to, put together of the rooms ``workflow`` and ``table``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from mutator.cli import options
from mutator.cli.config_file import place

if TYPE_CHECKING:
    from pyspark import SparkContext

    from mutator.config import Config
    from mutator.dataset.versions.snapshot import Snapshot
    from mutator.table.apply import OpenRunner
    from mutator.workflow.directory.run_phases import Merged
    from mutator.workflow.to_table import ApplyTask, Kept, TableTarget

    _Apply = Callable[[ApplyTask], Merged]

TABLE = place(
    "--table",
    needed=False,
    metavar="TABLE",
    help="versioned table that the feed files go into, in place of BASE/master (default: BASE/table if it exists)",
)


def table_of(given: str, table: str | None = None) -> str | None:
    """Return the path of the table that is the target of a base; None if its target is a master.

    table: as the user gives it.
    """
    from mutator.workflow.directory.paths import open_base
    from mutator.workflow.directory.results import target_path

    return target_path(open_base(given), table)


def table_in(path: str) -> str | None:
    """Return the path of the table that is the target of a base; None for another directory."""
    from mutator.errors import suppressed

    with suppressed("base.none", "path.missing", "path.table", "base.place"):
        return table_of(path)
    return None


def open_table(
    table: str, arguments: argparse.Namespace, spark: Callable[[], AbstractContextManager[SparkContext]]
) -> OpenTarget:
    """Open a table for the workflow of a command line. spark: returns the context, once it is needed."""

    def config_of(snapshot: Snapshot) -> Config:
        from mutator.table.recorded import SOURCE, recorded_settings

        return options.loaded(arguments, recorded=partial(recorded_settings, snapshot), source=SOURCE)

    def runner_of(wanted: str) -> OpenRunner:
        from mutator.pipeline.runners import runner_for

        return partial(runner_for, wanted, spark)

    return OpenTarget(table, config_of, runner_of)


class OpenTarget:
    """A table that stays open, so that each apply reads only the versions since the last one."""

    def __init__(
        self, table: str, config_of: Callable[[Snapshot], Config], runner_of: Callable[[str], OpenRunner]
    ) -> None:
        """Open the table. runner_of: returns what opens a runner of ``runner_choice.RUNNERS``."""
        from mutator.dataset.versions.opening import open_snapshot

        self._snapshot: Snapshot = open_snapshot(table)
        self._config_of, self._runner_of = config_of, runner_of

    @property
    def config(self) -> Config:
        """The configuration of a run: the settings that the user gives, and for the others those of the table."""
        return self._config_of(self._snapshot)

    def target(self, base: str, started: Callable[[_Apply], _Apply] = lambda apply: apply) -> TableTarget:
        """Return the table as the target of a base. Raises ConfigError, or StateError if its target is a master.

        started: returns a function that says that an apply begins, and then applies.
        """
        from mutator.table.claiming_run import give_up
        from mutator.workflow.to_table import TableTarget, WorkflowTable, opened

        path = self._snapshot.table
        give_up_of = partial(give_up, path)
        table = WorkflowTable(path, lambda: self._refreshed().version, started(self._apply), give_up_of, self._keep)
        return TableTarget(opened(base, path), self.config, table)

    def _refreshed(self) -> Snapshot:
        from mutator.dataset.versions.opening import refreshed

        self._snapshot = refreshed(self._snapshot)
        return self._snapshot

    def _apply(self, task: ApplyTask) -> Merged:
        from mutator.dataset.commits import Claim
        from mutator.rules import file_names
        from mutator.table.apply import apply_feed
        from mutator.table.claiming_run import ClaimingRun
        from mutator.table.report import report_of
        from mutator.workflow.directory.run_phases import Merged

        run = ClaimingRun(Claim(task.run, task.claimed), task.since, task.check)
        runner = self._runner_of(task.config.effort.runner or "auto")
        applied = apply_feed(self._refreshed(), task.config, task.feed, runner, run=run)
        self._snapshot = applied.snapshot
        plan = replace(applied.plan, audience=replace(applied.plan.audience, paths=task.shown))
        report = report_of(replace(applied, plan=plan), task.feed, dry_run=False)
        skipped = tuple(file_names.base_name(path) for path in report.consumed)
        return Merged(skipped, report, version=None if applied.version is None else applied.version.number)

    def _keep(self, config: Config) -> Kept:
        from mutator.table.compact import report_of_compaction
        from mutator.table.idle import compact_if_idle
        from mutator.workflow.to_table import Kept

        step = compact_if_idle(self._refreshed(), config, self._runner_of(config.effort.runner or "auto"))
        if step.done is None:
            return Kept(None, step.seconds)
        self._snapshot = step.done.snapshot
        return Kept(report_of_compaction(step.done, dry_run=False), step.seconds)
