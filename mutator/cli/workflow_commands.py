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
from typing import Any

from mutator.cli.options import (
    Answer,
    Command,
    Group,
    config_options,
    config_without_id,
    engine_option,
    is_quiet,
    json_option,
    option_type,
    partitioned_by_option,
    settings_of,
    shown,
)
from mutator.config import load, parsers
from mutator.errors import BUSY, MutatorError


def _base_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("base", metavar="BASE", help="directory that contains master/ and incr/")
    config_options(parser)
    json_option(parser)


def _run_options(parser: argparse.ArgumentParser) -> None:
    _base_options(parser)
    engine_option(parser)
    partitioned_by_option(parser)


def _watch_options(parser: argparse.ArgumentParser) -> None:
    _run_options(parser)
    parser.add_argument(
        "--interval",
        type=option_type(_seconds),
        default=10.0,
        metavar="SECONDS",
        help="pause between two checks of incr/ (default 10)",
    )
    whole = option_type(parsers.whole)
    parser.add_argument(
        "--min-age", type=whole, metavar="SECONDS", help="minimum age of a feed file, in place of claim.min.age"
    )
    parser.add_argument("--runs", type=whole, metavar="N", help="end after N runs that merged something")


def _restore_options(parser: argparse.ArgumentParser) -> None:
    _base_options(parser)
    parser.add_argument("--to", type=int, required=True, metavar="VERSION", help="version number, as shown by history")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= 1e6:
        raise ValueError("must be a number of seconds, 0 or more")
    return value


def _run(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.engine.spark.session import spark_context

    yield _run_once(arguments, lambda: spark_context("mutator workflow"))[0]


def _watch(arguments: argparse.Namespace) -> Iterator[Answer]:
    if arguments.min_age is not None:
        arguments.settings = [*arguments.settings, f"claim.min.age={arguments.min_age}s"]
    left = arguments.runs
    with ExitStack() as stack:
        spark = _SparkOnDemand(stack)
        while left is None or left > 0:
            try:
                answer, merged, idle = _run_once(arguments, spark)
            except MutatorError as fault:
                if fault.kind not in (*BUSY, "base.lost"):
                    raise
                answer, merged, idle = None, False, True  # another run merges the files that have arrived
            if answer is not None and not idle:
                yield answer
                if answer.code:
                    return  # a signal came too late to stop this run
            if merged and left is not None:
                left -= 1
            if left != 0:
                time.sleep(arguments.interval)


class _SparkOnDemand:
    """A Spark session that starts when it is first needed, and is kept until the stack is closed."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._context: Any = None

    def __call__(self) -> AbstractContextManager[Any]:
        from mutator.engine.spark.session import spark_context

        if self._context is None:
            self._context = self._stack.enter_context(spark_context("mutator workflow"))
        return nullcontext(self._context)


def _run_once(
    arguments: argparse.Namespace, spark: Callable[[], AbstractContextManager[Any]]
) -> tuple[Answer, bool, bool]:
    """Run; return (answer, whether feed files were merged, whether there was nothing to do)."""
    from mutator.engine.spark.progress import show_progress
    from mutator.pipeline.merge import on_spark
    from mutator.workflow import directory

    config = load(arguments.config, settings_of(arguments))
    quiet = is_quiet(arguments)
    merge_on = on_spark(spark, None if quiet else show_progress)
    result = directory.run(arguments.base, config, directory.merge_by(config, merge_on, arguments.engine))
    answer = Answer(
        shown(result, arguments),
        warnings=() if quiet or result.report is None else result.report.warnings,
        code=128 + result.stopped if result.stopped else 0,
    )
    merged = result.version is not None
    return answer, merged, not (merged or result.claimed or result.recovered)


def _status(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.workflow import directory

    status = directory.status(arguments.base, config_without_id(arguments))
    yield Answer(shown(status, arguments), code=5 if status.problems else 0)


def _history(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.workflow import directory
    from mutator.workflow.directory.results import history_json, history_text

    versions = directory.history(arguments.base, config_without_id(arguments))
    yield Answer(history_json(versions) if arguments.json else history_text(versions))


def _restore(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.workflow import directory

    result = directory.restore(arguments.base, arguments.to, config_without_id(arguments))
    yield Answer(shown(result, arguments), code=128 + result.stopped if result.stopped else 0)


_STOPPED = "what was not committed was put back"
WORKFLOW = Group(
    "workflow",
    "merge feed files as they arrive in a base, a directory that contains master/ and incr/",
    (
        Command("run", "merge the feed files that have arrived", _run_options, _run, _STOPPED),
        Command("watch", "run whenever feed files have arrived, until stopped", _watch_options, _watch, _STOPPED),
        Command("status", "show the state of the base and the files that wait", _base_options, _status, _STOPPED),
        Command("history", "list the versions", _base_options, _history, _STOPPED),
        Command(
            "restore",
            "make an older version the master again, as a new version",
            _restore_options,
            _restore,
            _STOPPED,
        ),
    ),
)
