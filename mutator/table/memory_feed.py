"""Apply a feed of paths and of tables in memory to a table, as ``mutator.Table`` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace

from mutator.config import Config
from mutator.config.audience import PYTHON
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors.exceptions import said_to
from mutator.frames.scratch import Scratch
from mutator.pipeline.arguments import GivenArguments
from mutator.pipeline.tables_in_memory import (
    Names,
    all_written,
    check_feed,
    empty_readers,
    runner_without_session,
)
from mutator.table.apply import OpenRunner, apply_feed
from mutator.table.report import ApplyReport, report_of


def apply_parts(
    snapshot: Snapshot,
    config: Config,
    feed: Sequence[GivenArguments],
    runner_of: Callable[[str], OpenRunner],
    *,
    shared: str | None,
    dry_run: bool,
    transaction: tuple[str, int] | None = None,
) -> tuple[Snapshot, ApplyReport]:
    """Merge paths and tables into the next version; return its snapshot and the report, with the names of tables.

    runner_of: returns the function that opens a runner, by its name. shared: a directory for the files of the tables
    that Spark's workers share. Raises the errors of the catalogue with settings as arguments.
    """
    tables = [part for part in feed if part.path is None]
    check_feed(config.rows, config.inputs, feed)
    wanted = runner_without_session(config.effort.runner, tables, bool(tables), shared)
    with Scratch(shared) if tables else nullcontext() as temporary:
        config = config.read_by(replace(PYTHON, paths=Names(temporary, feed)))
        with said_to(config.wording.audience.writers):
            paths, written = all_written(feed, temporary)
            applied = apply_feed(
                snapshot,
                config,
                paths,
                runner_of(wanted),
                tables=written,
                dry_run=dry_run,
                transaction=transaction,
            )
            report = report_of(applied, paths, dry_run=dry_run)
    warnings = (*report.warnings, *empty_readers(feed, written))
    return applied.snapshot, replace(report, feed=tuple(part.label for part in feed), warnings=warnings)
