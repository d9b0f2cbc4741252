"""A merge from end to end: plan, read, shuffle, reduce, write, verify, publish, report."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mutator import config as configuration
from mutator.config import Config
from mutator.config.reader import completed
from mutator.dataset.commit.publish import check_apart, check_output, publish
from mutator.dataset.commits import next_time
from mutator.dataset.schema_file import write_sidecar
from mutator.dataset.state import State
from mutator.engine.lost_files import without_files
from mutator.engine.receipts import Receipts
from mutator.errors.display import counted, without_secrets
from mutator.errors.exceptions import noted, said_to
from mutator.errors.interrupts import check_signals
from mutator.errors.quick_dataclass import dataclass
from mutator.frames.dataset import Dataset
from mutator.frames.rejected import Rejects
from mutator.frames.scratch import Scratch
from mutator.pipeline.accounting import Result, add_up, check_written
from mutator.pipeline.decisions import plan_text, survey_text
from mutator.pipeline.kept_out import without_values
from mutator.pipeline.limits import check
from mutator.pipeline.master_settings import chained_settings
from mutator.pipeline.next_state import next_state
from mutator.pipeline.report import Report, report_of
from mutator.pipeline.runners import Engine, engine_on
from mutator.pipeline.step_times import StepTimes
from mutator.plan.change_form import change_form
from mutator.plan.inspect.survey import Survey, survey_inputs
from mutator.plan.inspect.table_inputs import TableInput
from mutator.plan.partition_plan import with_units
from mutator.plan.run_plan import Plan, make_plan
from mutator.plan.runner_choice import RunnerChoice
from mutator.rules.file_names import new_run_id
from mutator.storage import located, located_to_write, storage_for

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)


def mutate(
    sc: SparkContext,
    config: Config | Mapping[str, Any] | str | Path,
    *,
    master: str | Path,
    feed: str | Path | Sequence[str | Path],
    output: str | Path,
    dry_run: bool = False,
    engine: str = "auto",
) -> Report:
    """Merge feed files into a master and publish the result as a new directory.

    config: a Config, its settings as a mapping, or the path of a file. master: a directory. feed: directories, files or
    patterns. output: a path that must not exist; it appears whole or not at all. dry_run: count, and write nothing.
    engine: "blocks", "records", or "auto", which prefers blocks.

    Raises the errors of the catalogue (``mutator.errors``); then no output is visible and no input has changed.

    >>> report = mutate(sc, "bumu.properties", master="master", feed=["incr"], output="new")   # doctest: +SKIP
    >>> report.counts["feed inserted"]                                                        # doctest: +SKIP
    30
    """
    from mutator.engine.spark.jvm_start import use_own_python

    sc = getattr(sc, "sparkContext", sc)  # of a SparkSession
    use_own_python(sc)
    merge_on = engine_on("spark", lambda: nullcontext(sc))
    return run(merge_on, config, master=master, feed=feed, output=output, dry_run=dry_run, engine=engine)


def run(
    merge_on: Engine,
    config: Config | Mapping[str, Any] | str | Path,
    *,
    master: str | Path,
    feed: str | Path | Sequence[str | Path],
    output: str | Path,
    dry_run: bool = False,
    engine: str = "auto",
) -> Report:
    """Merge and publish as ``mutate`` does, with any engine."""
    if not isinstance(config, Config):
        recorded = partial(chained_settings, str(master))
        if isinstance(config, str | Path):
            config = configuration.load(config, recorded=recorded)
        else:
            config = completed(config, recorded(config), "the configuration")
    feed = [feed] if isinstance(feed, str | Path) else feed
    prepared = prepare(config, str(master), [str(path) for path in feed], str(output), engine=engine)
    return with_tables(prepared, carry_out(prepared, merge_on, dry_run=dry_run)[1])


@dataclass(frozen=True)
class Prepared:
    """A planned run, which an engine can carry out."""

    survey: Survey
    plan: Plan
    output: str  # full path; "" of a dry run without one
    given: Mapping[str, Any]  # master, feed and output as the user wrote them, without secrets
    times: StepTimes
    config: Config  # for messages: the names of settings, and the values that may be shown


def prepare(
    config: Config,
    master: str,
    feed: Sequence[str],
    output: str | None,
    *,
    run: str | None = None,
    version: int | None = None,
    engine: str = "auto",
    tables: Sequence[TableInput] = (),
) -> Prepared:
    """Survey the inputs and plan a run; raise every error that can be found without an engine.

    output: None for a dry run. run: its ID. version: that its output can become, of a workflow. tables: the paths among
    master and feed that have the rows of tables in memory.
    """
    times = StepTimes()
    path = "" if output is None else _check_paths(master, feed, output)
    with said_to(config.wording.audience.writers), noted(config.wording.noted):
        survey = survey_inputs(config, master, feed, tables)
        times.end("survey")
        _log.info("surveyed the inputs: %s", survey_text(survey))
        new_id, now = identity(survey.state)
        plan = make_plan(config, survey, run or new_id, now, engine)
        plan = replace(plan, changes=change_form(config.rows, config.output, plan.rows, now, version))
    times.end("plan")
    _log.info("planned %s: %s", plan.run, plan_text(plan))
    given = {
        "master": without_secrets(master),
        "feed": tuple(config.wording.audience.paths(without_secrets(one)) for one in feed),
        "output": without_secrets(output or ""),
    }
    return Prepared(survey, plan, path, given, times, config)


def carry_out(prepared: Prepared, merge_on: Engine, *, dry_run: bool = False) -> tuple[State, Report]:
    """Carry out a plan: merge, verify and publish."""
    with said_to(prepared.config.wording.audience.writers):
        return _carried_out(prepared, merge_on, dry_run)


def _carried_out(prepared: Prepared, merge_on: Engine, dry_run: bool) -> tuple[State, Report]:
    plan, known, times = prepared.plan, prepared.survey.state, prepared.times
    results: list[tuple[Result, RunnerChoice | None]] = []

    def merge(staging: str | None) -> State:
        receipts = merge_on(plan, staging)  # reads, shuffles, reduces and writes
        times.end("merge")
        _log.info("merged%s", "" if staging is None else f" into {without_secrets(staging)}")
        result = _verified(prepared, receipts, staging)
        times.end("check")
        check_signals()  # Spark may have swallowed the exception of one
        results.append((result, receipts.runner))
        schema_files = () if staging is None else write_sidecar(staging, plan.rows.spec)
        return next_state(plan, known, replace(result, beside=(*result.beside, *schema_files)))

    if dry_run:
        if prepared.output:
            storage_for(prepared.output).check_writable(prepared.output)
        made, litter = merge(None), tuple[str, ...]()
    else:
        published = publish(prepared.output, plan.run, merge)
        made, litter = published.made, published.litter
        times.end("publish")
        _log.info("published %s", without_secrets(prepared.output))
    result, runner = results[-1]
    report = report_of(plan, prepared.survey, result, made, prepared.given, litter, dry_run, times, runner)
    return made, report


def with_tables(prepared: Prepared, report: Report, scratch: Scratch | None = None) -> Report:
    """Return a report that hands out the merged rows and all rejects, unless it is that of a dry run.

    scratch: the directory that has the output, if it is to live as long as the report.
    """
    if report.dry_run:
        return report
    path = report.rejected_file and f"{prepared.output}{report.rejected_file.removeprefix(report.output)}"
    rejects = Rejects(dict(report.rejects), path, scratch)
    return replace(report, written=Dataset(prepared.output, scratch), rejects=rejects)


def _verified(prepared: Prepared, receipts: Receipts, staging: str | None) -> Result:
    """Return the sums of the receipts. Raises the error of a merge that must not be published."""
    plan = replace(prepared.plan, truncates=prepared.plan.truncated(receipts.floor).truncates)
    followed = with_units(without_files(plan, receipts.lost), receipts.touched) if plan.is_partitioned else plan
    result = add_up(followed, receipts)
    check(plan, prepared.survey, without_values(plan, result))
    if staging is not None:
        check_written(plan, result)
    counts = result.counts
    read = counted(counts["feed rows"], "feed row"), counted(counts["master rows"], "master row")
    _log.info("the sums add up: %s and %s give %s", *read, counted(counts["output rows"], "output row"))
    return result


def identity(known: State | None) -> tuple[str, int]:
    """Return a new run ID and the commit time in ms, which is later than that of the commit before.

    known: the state of the master, if mutator wrote it.
    """
    now = next_time(time.time(), None if known is None else known.commit)
    return new_run_id(now / 1000), now


def _check_paths(master: str, feed: Sequence[str], output: str) -> str:
    """Return the output's full path. Raises ConfigError where it is inside an input, StateError where it exists."""
    _, output = located_to_write(output)
    check_output(output)
    for role, given in (("master", master), *(("feed", path) for path in feed)):
        check_apart(output, located(given)[1], role="output", other_role=role)
    return output
