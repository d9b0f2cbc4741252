"""The commands ``mutator workflow …``.

mutator workflow run BASE --config FILE         merge the feed files that have arrived
mutator workflow watch BASE --config FILE       the same, again and again
mutator workflow status BASE                    show the state of a base and the files that wait
mutator workflow report BASE --html FILE        show versions over time as a page
mutator workflow history BASE                   list the versions
mutator workflow restore BASE --to VERSION      make an older version the master again

The target of a base is BASE/master, or a versioned table: BASE/table if it is there, or that of --table.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mutator.cli import options
from mutator.cli.base_facts import base_report
from mutator.cli.command import Answer, Command, CommandReport, Group, option, option_type
from mutator.cli.config_file import place
from mutator.cli.report_files import FILES, HTML, METRICS
from mutator.cli.workflow_runs import INTERVAL, TABLE_INTERVAL, files_of, report_of, run, watch
from mutator.cli.workflow_target import TABLE, open_table, table_of
from mutator.config import parsers
from mutator.errors import error
from mutator.errors.display import command

if TYPE_CHECKING:
    from mutator.workflow.directory.results import BaseStatus


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = parsers.age(text)
    if not 0 <= seconds <= 1e6:  # which is False of nan, too
        raise ValueError("must be a duration from 0s to 11d")
    return seconds


def _status(arguments: argparse.Namespace) -> Iterator[Answer]:
    table = table_of(arguments.base, arguments.table)
    files = files_of(arguments, table, looks=True)
    with files.watch() as observed:
        status = _seen(arguments, table)
        observed.known = {
            "ready": None if status.ready is None else len(status.ready),
            "waiting": None if status.waiting is None else len(status.waiting),
            "problems": len(status.problems),
        }
    yield Answer(options.shown(status, arguments), files.warnings, code=5 if status.problems else 0)


def _seen(arguments: argparse.Namespace, table: str | None) -> BaseStatus:
    from mutator.workflow import directory

    if table is not None:
        opened = open_table(table, arguments, options.spark("mutator workflow", arguments))
        return directory.status(opened.target(arguments.base))
    config = options.config_without_id(arguments)
    return directory.status(directory.MasterTarget(directory.open_base(arguments.base), config))


def _base_report(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    table = table_of(arguments.base, arguments.table)
    files = files_of(arguments, table, looks=True)
    report = base_report(arguments.base, table, _seen(arguments, table))
    files.write_page(report.html)
    yield CommandReport(options.shown(report, arguments))


def _check_master(arguments: argparse.Namespace, cure: str, name: str, *words: str) -> None:
    """Raise ConfigError if the target of a base is a table. name, words: of the command for the table."""
    table = table_of(arguments.base)
    if table is not None:
        cure = f"{cure} with: {command('table', name, table, *words)}"
        raise error("usage", what=f"the target of {arguments.base} is the table {table}: {cure}")


def _history(arguments: argparse.Namespace) -> Iterator[Answer]:
    _check_master(arguments, "read its versions", "log")
    from mutator.pipeline.version_list import versions_json, versions_text
    from mutator.workflow import directory

    versions = directory.history(arguments.base, options.config_without_id(arguments))
    yield Answer(versions_json(versions) if arguments.json else versions_text(versions))


def _restore(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    _check_master(arguments, "bring a version back", "restore", "--to", "N")
    from mutator.workflow import directory

    outcome = directory.restore(arguments.base, arguments.to, options.config_without_id(arguments))
    yield report_of(outcome, options.shown(outcome, arguments))


_BASE = (
    place("base", metavar="BASE", help="directory that contains incr/, and master/ or table/"),
    *options.CONFIG,
    options.JSON,
)
_RUN = (*_BASE, TABLE, options.ENGINE, options.RUNNER, options.PARTITIONED_BY, *FILES)
_WATCH = (
    *_RUN,
    option(
        "--interval",
        type=option_type(_seconds),
        metavar="DURATION",
        help=f"pause between two checks of incr/ (default {INTERVAL:.0f}; {TABLE_INTERVAL} if the target is a table)",
    ),
    option(
        "--min-age",
        type=option_type(_seconds),
        metavar="DURATION",
        help="minimum age of a feed file, such as 0.5s; the same as -D claim.min.age=DURATION",
    ),
    option("--runs", type=option_type(parsers.whole), metavar="N", help="end after N runs that merged something"),
)
_TO = option("--to", type=int, required=True, metavar="V", help="version number, as shown by history")
_STOPPED = "uncommitted feed files were put back"
WORKFLOW = Group(
    "workflow",
    "merge feed files as they arrive in a base, a directory with incr/, and master/ or table/",
    (
        Command(
            "run",
            "merge the feed files that have arrived",
            _RUN,
            run,
            _STOPPED,
            ("mutator workflow run /data/product --config product.toml",),
        ),
        Command(
            "watch",
            "run whenever feed files have arrived, until stopped",
            _WATCH,
            watch,
            _STOPPED,
            ("mutator workflow watch /data/product --config product.toml --interval 60s",),
        ),
        Command(
            "status",
            "show the state of the base and the files that wait",
            (*_BASE, TABLE, METRICS),
            _status,
            _STOPPED,
            ("mutator workflow status /data/product",),
        ),
        Command(
            "report",
            "show the versions over time, the files that wait, and problems",
            (*_BASE, TABLE, HTML),
            _base_report,
            _STOPPED,
            ("mutator workflow report /data/product --html product.html",),
        ),
        Command("history", "list the versions", _BASE, _history, _STOPPED, ("mutator workflow history /data/product",)),
        Command(
            "restore",
            "make an older version the master again, as a new version",
            (*_BASE, _TO),
            _restore,
            _STOPPED,
            ("mutator workflow restore /data/product --to 3",),
        ),
    ),
)
