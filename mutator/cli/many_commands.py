"""The command ``mutator run-many``: what it takes, and what it answers. ``cli`` prints it.

mutator run-many TABLES.toml                    merge all tables of the file
mutator run-many TABLES.toml --only a,b         merge these
mutator run-many TABLES.toml --resume           merge what the run before has left undone
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from mutator.cli.options import Answer
from mutator.config import parsers
from mutator.errors import printable

if TYPE_CHECKING:
    from mutator.workflow.many import Result

__all__ = ["many_command", "many_options"]


def many_command(commands: Any) -> None:
    """Add the command ``run-many`` to the others."""
    parser = commands.add_parser(
        "run-many",
        help="merge many tables, each with its own configuration",
        description="Merge many tables, each with its own configuration, in one Spark application.",
    )
    many_options(parser)


def many_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a run of many tables."""
    parser.add_argument("tables", metavar="TABLES.toml", help="which tables there are")
    parser.add_argument("--only", type=_names, metavar="NAMES", help="tables, with commas between them (default all)")
    parser.add_argument("--resume", action="store_true", help="leave out what the run before has done")
    parser.add_argument(
        "--at-once", type=_read_by(parsers.positive), metavar="N", help="how many tables are under way together"
    )
    parser.add_argument(
        "--deadline", type=_read_by(parsers.duration), metavar="TIME", help="for all of it, such as 30m"
    )
    parser.add_argument(
        "-D", action="append", default=[], dest="settings", metavar="KEY=VALUE", help="a setting of every table; wins"
    )
    parser.add_argument(
        "--engine", choices=("auto", "blocks", "records"), default="auto", help="as mutator run has it (auto)"
    )
    parser.add_argument("--json", action="store_true", help="answer with JSON on stdout")
    parser.set_defaults(command=_run)


def _names(text: str) -> tuple[str, ...]:
    return _read_by(parsers.texts)(text)  # type: ignore[no-any-return]  # what parsers.texts returns


def _read_by(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        try:
            return read(text)
        except ValueError as fault:
            raise argparse.ArgumentTypeError(f"{text!r} {fault}") from None

    return convert


def _run(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.engine.spark.session import is_submitted, spark_context
    from mutator.workflow import many

    tables = many.load(arguments.tables, arguments.settings)
    # spark-submit sends stderr down stdout, where nothing but the report may stand; it has the warnings, too.
    quiet = arguments.json and is_submitted()
    with ExitStack() as stack:
        done = many.run(
            tables,
            lambda: stack.enter_context(spark_context("mutator run-many")),
            only=arguments.only,
            resume=arguments.resume,
            at_once=arguments.at_once,
            deadline=arguments.deadline,
            engine=arguments.engine,
            tell=_silent if quiet else _tell,
        )
        # Before Spark is stopped: whatever happens then, the report is out.
        warnings = () if quiet else done.warnings
        yield Answer(done.json() if arguments.json else done.text(), warnings, done.exit_code)


def _tell(result: Result, ended: int, total: int) -> None:
    """Say on stderr that a table has ended."""
    took = "" if result.seconds is None else f", {result.seconds:.1f} s"
    why = "" if result.error is None else f": {result.error}"
    sys.stderr.write(printable(f"mutator: [{ended}/{total}] {result.table}: {result.state}{took}{why}\n"))
    sys.stderr.flush()


def _silent(result: Result, ended: int, total: int) -> None:
    """Say nothing: the report has it all."""
