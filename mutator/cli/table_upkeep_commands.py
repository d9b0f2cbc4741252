"""The commands ``mutator table …`` that keep a table fast and small.

mutator table compact TABLE [--all]     write buckets with many files or hidden rows anew
mutator table clean TABLE               remove the files that no version needs any more

The priority of a command whose work can wait.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from mutator.cli import options
from mutator.cli.after_commit import committing
from mutator.cli.command import Command, CommandReport, option, option_type
from mutator.cli.table_output_commands import TABLE, table_runner
from mutator.config import parsers

_LOW = 5  # of 19: on one core, Linux gives a process of usual priority three quarters of the time


def give_way() -> None:
    """Lower the priority of this process, and of those that it starts, below that of other programs.

    It stays so: only root could raise it again. A system without priorities, or one that forbids to change them, leaves
    the usual one.
    """
    with suppress(AttributeError, OSError):
        os.setpriority(os.PRIO_PROCESS, 0, max(os.getpriority(os.PRIO_PROCESS, 0), _LOW))


def _compact(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    from mutator.table.compact_choice import MOST_FILES, MOST_HIDDEN
    from mutator.table.table import Table

    give_way()  # applies and readers of the table go on meanwhile
    with committing(arguments, "compaction"):
        report = Table(arguments.table).compact(
            everything=arguments.everything,
            files=MOST_FILES if arguments.files is None else arguments.files,
            hidden=MOST_HIDDEN if arguments.hidden is None else arguments.hidden,
            where=arguments.where,
            tombstone_retention=arguments.retention,
            bucket_bytes=arguments.bucket_bytes,
            dry_run=arguments.dry_run,
            open_runner=table_runner(arguments.runner, arguments),
        )
    yield CommandReport(options.shown(report, arguments))


def _checked(parse: Callable[[str], Any]) -> Callable[[str], str]:
    """Return a parser that returns the text, if another one can read it."""

    def check(text: str) -> str:
        parse(text)
        return text

    return check


COMPACT_TABLE = Command(
    "compact",
    "rewrite the buckets of a table that have many files or many hidden rows",
    (
        TABLE,
        option("--all", dest="everything", action="store_true", help="every bucket that would change"),
        option(
            "--files",
            type=option_type(parsers.positive),
            metavar="N",
            help="buckets with rows in more than N files (default 4)",
        ),
        option(
            "--hidden",
            type=option_type(parsers.fraction),
            metavar="PART",
            help="buckets in which more than this part of the rows is hidden (default 0.1)",
        ),
        option(
            "--where", metavar="CONDITIONS", help="only the partitions that may have such rows: \"day >= '2026-01-01'\""
        ),
        option(
            "--tombstone-retention",
            dest="retention",
            type=option_type(_checked(parsers.duration)),
            metavar="DURATION",
            help="in these buckets, forget deletes older than this (default: the table's tombstone.retention, or none)",
        ),
        option(
            "--bucket-bytes",
            type=option_type(_checked(parsers.size)),
            metavar="SIZE",
            help="split buckets of more than twice this size (default: the table's bucket.bytes)",
        ),
        options.RUNNER,
        options.DRY_RUN,
        options.JSON,
    ),
    _compact,
    when_stopped="no version was committed",
    examples=("mutator table compact products", "mutator table compact sales --all --where \"day = '2026-01-31'\""),
)


def _clean(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    from mutator.table.clean import DEAD, GRACE
    from mutator.table.table import Table

    with committing(arguments, "cleaning"):
        report = Table(arguments.table).clean(
            keep_versions=arguments.keep_versions,
            older_than=arguments.older_than,
            grace=arguments.grace or GRACE,
            dead_after=arguments.dead_after or DEAD,
            dry_run=arguments.dry_run,
        )
    yield CommandReport(options.shown(report, arguments))


_AGE = option_type(parsers.age_text)
CLEAN_TABLE = Command(
    "clean",
    "remove the files of a table that no version needs any more, in two steps",
    (
        TABLE,
        option(
            "--keep-versions",
            type=option_type(parsers.positive),
            metavar="N",
            help="keep the last N versions with different rows (default 10, unless --older-than is given)",
        ),
        option(
            "--older-than",
            type=_AGE,
            metavar="DURATION",
            help="keep versions that were superseded less than this ago (default 7d, unless --keep-versions is given)",
        ),
        option(
            "--grace",
            type=_AGE,
            metavar="DURATION",
            help="how long named files stay; then a later cleaning removes them, and with 0s this one (default 1h)",
        ),
        option(
            "--dead-after",
            type=_AGE,
            metavar="DURATION",
            help="a run without a version that wrote no file for this time counts as dead (default 1d)",
        ),
        options.DRY_RUN,
        options.JSON,
    ),
    _clean,
    when_stopped="the next cleaning goes on",
    examples=(
        "mutator table clean products --dry-run",
        "mutator table clean sales --keep-versions 30 --older-than 30d",
    ),
)
COMMANDS = (COMPACT_TABLE, CLEAN_TABLE)
