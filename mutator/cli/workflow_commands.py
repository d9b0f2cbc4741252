"""The commands ``mutator workflow …``.

mutator workflow run BASE --config FILE         merge the feed files that have arrived
mutator workflow watch BASE --config FILE       the same, again and again
mutator workflow status BASE                    show the state of a base and the files that wait
mutator workflow history BASE                   list the versions
mutator workflow restore BASE --to VERSION      make an older version the master again
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

from mutator.cli import options
from mutator.cli.command import Answer, Command, Group, Report, option, option_type
from mutator.config import parsers
from mutator.errors import MutatorError
from mutator.errors.exceptions import BUSY

if TYPE_CHECKING:
    from mutator.workflow.directory.results import Outcome


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= 1e6:
        raise ValueError("must be a number of seconds, 0 or more")
    return value


def _run(arguments: argparse.Namespace) -> Iterator[Report]:
    outcome = _run_once(arguments, options.spark("mutator workflow", arguments))
    yield _report(outcome, options.shown(outcome, arguments))


def _watch(arguments: argparse.Namespace) -> Iterator[Report]:
    if arguments.min_age is not None:
        arguments.settings = [*arguments.settings, f"claim.min.age={arguments.min_age}s"]
    left = arguments.runs
    with ExitStack() as stack:

        @cache
        def spark() -> Any:  # starts when it is first needed, and is kept until the end
            return stack.enter_context(options.spark("mutator workflow", arguments)())

        while left is None or left > 0:
            try:
                outcome = _run_once(arguments, lambda: nullcontext(spark()))
            except MutatorError as fault:
                if fault.kind not in (*BUSY, "base.lost"):
                    raise
                outcome = None  # another run merges the files that have arrived
            if outcome is not None and (outcome.version is not None or outcome.claimed or outcome.recovered):
                yield _report(outcome, outcome.json_line() if arguments.json else outcome.text())
                if outcome.stopped:
                    return  # a signal came too late to stop this run
                if outcome.version is not None and left is not None:
                    left -= 1
            if left != 0:
                time.sleep(arguments.interval)


def _run_once(arguments: argparse.Namespace, spark: Callable[[], AbstractContextManager[Any]]) -> Outcome:
    from mutator.workflow import directory

    config = options.config_of(arguments)
    merge = directory.merge_by(config, options.merge_on(config.runner, spark, arguments), arguments.engine)
    return directory.run(arguments.base, config, merge)


def _report(outcome: Outcome, text: str) -> Report:
    warnings = (*(() if outcome.report is None else outcome.report.warnings), *outcome.warnings)
    return Report(text, warnings, code=128 + outcome.stopped if outcome.stopped else 0)


def _status(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.workflow import directory

    status = directory.status(arguments.base, options.config_without_id(arguments))
    yield Answer(options.shown(status, arguments), code=5 if status.problems else 0)


def _history(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.workflow import directory
    from mutator.workflow.directory.results import history_json, history_text

    versions = directory.history(arguments.base, options.config_without_id(arguments))
    yield Answer(history_json(versions) if arguments.json else history_text(versions))


def _restore(arguments: argparse.Namespace) -> Iterator[Report]:
    from mutator.workflow import directory

    outcome = directory.restore(arguments.base, arguments.to, options.config_without_id(arguments))
    yield _report(outcome, options.shown(outcome, arguments))


_BASE = (
    option("base", metavar="BASE", help="directory that contains master/ and incr/"),
    *options.CONFIG,
    options.JSON,
)
_RUN = (*_BASE, options.ENGINE, options.RUNNER, options.PARTITIONED_BY)
_WATCH = (
    *_RUN,
    option(
        "--interval",
        type=option_type(_seconds),
        default=10.0,
        metavar="SECONDS",
        help="pause between two checks of incr/ (default 10)",
    ),
    option(
        "--min-age",
        type=option_type(parsers.whole),
        metavar="SECONDS",
        help="minimum age of a feed file, in place of claim.min.age",
    ),
    option("--runs", type=option_type(parsers.whole), metavar="N", help="end after N runs that merged something"),
)
_TO = option("--to", type=int, required=True, metavar="VERSION", help="version number, as shown by history")
_STOPPED = "uncommitted feed files were put back"
WORKFLOW = Group(
    "workflow",
    "merge feed files as they arrive in a base, a directory that contains master/ and incr/",
    (
        Command(
            "run",
            "merge the feed files that have arrived",
            _RUN,
            _run,
            _STOPPED,
            ("mutator workflow run /data/product --config product.toml",),
        ),
        Command(
            "watch",
            "run whenever feed files have arrived, until stopped",
            _WATCH,
            _watch,
            _STOPPED,
            ("mutator workflow watch /data/product --config product.toml --interval 60",),
        ),
        Command(
            "status",
            "show the state of the base and the files that wait",
            _BASE,
            _status,
            _STOPPED,
            ("mutator workflow status /data/product",),
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
