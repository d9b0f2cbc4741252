"""Parse a command line, carry out the command, print its answers, return the exit code. Nothing else prints or exits.

    mutator init --master DIR --feed PATH… [-o FILE]
    mutator run --config FILE --master DIR --feed PATH… --output DIR [-D key=value …]
    mutator verify [--repair] DIR
    mutator explain PLACE KEY…
    mutator order PLACE --to FIELDS
    mutator workflow run|watch|status|report|history|restore BASE
    mutator bridge export|import|run
    mutator partition --feed PATH… --partitioned-by FIELDS --output DIR
    mutator partition-runs --config FILE --master DIR --feed DIR --output DIR
    mutator run-many TABLES.toml
    mutator table create|apply|scan|get|log|describe|changes|export TABLE
    mutator settings [NAME]
    mutator demo [DIR]
    mutator completion bash|zsh|fish
    mutator help [COMMAND]
    mutator sample new|upsert|delete ROWS

Exit codes: 0 done, 2 usage or configuration, 3 data, 4 storage, 5 another run or a state conflict, 6 a workflow
committed a version and set feed files aside, 70 a bug, 128 + number after a signal.

The process ends with this code, whatever the threads of its libraries do.
"""

from __future__ import annotations

import argparse
import atexit
import logging
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn

from mutator.cli import config_file
from mutator.cli.after_commit import AfterCommit
from mutator.cli.bridge_commands import BRIDGE, EXPORT, IMPORT, ROUND_TRIP
from mutator.cli.changes_commands import CHANGES
from mutator.cli.command import Answer, Command, CommandReport, CommandRows, Group, add_commands
from mutator.cli.diff_commands import DIFF
from mutator.cli.explain_commands import EXPLAIN
from mutator.cli.init_commands import INIT
from mutator.cli.many_commands import RUN_MANY
from mutator.cli.messages import is_quiet, print_error, steps_on_stderr, warn
from mutator.cli.order_commands import ORDER
from mutator.cli.parser import Parser, VersionAction, version_line
from mutator.cli.partition_commands import PARTITION, PARTITION_RUNS
from mutator.cli.progress_line import progress_on
from mutator.cli.run_commands import ORIGINAL_JOB, RUN, VERIFY
from mutator.cli.sample_commands import DEMO, SAMPLE
from mutator.cli.settings_commands import SETTINGS, completion, help_command
from mutator.cli.table_commands import TABLES
from mutator.cli.workflow_commands import WORKFLOW
from mutator.dataset.gc_pause import collect_rarely
from mutator.engine.hidden_pandas import hide_pandas
from mutator.errors import MutatorError, error
from mutator.errors.display import printable
from mutator.errors.interrupts import Interrupted, catch_signals


class ProcessEnd:
    """Ends the process after the handlers of ``atexit``, instead of letting the interpreter take itself apart.

    Threads of Arrow may still give up Python objects then, and now and then one of them aborts the process
    (github.com/apache/arrow/issues/34314): a command that had succeeded ended with exit code 134. Handlers that were
    registered earlier do not run, except for the one of ``logging``: importing the command line registers it.
    """

    def __init__(self) -> None:
        """Register the end. Handlers that are registered later run before it."""
        self._code: int | None = None
        atexit.register(self._end)

    def exit_code(self, code: int) -> int:
        """Remember the exit code, and return it. Without one the interpreter ends as usual."""
        self._code = code
        return code

    def _end(self) -> None:
        if self._code is None:
            return
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):  # closed, broken, or not there
                stream.flush()
        os._exit(self._code)


_log = logging.getLogger(__name__)


def entry() -> NoReturn:
    """Run the command line of this process."""
    end = ProcessEnd()
    collect_rarely()
    words = sys.argv[1:]
    if words[:1] != [BRIDGE.name]:
        hide_pandas()  # tables of a metastore need it
    sys.exit(end.exit_code(main(words)))


def job_entry(name: str) -> NoReturn:
    """Run a job of ``jobs/`` with the command line of this process."""
    end = ProcessEnd()
    collect_rarely()
    sys.exit(end.exit_code(job(name, sys.argv[1:])))


def main(argv: Sequence[str]) -> int:
    """Run one command and return its exit code. Can be called many times in one process.

    >>> main(["run", "--config", "no.properties", "--master", "m", "--feed", "f", "--output", "o"])
    2
    """
    return _guarded(program(), argv, searches=True)


def program() -> Parser:
    """Return the parser of the whole command line."""
    parser = Parser(
        prog="mutator",
        description="Merge files of inserts, updates and deletes into master data, at Spark scale.",
        epilog="mutator COMMAND --help shows the options of a command, and examples. mutator demo shows a merge.",
    )
    parser.add_argument("--version", action=VersionAction, nargs=0, help="print the version and exit")
    add_commands(parser, COMMANDS)
    return parser


def job(name: str, argv: Sequence[str]) -> int:
    """Run a spark-submit job of ``jobs/`` and return its exit code: it has the options of its command.

    ``bulk_mutate.py`` also has the form of the original MapReduce job, ``-Dconf.path=FILE IN_PATHS OUT_PATH``.
    """
    command = _JOBS[name]
    if command is RUN and not _LONG_FORM & {word.split("=")[0] for word in argv}:
        command = ORIGINAL_JOB
    parser = Parser(prog=name, description=command.description)
    command.fill(parser)
    return _guarded(parser, argv, searches=False)


