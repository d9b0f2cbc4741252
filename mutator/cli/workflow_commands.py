"""The commands ``mutator workflow …``: what they take, and what they answer. ``cli`` prints it.

mutator workflow run BASE --config FILE         merge what has arrived
mutator workflow watch BASE --config FILE       do so again and again
mutator workflow status BASE                    what is there, and what waits
mutator workflow history BASE                   the versions
mutator workflow restore BASE --to VERSION      an older version is the master again
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

from mutator.cli.options import Answer, partition_option, settings_of
from mutator.config import parsers
from mutator.errors import BUSY, MutatorError

__all__ = ["workflow_commands", "workflow_options"]


def workflow_commands(commands: Any) -> None:
    """Add the command ``workflow`` to the others."""
    parser = commands.add_parser(
        "workflow", help="merge feed files as they arrive", description="Work on a base: master/, incr/ and the rest."
    )
    workflow_options(parser)


def workflow_options(parser: argparse.ArgumentParser) -> None:
    """Add the commands of a workflow."""
    commands = parser.add_subparsers(title="commands", required=True)
    run = _add(commands, "run", _run, "merge the feed files that have arrived")
    watch = _add(commands, "watch", _watch, "run whenever feed files have arrived, until it is stopped")
    for one in (run, watch):
        one.add_argument(
            "--engine", choices=("auto", "blocks", "records"), default="auto", help="as mutator run has it (auto)"
        )
        partition_option(one)
    watch.add_argument(
        "--interval", type=_seconds, default=10.0, metavar="SECONDS", help="between two looks at incr/ (default 10)"
    )
    watch.add_argument("--min-age", type=_whole, metavar="SECONDS", help="of a feed file, as claim.min.age")
    watch.add_argument("--runs", type=_whole, metavar="N", help="end after so many runs that merged something")
    _add(commands, "status", _status, "say what is there, and what waits")
    _add(commands, "history", _history, "list the versions")
    restore = _add(commands, "restore", _restore, "make an older version the master again, as a new version")
    restore.add_argument("--to", type=int, required=True, metavar="VERSION", help="its number, as history shows it")


def _add(commands: Any, name: str, command: Callable[[Any], Iterator[Answer]], what: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=what, description=f"{what.capitalize()}.")
    parser.add_argument("base", metavar="BASE", help="directory with master/ and incr/ in it")
    parser.add_argument("--config", metavar="FILE", help=".properties or .toml")
    parser.add_argument(
        "-D", action="append", default=[], dest="settings", metavar="KEY=VALUE", help="a setting; wins over the file"
    )
    parser.add_argument("--json", action="store_true", help="answer with JSON on stdout")
    parser.set_defaults(command=command)
    return parser


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number of seconds, 0 or more")
    return value


def _whole(text: str) -> int:
    try:
        return parsers.whole(text)
    except ValueError as fault:
        raise argparse.ArgumentTypeError(f"{text!r} {fault}") from None


def _run(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.engine.spark.session import spark_context

    yield _run_once(arguments, lambda: spark_context("mutator workflow"))[0]


def _watch(arguments: argparse.Namespace) -> Iterator[Answer]:
    if arguments.min_age is not None:
        arguments.settings = [*arguments.settings, f"claim.min.age={arguments.min_age}s"]
    left = arguments.runs
    with ExitStack() as stack:
        spark = _KeptSpark(stack)
        while left is None or left > 0:
            try:
                answer, merged = _run_once(arguments, spark)
            except MutatorError as fault:
                if fault.kind not in (*BUSY, "base.lost"):
                    raise
                answer, merged = None, False  # somebody else merges what has arrived
            if answer is not None and (merged or answer.said):
                yield answer
                if answer.code:
                    return  # it was told to stop when it was too late for this run
            if merged and left is not None:
                left -= 1
            if left != 0:
                time.sleep(arguments.interval)


class _KeptSpark:
    """A Spark session that is started when it is first needed, and stays."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._context: Any = None

    def __call__(self) -> AbstractContextManager[Any]:
        from mutator.engine.spark.session import spark_context

        if self._context is None:
            self._context = self._stack.enter_context(spark_context("mutator workflow"))
        return nullcontext(self._context)


def _run_once(arguments: argparse.Namespace, spark: Callable[[], AbstractContextManager[Any]]) -> tuple[Answer, bool]:
    """Run; return what to say, and whether something was merged."""
    from mutator import config
    from mutator.engine.spark.progress import show_progress
    from mutator.engine.spark.session import is_submitted
    from mutator.pipeline.merge import on_spark
    from mutator.workflow import directory

    read = config.load(arguments.config, settings_of(arguments))
    # spark-submit sends stderr down stdout, where nothing but the report may stand; it has the warnings, too.
    quiet = arguments.json and is_submitted()
    merge_on = on_spark(spark, None if quiet else show_progress)
    done = directory.run(arguments.base, read, directory.merge_by(read, merge_on, arguments.engine))
    answer = Answer(
        done.json() if arguments.json else done.text(),
        warnings=() if quiet or done.report is None else done.report.warnings,
        code=128 + done.stopped if done.stopped else 0,
        said=bool(done.claimed or done.recovered),
    )
    return answer, done.version is not None


def _looking(arguments: argparse.Namespace) -> Any:
    """Read the configuration of a command that reads no row, and so can do without the layout."""
    from mutator import config

    layout = ["id.field.ordinals=0"] if arguments.config is None else []
    return config.load(arguments.config, [*layout, *arguments.settings])


def _status(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.workflow import directory

    found = directory.status(arguments.base, _looking(arguments))
    yield Answer(found.json() if arguments.json else found.text(), code=5 if found.problems else 0)


def _history(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.workflow import directory
    from mutator.workflow.directory.results import history_json, history_text

    places = directory.history(arguments.base, _looking(arguments))
    yield Answer(history_json(places) if arguments.json else history_text(places))


def _restore(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.workflow import directory

    done = directory.restore(arguments.base, arguments.to, _looking(arguments))
    yield Answer(done.json() if arguments.json else done.text(), code=128 + done.stopped if done.stopped else 0)
