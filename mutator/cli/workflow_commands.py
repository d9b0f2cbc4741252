"""The commands ``mutator workflow …``.

mutator workflow run BASE --config FILE         merge the feed files that have arrived
mutator workflow watch BASE --config FILE       the same, again and again
mutator workflow status BASE                    show the state of a base and the files that wait
mutator workflow report BASE --html FILE        show versions over time as a page
mutator workflow history BASE                   list the versions
mutator workflow restore BASE --to VERSION      make an older version the master again

The target of a base is BASE/master, or a versioned table: BASE/table if it is there, or that of --table.
"""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from mutator.cli import options
from mutator.cli.base_facts import base_report, measures
from mutator.cli.command import Answer, Command, Group, Report, option, option_type
from mutator.cli.lineage_events import LineageEvents
from mutator.cli.messages import tell, warn
from mutator.cli.report_files import FILES, HTML, METRICS, Observed, ReportFiles, places_of_base
from mutator.cli.workflow_target import TABLE, OpenTable, open_table, table_of
from mutator.config import parsers
from mutator.errors import MutatorError, error, suppressed
from mutator.errors.display import counted, seconds_text, without_secrets
from mutator.errors.exceptions import BUSY

if TYPE_CHECKING:
    from mutator.workflow.directory.results import Outcome, Status
    from mutator.workflow.to_table.results import Outcome as TableOutcome
    from mutator.workflow.to_table.results import Status as TableStatus


_INTERVAL, _TABLE_INTERVAL = 10.0, 0.5  # seconds


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= 1e6:
        raise ValueError("must be a number of seconds, 0 or more")
    return value


def _run(arguments: argparse.Namespace) -> Iterator[Report]:
    spark = options.spark("mutator workflow", arguments)
    with _refusal_noted(arguments):
        table = table_of(arguments.base, arguments.table)
        files = _files(arguments, table)
    signal = None
    with files.watch() as observed:
        if table is None:
            outcome: Outcome | TableOutcome = _merged(arguments, spark, files)
        else:
            target = _opened(table, arguments, spark)
            applied = _applied(arguments, target, files)
            outcome = _Upkeep(arguments, target).after(applied)
            signal = outcome.stopped if applied.stopped is None else None  # it stopped a compaction
        _observe(observed, outcome)
    yield _report(outcome, options.shown(outcome, arguments), files, signal)


@contextmanager
def _refusal_noted(arguments: argparse.Namespace) -> Iterator[None]:
    """Note an error of the ``with`` block, which reads settings or options of a run, in the base: status shows it."""
    try:
        yield
    except MutatorError as fault:
        from mutator.workflow.directory.failed_run import note_refused

        note_refused(arguments.base, fault)
        raise


def _opened(table: str, arguments: argparse.Namespace, spark: Callable[[], AbstractContextManager[Any]]) -> OpenTable:
    """Open the table that is the target of runs, and check their settings."""
    with _refusal_noted(arguments):
        if arguments.engine == "records":
            raise error("usage", what="--engine records: a table has only the engine blocks; leave the option out")
        target = open_table(table, arguments, spark)
        _ = target.config
        return target


def _files(arguments: argparse.Namespace, table: str | None, *, looks: bool = False) -> ReportFiles:
    """Return the files that a command of a base writes. table: path of its target, if that is a table."""
    places = [*places_of_base(arguments.base), *([("table", table)] if table is not None else [])]
    facts, base = partial(measures, arguments.base, table), arguments.base.rstrip("/")
    inputs = [("feed", f"{base}/incr"), *([("master", f"{base}/master")] if table is None else [])]
    events = LineageEvents(arguments, f"mutator workflow {base}", inputs, table)
    later = f"see what was merged with: mutator workflow report {shlex.quote(without_secrets(arguments.base))}"
    return ReportFiles(arguments, arguments.base, places, facts, events=events, looks=looks, later=later)


def _observe(observed: Observed, outcome: Outcome | TableOutcome) -> None:
    observed.report = outcome.report
    observed.known = {"waiting": len(outcome.waiting)}


