"""The way of the data, from two paths to a published directory and a report."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mutator import config as configuration
from mutator.config import Config
from mutator.dataset.commit.publish import check_output, publish
from mutator.dataset.manifest import DataFile, FeedFile, Manifest
from mutator.dataset.partition_index import EARLIER, form_of
from mutator.dataset.schema_file import write_sidecar
from mutator.engine.spark import blocks, partitions, records
from mutator.engine.spark.shuffle import spark_faults
from mutator.errors import error, key_text
from mutator.errors.interrupts import check_signals
from mutator.errors.redact import without_secrets
from mutator.pipeline.accounting import Result, add_up, check, check_written
from mutator.pipeline.report import Report
from mutator.plan.inspect.survey import Survey, survey_inputs
from mutator.plan.partition_plan import with_units
from mutator.plan.run_plan import Plan, make_plan
from mutator.rules.file_names import new_run_id
from mutator.rules.key_hash import HASH_NAME
from mutator.rules.order_values import order_text
from mutator.rules.outcome import FEED_OUTCOMES, MASTER_OUTCOMES, NOTES
from mutator.storage import absolute, storage_for, writable_storage_for

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = [
    "Engine",
    "Prepared",
    "Progress",
    "carry_out",
    "engine_of",
    "identity",
    "mutate",
    "on_spark",
    "prepare",
    "run",
]

Progress = Callable[["SparkContext"], AbstractContextManager[object]]
# Reads, shuffles and writes what a plan says, into a directory (None: nowhere); returns the receipts of the buckets and
# of the ledger.
Engine = Callable[[Plan, str | None], list[dict[str, Any]]]


def mutate(
    sc: SparkContext,
    config: Config | Mapping[str, Any] | str | Path,
    *,
    master: str | Path,
    feed: str | Path | Sequence[str | Path],
    output: str | Path,
    dry_run: bool = False,
    engine: str = "auto",
    progress: Progress | None = None,
) -> Report:
    """Merge feed files into a master and publish the result as a new directory.

    config: a Config, its settings as a mapping, or the path of a file. master: a directory. feed: directories, files or
    patterns. output: a path that must not exist; it appears whole or not at all. dry_run: count, and write nothing.
    engine: "blocks", "records", or "auto" for blocks wherever they can. progress: shows the run's progress while it is
    entered.

    Raises the errors of the catalogue (``mutator.errors``); then no output is visible and no input has changed.

    >>> report = mutate(sc, "bumu.properties", master="master", feed=["incr"], output="new")   # doctest: +SKIP
    >>> report.counts["feed inserted"]                                                        # doctest: +SKIP
    30
    """
    sc = getattr(sc, "sparkContext", sc)  # a SparkSession will do

    merge_on = on_spark(lambda: nullcontext(sc), progress)
    return run(merge_on, config, master=master, feed=feed, output=output, dry_run=dry_run, engine=engine)


def engine_of(plan: Plan) -> Callable[[SparkContext, Plan, str | None], list[dict[str, Any]]]:
    """Return what merges a plan on Spark."""
    if plan.partitioning is not None:
        return partitions.merge
    return {"records": records.merge, "blocks": blocks.merge}[plan.engine]


def on_spark(context: Callable[[], AbstractContextManager[SparkContext]], progress: Progress | None = None) -> Engine:
    """Make an engine of a Spark context, which is entered when it is needed: starting Spark takes seconds."""

    def merge_on(plan: Plan, staging: str | None) -> list[dict[str, Any]]:
        merge = engine_of(plan)
        with context() as sc, spark_faults(sc), (progress or _silent)(sc):
            return merge(sc, plan, staging)

    return merge_on


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
    """Do what ``mutate`` does with any engine."""
    if not isinstance(config, Config):
        config = configuration.load(config) if isinstance(config, str | Path) else configuration.parse(config)
    feed = [feed] if isinstance(feed, str | Path) else feed
    prepared = prepare(config, str(master), [str(path) for path in feed], str(output), engine=engine)
    return carry_out(prepared, merge_on, dry_run=dry_run)[1]


@dataclass(frozen=True)
class Prepared:
    """A run that has been planned, and needs an engine to be carried out."""

    config: Config
    survey: Survey
    plan: Plan
    place: str  # full path of the output
    places: Mapping[str, Any]  # as people and scripts gave them
    started: float


def prepare(
    config: Config, master: str, feed: Sequence[str], output: str, *, run: str | None = None, engine: str = "auto"
) -> Prepared:
    """Look at the inputs and plan a run; every fault that needs no engine is found here. run: its id."""
    started = time.monotonic()
    place = _check_places(master, feed, output)
    survey = survey_inputs(config, master, feed)
    name, now = identity(survey.manifest)
    plan = make_plan(config, survey, run or name, now, engine)
    places = {"master": master, "feed": tuple(map(without_secrets, feed)), "output": output}
    return Prepared(config, survey, plan, place, places, started)


def carry_out(prepared: Prepared, merge_on: Engine, *, dry_run: bool = False) -> tuple[Manifest, Report]:
    """Merge and publish what was prepared: the steps of a run, in their order."""
    config, survey, plan = prepared.config, prepared.survey, prepared.plan
    checked: list[Result] = []

    def merge(staging: str | None) -> Manifest:
        receipts = merge_on(plan, staging)
        result = add_up(_whole(plan, receipts), receipts)
        check(config, plan, survey.manifest, result)
        if staging is not None:
            check_written(result)
        check_signals()  # whose exception Spark's machinery may have swallowed
        checked.append(result)
        beside = () if staging is None else write_sidecar(staging, plan.spec)
        return _manifest(config, plan, survey, replace(result, beside=(*result.beside, *beside)))

    if dry_run:
        made, litter = merge(None), tuple[str, ...]()
    else:
        published = publish(prepared.place, plan.run, merge)
        made, litter = published.manifest, published.litter
    seconds = time.monotonic() - prepared.started
    return made, _report(prepared.places, survey, plan, checked[-1], made, litter, dry_run, seconds)


def _whole(plan: Plan, receipts: Sequence[Mapping[str, Any]]) -> Plan:
    """Return the plan that the engine has followed: of a partitioned master, which partitions are touched."""
    return plan if plan.partitioning is None else with_units(plan, receipts[-1]["touched"])


def identity(known: Manifest | None) -> tuple[str, int]:
    """Return a run's id and its commit time in ms, which never goes backwards from one commit to the next."""
    now = int(time.time() * 1000)
    if known is not None:
        last = datetime.fromisoformat(known.committed)
        now = max(now, int(last.timestamp() * 1000))
    return new_run_id(now / 1000), now


