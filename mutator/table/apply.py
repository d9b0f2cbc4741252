"""Apply a feed to a table: plan, read, shuffle, meet the live rows, write, verify, commit."""

from __future__ import annotations

import posixpath
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace

from mutator.config import Config
from mutator.config.written_names import renamed_in_errors
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.nearby import NearbyEntries
from mutator.dataset.versions.opening import add_hint, refreshed
from mutator.dataset.versions.snapshot import Snapshot
from mutator.dataset.versions.version import TableVersion
from mutator.engine.receipts import Receipts
from mutator.engine.runner import Runner
from mutator.engine.versions.apply_task import Written
from mutator.engine.versions.delta_files import Target
from mutator.engine.versions.second_decisions import Revision, SecondDecisions
from mutator.errors import MutatorError, error
from mutator.errors.failpoints import failpoint
from mutator.errors.interrupts import check_signals
from mutator.pipeline.accounting import Result, add_up
from mutator.pipeline.limits import check
from mutator.plan.inspect.survey import Survey
from mutator.plan.inspect.table_inputs import TableInput
from mutator.plan.run_plan import Plan
from mutator.plan.runner_choice import RunnerChoice
from mutator.storage import storage_for
from mutator.table.agreement import in_words_of_tables
from mutator.table.claiming_run import ClaimingRun, check_alive
from mutator.table.follow import changes_plan, is_same, may_follow, newest, passed_on
from mutator.table.next_version import placed, version_of_result
from mutator.table.prepare import prepare
from mutator.table.turn import turn

_INLINE_FEED = 1 << 16  # bytes of a feed whose version may be one log entry
_STARTS = 50  # times that an apply begins, because other writers changed the same records
_TRIES = 200  # commits that it tries each time
_WAITS = 8  # times the duration of a try, that an apply waits at most before the next one, so that fewer are lost
_INLINE = 1 << 16  # bytes of the files of a version that is one log entry
OpenRunner = Callable[[int], AbstractContextManager[tuple[Runner, RunnerChoice]]]  # bytes to read -> the runner


@dataclass(frozen=True)
class Applied:
    """The result of an apply, or of a dry run."""

    plan: Plan
    survey: Survey
    result: Result
    counts: Mapping[str, int]
    version: TableVersion | None  # None: there was nothing to merge
    snapshot: Snapshot  # after it
    runner: RunnerChoice
    seconds: float


def apply_feed(
    snapshot: Snapshot,
    config: Config,
    feed: Sequence[str],
    open_runner: OpenRunner,
    *,
    tables: Sequence[TableInput] = (),
    dry_run: bool = False,
    transaction: tuple[str, int] | None = None,
    run: ClaimingRun | None = None,
) -> Applied:
    """Merge a feed into the next version of a table.

    snapshot: the newest one. tables: the paths among the feed that have the rows of tables in memory. transaction: the
    name of an application, and the number of its transaction, which is merged once. run: of a workflow that claimed the
    feed. Raises the errors of the catalogue; then there is no new version.
    """
    started = time.monotonic()
    with in_words_of_tables(snapshot), renamed_in_errors(config.names):
        for _ in range(_STARTS):
            with suppress(_StartOver):
                found = _applied(snapshot, config, feed, open_runner, tables, dry_run, transaction, run)
                return replace(found, seconds=time.monotonic() - started)
            snapshot = refreshed(snapshot)
    raise error("table.outrun", path=snapshot.table, count=_STARTS)


class _StartOver(Exception):
    """Another writer committed a version that an apply must have seen."""


