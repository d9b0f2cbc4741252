"""The commands ``mutator workflow run`` and ``watch``: runs of a base, whatever its target is."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from mutator.cli import options
from mutator.cli.base_facts import measures
from mutator.cli.base_history import BaseHistory
from mutator.cli.command import CommandReport
from mutator.cli.lineage_events import LineageEvents
from mutator.cli.messages import print_error, tell, warn
from mutator.cli.report_files import Observed, ReportFiles, places_of_base
from mutator.cli.workflow_target import open_table, table_of
from mutator.config.settings import HistorySpec
from mutator.errors import MutatorError, error, suppressed
from mutator.errors.display import command, counted, seconds_text, without_secrets
from mutator.errors.exceptions import BUSY

if TYPE_CHECKING:
    from mutator.config import Config
    from mutator.table.apply import OpenRunner
    from mutator.workflow.directory.bad_files import Tried
    from mutator.workflow.directory.results import RunOutcome
    from mutator.workflow.directory.run_phases import Target
    from mutator.workflow.to_table import Upkeep


INTERVAL, TABLE_INTERVAL = 10.0, 0.5  # seconds


def run(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    """Merge the feed files that have arrived."""
    with _refusal_noted(arguments):
        table = table_of(arguments.base, arguments.table)
        files = files_of(arguments, table)
    signal = None
    with files.watch() as observed, _kept_spark(arguments) as spark:
        from mutator.workflow import directory

        target = _targets(arguments, table, spark, files)()
        outcome = directory.run(target)
        if outcome.stopped is None and (upkeep := _upkeep_of(target)) is not None:
            outcome = upkeep.after(outcome)
            signal = outcome.stopped  # it stopped a compaction
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


def _targets(
    arguments: argparse.Namespace,
    table: str | None,
    spark: Callable[[], AbstractContextManager[Any]],
    files: ReportFiles,
) -> Callable[[], Target]:
    """Return a function that returns the target of each run, with the settings that hold then."""
    from mutator.workflow import directory

    def runner_of(config: Config) -> OpenRunner:
        from mutator.pipeline.runners import runner_for

        return partial(runner_for, config.effort.runner or "auto", spark)

    history = BaseHistory(arguments.base, runner_of)

    def master() -> Target:
        with _refusal_noted(arguments):
            read = options.config_of(arguments, partial(directory.chained_settings_of, arguments.base))
        given = {name: value for name, value in read.given.items() if not name.startswith("history")}
        config = replace(read, history=HistorySpec(), given=given)
        merge_on = files.started(options.merge_on(config.effort.runner, spark, arguments))
        merge = directory.merge_by(config, merge_on, arguments.engine)
        follow = partial(history.follow, read) if read.history.is_kept else None
        return directory.MasterTarget(directory.open_base(arguments.base), config, merge, follow)

    if table is None:
        return master
    with _refusal_noted(arguments):
        if arguments.engine == "records":
            raise error("usage", what="--engine records: a table has only the engine blocks; leave the option out")
        opened = open_table(table, arguments, spark)
        _ = opened.config

    def applied() -> Target:
        target = opened.target(arguments.base, files.started)
        warn(arguments, target.config.wording.warnings)
        return target

    return applied


def files_of(arguments: argparse.Namespace, table: str | None, *, looks: bool = False) -> ReportFiles:
    """Return the files that a command of a base writes. table: path of its target, if that is a table."""
    places = [*places_of_base(arguments.base), *([("table", table)] if table is not None else [])]
    facts, base = partial(measures, arguments.base, table), arguments.base.rstrip("/")
    inputs = [("feed", f"{base}/incr"), *([("master", f"{base}/master")] if table is None else [])]
    events = LineageEvents(arguments, f"mutator workflow {base}", inputs, table)
    later = f"see what was merged with: {command('workflow', 'report', without_secrets(arguments.base))}"
    return ReportFiles(arguments, arguments.base, places, facts, events=events, looks=looks, later=later)


def _observe(observed: Observed, outcome: RunOutcome) -> None:
    observed.report = outcome.report
    observed.known = {"waiting": len(outcome.waiting)}
    observed.exit_code = outcome.exit_code


def watch(arguments: argparse.Namespace) -> Iterator[CommandReport]:
    """Merge feed files whenever some have arrived."""
    if arguments.min_age is not None:
        arguments.settings = [*arguments.settings, f"claim.min.age={seconds_text(arguments.min_age)}s"]
    from mutator.workflow import directory
    from mutator.workflow.directory.bad_files import Tried

    left, code = arguments.runs, 0
    with _kept_spark(arguments) as spark:
        with _refusal_noted(arguments):
            table = table_of(arguments.base, arguments.table)
            files = files_of(arguments, table)
        interval = INTERVAL if table is None else TABLE_INTERVAL
        interval = interval if arguments.interval is None else arguments.interval
        tried, upkeep = Tried(), None
        next_target = _targets(arguments, table, spark, files)
        tell(arguments, _watching(arguments.base.rstrip("/"), table, interval, left))
        while left is None or left > 0:
            outcome = None
            with (
                _noticed(arguments, tried),
                suppressed("base.lost", "table.given_up", "table.outrun"),
                files.watch() as observed,
                suppressed(*BUSY),
            ):
                target = next_target()
                outcome = directory.run(target, tried=tried)
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
                text = outcome.json_line() if arguments.json else options.text_of(outcome, arguments)
                yield report_of(outcome, text, files, signal, code)
                if outcome.stopped:
                    return  # a signal came too late to stop this run
            if tried.again:  # a table's pause ends when a feed file is ready
                time.sleep(interval)
                continue
            upkeep = upkeep or _upkeep_of(target)
            for compacted in _pause(upkeep, outcome, interval) if left != 0 else ():
                text = compacted.json_line() if arguments.json else options.text_of(compacted, arguments)
                yield report_of(compacted, text, signal=compacted.stopped)
                if compacted.stopped:
                    return


def _watching(base: str, table: str | None, interval: float, runs: int | None) -> str:
    """Return what a watch does, and what ends it."""
    target = f"{base}/master" if table is None else table
    often = "all the time" if not interval else f"every {seconds_text(interval)} s"
    end = "" if runs is None else f" or {counted(runs, 'run')} that merged something"
    return without_secrets(f"watching {base}/incr {often} for feed files to merge into {target}; Ctrl-C{end} ends it")


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


def _upkeep_of(target: Target) -> Upkeep | None:
    """Return the compactions of a target that is a table; None for a master."""
    if target.table is None:
        return None
    from mutator.workflow.to_table import TableTarget, Upkeep

    assert isinstance(target, TableTarget)
    return Upkeep(target)


def _pause(upkeep: Upkeep | None, outcome: RunOutcome, interval: float) -> Iterator[RunOutcome]:
    """Wait until the next run may have something to do, and yield the outcomes of compactions meanwhile.

    upkeep: of a table. outcome: of the last run.
    """
    if upkeep is None:
        time.sleep(interval)
        return
    upkeep.note(outcome)
    while (seconds := upkeep.seconds()) != 0:
        if seconds is None and (compacted := upkeep.alone(outcome)).is_upkeep:
            yield compacted
            continue
        time.sleep(interval if seconds is None else min(interval, seconds + 0.01))


def report_of(
    outcome: RunOutcome,
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