def _silent(_: SparkContext) -> AbstractContextManager[object]:
    return nullcontext()


def _check_places(master: str, feed: Sequence[str], output: str) -> str:
    """Return the output's full path; refuse an output inside of an input."""
    output = absolute(output)
    storage = writable_storage_for(output)
    output = storage.resolve(output)
    check_output(output)
    for role, path in (("master", master), *(("feed", path) for path in feed)):
        place = storage_for(path).resolve(absolute(path))
        if output == place or output.startswith(place.rstrip("/") + "/"):
            raise error("path.roles", path=output, roles=f"{role} and output")
    return output


def _manifest(config: Config, plan: Plan, survey: Survey, result: Result) -> Manifest:
    known = survey.manifest
    committed = datetime.fromtimestamp(plan.now / 1000, UTC).isoformat(timespec="milliseconds")
    kept = known.feed if known else ()
    if config.consumed_retention is not None:
        oldest = plan.now / 1000 - config.consumed_retention
        kept = tuple(part for part in kept if datetime.fromisoformat(part.committed).timestamp() >= oldest)
    horizon = known.horizon if known else None
    if result.expired is not None and (plan.horizon is None or result.expired > plan.horizon):
        horizon = order_text(plan.order_type, result.expired)
    snapshot = known.snapshot if known else None
    if config.full and result.highest is not None:
        snapshot = order_text(plan.order_type, result.highest)
    spec, files = _forms(plan, result.files)
    return Manifest(
        commit=str(uuid.uuid4()),
        parent=known.commit if known else None,
        run=plan.run,
        committed=committed,
        spec=spec,
        buckets=plan.buckets,
        hash=None if plan.buckets is None and plan.partitioning is None else HASH_NAME,
        horizon=horizon,
        snapshot=snapshot,
        files=files,
        beside=result.beside,
        feed=tuple(_consumed(kept, [FeedFile(name, size, text, committed) for name, size, text in result.feed])),
        counts=_all_counts(result.counts),
    )


