"""The commands ``mutator table …``.

mutator table create --config FILE TABLE          a table without rows
mutator table apply TABLE --feed PATH […]         merge a feed into a new version
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from mutator.cli import options
from mutator.cli.command import Answer, Command, Group, Report, option, option_type
from mutator.cli.messages import warn
from mutator.cli.table_output_commands import CHANGES, EXPORT_TABLE, TABLE, VERIFY_TABLE
from mutator.cli.table_read_commands import DESCRIBE, GET, LOG, SCAN
from mutator.config import parsers
from mutator.config.sources import parse_overrides, read_settings
from mutator.errors.display import counted

if TYPE_CHECKING:
    from mutator.engine.runner import Runner
    from mutator.plan.runner_choice import RunnerChoice


def _create(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.table.table import Table

    overrides = options.settings_of(arguments)
    parse_overrides(overrides)
    settings = read_settings(arguments.config, overrides)
    opened = partial(_open_runner, str(settings.get("runner", "auto")), arguments)
    table = Table.create(
        arguments.table, settings, dataset=arguments.dataset, buckets=arguments.buckets, open_runner=opened
    )
    version = table.snapshot.version
    if arguments.json:
        members = {"table": table.path, "version": version.number, "records": version.records}
        members |= {"tombstones": version.tombstones, "buckets": version.buckets}
        yield Report(json.dumps(members, indent=1))
        return
    rows = f"{counted(version.records, 'record')}, {counted(version.tombstones, 'tombstone')}"
    buckets = counted(version.buckets, "bucket")
    yield Report(f"table {table.path} is version {version.number}: {rows}, {buckets}")


def _apply(arguments: argparse.Namespace) -> Iterator[Report]:
    from mutator.table.table import SOURCE, Table, recorded_settings

    table = Table(arguments.table)
    config = options.loaded(arguments, recorded=partial(recorded_settings, table.snapshot), source=SOURCE)
    warn(arguments, config.warnings)
    report = table.apply(
        arguments.feed,
        config=config,
        dry_run=arguments.dry_run,
        open_runner=partial(_open_runner, config.runner, arguments),
    )
    yield Report(options.shown(report, arguments), report.warnings)


@contextmanager
def _open_runner(wanted: str, arguments: argparse.Namespace, size: int) -> Iterator[tuple[Runner, RunnerChoice]]:
    from mutator.pipeline import runners

    choice = runners.choice_for(wanted, size)
    with runners.open_runner(choice, options.spark("mutator table", arguments)) as runner:
        yield runner, choice


CREATE = Command(
    "create",
    "create a versioned table, empty or with the rows of a dataset",
    (
        TABLE,
        *options.CONFIG,
        options.PARTITIONED_BY,
        option("--from", dest="dataset", metavar="DIR", help="dataset whose rows the table begins with"),
        option("--buckets", type=option_type(parsers.positive), metavar="N", help="of the table, or each partition"),
        options.RUNNER,
        options.JSON,
    ),
    _create,
    examples=(
        "mutator table create products --key id --order-by updated_at --op op",
        "mutator table create products --from master",
    ),
)
APPLY = Command(
    "apply",
    "merge feed files into a new version of a table",
    (TABLE, options.FEED, *options.CONFIG, options.RUNNER, options.DRY_RUN, options.JSON),
    _apply,
    when_stopped="no version was committed",
    examples=("mutator table apply products --feed incr", "mutator table apply products --feed incr --dry-run --json"),
)
TABLES = Group(
    "table",
    "versioned tables, which take mutations without touching existing data",
    (CREATE, APPLY, SCAN, GET, LOG, DESCRIBE, CHANGES, EXPORT_TABLE, VERIFY_TABLE),
)
