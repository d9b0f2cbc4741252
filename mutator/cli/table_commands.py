"""The commands ``mutator table …``.

mutator table create --config FILE TABLE          a table without rows
mutator table apply TABLE --feed PATH…            merge a feed into a new version
mutator table insert-overwrite TABLE --feed PATH  replace the partitions of a feed
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from mutator.cli import (
    options,
    table_output_commands,
    table_read_commands,
    table_upkeep_commands,
    table_version_commands,
)
from mutator.cli.after_commit import making_answer, stopped_at_end
from mutator.cli.command import Answer, Command, CommandReport, Group, option, option_type
from mutator.cli.lineage_events import LineageEvents
from mutator.cli.messages import warn
from mutator.cli.report_files import FILES, ReportFiles
from mutator.cli.stdin_feed import reading_stdin
from mutator.cli.table_output_commands import TABLE, TABLE_PLACE, table_runner
from mutator.config import parse, parsers
from mutator.config.feed_settings import keeps_history
from mutator.config.sources import parse_overrides, read_settings
from mutator.errors.display import command, counted, without_secrets
from mutator.errors.interrupts import commit_is_made

if TYPE_CHECKING:
    from mutator.dataset.commits import Commit


def _create(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.cli.base_history import create_from_base, settings_of_base
    from mutator.dataset.directory import is_base
    from mutator.table.description import defaults_used
    from mutator.table.new_table import new_table, with_settings_of
    from mutator.table.table import Table

    overrides = options.settings_of(arguments)
    overridden = parse_overrides(overrides)
    settings = {**read_settings(arguments.config, overrides), **({"history": "on"} if arguments.history else {})}
    of_base = keeps_history(settings) and arguments.dataset is not None and is_base(arguments.dataset)
    whole = (settings_of_base if of_base else with_settings_of)(arguments.dataset, settings)
    config = parse(whole, arguments.config or "the command line", overridden)
    opened = table_runner(config.effort.runner, arguments)
    make = create_from_base if of_base else new_table
    make(arguments.table, whole, config, arguments.dataset, arguments.buckets, opened, partial(warn, arguments))
    table = Table(arguments.table)
    version, notes = table.snapshot.version, defaults_used(table.describe(), settings, arguments.buckets)
    if arguments.json:
        members = {"table": table.path, "version": version.number, "records": version.records}
        members |= {"tombstones": version.tombstones, "buckets": version.buckets}
        members |= {"notes": notes}
        yield CommandReport(json.dumps(members, indent=1))
        return
    rows = f"{counted(version.records, 'record')}, {counted(version.tombstones, 'tombstone')}"
    buckets = counted(version.buckets, "bucket")
    lines = [f"table {table.path} is version {version.number}: {rows}, {buckets}"]
    yield CommandReport("\n".join([*lines, *(f"  note   {note}" for note in notes)]))


def _merge(operation: str, arguments: argparse.Namespace) -> Iterator[CommandReport]:
    from mutator.dataset.commits import COMPACT
    from mutator.pipeline.version_point import seconds_of
    from mutator.table.commit import telling_commits
    from mutator.table.recorded import SOURCE, recorded_settings
    from mutator.table.table import Table

    feed = [("feed", path) for path in arguments.feed]
    events = LineageEvents(arguments, f"mutator table {operation} {arguments.table}", feed, arguments.table)
    place = without_secrets(arguments.table)
    later, compaction = f"see what was merged with: {command('table', 'log', place)}", None
    files = ReportFiles(arguments, arguments.table, [("table", arguments.table), *feed], events=events, later=later)
    settings, others = options.settings_of(arguments), {}
    if operation == "apply":
        others = {"compact_after": arguments.compact_after}
        compaction = command("table", "compact", place) if arguments.compact_after else None
    else:
        settings.append(f"write.operation={operation}")

    def note(made: Commit) -> None:
        missing = None if made.action == COMPACT else compaction
        files.note_commit(compaction=missing)
        if missing is None:
            commit_is_made()

    with stopped_at_end(arguments), files.watch() as observed:
        files.start()
        table = Table(arguments.table)
        config = options.loaded(arguments, settings, partial(recorded_settings, table.snapshot), source=SOURCE)
        warn(arguments, config.wording.warnings)
        with making_answer(arguments), telling_commits(note):
            observed.report = report = getattr(table, operation)(
                arguments.feed,
                config=config,
                dry_run=arguments.dry_run,
                open_runner=table_runner(config.effort.runner, arguments),
                **others,
            )
            if not arguments.dry_run:
                version = table.snapshot.version
                observed.known = {"version": version.number, "committed": seconds_of(version.committed)}
    yield CommandReport(options.shown(report, arguments), (*report.warnings, *files.warnings))


CREATE = Command(
    "create",
    "create a versioned table, empty or with the rows of a dataset",
    (
        TABLE_PLACE,
        *options.CONFIG,
        options.PARTITIONED_BY,
        option("--history", action="store_true", help="keep every version of each record (history=on)"),
        option(
            "--dataset",
            old="--from",
            metavar="DIR",
            help="dataset whose rows the table begins with; with --history also a base, whose archive is applied",
        ),
        option(
            "--buckets",
            type=option_type(parsers.positive),
            metavar="N",
            help="number of buckets of the table, or of each partition; linked files of --dataset keep theirs",
        ),
        options.RUNNER,
        options.JSON,
    ),
    _create,
    examples=(
        "mutator table create products --key id --order-by updated_at --op op",
        "mutator table create products --dataset master",
    ),
)
APPLY = Command(
    "apply",
    "merge feed files into a new version of a table",
    (
        TABLE_PLACE,
        options.FEED_PLACE,
        *options.CONFIG,
        option("--compact-after", action="store_true", help="then compact the buckets that need it"),
        options.RUNNER,
        options.DRY_RUN,
        options.JSON,
        *FILES,
    ),
    reading_stdin(partial(_merge, "apply")),
    when_stopped="no version was committed",
    examples=("mutator table apply products --feed incr", "mutator table apply products --feed incr --dry-run --json"),
)
_OF_OVERWRITES = (
    TABLE,
    options.FEED,
    *options.CONFIG,
    options.REPLACE_DAMAGED,
    options.RUNNER,
    options.DRY_RUN,
    options.JSON,
    *FILES,
)
INSERT_OVERWRITE = Command(
    "insert-overwrite",
    "replace the partitions of the winners of feed files; without partitions, everything",
    _OF_OVERWRITES,
    reading_stdin(partial(_merge, "insert_overwrite")),
    when_stopped="no version was committed",
    examples=(
        "mutator table insert-overwrite sales --feed corrected",
        "mutator table insert-overwrite sales --feed corrected --dry-run",
    ),
)
INSERT_OVERWRITE_TABLE = Command(
    "insert-overwrite-table",
    "replace everything by the rows of feed files",
    (*_OF_OVERWRITES, options.ALLOW_EMPTY),
    reading_stdin(partial(_merge, "insert_overwrite_table")),
    when_stopped="no version was committed",
    examples=("mutator table insert-overwrite-table products --feed catalogue",),
)
TABLES = Group(
    "table",
    "versioned tables, which take mutations without touching existing data",
    (
        CREATE,
        APPLY,
        INSERT_OVERWRITE,
        INSERT_OVERWRITE_TABLE,
        *table_read_commands.COMMANDS,
        *table_output_commands.COMMANDS,
        *table_upkeep_commands.COMMANDS,
        *table_version_commands.COMMANDS,
    ),
)