def _forms(plan: Plan, files: Sequence[DataFile]) -> tuple[dict[str, Any], tuple[DataFile, ...]]:
    """Return the specification with the forms that files of untouched partitions still have, and the files."""
    if plan.master is None:
        return plan.spec, tuple(files)
    earlier = [*plan.master.spec.get(EARLIER, ()), *([] if plan.carries else [form_of(plan.master.spec, None)])]
    used = sorted({part.form for part in files if part.form is not None})
    if not used:
        return plan.spec, tuple(files)
    number = {form: place for place, form in enumerate(used)}
    renumbered = (part if part.form is None else replace(part, form=number[part.form]) for part in files)
    return {**plan.spec, EARLIER: [earlier[form] for form in used]}, tuple(renumbered)


def _consumed(before: Sequence[FeedFile], now: Sequence[FeedFile]) -> Iterable[FeedFile]:
    """Add the feed files of this run to the list; one that was merged again is listed once, with the later time."""
    return {(part.name, part.bytes, part.checksum): part for part in (*before, *now)}.values()


def _all_counts(counts: Counter[str]) -> dict[str, int]:
    names = ["feed rows", *(f"feed {name}" for name in FEED_OUTCOMES)]
    names += ["master rows", *(f"master {name}" for name in MASTER_OUTCOMES), "output rows"]
    names += ["tombstones in", "tombstones out", "expired", *NOTES, "feed ignored", "master ignored"]
    return {name: counts[name] for name in names}


def _search_notes(result: Result) -> tuple[str, ...]:
    """Say what it took to find records in other partitions than their mutations say."""
    n = result.counts
    if not n["looked for"]:
        return ()
    looked = f"{n['looked for']:,} IDs may have records in other partitions, by {n['filters']:,} filters"
    return (f"{looked}: {n['files looked into']:,} files were looked into",)


def _rows_by_partition(plan: Plan, result: Result) -> list[dict[str, Any]] | None:
    """Return what became of each partition that was written; None for a master without partitions."""
    if plan.partitioning is None:
        return None
    found: list[dict[str, Any]] = []
    for directory in sorted(result.partitions):
        n = result.partitions[directory]
        before = sum(n[f"master {name}"] for name in ("kept", "replaced", "removed", "deleted by absence"))
        rows = {"partition": directory, "rows": n["rows written"]}
        if not directory and not before and not n["rows written"]:
            continue  # of tombstones without a partition alone
        if plan.partitioning.by_table and plan.master is None:
            found.append(rows)  # what became of each record was decided before it was placed
            continue
        changed = {name: n[f"feed {name}"] for name in ("inserted", "updated", "deleted")}
        moved = {name: n[name] for name in ("moved in", "moved out")}
        found.append({"partition": directory, "before": before, **changed, **moved, "rows": n["rows written"]})
    return found


def _report(
    places: Mapping[str, Any],
    survey: Survey,
    plan: Plan,
    result: Result,
    made: Manifest,
    litter: tuple[str, ...],
    dry_run: bool,
    seconds: float,
) -> Report:
    rejected = next((part.path for part in made.beside if part.role == "rejected"), None)
    return Report(
        **places,
        run=plan.run,
        dry_run=dry_run,
        engine=plan.engine,
        join=plan.join,
        reason=plan.reason,
        buckets=plan.buckets,
        tasks=len(plan.tasks),
        counts=made.counts,
        samples={name: [key_text(key) for key in keys] for name, keys in result.samples.items()},
        rejects={
            side: [
                {
                    "path": path,
                    "offset": offset,
                    "line": line,
                    "place": where,
                    "reason": reason,
                    "row": row.decode("utf-8", "backslashreplace"),
                }
                for path, offset, line, where, reason, row in rows
            ]
            for side, rows in result.rejects.items()
        },
        files=len(made.files),
        bytes=sum(part.bytes for part in made.files),
        carried=result.carried,
        partitions=_rows_by_partition(plan, result),
        rejected_file=f"{places['output']}/{rejected}" if rejected else None,
        consumed=tuple(without_secrets(source.path) for source in survey.consumed),
        ignored=survey.ignored,
        litter=litter,
        notes=(*plan.notes, *_search_notes(result)),
        warnings=plan.warnings,
        horizon=made.horizon,
        seconds=round(seconds, 3),
    )