def _watch(arguments: argparse.Namespace) -> Iterator[Report]:
    if arguments.min_age is not None:
        arguments.settings = [*arguments.settings, f"claim.min.age={seconds_text(arguments.min_age)}s"]
    left = arguments.runs
    with ExitStack() as stack:

        @cache
        def spark() -> Any:  # starts when it is first needed, and is kept until the end
            return stack.enter_context(options.spark("mutator workflow", arguments)())

        with _refusal_noted(arguments):
            table = table_of(arguments.base, arguments.table)
            files = _files(arguments, table)
        interval = _INTERVAL if table is None else _TABLE_INTERVAL
        interval = interval if arguments.interval is None else arguments.interval
        run, pause = _watched(arguments, table, interval, lambda: nullcontext(spark()), files)
        rounds = "until a signal ends it" if left is None else f"until {counted(left, 'run')} merged something"
        place = without_secrets(f"{arguments.base}/incr")
        tell(arguments, f"watching {place}: a look every {seconds_text(interval)} s, {rounds}")
        while left is None or left > 0:
            outcome = None
            with (
                suppressed("base.lost", "table.given_up", "table.outrun"),
                files.watch() as observed,
                suppressed(*BUSY),
            ):
                outcome = run()
                _observe(observed, outcome)
            arguments.committed = None  # a signal stops the wait, and not this merge
            warn(arguments, files.warnings)
            if outcome is None:  # another run merges the files that have arrived, or others change the same records
                time.sleep(interval)
                continue
            if outcome.version is not None or outcome.claimed or outcome.recovered:
                if outcome.version is not None and left is not None:
                    left -= 1
                signal = outcome.stopped if left != 0 else None  # else all runs are done
                tell(arguments, f"claimed {counted(len(outcome.claimed), 'feed file')}")
                yield _report(outcome, outcome.json_line() if arguments.json else outcome.text(), files, signal)
                if outcome.stopped:
                    return  # a signal came too late to stop this run
            for compacted in pause(outcome) if left != 0 else ():
                text = compacted.json_line() if arguments.json else compacted.text()
                yield _report(compacted, text, signal=compacted.stopped)
                if compacted.stopped:
                    return


def _watched(
    arguments: argparse.Namespace,
    table: str | None,
    interval: float,
    spark: Callable[[], AbstractContextManager[Any]],
    files: ReportFiles,
) -> tuple[Callable[[], Outcome | TableOutcome], Callable[[Any], Iterator[TableOutcome]]]:
    """Return two functions: one runs once, the other waits until the next run may have something to do.

    The other one is given the outcome of the run, and yields those of compactions.
    """
    if table is None:

        def wait(_: object) -> Iterator[TableOutcome]:
            time.sleep(interval)
            yield from ()

        return lambda: _merged(arguments, spark, files), wait
    target = _opened(table, arguments, spark)
    upkeep = _Upkeep(arguments, target)

    def pause(outcome: TableOutcome) -> Iterator[TableOutcome]:
        upkeep.note(outcome)
        while (seconds := upkeep.look.seconds()) != 0:
            if seconds is None and (compacted := upkeep.now(outcome)).is_upkeep:
                yield compacted
                continue
            time.sleep(interval if seconds is None else min(interval, seconds + 0.01))

    return lambda: _applied(arguments, target, files), pause


class _Upkeep:
    """The compactions of a table while no feed file waits in a base."""

    def __init__(self, arguments: argparse.Namespace, table: OpenTable) -> None:
        from mutator.workflow import to_table

        self.look = to_table.Look(to_table.opened(arguments.base, table.target), table.config, table.target)
        self._upkeep = to_table.Upkeep(table.config, table.target)

    def note(self, outcome: TableOutcome) -> None:
        """Take note of a run."""
        if outcome.version is not None:
            self._upkeep.applied()

    def after(self, outcome: TableOutcome) -> TableOutcome:
        """Return the outcome of a run with the compactions that follow it."""
        from mutator.workflow import to_table

        return to_table.kept(outcome, self._upkeep, lambda: self.look.seconds() is None)

    def now(self, last: TableOutcome) -> TableOutcome:
        """Return the outcome of compactions alone. last: of a run."""
        return self.after(replace(last, run="", version=None, claimed=(), skipped=(), recovered=(), report=None))


def _merged(
    arguments: argparse.Namespace, spark: Callable[[], AbstractContextManager[Any]], files: ReportFiles
) -> Outcome:
    from mutator.workflow import directory

    with _refusal_noted(arguments):
        config = options.config_of(arguments)
    merge_on = files.started(options.merge_on(config.runner, spark, arguments))
    return directory.run(arguments.base, config, directory.merge_by(config, merge_on, arguments.engine))


