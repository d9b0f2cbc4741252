"""The commands that read a versioned table.

mutator table scan TABLE           its rows, at any version
mutator table get TABLE KEY        the record of a key
mutator table log TABLE            its versions
mutator table describe TABLE       what it has
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from mutator.cli import options
from mutator.cli.command import Answer, Command, CommandRows, option, option_type
from mutator.cli.table_output_commands import FILE, FORMAT, TABLE, VALID_AT, VERSION_TYPE, listing, rows_answer
from mutator.config import parsers
from mutator.errors import error

VERSION = option("--version", type=VERSION_TYPE, metavar="V", help="version or tag (default the newest)")


def _scan(arguments: argparse.Namespace) -> Iterator[Answer | CommandRows]:
    import pyarrow as pa

    from mutator.table.scan import limited
    from mutator.table.table import Table

    if arguments.version is not None and arguments.as_of is not None:
        raise error("usage", what="--version and --as-of are both given; give one of them")
    columns = None if arguments.columns is None else parsers.text_parts(arguments.columns)
    table = Table(arguments.table)
    snapshot = table.at(arguments.version, arguments.as_of)
    how = {"valid_at": arguments.valid_at, "current": arguments.current}
    rows = table.scan(columns, arguments.where, version=snapshot.version.number, **how)
    reader = pa.RecordBatchReader.from_batches(rows.schema, limited(rows, arguments.limit))
    yield rows_answer(reader, arguments, "row")


def _get(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.table.find import lines_of
    from mutator.table.table import Table

    table = Table(arguments.table)
    place = {"version": arguments.version, "partition": arguments.partition}
    asked = {"--all": arguments.all, "--history": arguments.history, "--valid-at": arguments.valid_at is not None}
    if len(both := [name for name, is_given in asked.items() if is_given]) > 1:
        raise error("usage", what=f"{' and '.join(both)} are both given; give one of them")
    if arguments.history or arguments.valid_at is not None:
        rows = table.versions(arguments.key, **place, valid_at=arguments.valid_at)
        each = [rows.slice(number, 1) for number in range(rows.num_rows)]
        yield Answer(lines_of(each, None, as_json=arguments.json), code=0 if each else 3)
        return
    versions = table.history(arguments.key, **place) if arguments.all else None
    records = table.records(arguments.key, **place) if versions is None else []
    found = bool(records if versions is None else versions)
    yield Answer(lines_of(records, versions, as_json=arguments.json), code=0 if found else 3)


def _log(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.pipeline.version_list import versions_json, versions_text
    from mutator.table.table import Table

    versions = Table(arguments.table).log()
    yield Answer(versions_json(versions) if arguments.json else versions_text(versions))


def _describe(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.table.table import Table

    yield Answer(options.shown(Table(arguments.table).describe(), arguments))


SCAN = Command(
    "scan",
    "print the rows of a table, of any version",
    (
        TABLE,
        option("--columns", metavar="A,B", help="columns (default all)"),
        option(
            "--where", metavar="CONDITIONS", help="conditions, joined by `and`, such as \"price > 5 and name = 'x'\""
        ),
        VERSION,
        option("--as-of", metavar="TIME", help="the newest version that was committed at or before this time"),
        VALID_AT,
        option("--current", action="store_true", help="of a table with history, only the records as they are now"),
        FORMAT,
        FILE,
        option("--limit", type=option_type(parsers.whole), metavar="N", help="at most N rows"),
    ),
    _scan,
    when_stopped="the rows are not complete",
    examples=(
        'mutator table scan products --columns id,price --where "price > 5 and category is not null"',
        "mutator table scan products --as-of 2026-01-31T12:00:00Z --format parquet -o january.parquet",
    ),
)
GET = Command(
    "get",
    "print the record of a key",
    (
        TABLE,
        option("key", nargs="+", metavar="KEY", help="value of each key field: several words, or one with commas"),
        option("--all", action="store_true", help="every version of the record that is still there"),
        option("--history", action="store_true", help="of a table with history, all versions of the record"),
        VALID_AT,
        VERSION,
        option("--partition", metavar="DIR", help="only in this partition, such as store_id=7"),
        options.JSON,
    ),
    _get,
    when_stopped="nothing was found",
    examples=("mutator table get products 7G3K", "mutator table get sales 12,2026-01-31 --all --json"),
)
LOG = listing("log", "list the versions of a table", _log)
DESCRIBE = listing("describe", "describe a table: key, columns, records, files and sizes", _describe)
COMMANDS = (SCAN, GET, LOG, DESCRIBE)