def _applied(
    snapshot: Snapshot,
    config: Config,
    feed: Sequence[str],
    open_runner: OpenRunner,
    tables: Sequence[TableInput],
    dry_run: bool,
    transaction: tuple[str, int] | None,
    run: ClaimingRun | None,
) -> Applied:
    """Merge a feed into the next version of a table, once. Raises _StartOver, and the errors of the catalogue."""
    started, began = time.monotonic(), time.monotonic_ns()
    if run is not None:
        check_alive(snapshot.table, run, TableLog(snapshot.table).after(run.since, snapshot.version.number))
    again = snapshot.state.has_applied(transaction)
    survey, plan = prepare(snapshot, config, [] if again else feed, () if again else tables)
    if again and transaction is not None:
        note = f"transaction {transaction[1]} of {transaction[0]}, or a later one, was applied before"
        plan = replace(plan, notes=(*plan.notes, note))
    target = Target(
        table=None if dry_run else snapshot.table,
        version=snapshot.version.number + 1,
        schema=snapshot.state.schema_after(plan.rows.spec, snapshot.version.number + 1),
        buckets=snapshot.version.buckets,
        inline=not dry_run and plan.bytes_to_read <= _INLINE_FEED,
    )
    with new_files(snapshot.table) as new:
        with open_runner(plan.bytes_to_read) as (runner, choice):
            receipts, written = _merged(runner, plan, snapshot, target)
        new += [] if dry_run else _paths(receipts, written)
        result = _verified(plan, survey, snapshot, receipts)
        check_signals()
        seconds = time.monotonic() - started
        version = version_of_result(snapshot, plan, result, written, snapshot.version.number, seconds)
        if not survey.feed:
            return Applied(plan, survey, result, version.counts, None, snapshot, choice, seconds)
        if dry_run:
            return Applied(plan, survey, result, version.counts, version, snapshot.after(version), choice, seconds)
        if run is not None:
            run.check(version.feed, tuple(source.name for source in survey.consumed))
        version = replace(placed(snapshot.table, version, _INLINE, new), transaction=transaction)
        first, head, revision, nearby = version, snapshot, Revision(), NearbyEntries(TableLog(snapshot.table))
        decisions = SecondDecisions(plan, snapshot, target, written, first)
        with ExitStack() as turns:
            turns.enter_context(turn(snapshot.table, nearby.directory()))
            for lost in range(_TRIES):
                if lost:
                    head, winners = newest(head, version.number)
                else:  # those that were committed since the apply began
                    head, winners = passed_on(head, nearby, began)
                if run is not None:
                    check_alive(snapshot.table, run, winners)
                if winners:
                    found = decisions.revised(head, winners) if may_follow(snapshot, plan, version, winners) else None
                    if found is None:
                        raise _StartOver
                    failpoint("apply.decided.again")
                    revision = _revised(snapshot.table, version, revision, found, new)
                    if changes_plan(config, winners):
                        survey, later = prepare(head, config, feed, tables)
                        if not is_same(plan.rows.spec, later.rows.spec):
                            raise _StartOver
                        plan = replace(plan, rows=replace(plan.rows, spec=later.rows.spec))
                    result = _verified(plan, survey, head, revision.receipts(receipts))
                version = version_of_result(head, plan, result, written, snapshot.version.number, seconds)
                version = replace(version, files=first.files, index=first.index, transaction=transaction)
                if run is not None:
                    version = replace(version, run=run.claim.run, claim=run.claim)
                version = revision.version(version)
                tried, after = time.monotonic(), head.after(version)
                if committed(after, version):
                    nearby.add(version)
                    break
                if lost:  # writers elsewhere are faster, so those on this machine need not wait
                    turns.close()
                time.sleep(random.uniform(0, min(lost, _WAITS) * (time.monotonic() - tried)))
            else:
                raise _StartOver
        after = hinted(after)
        return Applied(plan, survey, result, version.counts, version, after, choice, seconds)


def _revised(table: str, version: TableVersion, before: Revision, revision: Revision, new: list[str]) -> Revision:
    """Write the files of a revision that are too large for the log entry, and remove those of the one before.

    new: paths of files that no version names yet.
    """
    for one in before.stored():
        if one.is_apart:
            with suppress(MutatorError):
                storage_for(table).remove(posixpath.join(table, one.path))
            new.remove(one.path)
    own = placed(table, revision.version(replace(version, files=(), index=())), _INLINE, new)
    return replace(revision, files=own.files, index=own.index, withdrawn=own.withdrawn)


def committed(after: Snapshot, version: TableVersion) -> bool:
    """Make a version exist; return False if another writer has committed its number. after: its snapshot."""
    failpoint("table.commit")
    if not TableLog(after.table).commit(version):
        return False
    failpoint("table.committed")
    return True


def hinted(after: Snapshot) -> Snapshot:
    """Write the hint for a version that exists, and a checkpoint if it is due; return the snapshot to go on with."""
    log = TableLog(after.table)
    with suppress(MutatorError):  # derived: the next version writes it
        after = add_hint(log, after, log.hinted().checkpoint)
        failpoint("table.hinted")
    return after


@contextmanager
def new_files(table: str) -> Iterator[list[str]]:
    """Yield a list to which the ``with`` block adds the paths of files, before it commits the version that names them.

    The files are removed if the block starts over, or raises an error of the catalogue, unless the version may exist.
    An interrupt leaves them, because it may come after the commit.
    """
    paths: list[str] = []
    try:
        yield paths
    except (MutatorError, _StartOver) as fault:
        if getattr(fault, "kind", None) != "commit.uncertain":
            for path in paths:
                with suppress(MutatorError):
                    storage_for(table).remove(posixpath.join(table, path))
        raise


def _paths(receipts: Receipts, written: Sequence[Written]) -> list[str]:
    """Return the paths of the files that the tasks of an apply wrote."""
    found = [side.path for side in receipts.ledger.beside]
    for one in written:
        stored = [part for file in one.files for part in (file.data, file.index)]
        stored += [] if one.index is None else [one.index]
        found += [part.path for part in stored if part.is_apart]
    return found


def _merged(runner: Runner, plan: Plan, snapshot: Snapshot, target: Target) -> tuple[Receipts, tuple[Written, ...]]:
    from mutator.engine.versions.steps import apply  # loads the engine

    return apply(runner, plan, snapshot, target)


def _verified(plan: Plan, survey: Survey, snapshot: Snapshot, receipts: Receipts) -> Result:
    """Return the sums of the receipts. Raises the error of a merge that must not be committed."""
    result = add_up(plan, receipts)
    counts = result.counts
    version = snapshot.version
    gone = sum(counts[f"master {name}"] for name in ("replaced", "removed", "deleted by absence"))
    counts["master rows"] = version.records
    counts["master kept"] = version.records - gone
    counts["output rows"] = counts["master kept"] + counts["rows written"]
    counts["tombstones in"] = counts["tombstones read"] = version.tombstones
    counts["tombstones out"] = version.tombstones + counts["tombstones written"] - counts["tombstones hidden"]
    check(plan, survey, result)
    return result
