"""The commands. Nothing else prints or ends the process.

    mutator run --config FILE --master DIR --feed PATH [--feed PATH …] --output DIR [-D key=value …]
    mutator verify DIR
    mutator workflow run|watch|status|history|restore BASE
    mutator bridge export|import|run
    mutator partition --feed PATH [--feed PATH …] --by FIELDS --to DIR
    mutator run-many TABLES.toml
    mutator sample new|upsert|delete ROWS

``main`` returns the exit code and can be called many times in one process. 0 done, 2 usage or configuration, 3 data,
4 storage, 5 another run or a state conflict, 70 a bug.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from mutator.cli.bridge_commands import bridge_commands, export_options, import_options, run_options
from mutator.cli.many_commands import many_command, many_options
from mutator.cli.options import Answer, partition_option, settings_of
from mutator.cli.partition_commands import partition_command, partition_options, runs_options
from mutator.cli.workflow_commands import workflow_commands, workflow_options
from mutator.errors import MutatorError, error, printable
from mutator.errors.interrupts import Interrupted, catch_signals

__all__ = ["bridge", "bulk_mutate", "entry", "main", "partition", "partition_runs", "run_many", "workflow"]


def entry() -> NoReturn:
    """Run the command line of this process."""
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Run one command; return its exit code.

    >>> main(["run", "--config", "no.properties", "--master", "m", "--feed", "f", "--output", "o"])
    2
    """
    return _guarded(_parser(), argv)


def bulk_mutate(argv: Sequence[str]) -> int:
    """Run the spark-submit job: the options of ``mutator run``, or ``-Dconf.path=FILE IN_PATHS OUT_PATH``.

    IN_PATHS is ``master,feed[,feed…]``, as the original job has it.
    """
    if any(word.split("=")[0] in ("--master", "--feed", "--config", "--output", "-h", "--help") for word in argv):
        parser = _Parser("bulk_mutate.py", description="Merge feed files into a master.")
        _run_options(parser)
    else:
        parser = _Parser(
            "bulk_mutate.py", description="Merge feed files into a master; --help shows the long form of this call."
        )
        parser.add_argument("in_paths", metavar="IN_PATHS", help="master,feed[,feed...]: the first is the master")
        parser.add_argument("out_path", metavar="OUT_PATH", help="directory that must not exist")
        _setting_option(parser)
        _output_options(parser)
        parser.set_defaults(command=_bulk)
    return _guarded(parser, argv)


def workflow(argv: Sequence[str]) -> int:
    """Run the spark-submit job of the workflow: the commands of ``mutator workflow``."""
    parser = _Parser("workflow.py", description="Work on a base: master/, incr/ and the rest.")
    workflow_options(parser)
    return _guarded(parser, argv)


def bridge(command: str, argv: Sequence[str]) -> int:
    """Run a spark-submit job of the bridge. command: export, import or run, whose options it takes."""
    options = {"export": export_options, "import": import_options, "run": run_options}[command]
    parser = _Parser(f"bridge_{command}.py", description=f"The options of mutator bridge {command}.")
    options(parser)
    return _guarded(parser, argv)


def partition(argv: Sequence[str]) -> int:
    """Run the spark-submit job that splits a feed: the options of ``mutator partition``."""
    parser = _Parser("partition.py", description="The options of mutator partition.")
    partition_options(parser)
    return _guarded(parser, argv)


def partition_runs(argv: Sequence[str]) -> int:
    """Run the spark-submit job that merges a split feed, with a run for each partition."""
    parser = _Parser("partition_runs.py", description="Run mutator run for each partition of a master.")
    runs_options(parser)
    return _guarded(parser, argv)


def run_many(argv: Sequence[str]) -> int:
    """Run the spark-submit job of many tables: the options of ``mutator run-many``."""
    parser = _Parser("run_many.py", description="Merge many tables, each with its own configuration.")
    many_options(parser)
    return _guarded(parser, argv)


