"""The command ``mutator run-many``.

mutator run-many TABLES.toml                    merge all tables of the file
mutator run-many TABLES.toml --only a,b         merge only these tables
mutator run-many TABLES.toml --resume           merge the tables that the previous run did not finish
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from mutator.cli.options import (
    Answer,
    Command,
    engine_option,
    is_quiet,
    json_option,
    option_type,
    setting_option,
    shown,
)
from mutator.config import parsers
from mutator.errors import printable

if TYPE_CHECKING:
    from mutator.workflow.many import Result


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tables", metavar="TABLES.toml", help="file that describes the tables")
    parser.add_argument(
        "--only",
        type=option_type(parsers.texts),
        metavar="NAMES",
        help="names of tables, separated by commas (default all)",
    )
    parser.add_argument("--resume", action="store_true", help="skip the tables that the previous run finished")
    parser.add_argument(
        "--at-once", type=option_type(parsers.positive), metavar="N", help="merge up to N tables at the same time"
    )
    parser.add_argument(
        "--deadline", type=option_type(parsers.duration), metavar="TIME", help="for the whole run, such as 30m"
    )
    setting_option(parser, "the settings of every table")
    engine_option(parser)
    json_option(parser)


def _run(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.engine.spark.session import spark_context
    from mutator.workflow import many

    tables = many.load(arguments.tables, arguments.settings)
    quiet = is_quiet(arguments)
    with ExitStack() as stack:
        summary = many.run(
            tables,
            lambda: stack.enter_context(spark_context("mutator run-many")),
            only=arguments.only,
            resume=arguments.resume,
            at_once=arguments.at_once,
            deadline=arguments.deadline,
            engine=arguments.engine,
            tell=_ignore if quiet else _announce,
        )
        # Print the report before Spark stops, which may fail.
        yield Answer(shown(summary, arguments), () if quiet else summary.warnings, summary.exit_code)


def _announce(result: Result, ended: int, total: int) -> None:
    """Report on stderr that a table has ended."""
    seconds = "" if result.seconds is None else f", {result.seconds:.1f} s"
    reason = "" if result.error is None else f": {result.error}"
    sys.stderr.write(printable(f"mutator: [{ended}/{total}] {result.table}: {result.state}{seconds}{reason}\n"))
    sys.stderr.flush()


def _ignore(result: Result, ended: int, total: int) -> None:
    pass


RUN_MANY = Command(
    "run-many", "merge many tables, each with its own configuration, in one Spark application", _options, _run
)
