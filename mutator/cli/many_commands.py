"""The command ``mutator run-many``.

mutator run-many TABLES.toml                    merge all tables of the file
mutator run-many TABLES.toml --only a,b         merge only these tables
mutator run-many TABLES.toml --resume           merge the tables that the previous run did not finish
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from mutator.cli import options
from mutator.cli.command import Command, CommandReport, option, option_type
from mutator.cli.config_file import NAME, TABLES, place
from mutator.cli.messages import notify
from mutator.config import forms, parsers

if TYPE_CHECKING:
    from mutator.workflow.many_tables import TableResult


def _run(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    from mutator.workflow import many_tables

    tables = many_tables.load(arguments.tables, options.settings_of(arguments))
    with ExitStack() as stack:
        summary = many_tables.run(
            tables,
            lambda: stack.enter_context(options.spark("mutator run-many", arguments)()),
            only=arguments.only,
            resume=arguments.resume,
            at_once=arguments.at_once,
            deadline=arguments.deadline,
            engine=arguments.engine,
            tell=partial(_announce, arguments),
        )
        # Print the report before Spark stops, which may fail.
        yield CommandReport(options.shown(summary, arguments), summary.all_warnings, summary.exit_code)


def _announce(arguments: argparse.Namespace, result: TableResult, ended: int, total: int) -> None:
    """Report on stderr that a table has ended."""
    seconds = "" if result.seconds is None else f", {result.seconds:.1f} s"
    reason = "" if result.error is None else f": {result.error}"
    notify(arguments, f"[{ended}/{total}] {result.table}: {result.state}{seconds}{reason}")


_OPTIONS = (
    place(TABLES, metavar="TABLES.toml", help=f"file that describes the tables (default {NAME} of this directory)"),
    option(
        "--only",
        type=option_type(forms.TEXTS.parse),
        metavar="NAMES",
        help="names of tables, separated by commas (default all)",
    ),
    option("--resume", action="store_true", help="skip the tables that the previous run finished"),
    option("--at-once", type=option_type(parsers.positive), metavar="N", help="merge up to N tables at the same time"),
    option(
        "--deadline",
        type=option_type(parsers.duration),
        metavar="DURATION",
        help="time limit of the whole run, such as 30m",
    ),
    options.setting("the settings of every table"),
    options.ENGINE,
    options.RUNNER,
    options.JSON,
)
RUN_MANY = Command(
    "run-many",
    "merge many tables, each with its own configuration, a few at the same time",
    _OPTIONS,
    _run,
    examples=("mutator run-many tables.toml --at-once 4 --deadline 30m", "mutator run-many tables.toml --resume"),
)