def _guarded(parser: argparse.ArgumentParser, argv: Sequence[str]) -> int:
    """Parse and run; every fault becomes a message and an exit code."""
    arguments = argparse.Namespace()
    try:
        arguments = parser.parse_args(argv)
        with catch_signals():
            code = arguments.command(arguments)
            if not isinstance(code, int):
                code = _print(code, arguments)
        sys.stdout.flush()
        return code
    except MutatorError as fault:
        print(f"mutator: error: {fault}", file=sys.stderr)
        return fault.exit_code
    except SystemExit as stop:  # argparse has said why
        return stop.code if isinstance(stop.code, int) else 2
    except KeyboardInterrupt as stop:
        number = stop.number if isinstance(stop, Interrupted) else signal.SIGINT
        nothing = "what was not committed was put back" if hasattr(arguments, "base") else "nothing was published"
        if hasattr(arguments, "table"):
            nothing = "the table is the old one or the new one, and the next run tells which"
        print(f"mutator: stopped from outside; {nothing}", file=sys.stderr)
        return 128 + number
    except BrokenPipeError:  # who reads the output has gone, as `| head` does
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except Exception as fault:  # noqa: BLE001  # whatever is not in the catalogue is a bug, and says so
        traceback.print_exc()
        print(f"mutator: error: {error('bug', what=f'{type(fault).__name__}: {fault}')}", file=sys.stderr)
        return 70


def _print(answers: Iterator[Answer], arguments: argparse.Namespace) -> int:
    """Print what a command answers, one thing after the other; return its exit code."""
    code = 0
    for answer in answers:
        code = answer.code
        for warning in answer.warnings:
            print(f"mutator: warning: {printable(warning)}", file=sys.stderr)
        _report(answer.text if arguments.json else printable(answer.text), _target(arguments))
    return code


def _target(arguments: argparse.Namespace) -> str:
    """Return what a command works on, as the user has called it."""
    names = (getattr(arguments, name, None) for name in ("base", "table", "path", "to"))
    return next((str(name) for name in names if name is not None), "the output")


def _report(text: str, output: str) -> None:
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as fault:
        raise error("report", why=fault.strerror, output=output) from None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        "mutator", description="Merge files of inserts, updates and deletes into master data, at Spark scale."
    )
    commands = parser.add_subparsers(title="commands", required=True)
    run = commands.add_parser(
        "run", help="merge feed files into a master", description="Merge feed files into a master."
    )
    _run_options(run)
    verify = commands.add_parser(
        "verify", help="hold a dataset against its manifest", description="Read a dataset back and name what differs."
    )
    verify.add_argument(
        "directory", metavar="DIR", help="a directory that mutator run has written, or the base of a workflow"
    )
    verify.set_defaults(command=_verify)
    workflow_commands(commands)
    bridge_commands(commands)
    partition_command(commands)
    many_command(commands)
    sample = commands.add_parser("sample", help="make sample data", description="Write seeded sample rows to stdout.")
    kinds = sample.add_subparsers(title="kinds", required=True)
    for kind, what in (
        ("new", "rows with new IDs"),
        ("upsert", "updates of master rows, and inserts; newer than the master"),
        ("delete", "deletes of master rows; newer than the master"),
    ):
        one = kinds.add_parser(kind, help=what, description=f"Write {what}.")
        one.add_argument("rows", metavar="ROWS", type=int, help="how many")
        one.add_argument(
            "--seed", type=int, default=1, metavar="N", help="the same seed makes the same rows (default 1)"
        )
        one.add_argument(
            "--table", choices=("product", "sales"), default="product", help="which table (default product)"
        )
        if kind != "new":
            one.add_argument(
                "--master", action="append", required=True, metavar="FILE", help="file of the master; repeatable"
            )
        one.add_argument("--op-code", action="store_true", help="with an op code column (product only)")
        one.set_defaults(command=_sample, kind=kind)
    return parser


