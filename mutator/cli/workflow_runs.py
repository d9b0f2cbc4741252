"""The commands ``mutator workflow run`` and ``watch``: runs of a base, whatever its target is."""

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
from mutator.cli.base_facts import measures
from mutator.cli.command import CommandReport
from mutator.cli.lineage_events import LineageEvents
from mutator.cli.messages import print_error, tell, warn
from mutator.cli.report_files import Observed, ReportFiles, places_of_base
from mutator.cli.workflow_target import OpenTarget, open_table, table_of
from mutator.errors import MutatorError, error, suppressed
from mutator.errors.display import counted, seconds_text, without_secrets
from mutator.errors.exceptions import BUSY

if TYPE_CHECKING:
    from mutator.workflow.directory.bad_files import Tried
    from mutator.workflow.directory.results import BaseRunOutcome
    from mutator.workflow.to_table.table_results import TableRunOutcome


INTERVAL, TABLE_INTERVAL = 10.0, 0.5  # seconds


def run(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    """Merge the feed files that have arrived."""
    with _refusal_noted(arguments):
        table = table_of(arguments.base, arguments.table)
        files = files_of(arguments, table)
    signal = None
    with files.watch() as observed, _kept_spark(arguments) as spark:
        if table is None:
            outcome: BaseRunOutcome | TableRunOutcome = _merged(arguments, spark, files)
        else:
            target = _opened(table, arguments, spark)
            applied = _applied(arguments, target, files)
            outcome = _Upkeep(arguments, target).after(applied)
            signal = outcome.stopped if applied.stopped is None else None  # it stopped a compaction
        _observe(observed, outcome)
    yield report_of(outcome, options.shown(outcome, arguments), files, signal)


@contextmanager
def _kept_spark(arguments: argparse.Namespace) -> Iterator[Callable[[], AbstractContextManager[Any]]]:
    """Yield what opens Spark: it starts when it is first needed, and is kept until the ``with`` block ends."""
    with ExitStack() as stack:

        @cache
        def started() -> Any:
            return stack.enter_context(options.spark("mutator workflow", arguments)())

        yield lambda: nullcontext(started())


@contextmanager
def _refusal_noted(arguments: argparse.Namespace) -> Iterator[None]:
    """Note an error of the ``with`` block, which reads settings or options of a run, in the base: status shows it."""
    try:
        yield
    except MutatorError as fault:
        from mutator.workflow.directory.failed_run import note_refused

        note_refused(arguments.base, fault)
        raise


def _opened(table: str, arguments: argparse.Namespace, spark: Callable[[], AbstractContextManager[Any]]) -> OpenTarget:
    """Open the table that is the target of runs, and check their settings."""
    with _refusal_noted(arguments):
        if arguments.engine == "records":
            raise error("usage", what="--engine records: a table has only the engine blocks; leave the option out")
        target = open_table(table, arguments, spark)
        _ = target.config
        return target


def files_of(arguments: argparse.Namespace, table: str | None, *, looks: bool = False) -> ReportFiles:
    """Return the files that a command of a base writes. table: path of its target, if that is a table."""
    places = [*places_of_base(arguments.base), *([("table", table)] if table is not None else [])]
    facts, base = partial(measures, arguments.base, table), arguments.base.rstrip("/")
    inputs = [("feed", f"{base}/incr"), *([("master", f"{base}/master")] if table is None else [])]
    events = LineageEvents(arguments, f"mutator workflow {base}", inputs, table)
    later = f"see what was merged with: mutator workflow report {shlex.quote(without_secrets(arguments.base))}"
    return ReportFiles(arguments, arguments.base, places, facts, events=events, looks=looks, later=later)


def _observe(observed: Observed, outcome: BaseRunOutcome | TableRunOutcome) -> None:
    observed.report = outcome.report
    observed.known = {"waiting": len(outcome.waiting)}
    observed.exit_code = outcome.exit_code


def watch(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    """Merge feed files whenever some have arrived."""
    if arguments.min_age is not None:
        arguments.settings = [*arguments.settings, f"claim.min.age={seconds_text(arguments.min_age)}s"]
    from mutator.workflow.directory.bad_files import Tried

    left, code = arguments.runs, 0
    with _kept_spark(arguments) as spark:
        with _refusal_noted(arguments):
            table = table_of(arguments.base, arguments.table)
            files = files_of(arguments, table)
        interval = INTERVAL if table is None else TABLE_INTERVAL
        interval = interval if arguments.interval is None else arguments.interval
        tried = Tried()
        run, pause = _watched(arguments, table, interval, spark, files, tried)
        rounds = "until a signal ends it" if left is None else f"until {counted(left, 'run')} merged something"
        place = without_secrets(f"{arguments.base}/incr")
        tell(arguments, f"watching {place}: a look every {seconds_text(interval)} s, {rounds}")
        while left is None or left > 0:
            outcome = None
            with (
                _noticed(arguments, tried),
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
                code = max(code, outcome.exit_code)  # of a watch, that of all its runs
                tell(arguments, f"claimed {counted(len(outcome.claimed), 'feed file')}")
                text = outcome.json_line() if arguments.json else outcome.text()
                yield report_of(outcome, text, files, signal, code)
                if outcome.stopped:
                    return  # a signal came too late to stop this run
            if tried.again:  # a table's pause ends when a feed file is ready
                time.sleep(interval)
                continue
            for compacted in pause(outcome) if left != 0 else ():
                text = compacted.json_line() if arguments.json else compacted.text()
                yield report_of(compacted, text, signal=compacted.stopped)
                if compacted.stopped:
                    return


@contextmanager
def _noticed(arguments: argparse.Namespace, tried: Tried) -> Iterator[None]:
    """Print the error of a run that can merge none of its feed files: a watch goes on when others have arrived."""
    try:
        yield
    except MutatorError as fault:
        if not tried.failed:
            raise
        print_error(fault)
        tell(
            arguments,
            "merged nothing, and goes on when other feed files have arrived, or the settings or the master are others",
        )


def _watched(
    arguments: argparse.Namespace,
    table: str | None,
    interval: float,
    spark: Callable[[], AbstractContextManager[Any]],
    files: ReportFiles,
    tried: Tried,
) -> tuple[Callable[[], BaseRunOutcome | TableRunOutcome], Callable[[Any], Iterator[TableRunOutcome]]]:
    """Return two functions: one runs once, the other waits until the next run may have something to do.

    The other one is given the outcome of the run, and yields those of compactions.
    """
    if table is None:

        def wait(_: object) -> Iterator[TableRunOutcome]:
            time.sleep(interval)
            yield from ()

        return lambda: _merged(arguments, spark, files, tried), wait
    target = _opened(table, arguments, spark)
    upkeep = _Upkeep(arguments, target)

    def pause(outcome: TableRunOutcome) -> Iterator[TableRunOutcome]:
        upkeep.note(outcome)
        while (seconds := upkeep.look.seconds()) != 0:
            if seconds is None and (compacted := upkeep.now(outcome)).is_upkeep:
                yield compacted
                continue
            time.sleep(interval if seconds is None else min(interval, seconds + 0.01))

    return lambda: _applied(arguments, target, files, tried), pause


class _Upkeep:
    """The compactions of a table while no feed file waits in a base."""

    def __init__(self, arguments: argparse.Namespace, table: OpenTarget) -> None:
        from mutator.workflow import to_table

        self.look = to_table.Look(to_table.opened(arguments.base, table.target), table.config, table.target)
        self._upkeep = to_table.Upkeep(table.config, table.target)

    def note(self, outcome: TableRunOutcome) -> None:
        """Take note of a run."""
        if outcome.version is not None:
            self._upkeep.applied()

    def after(self, outcome: TableRunOutcome) -> TableRunOutcome:
        """Return the outcome of a run with the compactions that follow it."""
        from mutator.workflow import to_table

        return to_table.kept(outcome, self._upkeep, lambda: self.look.seconds() is None)

    def now(self, last: TableRunOutcome) -> TableRunOutcome:
        """Return the outcome of compactions alone. last: of a run."""
        return self.after(replace(last, run="", version=None, claimed=(), skipped=(), recovered=(), report=None))


def _merged(
    arguments: argparse.Namespace,
    spark: Callable[[], AbstractContextManager[Any]],
    files: ReportFiles,
    tried: Tried | None = None,
) -> BaseRunOutcome:
    from mutator.workflow import directory

    with _refusal_noted(arguments):
        config = options.config_of(arguments)
    merge_on = files.started(options.merge_on(config.effort.runner, spark, arguments))
    merge = directory.merge_by(config, merge_on, arguments.engine)
    return directory.run(arguments.base, config, merge, tried=tried)


def _applied(
    arguments: argparse.Namespace, table: OpenTarget, files: ReportFiles, tried: Tried | None = None
) -> TableRunOutcome:
    from mutator.workflow import to_table

    config = table.config
    warn(arguments, config.wording.warnings)
    target = table.target
    return to_table.run(arguments.base, config, replace(target, apply=files.started(target.apply)), tried=tried)


def report_of(
    outcome: BaseRunOutcome | TableRunOutcome,
    text: str,
    files: ReportFiles | None = None,
    signal: int | None = None,
    code: int | None = None,
) -> CommandReport:
    """Return the report of a run. signal: that ends a command with more to do than this run, which is done.

    code: exit code without a signal, in place of that of the run.
    """
    written = () if files is None else files.warnings
    warnings = (*(() if outcome.report is None else outcome.report.warnings), *outcome.warnings, *written)
    code = outcome.exit_code if code is None else code
    return CommandReport(text, warnings, code=code if signal is None else 128 + signal)
