"""The commands ``mutator table …`` for what comes out of a table.

mutator table changes TABLE --from A [--to B]     the changes between two versions
mutator table export TABLE DIR [--version V]      a dataset with the rows of a version
mutator table verify TABLE [--repair]             compare a table with its log
"""

from __future__ import annotations

import argparse
import posixpath
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from mutator.cli import options
from mutator.cli.command import Answer, Command, CommandReport, CommandRows, at_most_one_of, one_of, option, option_type
from mutator.cli.config_file import place
from mutator.config.audience import Audience
from mutator.errors import error
from mutator.errors.display import counted
from mutator.errors.exceptions import said_to
from mutator.rules.version_names import number_or_name

if TYPE_CHECKING:
    from mutator.table.apply import OpenRunner

VERSION_TYPE = option_type(number_or_name)  # of options whose value is a version
_FORMATS = {".parquet": "parquet", ".json": "json", ".jsonl": "json"}  # by the ends of file names
_TABLE: dict[str, Any] = {"metavar": "TABLE", "help": "directory of the table"}
TABLE, TABLE_PLACE = option("table", **_TABLE), place("table", **_TABLE)
FORMAT = at_most_one_of(
    option(
        "--format",
        choices=("csv", "parquet", "json"),
        metavar="{csv,parquet}",
        help="of the rows (default: parquet for FILE.parquet, else csv)",
    ),
    option(
        "--json",
        action="store_const",
        dest="format",
        const="json",
        default=argparse.SUPPRESS,
        help="print each row as a JSON object on a line",
    ),
)
VALID_AT = option(
    "--valid-at", metavar="TIME", help="of a table with history, what held at this value of the order field"
)
FILE = option("-o", "--output", metavar="FILE", help="new file for the rows (default: print them)")


def listing(name: str, summary: str, work: Callable[[argparse.Namespace], Iterator[Answer]]) -> Command:
    """Return a command that prints what a table has, and takes no option but ``--json``."""
    examples = (f"mutator table {name} products",)
    return Command(name, summary, (TABLE, options.JSON), work, when_stopped="nothing was printed", examples=examples)


def rows_answer(reader: Any, arguments: argparse.Namespace, what: str) -> Answer | CommandRows:
    """Return the answer of a command that prints the rows of a reader, or writes them to a file.

    what: the rows in one word, such as "change".
    """
    from mutator.table.row_output import row_text, write_file

    ending = posixpath.splitext(arguments.output or "")[1].lower()
    file_format = arguments.format or _FORMATS.get(ending, "csv")
    if arguments.output is not None:
        rows = write_file(reader, file_format, arguments.output)
        return CommandReport(f"wrote {counted(rows, what)} to {arguments.output}")
    if file_format == "parquet":
        raise error("usage", what="--format parquet needs a file; name one with --output FILE")
    return CommandRows(row_text(reader, file_format))


def _changes(arguments: argparse.Namespace) -> Iterator[Answer | CommandRows]:
    from mutator.table.table import Table

    table = Table(arguments.table)
    if arguments.bookmark is None:
        yield rows_answer(table.changes(arguments.start, arguments.end, net=arguments.net), arguments, "row")
        return
    with table.changes_since(arguments.bookmark, arguments.end, net=arguments.net) as rows:
        answer = rows_answer(rows, arguments, "row")
        if isinstance(answer, CommandRows):
            yield answer  # the bookmark moves once they are printed
    if not isinstance(answer, CommandRows):
        yield answer


def _export(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    from mutator.table.export import export
    from mutator.table.export_history import export_history
    from mutator.table.outlived import reading
    from mutator.table.recorded import config_of_snapshot
    from mutator.table.table import Table

    opened, columns = table_runner(arguments.runner, arguments), arguments.partition_columns
    snapshot = Table(arguments.table).at(arguments.version_number)
    with reading(snapshot), said_to(Audience({"partition.columns": "--partition-columns"}).writers):
        if arguments.history:
            report = export_history(snapshot, arguments.directory, opened)
        else:
            report = export(snapshot, config_of_snapshot(snapshot), arguments.directory, opened, columns)
    yield CommandReport(options.shown(report, arguments))


def _verify(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    yield verification_of(arguments.table, arguments)


def verification_of(table: str, arguments: argparse.Namespace, base: str | None = None) -> CommandReport:
    """Compare a table with its log. base: whose archived feed files are compared, too; None: none are."""
    from mutator.storage import located
    from mutator.table.recorded import config_of_snapshot
    from mutator.table.verify import verify_table
    from mutator.workflow.to_table import archive_differences

    storage, path = located(table)
    opened = table_runner(arguments.runner, arguments)
    found = verify_table(storage.resolve(path), config_of_snapshot, opened, repair=arguments.repair)
    if base is not None:
        found = replace(found, differences=(*found.differences, *archive_differences(base, storage.resolve(path))))
    return CommandReport(options.shown(found, arguments), code=3 if found.problems else 0)


def table_runner(wanted: str | None, arguments: argparse.Namespace) -> OpenRunner:
    """Return the function that opens the runner of a command on a table."""
    from mutator.pipeline.runners import runner_for

    return partial(runner_for, wanted or "auto", options.spark("mutator table", arguments))


CHANGES = Command(
    "changes",
    "print the changes between two versions of a table",
    (
        TABLE,
        one_of(
            option("--from", dest="start", type=VERSION_TYPE, metavar="A", help="changes after version A (or a tag)"),
            option("--bookmark", metavar="NAME", help="changes after this bookmark, which then moves to version B"),
        ),
        option(
            "--to",
            dest="end",
            type=VERSION_TYPE,
            metavar="B",
            help="changes up to version B (or a tag; default the newest)",
        ),
        option("--net", action="store_true", help="at most one change of each record, from A to B"),
        FORMAT,
        FILE,
    ),
    _changes,
    when_stopped="the table is as it was",
    examples=(
        "mutator table changes products --from 3",
        "mutator table changes products --from 0 --to 7 --net --format parquet -o changes.parquet",
        "mutator table changes products --bookmark reports",
    ),
)
EXPORT_TABLE = Command(
    "export",
    "write a version of a table as a dataset that mutator run continues from",
    (
        TABLE,
        option(
            "directory", metavar="DIR", help="new directory, or an earlier export, whose changed buckets are replaced"
        ),
        option(
            "--version",
            dest="version_number",
            type=VERSION_TYPE,
            metavar="V",
            help="version or tag (default the newest)",
        ),
        option(
            "--partition-columns",
            choices=("path", "file"),
            help="partition fields are in the path alone, or in the files, too (default as in the earlier export, "
            "else path)",
        ),
        option("--history", action="store_true", help="of a table with history, all versions of records"),
        options.RUNNER,
        options.JSON,
    ),
    _export,
    when_stopped="the directory is as it was",
    examples=("mutator table export products /data/products", "mutator table export products old --version 3"),
)
VERIFY_TABLE = Command(
    "verify",
    "compare every file of a table with its log; exit code 3 if there are differences",
    (
        TABLE,
        option("--repair", action="store_true", help="rebuild damaged key indexes, checkpoints and the hint"),
        options.RUNNER,
        options.JSON,
    ),
    _verify,
    when_stopped="the table is as it was",
    examples=("mutator table verify products", "mutator table verify products --repair --json"),
)
COMMANDS = (CHANGES, EXPORT_TABLE, VERIFY_TABLE)
