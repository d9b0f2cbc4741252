"""Apply a feed to a table: plan, read, shuffle, meet the live rows, write, verify, commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field, replace

from mutator.config.settings import Config, OperationSpec
from mutator.dataset.commits import OVERWRITE, OVERWRITE_TABLE, OVERWRITES, Commit
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.snapshot import Snapshot
from mutator.engine.receipts import Receipts
from mutator.engine.runner import Runner
from mutator.engine.versions.apply_task import WrittenRows
from mutator.engine.versions.delta_files import ApplyTarget
from mutator.engine.versions.second_decisions import Revision, SecondDecisions
from mutator.errors.exceptions import said_to
from mutator.errors.failpoints import failpoint
from mutator.errors.interrupts import check_signals
from mutator.errors.parts import CURE, setting
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.accounting import Result, add_up
from mutator.pipeline.kept_out import without_values
from mutator.pipeline.limits import check
from mutator.plan.inspect.survey import Survey
from mutator.plan.inspect.table_inputs import TableInput
from mutator.plan.run_plan import Plan
from mutator.plan.runner_choice import RunnerChoice
from mutator.storage.progress import expected
from mutator.table.claiming_run import ClaimingRun, check_alive
from mutator.table.commit import (
    INLINE,
    StartOver,
    change,
    changes_plan,
    commit_next,
    is_same,
    may_follow,
    may_follow_overwriting,
    new_files,
    remove_files,
)
from mutator.table.next_version import placed, version_of_result
from mutator.table.overwrite import Replacement, replacement
from mutator.table.prepare import prepare

_REPLACE = (
    "; without it, the keys of the rows to be replaced are not known: if its data file is damaged, too, replace these "
    f"rows, without remembering which were deleted, with: {setting('-D replace.damaged=true')}"
)
_INLINE_FEED = 1 << 16  # bytes of a feed whose version may be one log entry
OpenRunner = Callable[[int], AbstractContextManager[tuple[Runner, RunnerChoice]]]  # bytes to read -> the runner


@dataclass(frozen=True)
class Applied:
    """The result of an apply, or of a dry run."""

    plan: Plan
    survey: Survey
    result: Result
    counts: Mapping[str, int]
    version: Commit | None  # None: there was nothing to merge
    snapshot: Snapshot  # after it
    runner: RunnerChoice
    seconds: float
    replaced: Replacement | None = None  # by an overwrite


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
    """Merge a feed into the next version of a table, or overwrite partitions or everything by it.

    snapshot: the newest one. tables: the paths among the feed that have the rows of tables in memory. transaction: the
    name of an application, and the number of its transaction, which is merged once. run: of a workflow that claimed the
    feed. Raises the errors of the catalogue; then there is no new version.
    """
    started = time.monotonic()
    audience = replace(config.wording.audience, merged="the table")
    writers = dict(audience.writers)
    if config.operation.overwrites and not config.operation.replace_damaged:
        writers[CURE] = lambda _: audience(_REPLACE)
    with said_to(writers):

        def attempt(newest: Snapshot) -> Applied:
            return _applied(newest, config, feed, open_runner, tables, dry_run, transaction, run)

        found = change(snapshot, attempt, outrun="table.outrun", again=True)
    return replace(found, seconds=time.monotonic() - started)


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
    """Merge a feed into the next version of a table, once. Raises StartOver, and the errors of the catalogue."""
    started, began = time.monotonic(), time.monotonic_ns()
    if run is not None:
        check_alive(snapshot.table, run, TableLog(snapshot.table).after(run.since, snapshot.version.number))
    again = snapshot.state.has_applied(transaction)
    if again:  # an overwrite by nothing, or a full snapshot of nothing, would delete records
        config = replace(config, operation=replace(config.operation, name="apply", sync_mode="partial"))
    survey, plan = prepare(snapshot, config, [] if again else feed, () if again else tables)
    if again and transaction is not None:
        note = f"transaction {transaction[1]} of {transaction[0]}, or a later one, was applied before"
        plan = replace(plan, notes=(*plan.notes, note))
    target = ApplyTarget(
        table=None if dry_run else snapshot.table,
        version=snapshot.version.number + 1,
        schema=snapshot.state.schema_after(plan.rows.spec, snapshot.version.number + 1),
        buckets=snapshot.state.buckets,
        inline=not dry_run and plan.bytes_to_read <= _INLINE_FEED,
    )
    with new_files(snapshot.table) as new:
        reading = expected(plan.stored_bytes_to_read, rewritten=True)
        with open_runner(plan.bytes_to_read) as (runner, choice), reading:
            receipts, written, replaced = _merged(runner, plan, snapshot, target, config.operation)
        new += [] if dry_run else _paths(receipts, written)
        result = _verified(plan, survey, snapshot, receipts)
        check_signals()
        seconds = time.monotonic() - started
        version = version_of_result(snapshot, plan, result, written, snapshot.version.number, seconds, replaced)
        if _changes_nothing(config.operation, survey, result, run):
            return Applied(plan, survey, result, version.counts, None, snapshot, choice, seconds)
        if dry_run:
            after = snapshot.after(version)
            return Applied(plan, survey, result, version.counts, version, after, choice, seconds, replaced)
        if run is not None:
            run.check(version.feed, tuple(source.name for source in survey.consumed))
        version = placed(snapshot.table, version, INLINE, new)
        version = replace(version, transaction=transaction, settings=plan.feed_settings)
        read = snapshot, config, feed, tables, run
        merge = _Merge(*read, receipts, written, new, seconds, plan, survey, result, version, replaced)
        merge.decide_with(SecondDecisions(plan.truncated(receipts.floor), snapshot, target, written, version))
        after = commit_next(snapshot, began, merge.next_version)
        plan, survey, result, version = merge.plan, merge.survey, merge.result, merge.version
        return Applied(plan, survey, result, version.counts, version, after, choice, seconds, replaced)


def _changes_nothing(operation: OperationSpec, survey: Survey, result: Result, run: ClaimingRun | None) -> bool:
    """Return whether a feed makes no version. The one of a workflow always does if it has files: it names them."""
    if operation.overwrites and not result.counts["feed rows"] and run is None:
        return operation.name == OVERWRITE
    return not survey.feed


@dataclass
class _Merge:
    """A merge of a feed into a snapshot, which follows the versions of other writers."""

    snapshot: Snapshot
    config: Config
    feed: Sequence[str]
    tables: Sequence[TableInput]
    run: ClaimingRun | None
    receipts: Receipts
    written: Sequence[WrittenRows]
    new: list[str]  # paths of files that no version names yet
    seconds: float
    plan: Plan
    survey: Survey
    result: Result
    version: Commit
    replaced: Replacement | None
    revision: Revision = field(default_factory=Revision)

    def __post_init__(self) -> None:
        self._first = self.version

    def decide_with(self, decisions: SecondDecisions) -> None:
        """Set what decides again about common keys."""
        self._decisions = decisions

    def next_version(self, head: Snapshot, winners: Sequence[Commit]) -> Commit:
        """Return the version that follows a snapshot. winners: its versions that were not there in the last call.

        Raises StartOver if it cannot follow them.
        """
        snapshot, run = self.snapshot, self.run
        if run is not None:
            check_alive(snapshot.table, run, winners)
        if winners:
            self._follow(head, winners)
        first, as_of = self._first, snapshot.version.number
        version = version_of_result(head, self.plan, self.result, self.written, as_of, self.seconds, self.replaced)
        version = replace(version, files=first.files, index=first.index)
        version = replace(version, transaction=first.transaction, settings=first.settings)
        if run is not None:
            version = replace(version, run=run.claim.run, claim=run.claim)
        self.version = self.revision.version(version)
        return self.version

    def _follow(self, head: Snapshot, winners: Sequence[Commit]) -> None:
        """Decide again about the keys that other versions changed."""
        can = not self.receipts.carries and may_follow(self.snapshot, self.plan, self.version, winners)
        if can and self.replaced is not None:
            can = may_follow_overwriting(self.replaced, (self.snapshot, head), winners)
        found = self._decisions.revised(head, winners) if can else None
        if found is None:
            raise StartOver
        failpoint("apply.decided.again")
        self.revision = _revised(self.snapshot.table, self.version, self.revision, found, self.new)
        if changes_plan(self.config.rows, winners):
            self.survey, later = prepare(head, self.config, self.feed, self.tables)
            if not is_same(self.plan.rows.spec, later.rows.spec):
                raise StartOver
            self.plan = replace(self.plan, rows=replace(self.plan.rows, spec=later.rows.spec))
        self.result = _verified(self.plan, self.survey, head, self.revision.receipts(self.receipts))


def _revised(table: str, version: Commit, before: Revision, revision: Revision, new: list[str]) -> Revision:
    """Write the files of a revision that are too large for the log entry, and remove those of the one before.

    new: paths of files that no version names yet.
    """
    old = [one.path for one in before.stored() if one.is_apart]
    remove_files(table, old)
    for path in old:
        new.remove(path)
    own = placed(table, revision.version(replace(version, files=(), index=())), INLINE, new)
    return replace(revision, files=own.files, index=own.index, withdrawn=own.withdrawn)


def _paths(receipts: Receipts, written: Sequence[WrittenRows]) -> list[str]:
    """Return the paths of the files that the tasks of an apply wrote."""
    found = [side.path for side in receipts.ledger.beside]
    for one in written:
        stored = [part for file in one.files for part in file.stored()]
        stored += [] if one.index is None else [one.index]
        found += [part.path for part in stored if part.is_apart]
    return found


def _merged(
    runner: Runner, plan: Plan, snapshot: Snapshot, target: ApplyTarget, operation: OperationSpec
) -> tuple[Receipts, tuple[WrittenRows, ...], Replacement | None]:
    """Merge the feed of a plan; return the receipts, what the tasks wrote, and what an overwrite replaces."""
    from mutator.engine.versions.version_steps import apply, overwrite  # loads the engine

    if plan.operation not in OVERWRITES:
        return *apply(runner, plan, snapshot, target), None
    found: list[Replacement] = []

    def replace_in(partitions: frozenset[str] | None) -> tuple[Snapshot, ApplyTarget]:
        found.append(replacement(snapshot, plan, target, partitions, damaged=operation.replace_damaged))
        return found[0].live, found[0].target

    receipts, written = overwrite(runner, plan, plan.operation == OVERWRITE_TABLE, replace_in)
    (replaced,) = found
    if replaced.receipt is not None:
        receipts = replace(receipts, merges=(*receipts.merges, replaced.receipt))
    return receipts, written, replaced


def _verified(plan: Plan, survey: Survey, snapshot: Snapshot, receipts: Receipts) -> Result:
    """Return the sums of the receipts. Raises the error of a merge that must not be committed."""
    result = add_up(plan, receipts)
    counts = result.counts
    version = snapshot.version
    gone = sum(counts[f"master {name}"] for name in ("replaced", "removed", "deleted by absence", "truncated"))
    counts["master rows"] = version.records
    counts["master kept"] = version.records - gone
    counts["output rows"] = counts["master kept"] + counts["rows written"] - counts["rows rewritten"]
    counts["tombstones in"] = counts["tombstones read"] = version.tombstones
    counts["tombstones out"] = version.tombstones + counts["tombstones written"] - counts["tombstones hidden"]
    check(plan, survey, without_values(plan, result))
    return result