def _applied(arguments: argparse.Namespace, table: OpenTable, files: ReportFiles) -> TableOutcome:
    from mutator.workflow import to_table

    config = table.config
    warn(arguments, config.warnings)
    target = table.target
    return to_table.run(arguments.base, config, replace(target, apply=files.started(target.apply)))


def _report(
    outcome: Outcome | TableOutcome, text: str, files: ReportFiles | None = None, signal: int | None = None
) -> Report:
    """Return the report of a run. signal: that ends a command with more to do than this run, which is done."""
    written = () if files is None else files.warnings
    warnings = (*(() if outcome.report is None else outcome.report.warnings), *outcome.warnings, *written)
    return Report(text, warnings, code=0 if signal is None else 128 + signal)


def _status(arguments: argparse.Namespace) -> Iterator[Answer]:
    table = table_of(arguments.base, arguments.table)
    files = _files(arguments, table, looks=True)
    with files.watch() as observed:
        status = _seen(arguments, table)
        observed.known = {
            "ready": None if status.ready is None else len(status.ready),
            "waiting": None if status.waiting is None else len(status.waiting),
            "problems": len(status.problems),
        }
    yield Answer(options.shown(status, arguments), files.warnings, code=5 if status.problems else 0)


def _seen(arguments: argparse.Namespace, table: str | None) -> Status | TableStatus:
    if table is None:
        from mutator.workflow import directory

        return directory.status(arguments.base, options.config_without_id(arguments))
    from mutator.workflow import to_table

    opened = open_table(table, arguments, options.spark("mutator workflow", arguments))
    return to_table.status(arguments.base, opened.config, opened.target)


def _base_report(arguments: argparse.Namespace) -> Iterator[Report]:
    table = table_of(arguments.base, arguments.table)
    files = _files(arguments, table, looks=True)
    report = base_report(arguments.base, table, _seen(arguments, table))
    files.write_page(report.html)
    yield Report(options.shown(report, arguments))


def _check_master(arguments: argparse.Namespace, cure: str) -> None:
    """Raise ConfigError if the target of a base is a table. cure: has a place for its path."""
    table = table_of(arguments.base)
    if table is not None:
        raise error("usage", what=f"the target of {arguments.base} is the table {table}: {cure.format(table)}")


def _history(arguments: argparse.Namespace) -> Iterator[Answer]:
    _check_master(arguments, "read its versions with: mutator table log {}")
    from mutator.workflow import directory
    from mutator.workflow.directory.results import history_json, history_text

    versions = directory.history(arguments.base, options.config_without_id(arguments))
    yield Answer(history_json(versions) if arguments.json else history_text(versions))


def _restore(arguments: argparse.Namespace) -> Iterator[Report]:
    _check_master(arguments, "bring a version back with: mutator table restore {} --to N")
    from mutator.workflow import directory

    outcome = directory.restore(arguments.base, arguments.to, options.config_without_id(arguments))
    yield _report(outcome, options.shown(outcome, arguments))


_BASE = (
    option("base", metavar="BASE", help="directory that contains incr/, and master/ or table/"),
    *options.CONFIG,
    options.JSON,
)
_RUN = (*_BASE, TABLE, options.ENGINE, options.RUNNER, options.PARTITIONED_BY, *FILES)
_WATCH = (
    *_RUN,
    option(
        "--interval",
        type=option_type(_seconds),
        metavar="SECONDS",
        help=f"pause between two checks of incr/ (default {_INTERVAL:.0f}; {_TABLE_INTERVAL} if the target is a table)",
    ),
    option(
        "--min-age",
        type=option_type(_seconds),
        metavar="SECONDS",
        help="minimum age of a feed file, in place of claim.min.age",
    ),
    option("--runs", type=option_type(parsers.whole), metavar="N", help="end after N runs that merged something"),
)
_TO = option("--to", type=int, required=True, metavar="VERSION", help="version number, as shown by history")
_STOPPED = "uncommitted feed files were put back"
WORKFLOW = Group(
    "workflow",
    "merge feed files as they arrive in a base, a directory with incr/, and master/ or table/",
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
            (*_BASE, TABLE, METRICS),
            _status,
            _STOPPED,
            ("mutator workflow status /data/product",),
        ),
        Command(
            "report",
            "show the versions over time, the files that wait, and problems",
            (*_BASE, TABLE, HTML),
            _base_report,
            _STOPPED,
            ("mutator workflow report /data/product --html product.html",),
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