def _run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help=".properties or .toml")
    parser.add_argument("--master", required=True, metavar="DIR", help="directory of the master")
    parser.add_argument(
        "--feed", action="append", required=True, metavar="PATH", help="feed directory, file or pattern; repeatable"
    )
    parser.add_argument("--output", required=True, metavar="DIR", help="directory that must not exist")
    partition_option(parser)
    _setting_option(parser)
    parser.add_argument(
        "--engine",
        choices=("auto", "blocks", "records"),
        default="auto",
        help="how rows are merged: by the block, or one by one (default auto: by the block where it can be)",
    )
    _output_options(parser)
    parser.set_defaults(command=_run)


def _setting_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-D", action="append", default=[], dest="settings", metavar="KEY=VALUE", help="a setting; wins over the file"
    )


def _output_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="say what the run would do, and write nothing")
    parser.add_argument("--json", action="store_true", help="print the report as JSON on stdout")


def _run(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments)
    return _mutate(arguments, arguments.config, settings, arguments.master, arguments.feed, arguments.output)


def _bulk(arguments: argparse.Namespace) -> int:
    path, settings = None, []
    for setting in arguments.settings:
        if setting.startswith("conf.path="):
            path = setting.removeprefix("conf.path=")
        else:
            settings.append(setting)
    master, *feed = arguments.in_paths.split(",")
    if not feed or "" in (master, *feed):
        raise error("usage", what=f"IN_PATHS is {arguments.in_paths}: write master,feed[,feed…], the master first")
    return _mutate(arguments, path, settings, master, feed, arguments.out_path)


def _mutate(
    arguments: argparse.Namespace, path: str | None, settings: list[str], master: str, feed: list[str], output: str
) -> int:
    from mutator import config
    from mutator.engine.spark.progress import show_progress
    from mutator.engine.spark.session import is_submitted, spark_context
    from mutator.pipeline.merge import carry_out, on_spark, prepare

    read = config.load(path, settings)  # before Spark starts, which takes seconds
    # spark-submit sends stderr down stdout, where nothing but the report may stand; it has the warnings, too.
    quiet = arguments.json and is_submitted()
    prepared = prepare(read, master, feed, output, engine=getattr(arguments, "engine", "auto"))
    merge_on = on_spark(lambda: spark_context("mutator run"), None if quiet else show_progress)
    _, report = carry_out(prepared, merge_on, dry_run=arguments.dry_run)
    for warning in () if quiet else report.warnings:
        print(f"mutator: warning: {printable(warning)}", file=sys.stderr)
    _report(report.json() if arguments.json else printable(report.text()), output)
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from mutator.engine.spark.session import spark_context
    from mutator.pipeline.verify import verify
    from mutator.storage import absolute
    from mutator.workflow.directory.verification import is_base, verify_base

    whole = is_base(absolute(arguments.directory))
    with spark_context("mutator verify") as sc:
        found = (
            verify_base(arguments.directory, lambda path: verify(sc, path))
            if whole
            else verify(sc, arguments.directory)
        )
    print(found.text())
    return 3 if found.problems else 0


def _sample(arguments: argparse.Namespace) -> int:
    from mutator.cli import sample

    name = arguments.kind
    if arguments.table == "sales":
        if arguments.op_code:
            raise error("usage", what="--op-code: the sales table has no op code column; leave it out")
        name += "_sales"
    elif arguments.op_code:
        name += "_with_op_code"
    made: Any = getattr(sample, name)
    with contextlib.ExitStack() as stack:
        try:
            files = [stack.enter_context(open(path, "rb")) for path in getattr(arguments, "master", ())]
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as fault:
            raise error("path.missing", path=fault.filename, what="file") from None
        except OSError as fault:
            raise error("storage", path=fault.filename, why=fault.strerror) from None
        given = [itertools.chain(*files)] if files else []
        rows: Iterator[bytes] = made(arguments.rows, arguments.seed, *given)
        try:
            for row in rows:
                sys.stdout.buffer.write(row + b"\n")
            sys.stdout.buffer.flush()
        except ValueError as fault:
            raise error("usage", what=fault) from None
        except BrokenPipeError:
            raise
        except OSError as fault:
            raise error("storage", path="the sample", why=fault.strerror) from None
    return 0
