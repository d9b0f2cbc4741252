"""The table that a workflow applies feed files to, put together of the rooms ``workflow`` and ``table``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from mutator.cli import options
from mutator.cli.command import option

if TYPE_CHECKING:
    from pyspark import SparkContext

    from mutator.config import Config
    from mutator.dataset.versions.snapshot import Snapshot
    from mutator.table.apply import OpenRunner
    from mutator.workflow.to_table import AppliedFeed, ApplyTask, Target

TABLE = option(
    "--table",
    metavar="TABLE",
    help="versioned table that takes the feed files, in place of BASE/master (default: BASE/table, if it is there)",
)


def table_of(arguments: argparse.Namespace) -> str | None:
    """Return the path of the table that is the target of a base; None if its target is a master."""
    from mutator.storage import located

    if arguments.table is None:
        return table_beside(arguments.base)
    storage, path = located(arguments.table)
    return storage.resolve(path)


def table_beside(given: str) -> str | None:
    """Return the path of the table in a base; None without one."""
    from mutator.dataset.manifest import TABLE as OWN
    from mutator.storage import entries_of, located

    storage, base = located(given)
    path = f"{storage.resolve(base)}/table"
    return path if entries_of(f"{path}/{OWN}") else None


def open_table(
    table: str, arguments: argparse.Namespace, spark: Callable[[], AbstractContextManager[SparkContext]]
) -> OpenTable:
    """Open a table for the workflow of a command line. spark: returns the context, once it is needed."""

    def config_of(snapshot: Snapshot) -> Config:
        from mutator.table.recorded import SOURCE, recorded_settings

        return options.loaded(arguments, recorded=partial(recorded_settings, snapshot), source=SOURCE)

    def runner_of(wanted: str) -> OpenRunner:
        from mutator.pipeline.runners import runner_for

        return partial(runner_for, wanted, spark)

    return OpenTable(table, config_of, runner_of)


class OpenTable:
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

    @property
    def target(self) -> Target:
        """The table, as a workflow needs it."""
        from mutator.table.claiming_run import give_up
        from mutator.workflow.to_table import Target

        table = self._snapshot.table
        return Target(table, lambda: self._refreshed().version, self._apply, partial(give_up, table))

    def _refreshed(self) -> Snapshot:
        from mutator.dataset.versions.opening import refreshed

        self._snapshot = refreshed(self._snapshot)
        return self._snapshot

    def _apply(self, task: ApplyTask) -> AppliedFeed:
        from mutator.dataset.versions.version import Claim
        from mutator.rules import file_names
        from mutator.table.apply import apply_feed
        from mutator.table.claiming_run import ClaimingRun
        from mutator.table.report import ApplyReport, report_of
        from mutator.workflow.directory.paths import with_directory
        from mutator.workflow.to_table import AppliedFeed

        config, run = self.config, ClaimingRun(Claim(task.run, task.claimed), task.since, task.check)
        applied = apply_feed(self._refreshed(), config, task.feed, self._runner_of(config.runner or "auto"), run=run)
        self._snapshot = applied.snapshot
        report = report_of(applied, task.feed_afterwards, dry_run=False)
        if task.feed != task.feed_afterwards:
            found = {part.name: getattr(report, part.name) for part in fields(report)}
            report = ApplyReport(**with_directory(found, f"{task.feed[0]}/", f"{task.feed_afterwards[0]}/"))
        skipped = tuple(file_names.base_name(path) for path in report.consumed)
        report = replace(report, ignored=tuple(path for path in report.ignored if not _is_own(path)))
        version = None if applied.version is None else applied.version.number
        return AppliedFeed(version, skipped, report)


def _is_own(path: str) -> Any:
    from mutator.rules import file_names
    from mutator.workflow.directory.claim import is_own

    return is_own(file_names.base_name(path))