COMMANDS = (
    INIT,
    RUN,
    VERIFY,
    EXPLAIN,
    DIFF,
    ORDER,
    CHANGES,
    WORKFLOW,
    TABLES,
    BRIDGE,
    PARTITION,
    PARTITION_RUNS,
    RUN_MANY,
    SETTINGS,
    DEMO,
    SAMPLE,
    completion(program),
    help_command(program),
)
_JOBS: dict[str, Command | Group] = {
    "bridge_export.py": EXPORT,
    "bridge_import.py": IMPORT,
    "bridge_run.py": ROUND_TRIP,
    "bulk_mutate.py": RUN,
    "partition.py": PARTITION,
    "partition_runs.py": PARTITION_RUNS,
    "run_many.py": RUN_MANY,
    "table.py": TABLES,
    "workflow.py": WORKFLOW,
}
_LONG_FORM = {"--master", "--feed", "--config", "-o", "--output", "-h", "--help"}


def _guarded(parser: argparse.ArgumentParser, argv: Sequence[str], *, searches: bool) -> int:
    """Parse, carry out and print; turn every fault into a message and an exit code. searches: as for ``read_by``."""
    arguments = argparse.Namespace(
        when_stopped="nothing was published",
        committed=None,
        has_answer=False,
        is_stopped=False,
        quiet=False,
        verbose=0,
        progress="auto",
        json=False,
    )
    try:
        parser.parse_args(argv, arguments)
        if arguments.quiet and arguments.verbose:
            parser.error("--quiet and --verbose are opposites: give one of them")
        config_file.read_by(arguments, searches=searches)
        is_wanted = arguments.progress == "auto" and not is_quiet(arguments)
        with (
            catch_signals(),
            progress_on(sys.stderr, is_wanted=is_wanted),
            steps_on_stderr(arguments),
            _failure_as_step(),
        ):
            code = _print(arguments.carry_out(arguments), arguments)
        sys.stdout.flush()
        if arguments.is_stopped:
            _print_stop(arguments)
        return code
    except MutatorError as fault:
        if arguments.verbose > 1:  # the message says what is wrong and how to fix it; code shows only how it was found
            traceback.print_exc()
        print_error(fault)
        return fault.exit_code
    except SystemExit as stop:  # argparse has printed the reason
        return stop.code if isinstance(stop.code, int) else 2
    except KeyboardInterrupt as stop:
        number = stop.number if isinstance(stop, Interrupted) else signal.SIGINT
        committed: AfterCommit | None = arguments.committed
        _print_stop(arguments)
        return 0 if committed is not None and committed.is_complete and committed.is_answered else 128 + number
    except BrokenPipeError:  # the reader of the output has gone, as with `| head`
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except ModuleNotFoundError as fault:
        if (fault.name or "mutator").split(".")[0] == "mutator":
            return _bug(fault)
        print_error(error("module", name=fault.name, python=sys.executable))
        return 2
    except Exception as fault:  # noqa: BLE001  # an exception that is not in the catalogue is a bug
        return _bug(fault)


def _bug(fault: Exception) -> int:
    """Print an exception that is not in the catalogue, and return the exit code."""
    traceback.print_exc()
    print(version_line(), file=sys.stderr)
    print_error(error("bug", what=f"{type(fault).__name__}: {fault}"))
    return 70


def _print_stop(arguments: argparse.Namespace) -> None:
    """Print that a signal has stopped a command, and which results exist."""
    committed: AfterCommit | None = arguments.committed
    left = arguments.when_stopped if committed is None else committed.text()
    print(f"mutator: stopped from outside; {left}", file=sys.stderr)


@contextmanager
def _failure_as_step() -> Iterator[None]:
    """Log which error ends the command: with --verbose it is the last step."""
    try:
        yield
    except MutatorError as fault:
        _log.info("failed: error %s, exit code %d; %s", fault.kind, fault.exit_code, version_line())
        raise


def _print(answers: Iterator[Answer | CommandRows], arguments: argparse.Namespace) -> int:
    """Print each answer as it comes; return the exit code of the last one."""
    code = 0
    for answer in answers:
        if isinstance(answer, CommandRows):
            for row in answer.rows:  # reading them has errors of its own
                with _writing("storage", path="stdout"):
                    sys.stdout.buffer.write(row + b"\n")
            with _writing("storage", path="stdout"):
                sys.stdout.buffer.flush()
            continue
        code = answer.code
        warn(arguments, answer.warnings)
        if not (isinstance(answer, CommandReport) and arguments.quiet and not arguments.json and not code):
            target = _target(arguments) if isinstance(answer, CommandReport) else None
            with _writing("storage", path="stdout") if target is None else _writing("report", output=target):
                print(answer.text if arguments.json else printable(answer.text), flush=True)
        if arguments.committed is not None:
            arguments.committed.is_answered = True
    return code


def _target(arguments: argparse.Namespace) -> str | None:
    """Return the path or table that a command has written to, as the user gave it; None if it writes nothing."""
    if getattr(arguments, "dry_run", False):
        return None
    names = (getattr(arguments, name, None) for name in ("output", "base", "table", "path"))
    return next((str(name) for name in names if name is not None), None)


@contextmanager
def _writing(kind: str, **fields: str) -> Iterator[None]:
    """Turn a fault of stdout into an error of a kind."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as fault:
        raise error(kind, why=fault.strerror, **fields) from None
